//! Pages of other processes of the recording: what their agents have written down of them.
//!
//! Where those pages are is told; only their own process can move them, as nobody else may change its table of pages.

use crate::runtime::Runtime;
use crate::sys;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use numalens_event::exact::{self, Extent, PageRecord, ProcessHeader, touch};

/// The process of a thread that is recorded and runs.
pub fn process_of(runtime: &Runtime, tid: u32) -> Option<Extent> {
    let thread = runtime.session.thread_of(tid)?;
    Some(Extent(runtime.session.entry(thread).parent.load(Relaxed)))
}

/// Calls `found` for the pages that a process has touched and that are there and have homes: with their numbers and the indices of their nodes.
/// None: its records cannot be mapped.
pub fn each_home(runtime: &Runtime, process: Extent, mut found: impl FnMut(u64, u8)) -> Option<()> {
    let descriptor = runtime.session.descriptor;
    let header_bytes = size_of::<ProcessHeader>().next_multiple_of(sys::PAGE as usize) as u64;
    let header_at = sys::map_shared(header_bytes, descriptor, process.offset()).ok()?;
    // SAFETY: mapped just now, made of atomics, given back below.
    let header = unsafe { &*(header_at as *const ProcessHeader) };
    let given = header.pages.load(Acquire).min(exact::MOST_PAGES) as usize;
    let bytes = (given.max(1) * size_of::<PageRecord>()).next_multiple_of(sys::PAGE as usize) as u64;
    let mapped = sys::map_shared(bytes, descriptor, process.offset() + exact::process::PAGES).ok();
    if let Some(at) = mapped {
        // SAFETY: as above; so many have been given.
        let records = unsafe { core::slice::from_raw_parts(at as *const PageRecord, given) };
        let is_there = |record: &&PageRecord| {
            record.how.load(Acquire) != touch::NONE
                && record.end_ns.load(Relaxed) == 0
                && record.page.load(Relaxed) != 0
        };
        for record in records.iter().filter(is_there) {
            let class = header.classes.get(record.class.load(Relaxed) as usize).map_or(0, |word| word.load(Relaxed));
            if let Some((Some(home), _)) = exact::class_meaning(class) {
                found(record.page.load(Relaxed), home);
            }
        }
        sys::unmap(at, bytes);
    }
    sys::unmap(header_at, header_bytes);
    mapped.map(drop)
}
