//! Pages that have moved, and homes of pages of a virtual machine: asked for, counted, and changed by those who move
//! pages on purpose.
//!
//! A page that is mapped several times has one home. Whoever moves it writes that into the table of pages that
//! processes have in common (`common.rs`) and says that something has moved there; all others compare their pages with
//! that table before they next look at one, or leave translated code. Who moves a page of another process writes that
//! into its record, and the process takes notice likewise.
//!
//! A page that has moved has another number: what was counted of it under the old one was counted where it was,
//! whenever the collector reads that. (So are its words: whose they were when the page moved.)

use super::common::Common;
use super::gone::look_again;
use super::home::class_with;
use super::query;
use super::record::{continuing, entry_class};
use super::table::{CHUNK, END, Shadow};
use crate::counting::lines;
use crate::state::maps::File;
use crate::state::page_id::PageId;
use crate::state::runtime::{Runtime, runtime};
use crate::state::session_file::ProcessMemory;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use numalens_event::exact::{self, PageRecord, touch};
use numalens_translator::PageEntry;

/// The index of the node that a page's class names.
fn home(memory: &ProcessMemory, record: &PageRecord, entry: PageEntry) -> Option<u16> {
    let word = memory.header().classes.get(entry_class(record, entry) as usize)?.load(Relaxed);
    exact::class_meaning(word)?.0
}

/// The index of the node that has a page, if it is known and has one.
pub fn home_of(shadow: &Shadow, memory: &ProcessMemory, page: u64) -> Option<u16> {
    if page >= END {
        return None;
    }
    let entry = shadow.load(page);
    if entry.slot == 0 { None } else { home(memory, memory.page(PageId::of(entry)), entry) }
}

/// Calls `found` for the pages of a range that are known and have homes: with their numbers and the indices of
/// their nodes.
pub fn each_home(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>, mut found: impl FnMut(u64, u16)) {
    shadow.each(range, |_, page, entry| {
        if let Some(home) = home(memory, memory.page(PageId::of(entry)), entry) {
            found(page, home);
        }
        false
    });
}

/// Calls `found` for the pages of ranges that are there and have homes: with the number of the range and the index
/// of the node.
pub fn each_there(shadow: &Shadow, memory: &ProcessMemory, ranges: &[Range<u64>], mut found: impl FnMut(usize, u16)) {
    let used = shadow.used.lock();
    let Some(scan) = query::Scan::open() else { return };
    for (number, range) in ranges.iter().enumerate() {
        scan.each(range.clone(), |page, is_huge| {
            let mut entry = if page < END { shadow.load(page) } else { PageEntry::default() };
            if entry.slot == 0 && is_huge {
                // A part of a huge page that nobody has touched: it is where the first one was.
                let leader = used.get(&(page / CHUNK)).map_or(PageId::NONE, |chunk| chunk.leader);
                entry = leader.entry(0);
            }
            if entry.slot != 0
                && let Some(home) = home(memory, memory.page(PageId::of(entry)), entry)
            {
                found(number, home);
            }
        });
    }
}

/// Moves the pages of a range that are known and have homes to the nodes that `to` names for them (page, index of
/// its node; index of the new one). They count as placed by a pinned thread from then on. `file`: what is mapped at
/// a page.
pub fn migrate(
    shadow: &Shadow,
    memory: &ProcessMemory,
    file: impl Fn(u64) -> File,
    range: Range<u64>,
    mut to: impl FnMut(u64, u16) -> Option<u16>,
) {
    let (mut numbers, mut others) = (Vec::new(), false);
    shadow.each(range.clone(), |shadow, page, entry| {
        let Some(now) = home(memory, memory.page(PageId::of(entry)), entry) else { return false };
        if let Some(new) = to(page, now).filter(|&new| new != now) {
            let word = exact::class_word(Some(new), true);
            let new = count_in(shadow, memory, page, entry, class_with(memory, word));
            numbers.push((page, PageId::of(entry), PageId::of(new)));
            others |= common_page(&file(page), page).is_some_and(|common| common.moved(word));
        }
        false
    });
    renumbered(shadow, range, &numbers);
    if others {
        runtime().session.commons().publish_move();
    }
}

