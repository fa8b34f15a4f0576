//! Accesses that miss the private cache of their thread.

use super::private_cache::PrivateCache;
use crate::state::page_id::PageId;
use crate::state::runtime::Runtime;
use crate::state::thread::Thread;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, PageCounts};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Looks accesses up in the thread's cache, which it has counted for `entry`, and counts those that miss.
pub fn count(runtime: &Runtime, thread: &Thread, cache: &RefCell<PrivateCache>, run: &Run, entry: PageEntry) {
    // Nobody else asks for it meanwhile: signals are put off while the thread is here.
    let Ok(mut cache) = cache.try_borrow_mut() else { return };
    let in_place = thread.context.take_latest_look(run.site);
    let misses = match in_place.filter(|_| run.is_taken_back()) {
        Some(missed) => cache.forget_in_place(run.address, missed),
        None => cache.misses(run),
    };
    if misses == 0 {
        return;
    }
    let at = thread.context.0 + runtime.layout.misses();
    // Side by side as the counters of all accesses are.
    let config = &runtime.config;
    let Some(row) = config.site_counter(run.site, entry.class).map(|at| u64::from(at - config.sites)) else { return };
    let page = exact::thread::SITES_BYTES + u64::from(PageId::of(entry).0) * size_of::<PageCounts>() as u64;
    // The read of a read-modify-write fetches the line.
    let page = page + if run.kind == Kind::Write { 8 } else { 0 };
    for offset in [row, page] {
        // SAFETY: the thread's own tables, mapped as long as its context: as many as there are site and page counters.
        let counter = unsafe { &*((at + offset) as *const AtomicU64) };
        counter.store(counter.load(Relaxed).wrapping_add(misses), Relaxed);
    }
}
