//! Pages that the kernel placed and that nobody has accessed: they are looked for before they go, and when a program
//! ends.

use super::home::{class_of, class_with, expected};
use super::huge_pages::has_unsized;
use super::in_call::under_way;
use super::record::new_record;
use super::resolve::find_homes;
use super::table::{CHUNK, END, Shadow};
use super::{common, query};
use crate::interposer;
use crate::machine;
use crate::state::maps::{Mapping, Maps};
use crate::state::page_id::PageId;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{fault, touch};

/// Ranges up to this many pages, all of which are known, cost no look at the kernel's table.
const FEW: u64 = 4096;

/// Notes the pages of a range that are there though no access was seen.
pub fn reconcile(shadow: &Shadow, memory: &ProcessMemory, thread: &Thread, mappings: &Maps, range: Range<u64>) {
    find_homes(shadow, memory, range.clone());
    let numbers = range.start >> PAGE_BITS..range.end.div_ceil(sys::PAGE).min(END);
    let few = numbers.end.saturating_sub(numbers.start) <= FEW;
    if few && numbers.clone().all(|page| shadow.load(page).slot != 0) && !has_unsized(shadow, memory, &range) {
        return;
    }
    under_way(shadow, memory, mappings, range.clone());
    let Some(scan) = query::Scan::open() else { return };
    let (mut pages, mut of) = (Vec::new(), Vec::new());
    let theirs = |mapping: &&Mapping| mapping.end <= sys::USER_END && !interposer::contains(mapping.start);
    {
        let used = shadow.used.lock();
        let chunk_of = |page: u64| used.get(&(page / CHUNK)).map_or(PageId::NONE, |chunk| chunk.leader);
        for mapping in mappings.overlapping(range.clone()).iter().filter(theirs) {
            scan.each(mapping.start.max(range.start)..mapping.end.min(range.end), |page, huge| {
                let leader = if huge { chunk_of(page) } else { PageId::NONE };
                // A part of a huge page that was seen at its first touch.
                if leader.is_some() {
                    memory.page(leader).fault.fetch_or(fault::IS_HUGE, Relaxed);
                } else if shadow.load(page).slot == 0 {
                    pages.push(page);
                    of.push(mapping);
                }
            });
        }
    }
    let homes = query::presences(&pages);
    let now = sys::now_ns();
    let mut used = shadow.used.lock();
    for ((&page, mapping), home) in pages.iter().zip(of).zip(homes) {
        // Another thread may have come first meanwhile.
        let (Some(home), 0) = (home, shadow.load(page).slot) else { continue };
        let mapping = machine::in_force(*mapping, page);
        let pinned = thread.node >= 0 || mapping.bound;
        let home = if is_virtual() { expected(page, thread, &mapping) } else { home };
        let (Some(home), Some((number, record))) = (home, new_record(memory)) else { continue };
        let placed = common::placed(thread, &mapping, page, true, pinned);
        if placed.is_some_and(|placed| placed.before) {
            record.fault.store(fault::ANOTHERS, Relaxed);
        }
        let class = match placed {
            Some(placed) if is_virtual() => class_with(memory, placed.class_word),
            _ => class_of(memory, Some(home), pinned),
        };
        record.page.store(page, Relaxed);
        record.begin_ns.store(now, Relaxed);
        record.class.store(class, Relaxed);
        record.first_class.store(class, Relaxed);
        record.how.store(touch::UNSEEN, Release);
        used.entry(page / CHUNK).or_default().used += 1;
        shadow.store(page, number.entry(class));
    }
}

/// The process's memory is about to go: what is in it that nobody was seen to place.
pub fn reconcile_all(thread: &Thread) {
    let runtime = runtime();
    let code = runtime.code.lock();
    reconcile(&runtime.shadow, runtime.process(), thread, &code.env.maps, 0..sys::USER_END);
}
