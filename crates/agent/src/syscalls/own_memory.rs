//! The agent's memory stays what it is: calls of the program that would take or change it, as nobody tells the program
//! that it is there.
//!
//! - What puts something else there (`mmap` and `mremap` at a fixed place, `shmat` with `SHM_REMAP`, `brk`): what can
//!   move makes way ([`crate::give_way`]); else it gets `ENOMEM`, or `EEXIST`, as where something is that cannot be
//!   moved.
//! - What takes it away (`munmap`, `madvise`) is done to what is the program's; `madvise` says `ENOMEM`, as where
//!   nothing is.
//! - What changes it (`mprotect`, `mbind`, `mlock` and the like): `ENOMEM` or `EFAULT`, as where nothing is.
//!
//! What is refused the collector reports. Without a fixed place, the kernel maps beside what is there.

use super::errno;
use crate::maps::Maps;
use crate::runtime::{Code, runtime};
use crate::sys::{self, PAGE, raw};
use crate::thread::Thread;
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use linux_raw_sys::errno::{EEXIST, EFAULT, ENOMEM};
use numalens_event::exact::log;

/// What becomes of a call that changes the memory map.
pub enum Judgement {
    /// It is made.
    Pass,
    /// It is made for each of these ranges instead of its own, and then returns this.
    Pieces(Vec<Range<u64>>, u64),
    /// It is not made, and returns this.
    Refuse(u64),
}

const SHM_REMAP: u64 = 0o40000;
const SHM_RND: u64 = 0o20000;
/// `mseal`.
pub const MSEAL: u32 = 462;
/// Calls of a process that are reported.
const MOST_REPORTED: u32 = 8;

/// Judges a call, under the lock that it is made under.
pub fn judge(code: &mut Code, thread: &Thread, number: u32, arguments: &[u64; 6]) -> Judgement {
    let [address, bytes, third, fourth, fifth, _] = *arguments;
    let named = range_of(address, bytes);
    let (place, refusal) = match number {
        raw::__NR_mmap if fourth as u32 & raw::MAP_FIXED_NOREPLACE != 0 => (named, EEXIST),
        raw::__NR_mmap if fourth as u32 & raw::MAP_FIXED != 0 => (named, ENOMEM),
        raw::__NR_mremap if is_taken(code, &named) => return refuse("mremap", &named, EFAULT),
        raw::__NR_mremap if fourth as u32 & raw::MREMAP_FIXED != 0 => (range_of(fifth, third), ENOMEM),
        raw::__NR_brk if code.env.heap_end != 0 && address > code.env.heap_end => {
            let grown = range_of(code.env.heap_end, address - code.env.heap_end);
            // So far no heap can grow: libraries and the stack are in between.
            if is_taken_for_good(code, &grown) {
                return Judgement::Pass;
            }
            (grown, ENOMEM)
        }
        raw::__NR_shmat if third & SHM_REMAP != 0 => (segment(address, bytes, third), ENOMEM),
        raw::__NR_munmap if is_taken(code, &named) => return Judgement::Pieces(pieces(code, named), 0),
        raw::__NR_madvise if is_taken(code, &named) => return Judgement::Pieces(pieces(code, named), errno(ENOMEM)),
        raw::__NR_mprotect | raw::__NR_pkey_mprotect if is_taken(code, &named) => {
            return refuse("mprotect", &named, ENOMEM);
        }
        raw::__NR_mbind if is_taken(code, &named) => return refuse("mbind", &named, EFAULT),
        _ => return Judgement::Pass,
    };
    if !is_taken(code, &place) || code.give_way(thread, &place) {
        return Judgement::Pass;
    }
    let name = match number {
        raw::__NR_mmap => "mmap",
        raw::__NR_mremap => "mremap",
        raw::__NR_brk => "brk",
        _ => "shmat",
    };
    match number {
        // It returns where the heap ends.
        raw::__NR_brk => {
            report(name, &place);
            Judgement::Refuse(code.env.heap_end)
        }
        _ => refuse(name, &place, refusal),
    }
}

/// Whether a call that locks memory, or makes it what cannot be changed any more, names memory of the agent's.
pub fn names_own(address: u64, bytes: u64) -> bool {
    is_taken(&runtime().code.lock(), &range_of(address, bytes))
}

