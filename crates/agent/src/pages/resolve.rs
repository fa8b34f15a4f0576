//! Accesses that place pages, on a real machine: where their page will be is known when they are done.
//!
//! They come here *before* they are executed, and the kernel may do something else than what threads and policies lead
//! one to expect (interleave, a node that is full). So they are counted for a class of their own,
//! [`exact::PENDING_HOME`], and the page's record says later for which one they stand:
//!
//! ```text
//!   the access that places a page   counted as pending                    record: its site, first_class pending
//!   the rest of its group           counted as pending, not executed yet  record: so many sites more
//!   another thread, at that moment  counted as pending                    log: page, site, thread
//!   the next access                 asks the kernel, and is counted there   record: first_class
//! ```
//! Before pages go, move, or are shared with a child, those that are still pending are asked for, all at once. For what
//! is left when a program is killed, and while it runs, the collector asks.

use super::home::{class_of, pending_home};
use super::query;
use super::record::open;
use super::table::{Chunks, Shadow};
use super::touch::PATIENCE;
use super::touch::settle;
use crate::state::page_id::PageId;
use crate::state::runtime::is_virtual;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, PageRecord, log};
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Whether it is not known yet where the page was placed.
pub fn is_open(memory: &ProcessMemory, record: &PageRecord) -> bool {
    let word = &memory.header().classes[record.first_class.load(Relaxed) as usize % exact::MOST_CLASSES];
    word.load(Relaxed) == exact::PENDING_HOME
}

/// The page was placed at `home`.
pub fn resolve(memory: &ProcessMemory, record: &PageRecord, home: Option<u16>) {
    let word = memory.header().classes[record.class.load(Relaxed) as usize].load(Relaxed);
    let (expected, pinned) = exact::class_meaning(word).unwrap_or((None, false));
    let class = class_of(memory, home.or(expected), pinned);
    record.class.store(class, Relaxed);
    record.first_class.store(class, Release);
}

/// What an access is counted as that may belong to the group whose first access placed the page: none of them is
/// executed before all are counted. (It is no harm if it does not: the page was placed where it was placed.)
pub fn counted_along(memory: &ProcessMemory, thread: &Thread, run: &Run, known: PageEntry) -> Option<PageEntry> {
    let record = memory.page(PageId::of(known));
    let more = record.origin.load(Relaxed) + 1;
    if run.done || record.thread.load(Relaxed) != thread.extent.0 || run.site.0 != record.site.load(Relaxed) + more {
        return None;
    }
    record.origin.store(more, Release);
    Some(PageEntry { class: pending_home(memory), ..known })
}

/// What an access to a page is counted as that has been touched and is not there yet. None: it never will be, as far as
/// the kernel says (memory of devices).
pub fn counted_early(memory: &ProcessMemory, thread: &Thread, run: &Run, known: PageEntry) -> Option<PageEntry> {
    let number = PageId::of(known);
    let record = memory.page(number);
    if run.done || record.waited.fetch_add(1, Relaxed) >= PATIENCE {
        record.first_class.store(record.class.load(Relaxed), Release);
        return None;
    }
    // That of the record itself comes again when it has failed.
    if (record.thread.load(Relaxed), record.site.load(Relaxed)) != (thread.extent.0, run.site.0) {
        memory.log(log::EARLY, &[u64::from(number.0), u64::from(run.site.0), u64::from(thread.extent.0)], &[]);
    }
    Some(PageEntry { class: pending_home(memory), ..known })
}

/// Asks where the pages of a range were placed, as far as that is not known: they are about to go or to move.
pub fn find_homes(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>) {
    if !is_virtual() {
        find_homes_in(shadow, memory, &mut shadow.used.lock(), range);
    }
}

/// The same, by the one who has locked or holds the table.
pub(super) fn find_homes_in(shadow: &Shadow, memory: &ProcessMemory, used: &mut Chunks, range: Range<u64>) {
    let mut pages = alloc::vec::Vec::new();
    shadow.walk(used, range, |page, entry| {
        if entry.class == 0 && is_open(memory, memory.page(PageId::of(entry))) {
            pages.push(page);
        }
        false
    });
    let homes = query::presences(&pages);
    for (&page, home) in pages.iter().zip(homes) {
        let entry = shadow.own_entry(used, page);
        let record = memory.page(PageId::of(entry));
        if let Some(home) = home {
            resolve(memory, record, home);
            if record.state() == open::PLACED {
                settle(shadow, memory, page, entry, record.class.load(Relaxed));
            }
        }
    }
}
