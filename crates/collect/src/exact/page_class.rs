//! Classes in which the agents count accesses to pages: by home, and whether a pinned thread placed them.

use crate::session::PageClass;
use numalens_event::exact::{self, ProcessHeader};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Home and whether a pinned thread placed it, of a class of a process.
pub fn meaning(header: &ProcessHeader, class: u32) -> Option<PageClass> {
    header.classes.get(class as usize).and_then(|class| exact::class_meaning(class.load(Relaxed)))
}

/// The same of the class in a word of a record, which may say none.
pub fn class_in(header: &ProcessHeader, class: &AtomicU32) -> PageClass {
    meaning(header, class.load(Relaxed)).unwrap_or_default()
}

/// Whether a class is the one of pages whose home is pending.
pub fn is_pending(header: &ProcessHeader, class: u32) -> bool {
    header.classes.get(class as usize).is_some_and(|word| word.load(Relaxed) == exact::PENDING_HOME)
}
