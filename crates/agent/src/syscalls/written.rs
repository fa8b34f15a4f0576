//! Which memory of the caller's a system call has the kernel write, or bring in: one table.
//!
//! Calls that write a few words where the caller has just been (`stat`, `clock_gettime`, a futex) are left out: the
//! page is there.

use super::memory;
use crate::runtime::runtime;
use crate::sys::{self, raw};
use crate::user;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::by;

/// How much of it is written, by the call's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many bytes as the result says, from the first range on.
    Result,
    /// Nobody says how much: all of it at most.
    Unknown,
    /// All of it is brought in: pages that could be written are, as by a write, or never are.
    Populated {
        /// As by a write, where the memory can be written.
        writes: bool,
    },
}

/// What a call writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// One of [`by`].
    pub by: u32,
    /// The memory, in the order in which it is filled.
    pub ranges: Ranges,
    /// How much of that.
    pub amount: Amount,
}

/// One range, as a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranges {
    /// One.
    One(Range<u64>),
    /// Several.
    Many(Vec<Range<u64>>),
}

impl Ranges {
    /// All of them.
    pub fn all(&self) -> &[Range<u64>] {
        match self {
            Ranges::One(one) => core::slice::from_ref(one),
            Ranges::Many(many) => many,
        }
    }
}

/// Bytes at an address, as far as a program can have memory.
fn range(address: u64, bytes: u64) -> Range<u64> {
    let end = address.saturating_add(bytes).min(sys::USER_END);
    address.min(end)..end
}

/// Whether the program has ever locked memory.
static LOCKS: AtomicBool = AtomicBool::new(false);

fn locks(number: u32, flags: u64) -> bool {
    match number {
        raw::__NR_mlock | raw::__NR_mlock2 | raw::__NR_mlockall => true,
        raw::__NR_mmap => flags as u32 & raw::MAP_LOCKED != 0,
        _ => false,
    }
}

/// What the program's call writes; none for the many that write nothing to speak of.
pub fn written(number: u32, arguments: [u64; 6]) -> Option<Written> {
    const MLOCK_ONFAULT: u64 = 1;
    let [a, b, c, d, ..] = arguments;
    let one = |by, address, bytes, amount| Some(Written { by, ranges: Ranges::One(range(address, bytes)), amount });
    let many = |by, list, count, amount| {
        let ranges = user::pieces(list, count).into_iter().map(|[address, bytes]| range(address, bytes)).collect();
        Some(Written { by, ranges: Ranges::Many(ranges), amount })
    };
    if locks(number, d) {
        LOCKS.store(true, Relaxed);
    }
    let populated = Amount::Populated { writes: true };
    match number {
        raw::__NR_read => one(by::READ, b, c, Amount::Result),
        raw::__NR_pread64 => one(by::PREAD, b, c, Amount::Result),
        raw::__NR_recvfrom => one(by::RECEIVE, b, c, Amount::Result),
        raw::__NR_getrandom => one(by::RANDOM, a, b, Amount::Result),
        raw::__NR_getdents | raw::__NR_getdents64 => one(by::DIRECTORY, b, c, Amount::Result),
        raw::__NR_readv => many(by::READV, b, c, Amount::Result),
        raw::__NR_preadv | raw::__NR_preadv2 => many(by::PREADV, b, c, Amount::Result),
        raw::__NR_process_vm_readv => many(by::PROCESS_READ, b, c, Amount::Result),
        raw::__NR_process_vm_writev if a as u32 == sys::process_id() => {
            many(by::PROCESS_WRITE, d, arguments[4], Amount::Result)
        }
        raw::__NR_recvmsg => {
            let ranges = message(b)?.into_iter().map(|[address, bytes]| range(address, bytes)).collect();
            Some(Written { by: by::RECEIVE, ranges: Ranges::Many(ranges), amount: Amount::Result })
        }
        raw::__NR_recvmmsg => {
            let heads = (0..c.min(MOST_MESSAGES)).map_while(|number| message(b.wrapping_add(number * MESSAGE_BYTES)));
            let ranges = heads.flatten().map(|[address, bytes]| range(address, bytes)).collect();
            Some(Written { by: by::RECEIVE, ranges: Ranges::Many(ranges), amount: Amount::Unknown })
        }
        raw::__NR_mlock => one(by::LOCK, a & !(sys::PAGE - 1), b + a % sys::PAGE, populated),
        raw::__NR_mlock2 if c & MLOCK_ONFAULT == 0 => one(by::LOCK, a & !(sys::PAGE - 1), b + a % sys::PAGE, populated),
        // The structure begins with where to, where from, how much.
        raw::__NR_ioctl if b == UFFDIO_COPY => {
            let [to, _, bytes] = user::read::<[u64; 3]>(c).ok()?;
            one(OTHER, to, bytes, Amount::Unknown)
        }
        raw::__NR_mlockall => one(by::LOCK, 0, sys::USER_END, populated),
        raw::__NR_madvise if c as u32 == raw::MADV_POPULATE_READ => {
            one(by::ADVICE, a, b, Amount::Populated { writes: false })
        }
        raw::__NR_madvise if c as u32 == raw::MADV_POPULATE_WRITE => one(by::ADVICE, a, b, populated),
        _ => None,
    }
}

/// What a call that has changed the map has brought in with it.
pub fn brought_in(number: u32, arguments: [u64; 6], result: u64, heap_end: u64) -> Option<Written> {
    let [_, bytes, new_bytes, flags, ..] = arguments;
    if sys::check(result).is_err() {
        return None;
    }
    let all_locked = memory::locks_new(runtime());
    let (by, new) = match number {
        raw::__NR_mmap if all_locked || flags as u32 & (raw::MAP_POPULATE | raw::MAP_LOCKED) != 0 => {
            (by::MAP, range(result, bytes))
        }
        raw::__NR_brk if all_locked && heap_end != 0 && result > heap_end => (by::MAP, heap_end..result),
        // What is locked stays locked as it grows.
        raw::__NR_mremap if new_bytes > bytes && LOCKS.load(Relaxed) => {
            (by::MAP, range(result.saturating_add(bytes), new_bytes - bytes))
        }
        _ => return None,
    };
    Some(Written { by, ranges: Ranges::One(new), amount: Amount::Populated { writes: true } })
}

/// Not one of [`by`].
const OTHER: u32 = 0;
/// Of userfaultfd: pages are placed with this content.
const UFFDIO_COPY: u64 = 0xc028_aa03;
/// `struct mmsghdr`.
const MESSAGE_BYTES: u64 = 64;
/// Messages that the kernel takes in one call.
const MOST_MESSAGES: u64 = 1024;

/// The pieces of memory of a `struct msghdr`.
fn message(at: u64) -> Option<Vec<[u64; 2]>> {
    let [_, _, pieces, count] = user::read::<[u64; 4]>(at).ok()?;
    Some(user::pieces(pieces, count))
}
