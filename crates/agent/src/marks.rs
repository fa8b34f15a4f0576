//! Phases and marks: what the program says of its own time, or its runtime.
//!
//! Counters are read by the collector, and what a reading finds belongs to the phase that ran until then. A collector
//! that a busy machine keeps from its processor would come when the phase is long over. So a thread that begins or ends
//! one waits for it: half a second of all its time, and a fiftieth of what it takes beyond.

use crate::state::collector::{ask, await_for};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use numalens_event::exact::{self, log};
use numalens_event::request::Request;

/// The longest wait.
const PATIENCE_NS: u64 = 100_000_000;
/// All waits of a process together: so long, and such a part of the time since its first mark.
const MOST_NS: u64 = 500_000_000;
const PART: u64 = 50;

/// When the first mark was, and how long all have waited.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);
static WAITED_NS: AtomicU64 = AtomicU64::new(0);

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
    let first = FIRST_NS.compare_exchange(0, begun, Relaxed, Relaxed).err().unwrap_or(begun);
    let most = MOST_NS.saturating_add(begun.saturating_sub(first) / PART);
    let is_read = |answered: u32| answered.wrapping_sub(ticket) as i32 >= 0;
    if WAITED_NS.load(Relaxed) < most && !is_read(header.answered.load(Acquire)) {
        await_for(PATIENCE_NS, &header.answered, is_read);
        WAITED_NS.fetch_add(sys::now_ns().saturating_sub(begun), Relaxed);
    }
}
