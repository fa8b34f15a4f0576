//! Pages that go, may have gone, or come to other addresses.

use super::huge_pages::{leaders, led_elsewhere, left_by};
use super::record::{continuing, entry_class, open};
use super::table::{CHUNK, Chunk, END, Shadow};
use crate::placement::FORGOTTEN;
use crate::state::page_id::PageId;
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use numalens_event::exact::{fault, log, touch};
use numalens_translator::PageEntry;

/// Forgets the pages of a range: they are unmapped, or their contents were given up.
pub fn clear(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>) {
    let (mut gone, mut is_led, mut may_be_huge) = (false, false, false);
    let now = sys::now_ns();
    // Of a huge page, others than those with entries go too.
    let look_at = |_, chunk: &mut Chunk| {
        is_led |= chunk.leader.is_some();
        true
    };
    let mut used = shadow.used.lock();
    shadow.walk_chunks(&mut used, range.clone(), look_at, |page, entry| {
        let record = memory.page(PageId::of(entry));
        gone = true;
        may_be_huge |= record.fault.load(Relaxed) & fault::MAY_BE_HUGE != 0;
        record.end_ns.store(now, Relaxed);
        shadow.store(page, PageEntry::default());
        true
    });
    left_by(shadow, &mut used, &range, true);
    drop(used);
    if gone {
        look_again(range.clone());
    }
    if is_led || may_be_huge {
        memory.log(log::GONE, &[range.start, range.end], &[]);
    }
}

/// The entries of pages in a range have changed: threads that stay there look again.
pub fn look_again(range: Range<u64>) {
    let runtime = runtime();
    let sites = runtime.process().header().sites.load(Acquire);
    let threads = runtime.threads.lock();
    FORGOTTEN.fetch_add(1, Relaxed);
    for (_, context) in threads.iter() {
        context.forget(&runtime.layout, sites, &range);
    }
}

/// The pages of a range may have gone (MADV_FREE) or been `moved` to other nodes: each is asked for at its next
/// access.
pub fn doubt(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>, moved: bool) {
    let mut changed = false;
    if !moved {
        left_by(shadow, &mut shadow.used.lock(), &range, false);
    }
    shadow.each(range.clone(), |shadow, page, entry| {
        let record = memory.page(PageId::of(entry));
        let is_marked = record.begins_generation() && record.state() == open::SETTLED;
        if entry.class > PageEntry::READ_ONLY || is_marked {
            changed = true;
            record.class.store(entry_class(record, entry), Relaxed);
            record.set_state(if moved { open::MOVED } else { open::IN_DOUBT });
            shadow.store(page, PageEntry { class: 0, ..entry });
        }
        false
    });
    if changed {
        look_again(range);
    }
}

/// The pages of a range moved to `to`: the same homes, other addresses.
pub fn moved(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>, to: u64) {
    let first = range.start >> PAGE_BITS;
    let now = sys::now_ns();
    let mut arrived = Vec::new();
    let mut leaders = leaders(shadow, &range);
    shadow.each(range.clone(), |shadow, page, entry| {
        let old = memory.page(PageId::of(entry));
        shadow.store(page, PageEntry::default());
        let new_page = (to >> PAGE_BITS) + page - first;
        let class = entry_class(old, entry);
        if let Some((number, record)) = continuing(memory, PageId::of(entry), new_page, class, now) {
            record.open.store(old.open.load(Relaxed), Relaxed);
            record.how.store(touch::MOVED, Release);
            leaders.iter_mut().filter(|led| led.leader == PageId::of(entry)).for_each(|led| led.leader = number);
            arrived.push((new_page, number.entry(entry.class)));
        }
        old.end_ns.store(now, Relaxed);
        true
    });
    look_again(range.clone());
    left_by(shadow, &mut shadow.used.lock(), &range, true);
    let mut used = shadow.used.lock();
    for (page, entry) in arrived {
        if page < END {
            used.entry(page / CHUNK).or_default().used += 1;
            shadow.store(page, entry);
        }
    }
    drop(used);
    led_elsewhere(shadow, memory, leaders, to.wrapping_sub(range.start));
}
