//! The agent's memory stays what it is: calls of the program that would take or change it, as nobody tells the program
//! that it is there.
//!
//! - What puts something else there (`mmap` and `mremap` at a fixed place, `shmat` with `SHM_REMAP`, `brk`): what can
//!   move makes way ([`crate::code::give_way`]); else it gets `ENOMEM`, or `EEXIST`, as where something is that cannot
//!   be moved.
//! - What takes it away (`munmap`, `madvise`) is done to what is the program's; `madvise` says `ENOMEM`, as where
//!   nothing is.
//! - What changes it (`mprotect`, `mbind`, `mlock` and the like): `ENOMEM` or `EFAULT`, as where nothing is.
//!
//! What is refused the collector reports, unless the call asks whether the place is free (`MAP_FIXED_NOREPLACE`), as
//! the Java machine does at a dozen places. Without a fixed place, the kernel maps beside what is there.

use super::call::ENOMEM;
use crate::code::Code;
use crate::code::give_way::give_way;
use crate::code::own_ranges::{is_taken, pieces};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE};
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
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

/// What a call would do to memory of the agent's, if some is where it leads.
pub enum Claim {
    /// Nothing.
    Nothing,
    /// Put something else there.
    Takes(Refusal),
    /// Change it.
    Changes(Refusal),
    /// Take it away. What is the program's goes, and the call returns `done`.
    Goes {
        /// The range.
        range: Range<u64>,
        /// The kernel's word.
        done: u64,
    },
}

/// How a call is refused.
pub struct Refusal {
    /// The call's name.
    name: &'static str,
    /// Where it leads.
    range: Range<u64>,
    /// The kernel's word.
    error: u64,
    /// The call expects to be refused where something is.
    expected: bool,
}

impl Claim {
    /// A call that puts something else in a range, or gets an error.
    pub fn takes(name: &'static str, range: Range<u64>, error: u64) -> Self {
        Claim::Takes(Refusal { name, range, error, expected: false })
    }

    /// A call that puts something in a range if nothing is there, or gets an error.
    pub fn asks(name: &'static str, range: Range<u64>, error: u64) -> Self {
        Claim::Takes(Refusal { name, range, error, expected: true })
    }

    /// A call that changes what is in a range, or gets an error.
    pub fn changes(name: &'static str, range: Range<u64>, error: u64) -> Self {
        Claim::Changes(Refusal { name, range, error, expected: false })
    }
}

/// Calls of a process that are reported.
const MOST_REPORTED: u32 = 8;

/// Judges a call, under the lock that it is made under.
pub fn judge(code: &mut Code, thread: &Thread, claim: Claim) -> Judgement {
    match claim {
        Claim::Takes(refusal) if is_taken(code, &refusal.range) && !give_way(code, thread, &refusal.range) => {
            refuse(&refusal)
        }
        Claim::Changes(refusal) if is_taken(code, &refusal.range) => refuse(&refusal),
        Claim::Goes { range, done } if is_taken(code, &range) => Judgement::Pieces(pieces(code, range), done),
        _ => Judgement::Pass,
    }
}

/// Whether a call that locks memory, or makes it what cannot be changed any more, names memory of the agent's.
pub fn names_own(address: u64, bytes: u64) -> bool {
    is_taken(&runtime().code.lock(), &range_of(address, bytes))
}

/// The refusal of one.
pub fn refused(name: &str, address: u64, bytes: u64) -> u64 {
    report(name, &range_of(address, bytes));
    ENOMEM
}

/// The pages of a range that a call names.
pub fn range_of(address: u64, bytes: u64) -> Range<u64> {
    let start = address & !(PAGE - 1);
    start..address.saturating_add(bytes).min(sys::USER_END).next_multiple_of(PAGE).max(start)
}

fn refuse(refusal: &Refusal) -> Judgement {
    if !refusal.expected {
        report(refusal.name, &refusal.range);
    }
    Judgement::Refuse(refusal.error)
}

fn report(name: &str, range: &Range<u64>) {
    static REPORTED: AtomicU32 = AtomicU32::new(0);
    if REPORTED.fetch_add(1, Relaxed) < MOST_REPORTED {
        let mut line = sys::Line::new();
        let _ = write!(line, "{name} of {:#x} to {:#x}", range.start, range.end);
        runtime().process().log(log::REFUSED, &[u64::from(sys::process_id())], line.text());
    }
}
