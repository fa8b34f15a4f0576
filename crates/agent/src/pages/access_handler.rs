//! Threads that count out of line: they query pages here, and log accesses that the collector wants.

use super::before_string_write::before_string_write;
use super::migrate::home_of;
use super::touch::touch;
use crate::counting;
use crate::state::own;
use crate::state::page_id::PageId;
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS};
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, log};
use numalens_translator::PageEntry;
use numalens_translator::count::{Pages, Run};

/// What a thread uses to count out of line.
pub struct AccessHandler<'a> {
    /// Itself.
    pub thread: &'a Thread,
    /// It was stopped by a signal: it did not come here by itself, and its stack is not where it would be.
    pub stopped: bool,
    /// The page of which it has just logged an access; 0: none.
    pub logged: u64,
}

impl<'a> AccessHandler<'a> {
    /// A thread that counts, or is `stopped`.
    pub fn new(thread: &'a Thread, stopped: bool) -> Self {
        AccessHandler { thread, stopped, logged: 0 }
    }

    /// Logs an access for the collector, which has made this page one to look at. Whether the page stays one.
    pub(super) fn is_watched(&mut self, memory: &ProcessMemory, run: &Run, known: PageEntry) -> bool {
        let wanted = &memory.page(PageId::of(known)).waited;
        match wanted.load(Relaxed) {
            0 => false,
            exact::HOLD => true,
            left => {
                self.logged = run.address >> PAGE_BITS;
                self.log_access(memory, run, known);
                // Not the collector's next wish.
                wanted.compare_exchange(left, left - 1, Relaxed, Relaxed).is_err() || left > 1
            }
        }
    }

    pub(super) fn log_access(&self, memory: &ProcessMemory, run: &Run, known: PageEntry) {
        // What is taken back is no access.
        if !self.stopped && run.count <= i64::MAX as u64 {
            let words = [
                u64::from(run.site.0),
                u64::from(self.thread.extent.0),
                run.address,
                run.count,
                u64::from(PageId::of(known).0),
            ];
            memory.log(log::ACCESS, &words, &[]);
        }
    }
}

impl Pages for AccessHandler<'_> {
    fn entry(&mut self, run: &Run) -> Option<PageEntry> {
        // What no program can map faults before it is an access.
        if run.address >= sys::USER_END {
            return None;
        }
        let runtime = runtime();
        touch(&runtime.shadow, runtime.process(), self, run)
    }

    fn before_string_write(&mut self, run: &Run) {
        const BACKWARDS: u64 = 1 << 10;
        // SAFETY: the flags are what counting out of line puts on the thread's agent stack first.
        let flags = unsafe { (self.thread.context.get(own::STACK) as *const u64).sub(1).read() };
        let size = u64::from(run.size);
        let bytes = run.count.saturating_mul(size);
        let range = if flags & BACKWARDS != 0 {
            let end = run.address.saturating_add(size);
            end.saturating_sub(bytes)..end
        } else {
            run.address..run.address.saturating_add(bytes)
        };
        let range = range.start..range.end.min(sys::USER_END);
        if range.start < range.end {
            let runtime = runtime();
            before_string_write(&runtime.shadow, runtime.process(), self, run, range);
        }
    }

    fn peek(&mut self, address: u64) -> Option<u64> {
        crate::sys::user::read(address).ok()
    }

    fn probed(&mut self, word: u64) {
        let runtime = runtime();
        let home = |page| home_of(&runtime.shadow, runtime.process(), page);
        self.thread.collecting.borrow_mut().processes(word, home);
    }

    fn counted(&mut self, run: &Run, entry: PageEntry) {
        counting::counted(runtime(), self.thread, run, entry);
    }
}
