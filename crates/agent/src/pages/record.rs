//! Records of pages, in the memory shared with the collector.

use super::regions;
use crate::state::page_id::PageId;
use crate::state::session_file::ProcessMemory;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use numalens_event::exact::{PageNumbers, PageRecord, log};
use numalens_translator::PageEntry;

/// What is still to be found out about a page ([`PageRecord::open`]).
pub(super) mod open {
    /// Nothing.
    pub const SETTLED: u32 = 0;
    /// Where it is, after its first touch.
    pub const PLACED: u32 = 1;
    /// Whether it is still there (MADV_FREE).
    pub const IN_DOUBT: u32 = 2;
    /// Where it is, after somebody may have moved it on purpose.
    pub const MOVED: u32 = 5;
    /// The zero page: until it is written.
    pub const ZERO: u32 = 3;
    /// Somebody else's page: until it is written.
    pub const SHARED: u32 = 4;
}

/// A page's class: that of its entry, or, while it is open, of its record.
pub(super) fn entry_class(record: &PageRecord, entry: PageEntry) -> u32 {
    if entry.class == 0 { record.class.load(Relaxed) } else { entry.class }
}

/// A new record, of a page that continues the one `number`. Its state is still to be set, and how it came into being,
/// last.
pub(super) fn continuing(
    memory: &ProcessMemory,
    number: PageId,
    page: u64,
    class: u32,
    begin_ns: u64,
) -> Option<(PageId, &'static PageRecord)> {
    let (new, record) = new_record(memory)?;
    record.page.store(page, Relaxed);
    record.begin_ns.store(begin_ns, Relaxed);
    record.class.store(class, Relaxed);
    record.first_class.store(class, Relaxed);
    record.origin.store(number.0, Relaxed);
    Some((new, record))
}

pub(super) fn new_record(memory: &ProcessMemory) -> Option<(PageId, &'static PageRecord)> {
    static HAVE_RUN_OUT: AtomicBool = AtomicBool::new(false);
    let Some(number) = new_number(&memory.header().pages) else {
        if !HAVE_RUN_OUT.swap(true, Relaxed) {
            let text = b"a process has 496 GiB of pages that were touched one by one, or had and has forked: its \
                accesses to pages that it touched after that are not counted";
            memory.log(log::NOTE, &[], text);
        }
        return None;
    };
    let record = memory.page(PageId(number));
    // What may have come late for the page that had the number before.
    record.end_ns.store(0, Relaxed);
    record.waited.store(0, Relaxed);
    record.stack.store(0, Relaxed);
    Some((PageId(number), record))
}

/// A number for a page. When there is none, the collector is about to name those of pages that have gone, if there are
/// any: it is waited for, but only once for so long in vain.
fn new_number(numbers: &PageNumbers) -> Option<u32> {
    const PATIENCE_NS: u64 = 2_000_000_000;
    static WAITED_NS: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = numbers.give();
        let waited = WAITED_NS.load(Relaxed);
        if number.is_some() && waited != 0 {
            WAITED_NS.store(0, Relaxed);
        }
        if number.is_some() || waited >= PATIENCE_NS {
            return number;
        }
        let began = sys::now_ns();
        sys::nap();
        WAITED_NS.fetch_add(sys::now_ns().saturating_sub(began), Relaxed);
    }
}

/// What a page that is open is counted as.
pub(super) fn counted_as(memory: &ProcessMemory, open: PageEntry) -> PageEntry {
    let number = PageId::of(open);
    regions::counted_in(memory, number, memory.page(number).class.load(Relaxed))
}
