//! The page that a group of sites accessed last.

use super::page::PageCounts;
use super::thread::PAGES_FROM_GS;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The last page of a group, as a thread has it.
#[repr(C)]
#[derive(Debug)]
pub struct LastPageRecord {
    /// The page's address; 0 where it must be looked up.
    pub page: AtomicU64,
    /// The number of executions before those that the record stands for.
    pub since: AtomicU64,
    /// What it is counted for, see [`column_and_page`]; 0: none.
    pub entry: AtomicU64,
    /// How often the page changed.
    pub misses: AtomicU32,
    /// Not 0: it changed so often that the flat tables are used; or [`IS_LIMIT`].
    pub class: AtomicU32,
}

/// What stands for a page where it is counted: the place of the counter of site 0 in the column of its class, see
/// [`super::site_and_class`], and the page's number; 0: none.
pub fn column_and_page(word: u64) -> (u64, u64) {
    let page = (word >> 32).saturating_sub(PAGES_FROM_GS) / size_of::<PageCounts>() as u64;
    ((word & 0xffff_ffff) / 8, page)
}

/// What [`LastPageRecord::class`] is in a record that is no group's: in place of the page it has the page limit of the
/// groups after it, up to the next such record in its 4096 bytes. They look at their pages only when a register has
/// grown to it, as a signed number.
pub const IS_PAGE_LIMIT: u32 = 0x7fff_fffe;

impl LastPageRecord {
    /// Has a group, by one of the records in 4096 bytes of the table, look at its page again if it is on `page` still.
    /// Any process may do so while its thread runs.
    pub fn look_again(records: &[LastPageRecord], number: usize, page: u64) {
        let Some(record) = records.get(number) else { return };
        if record.page.compare_exchange(page, 0, AcqRel, Relaxed).is_ok() {
            let limit = records[..number].iter().rev().find(|record| record.class.load(Relaxed) == IS_PAGE_LIMIT);
            if let Some(limit) = limit {
                limit.page.store(i64::MIN as u64, Release);
            }
        }
    }
}
