//! The zero page, which memory is read from until somebody writes it.
//!
//! Sparse tables are read from it all the time, so reads must not come to the agent one by one; the first write must,
//! as it places a page. After a few reads it gets a class in which only reads are counted ([`PageEntry::READ_ONLY`]): a
//! write finds that it must ask. The kernel writes too, without a word. So a page is looked for again before it writes
//! what the program reads from a file, and, ever more seldom, when the collector takes the class away.

use super::table::Shadow;
use crate::state::session_file::ProcessMemory;
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, PageRecord};
use numalens_translator::PageEntry;

/// Reads before it gets its class. A power of two.
const PATIENCE: u32 = 4;
/// Whether any page has ever had it.
static EVER: AtomicBool = AtomicBool::new(false);

/// A page was read and is not there; with the table locked.
pub(super) fn not_written(shadow: &Shadow, memory: &ProcessMemory, record: &PageRecord, page: u64, known: PageEntry) {
    if record.waited.load(Relaxed) >= PATIENCE {
        let class = PageEntry::READ_ONLY;
        memory.header().classes[class as usize].store(exact::READ_ONLY, Release);
        EVER.store(true, Relaxed);
        record.class.store(class, Relaxed);
        shadow.store(page, PageEntry { class, ..known });
    }
}

/// The kernel is about to write the program's memory at `address`: pages there that had not been written are looked
/// for at their next reads.
pub fn written_by_kernel(shadow: &Shadow, address: u64, bytes: u64) {
    if !EVER.load(Relaxed) {
        return;
    }
    let mut used = shadow.used.lock();
    shadow.walk(&mut used, address..address.saturating_add(bytes).min(sys::USER_END), |page, entry| {
        if entry.class == PageEntry::READ_ONLY {
            shadow.store(page, PageEntry { class: 0, ..entry });
        }
        false
    });
}
