//! Homes of pages of a virtual machine: asked for, counted, and changed by those who move pages on purpose.

use super::home::class_of;
use super::{Shadow, ask, entry_class};
use crate::shared::ProcessMemory;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, PageRecord, log};
use numalens_translator::PageEntry;

/// The index of the node that a page's class names.
fn home(memory: &ProcessMemory, record: &PageRecord, entry: PageEntry) -> Option<u8> {
    let word = memory.header().classes.get(entry_class(record, entry) as usize)?.load(Relaxed);
    exact::class_meaning(word)?.0
}

impl Shadow {
    /// The index of the node that has a page, if it is known and has one.
    pub fn home_of(&self, memory: &ProcessMemory, page: u64) -> Option<u8> {
        if page >= super::END {
            return None;
        }
        let entry = self.load(page);
        if entry.slot == 0 { None } else { home(memory, memory.page(entry.slot / 2), entry) }
    }

    /// Calls `found` for the pages of a range that are known and have homes: with their numbers and the indices of their nodes.
    pub fn each_home(&self, memory: &ProcessMemory, range: Range<u64>, mut found: impl FnMut(u64, u8)) {
        self.each(range, |_, page, entry| {
            if let Some(home) = home(memory, memory.page(entry.slot / 2), entry) {
                found(page, home);
            }
            false
        });
    }

    /// Calls `found` for the pages of ranges that are there and have homes: with the number of the range and the index of the node.
    pub fn each_there(&self, memory: &ProcessMemory, ranges: &[Range<u64>], mut found: impl FnMut(usize, u8)) {
        let used = self.used.lock();
        let Some(scan) = ask::Scan::open() else { return };
        for (number, range) in ranges.iter().enumerate() {
            scan.each(range.clone(), |page, is_huge| {
                let mut entry = if page < super::END { self.load(page) } else { PageEntry::default() };
                if entry.slot == 0 && is_huge {
                    // A part of a huge page that nobody has touched: it is where the first one was.
                    let leader = used.get(&(page / super::CHUNK)).map_or(0, |chunk| chunk.leader);
                    entry.slot = leader * 2;
                }
                if entry.slot != 0
                    && let Some(home) = home(memory, memory.page(entry.slot / 2), entry)
                {
                    found(number, home);
                }
            });
        }
    }

    /// Moves the pages of a range that are known and have homes to the nodes that `to` names for them (page, index of its node; index of the
    /// new one). They count as placed by a pinned thread from then on.
    pub fn rehome(&self, memory: &ProcessMemory, range: Range<u64>, mut to: impl FnMut(u64, u8) -> Option<u8>) {
        let mut changed = false;
        self.each(range.clone(), |shadow, page, entry| {
            let record = memory.page(entry.slot / 2);
            let Some(now) = home(memory, record, entry) else { return false };
            if let Some(new) = to(page, now).filter(|&new| new != now) {
                let class = class_of(memory, Some(new), true);
                record.class.store(class, Relaxed);
                memory.log(log::REHOMED, &[u64::from(entry.slot / 2), u64::from(class)], &[]);
                if entry.class != 0 {
                    shadow.store(page, PageEntry { class, ..entry });
                    changed = true;
                }
            }
            false
        });
        if changed {
            self.forget(range);
        }
    }
}
