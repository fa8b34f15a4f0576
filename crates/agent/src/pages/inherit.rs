//! Pages that a forked child shares with its parent until it writes them.

use super::huge_pages::addresses;
use super::query::Scan;
use super::record::{continuing, entry_class, open};
use super::regions;
use super::resolve::find_homes_in;
use super::table::{CHUNK, Shadow};
use crate::state::maps::{Backing, Maps};
use crate::state::page_id::PageId;
use crate::state::runtime::is_virtual;
use crate::state::session_file::ProcessMemory;
use crate::sys::{self, raw};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::touch;

/// A page that a forked child has from its parent.
pub struct Inherited {
    page: u64,
    number: PageId,
    class: u32,
    open: u32,
}

/// Before a fork: the pages that the child will share with its parent until it writes them.
pub fn shared_by_fork(shadow: &Shadow, memory: &ProcessMemory, mappings: &Maps) -> Vec<Inherited> {
    let mut pages = Vec::new();
    if !is_virtual() {
        // SAFETY: held by this thread.
        find_homes_in(shadow, memory, unsafe { shadow.used.held() }, 0..sys::USER_END);
    }
    for mapping in mappings.iter().filter(|mapping| mapping.backing != Backing::Shared) {
        shadow.each_held(mapping.start..mapping.end, |page, entry| {
            let record = memory.page(PageId::of(entry));
            let open = if record.state() == open::ZERO { open::ZERO } else { open::SHARED };
            if entry.class == 0 || mapping.protection & raw::PROT_WRITE != 0 {
                let (number, class) = (PageId::of(entry), entry_class(record, entry));
                pages.push(Inherited { page, number, class, open });
            }
        });
    }
    parts_shared_by_fork(shadow, memory, &mut pages);
    pages
}

/// Parts of huge pages that nobody has accessed.
fn parts_shared_by_fork(shadow: &Shadow, memory: &ProcessMemory, pages: &mut Vec<Inherited>) {
    // SAFETY: held by this thread.
    let used = unsafe { shadow.used.held() };
    let mut open_scan = None;
    for (&number, chunk) in used.iter().filter(|(_, chunk)| chunk.leader.is_some() && u64::from(chunk.used) < CHUNK) {
        let Some(scan) = open_scan.get_or_insert_with(Scan::open) else { return };
        let class = memory.page(chunk.leader).class.load(Relaxed);
        scan.each(addresses(number), |page, is_huge| {
            if is_huge && shadow.load(page).slot == 0 {
                pages.push(Inherited { page, number: chunk.leader, class, open: open::SHARED });
            }
        });
    }
}

/// In the child: its first write to each of them makes a page of its own.
pub fn inherit(shadow: &Shadow, memory: &ProcessMemory, pages: &[Inherited]) {
    regions::inherit(memory);
    let mut used = shadow.used.lock();
    // All of what there is follows under numbers of the child's.
    used.values_mut().for_each(|chunk| (chunk.marked, chunk.leader) = (0, PageId::NONE));
    for inherited in pages {
        let Inherited { page, number, class, open } = *inherited;
        let Some((number, record)) = continuing(memory, number, page, class, sys::now_ns()) else { return };
        record.open.store(open, Relaxed);
        record.how.store(touch::INHERITED, Release);
        if shadow.load(page).slot == 0 {
            used.entry(page / CHUNK).or_default().used += 1;
        }
        shadow.store(page, number.entry(0));
    }
}
