//! What is counted of each access where that is wanted: by cache line, by word, and what misses a private cache.

mod cache_misses;
pub mod lines;
pub mod private_cache;
pub mod words;

use crate::state::runtime::Runtime;
use crate::state::thread::Thread;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// The accesses of a run have been counted for a page.
pub fn counted(runtime: &Runtime, thread: &Thread, run: &Run, entry: PageEntry) {
    if runtime.layout.lines {
        lines::count(runtime, thread, run, entry);
    }
    if let Some(cache) = &thread.cache {
        cache_misses::count(runtime, thread, cache, run, entry);
    }
    if runtime.layout.words {
        words::count(runtime, thread, run, entry);
    }
}
