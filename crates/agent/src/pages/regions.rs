//! Pages that share their counters, where each thread having its own for each page would take too much memory.
//!
//! Problem: a thread has 16 bytes for each page that it accesses. Where all threads access all of a memory, that is the
//! product of both.
//!
//! Mechanism: the collector knows which 2 MiB several threads access, and whose they are. It names *regions*: numbers
//! with counters like those of pages, each of one class and of one object's pages. A page that is assigned to one joins
//! it here: its entry names the region's counters in place of its own. Its record, what it is and who placed it, stays
//! its own.
//!
//! ```text
//!   entry of a page      { class 3, number 812 }    ->    { class 3, region 7 }      in translated code
//!   of the same chunk    { class 3, number 815 }    ->    { class 3, region 7 }
//!                        { class 2, number 816 }          another home: on its own
//!   Chunk::own           812, 815                         what the agent finds records by
//! ```
//!
//! 1. An entry that names a region has the region's class, or none while something is to be found out about its page.
//! 2. `Chunk::own` has the number of each page whose entry names a region. What it has of others means nothing.
//! 3. A page leaves its region by a change of its number only: its record says for ever that it has joined.

use super::gone::look_again;
use super::record::open;
use super::table::{CHUNK, Chunk, Chunks, Shadow};
use crate::state::page_id::PageId;
use crate::state::session_file::ProcessMemory;
use crate::sys::PAGE_BITS;
use alloc::boxed::Box;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use numalens_event::exact::FIRST_REGION;
use numalens_translator::PageEntry;

/// Regions whose pages have joined them.
static SEEN: AtomicU32 = AtomicU32::new(0);

impl Chunk {
    /// The entry of one of its pages as its record has it, for the one in the table.
    pub(super) fn own_entry(&self, page: u64, entry: PageEntry) -> PageEntry {
        match &self.own {
            Some(own) if PageId::of(entry).is_region() => own[(page % CHUNK) as usize].entry(entry.class),
            _ => entry,
        }
    }

    /// One of its pages is counted in a region.
    fn joins(&mut self, page: u64, number: PageId) {
        let own = self.own.get_or_insert_with(|| Box::new([PageId::NONE; CHUNK as usize]));
        own[(page % CHUNK) as usize] = number;
    }
}

impl Shadow {
    /// The entry of a page as its record has it; with the table locked.
    pub(super) fn own_entry(&self, used: &Chunks, page: u64) -> PageEntry {
        let entry = self.load(page);
        used.get(&(page / CHUNK)).map_or(entry, |chunk| chunk.own_entry(page, entry))
    }

    /// The same, for the entry that the table had, by somebody who has not locked it.
    pub(super) fn own_entry_of(&self, page: u64, entry: PageEntry) -> PageEntry {
        if PageId::of(entry).is_region() { self.own_entry(&self.used.lock(), page) } else { entry }
    }
}

/// What a page of this number is counted as while it is in a class.
pub(super) fn counted_in(memory: &ProcessMemory, number: PageId, class: u32) -> PageEntry {
    let region = memory.page(number).joined().map(PageId);
    let is_there = |region: &PageId| memory.page(*region).class.load(Relaxed) == class;
    region.filter(is_there).unwrap_or(number).entry(class)
}

/// Has pages join the regions that the collector has named since. By somebody who holds no lock.
pub(super) fn join(shadow: &Shadow, memory: &ProcessMemory) {
    let named = memory.header().regions.load(Acquire);
    if SEEN.load(Acquire) == named {
        return;
    }
    let mut changed: Option<Range<u64>> = None;
    let mut used = shadow.used.lock();
    for region in SEEN.load(Acquire)..named {
        let region = PageId(FIRST_REGION + region);
        let record = memory.page(region);
        let (number, class) = (record.page.load(Relaxed) / CHUNK, record.class.load(Relaxed));
        let Some(chunk) = used.get_mut(&number) else { continue };
        if join_in(shadow, memory, chunk, number, region.entry(class)) {
            let bytes = CHUNK << PAGE_BITS;
            let here = number * bytes..(number + 1) * bytes;
            changed = Some(changed.map_or(here.clone(), |all| all.start.min(here.start)..all.end.max(here.end)));
        }
    }
    SEEN.store(named, Release);
    drop(used);
    if let Some(range) = changed {
        look_again(range);
    }
}

/// Has pages of a chunk join a region. Whether there are any.
fn join_in(shadow: &Shadow, memory: &ProcessMemory, chunk: &mut Chunk, number: u64, region: PageEntry) -> bool {
    let mut any = false;
    for page in number * CHUNK..(number + 1) * CHUNK {
        any |= joins(shadow, memory, chunk, page, region);
    }
    any
}

/// Has a page of a chunk join a region, if it is assigned to that and nothing is to be found out about it. Whether it
/// does.
fn joins(shadow: &Shadow, memory: &ProcessMemory, chunk: &mut Chunk, page: u64, region: PageEntry) -> bool {
    let entry = shadow.load(page);
    if entry.class != region.class || PageId::of(entry).is_region() {
        return false;
    }
    let record = memory.page(PageId::of(entry));
    let is_known = record.state() == open::SETTLED && !record.begins_generation() && record.moved_to().is_none();
    let region_number = PageId::of(region).0;
    let does = is_known && record.assigned() == Some(region_number) && record.join(region_number);
    if does {
        chunk.joins(page, PageId::of(entry));
        shadow.store(page, region);
    }
    does
}

/// Has a page join that something was to be found out about when others did; `entry`: as it is counted otherwise; with
/// the table locked.
pub(super) fn join_alone(
    shadow: &Shadow,
    memory: &ProcessMemory,
    used: &mut Chunks,
    page: u64,
    entry: PageEntry,
) -> PageEntry {
    let Some(region) = memory.page(PageId::of(entry)).assigned() else { return entry };
    let region = PageId(region).entry(memory.page(PageId(region)).class.load(Relaxed));
    let does = used.get_mut(&(page / CHUNK)).is_some_and(|chunk| joins(shadow, memory, chunk, page, region));
    if does { region } else { entry }
}

/// In a forked child: what its parent's pages have been assigned to is the parent's.
pub(super) fn inherit(memory: &ProcessMemory) {
    SEEN.store(memory.header().regions.load(Acquire), Release);
}