/// The refusal of one.
pub fn refused(name: &str, address: u64, bytes: u64) -> u64 {
    report(name, &range_of(address, bytes));
    errno(ENOMEM)
}

fn range_of(address: u64, bytes: u64) -> Range<u64> {
    let start = address & !(PAGE - 1);
    start..address.saturating_add(bytes).min(sys::USER_END).next_multiple_of(PAGE).max(start)
}

/// Where a shared segment is to be attached in place of what is there.
fn segment(id: u64, address: u64, flags: u64) -> Range<u64> {
    const IPC_STAT: u64 = 2;
    /// `struct shmid64_ds`, and where it has the segment's bytes: behind `struct ipc64_perm`.
    const WORDS: usize = 14;
    const BYTES_AT: usize = 6;
    let mut found = [0u64; WORDS];
    // SAFETY: the kernel's structure, our own.
    let asked = unsafe { sys::for_program(raw::__NR_shmctl, [id, IPC_STAT, found.as_mut_ptr() as u64, 0, 0, 0]) };
    // One that may not be asked about may not be attached either.
    let bytes = if sys::check(asked).is_ok() { found[BYTES_AT] } else { 0 };
    let start = if flags & SHM_RND != 0 { address & !(PAGE - 1) } else { address };
    range_of(start, bytes)
}

/// Where the agent's memory is that cannot move, and maybe in between memory of the program's.
fn fixed() -> impl Iterator<Item = Range<u64>> {
    [runtime().image.clone()].into_iter().chain(sys::own_windows())
}

/// Where the agent's memory is, and maybe in between memory of the program's.
fn own(code: &Code) -> impl Iterator<Item = Range<u64>> + use<'_> {
    fixed().chain([runtime().shadow.range()]).chain(code.env.arenas.ranges())
}

fn both(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// Whether the program has all of a range.
fn is_programs(maps: &Maps, range: &Range<u64>) -> bool {
    let has = maps.overlapping(range.clone()).iter().map(|mapping| both(&(mapping.start..mapping.end), range));
    has.map(|part| part.end - part.start).sum::<u64>() == range.end - range.start
}

/// Whether memory of the agent's, or what it keeps for itself, is in a range.
pub fn is_taken(code: &Code, range: &Range<u64>) -> bool {
    overlaps(own(code), code, range)
}

/// Whether memory of the agent's that cannot move is in a range.
pub fn is_taken_for_good(code: &Code, range: &Range<u64>) -> bool {
    overlaps(fixed(), code, range)
}

fn overlaps(own: impl Iterator<Item = Range<u64>>, code: &Code, range: &Range<u64>) -> bool {
    let mut shared = own.map(|own| both(&own, range)).filter(|shared| !shared.is_empty());
    shared.any(|shared| !is_programs(&code.env.maps, &shared))
}

/// What of a range is not the agent's.
fn pieces(code: &Code, range: Range<u64>) -> Vec<Range<u64>> {
    let mut left = alloc::vec![range.clone()];
    let mut between = Vec::new();
    for own in own(code) {
        let without = |piece: Range<u64>| [piece.start..piece.end.min(own.start), piece.start.max(own.end)..piece.end];
        left = left.into_iter().flat_map(without).filter(|piece| !piece.is_empty()).collect();
        let shared = both(&own, &range);
        let programs = code.env.maps.overlapping(shared.start..shared.end.max(shared.start)).iter();
        between.extend(programs.map(|mapping| both(&(mapping.start..mapping.end), &shared)));
    }
    left.extend(between);
    left
}

fn refuse(name: &str, range: &Range<u64>, error: u32) -> Judgement {
    report(name, range);
    Judgement::Refuse(errno(error))
}

fn report(name: &str, range: &Range<u64>) {
    static REPORTED: AtomicU32 = AtomicU32::new(0);
    if REPORTED.fetch_add(1, Relaxed) < MOST_REPORTED {
        let mut line = sys::Line::new();
        let _ = write!(line, "{name} of {:#x} to {:#x}", range.start, range.end);
        runtime().process().log(log::REFUSED, &[u64::from(sys::process_id())], line.text());
    }
}
