//! Phases and marks: what the program says of its own time, or its runtime.

use crate::state::collector::ask;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, log};
use numalens_event::request::Request;

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
    ask(header);
}
