//! Waking the collector, and waiting for it.

use crate::call;
use crate::state::runtime::runtime;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use numalens_event::exact::SessionHeader;

/// The longest wait for a collector that lives.
const PATIENCE_NS: u64 = 10_000_000_000;
/// And for one that cannot be seen: it is gone, or in another namespace.
const PATIENCE_WITH_THE_UNSEEN_NS: u64 = 100_000_000;
/// How long a wait lasts before the collector is looked for.
const SLICE_NS: u64 = 20_000_000;

/// Waits for the collector to make a word of the session file what is wanted; `None`: it has not, in all the time that
/// it is given.
pub fn await_collector(word: &AtomicU32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
    await_for(PATIENCE_NS, word, is_wanted)
}

/// The same for so long at most.
pub fn await_for(most_ns: u64, word: &AtomicU32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
    let begun = sys::now_ns();
    loop {
        let value = word.load(Acquire);
        if is_wanted(value) {
            return Some(value);
        }
        let waited = sys::now_ns().saturating_sub(begun);
        let is_seen = sys::exists(runtime().session.header().collector_pid.load(Relaxed));
        let patience = most_ns.min(if is_seen { PATIENCE_NS } else { PATIENCE_WITH_THE_UNSEEN_NS });
        if waited >= patience {
            return None;
        }
        let time = [0u64, SLICE_NS.min(patience - waited)];
        // SAFETY: a word of the session file, and a time of our own.
        let _ = unsafe { call!(__NR_futex, word.as_ptr(), sys::FUTEX_WAIT, value, &raw const time, 0, 0) };
    }
}

/// Wakes the collector; returns what its answer will be.
pub fn ask(header: &SessionHeader) -> u32 {
    let ticket = header.requests.fetch_add(1, AcqRel).wrapping_add(1);
    // SAFETY: a word of the session file.
    let _ = unsafe { call!(__NR_futex, header.requests.as_ptr(), sys::FUTEX_WAKE, 1, 0, 0, 0) };
    ticket
}