/// Counts a page in another class from now on, under another number as long as there are any; with the table
/// locked. Returns its entry.
pub(super) fn count_in(shadow: &Shadow, memory: &ProcessMemory, page: u64, entry: PageEntry, class: u32) -> PageEntry {
    let old = memory.page(PageId::of(entry));
    let in_class = |number: PageId| number.entry(if entry.class == 0 { 0 } else { class });
    let Some((number, record)) = continuing(memory, PageId::of(entry), page, class, sys::now_ns()) else {
        old.class.store(class, Relaxed);
        old.notice(class);
        shadow.store(page, in_class(PageId::of(entry)));
        return in_class(PageId::of(entry));
    };
    record.fault.store(old.fault.load(Relaxed), Relaxed);
    record.continue_from(old);
    lines::renumbered(memory, PageId::of(entry), number);
    record.how.store(touch::MIGRATED, Release);
    old.go_on(record, class);
    let entry = in_class(number);
    shadow.store(page, entry);
    entry
}

/// Pages of a range have other numbers: page, before, now. Threads that stay there look again.
pub(super) fn renumbered(shadow: &Shadow, range: Range<u64>, numbers: &[(u64, PageId, PageId)]) {
    if numbers.is_empty() {
        return;
    }
    let mut used = shadow.used.lock();
    for &(page, old, new) in numbers {
        if let Some(chunk) = used.get_mut(&(page / CHUNK)) {
            chunk.follows(old, new);
        }
    }
    drop(used);
    look_again(range);
}

/// Takes notice of what has moved since this process last looked: pages that others have mapped as well, by any
/// mapping of any process, and pages of this process that others have moved. To be called before anything is said
/// of homes, by somebody who holds no lock. Returns how many moves it knows of then.
pub fn catch_up(shadow: &Shadow, runtime: &Runtime) -> u64 {
    static SEEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let memory = runtime.process();
    let told = [runtime.session.commons().moved(), memory.header().moved.load(Acquire)];
    let seen = SEEN.each_ref().map(|count| count.load(Acquire));
    if told == seen {
        return told[0];
    }
    let code = runtime.code.lock();
    let maps = &code.env.maps;
    if told[1] != seen[1] {
        let file = |page: u64| maps.find(page << PAGE_BITS).map_or(File::NONE, |mapping| mapping.file);
        follow(shadow, memory, file, 0..sys::USER_END);
    } else {
        for mapping in maps.iter().filter(|mapping| mapping.file.key != 0) {
            follow(shadow, memory, |_| mapping.file, mapping.start..mapping.end);
        }
    }
    SEEN.iter().zip(told).for_each(|(seen, told)| seen.store(told, Release));
    told[0]
}

/// Puts the pages of a range where others say that they are.
fn follow(shadow: &Shadow, memory: &ProcessMemory, file: impl Fn(u64) -> File, range: Range<u64>) {
    let (mut numbers, mut others) = (Vec::new(), false);
    shadow.each(range.clone(), |shadow, page, entry| {
        let common = common_page(&file(page), page);
        let record = memory.page(PageId::of(entry));
        let moved = record.moved_to();
        let known = || common.as_ref().and_then(Common::known).map(|word| class_with(memory, word));
        let Some(class) = moved.or_else(known) else { return false };
        if moved.is_some()
            && let Some(common) = &common
        {
            others |= common.moved(memory.header().classes[class as usize % exact::MOST_CLASSES].load(Relaxed));
        }
        if class == entry_class(record, entry) {
            record.notice(class);
        } else {
            let new = count_in(shadow, memory, page, entry, class);
            numbers.push((page, PageId::of(entry), PageId::of(new)));
        }
        false
    });
    renumbered(shadow, range, &numbers);
    if others {
        runtime().session.commons().publish_move();
    }
}

/// The page at an address (by its number) of what `file` says, if others may have it too.
fn common_page(file: &File, page: u64) -> Option<Common<'static>> {
    Common::new(runtime().session.common(), file, page)
}
