//! Phases and marks: what the program says of its own time, or its runtime.
//!
//! Counters are read by the collector, and what a reading finds belongs to the phase that ran until then. A collector
//! that a busy machine keeps from its processor would come when the phase is long over. So a thread that begins or ends
//! one waits for it, for a fiftieth of the time at most.

use crate::state::collector::{ask, await_for};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use numalens_event::exact::{self, log};
use numalens_event::request::Request;

/// The longest wait.
const PATIENCE_NS: u64 = 20_000_000;
/// The time from one wait to the next, as a multiple of the first.
const REST: u64 = 50;

/// When the next mark may wait.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// Logs a phase or a mark of a name.
pub fn mark(thread: &Thread, request: Request, text: &[u8]) {
    let runtime = runtime();
    let header = runtime.session.header();
    if header.marks.fetch_add(1, Relaxed) >= exact::MOST_MARKS {
        // Not beyond what the word can count.
        header.marks.fetch_min(u32::MAX / 2, Relaxed);
        return;
    }
    let words = [request as u64, u64::from(thread.first.0)];
    runtime.process().log(log::MARK, &words, text);
    let ticket = ask(header);
    let begun = sys::now_ns();
    if begun < NEXT_WAIT_NS.load(Relaxed) || header.answered.load(Acquire).wrapping_sub(ticket) as i32 >= 0 {
        return;
    }
    await_for(PATIENCE_NS, &header.answered, |answered| answered.wrapping_sub(ticket) as i32 >= 0);
    let waited = sys::now_ns().saturating_sub(begun);
    NEXT_WAIT_NS.store(begun.saturating_add(waited.saturating_mul(REST)), Relaxed);
}
