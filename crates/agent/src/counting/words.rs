//! Accesses by word, and whose each word is: what makes the accesses of every object exact, however many share a page.
//!
//! A thread counts what it accesses of each word (4 bytes), for whoever has it. Words change hands: a block is freed,
//! and others lie there later. So whenever a block begins or is about to end, the preloaded library says so, and what
//! all threads have counted there until then goes into the log, with the time: it belongs to whom the words belonged to
//! at that time, which the collector knows.
//!
//! ```text
//!   thread 1   allocates a block    |  counts of its words: nobody's, to the log    |  then tells the collector of it
//!   thread 2   writes it            |  counted by word, in its own table            |
//!   thread 1   is about to free it  |  counts of its words: the block's, to the log |  then tells that it ends
//! ```
//! A program that accesses what another thread frees at the same moment has no answer to whose the access is; any other
//! has only one. What ended threads have counted stands in their tables as it was: the collector reads it, for the time
//! of their end. The same goes for pages that are gone.

use crate::state::own;
use crate::state::page_id::PageId;
use crate::state::runtime::Runtime;
use crate::state::thread::Thread;
use crate::state::thread_context::{PAGES, ThreadContext, UPDATES_BYTES};
use crate::sys::PAGE;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, Extent, PageCounts, WORD_BITS, WORD_WRITES, WORDS_OF_PAGE, log};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Counts are logged before a half of a counter is full.
const MANY: u32 = 1 << 31;
/// Reads and writes, packed.
fn pack(kind: Kind, count: u64) -> u64 {
    let reads = if kind == Kind::Write { 0 } else { count };
    let writes = if kind == Kind::Read { 0 } else { count };
    reads.wrapping_add(writes << WORD_WRITES)
}

/// The words of elements of so many bytes from `address` on, within a page: the number of each, and how many elements
/// begin there.
fn spread(address: u64, size: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, mut left) = (address % PAGE, count);
    core::iter::from_fn(move || {
        if left == 0 || at >= PAGE {
            return None;
        }
        let word = at >> WORD_BITS;
        let here = (((word + 1) << WORD_BITS) - at).div_ceil(size).min(left);
        (at, left) = (at + here * size, left - here);
        Some((word, here))
    })
}

/// Counts accesses that a thread has counted for the page of `entry`.
pub fn count(runtime: &Runtime, thread: &Thread, run: &Run, entry: PageEntry) {
    let number = PageId::of(entry);
    if number.0 >= exact::MOST_LINE_PAGES {
        too_many(runtime);
        return;
    }
    let base = table(runtime, thread.context.0, number);
    if run.is_taken_back() {
        // Taken back: one access, where it was counted.
        let counter = word(base, (run.address % PAGE) >> WORD_BITS);
        let [reads, writes] = exact::word_counts(pack(run.kind, run.count.wrapping_neg()));
        // What others have settled meanwhile is no more to be had from here.
        let less = |count| {
            let [all_reads, all_writes] = exact::word_counts(count);
            Some(all_reads.saturating_sub(reads) | all_writes.saturating_sub(writes) << WORD_WRITES)
        };
        let _ = counter.fetch_update(Relaxed, Relaxed, less);
        return;
    }
    for (at, count) in spread(run.address, u64::from(run.size.max(1)), run.count) {
        let counter = word(base, at);
        // Others may settle it at any time.
        let before = counter.fetch_add(pack(run.kind, count), Relaxed);
        if before as u32 >= MANY || (before >> WORD_WRITES) as u32 >= MANY {
            let page = run.address & !(PAGE - 1);
            log_words(runtime, thread.extent, page + (at << WORD_BITS), counter.swap(0, Relaxed), number);
        }
    }
}

/// A page is counted under another number from now on: the old one's words still are whose the page's are.
pub fn renumbered(runtime: &Runtime, page: u64, number: PageId) {
    if runtime.layout.words {
        let range = page..page.saturating_add(PAGE);
        settle_page(runtime, &runtime.threads.lock(), range, number, Whose::EachItsOwner);
    }
}

/// Logs what all threads have counted in a range, for whoever has it until now. `borders`: where within it one object's
/// part ends and another one's begins.
pub fn settle(runtime: &Runtime, range: Range<u64>, borders: &[u64]) {
    // Ranges may be anything: a program says what a block is.
    let mut pages = Vec::new();
    runtime.shadow.numbered(range.clone(), |page, number| pages.push((page, number)));
    if pages.is_empty() {
        return;
    }
    // What ended threads have counted is logged with their end: none ends meanwhile, and none goes on with other
    // tables.
    let threads = runtime.threads.lock();
    for (page, number) in pages {
        let (mut from, end) = (range.start.max(page), range.end.min(page.saturating_add(PAGE)));
        for &border in &borders[borders.partition_point(|border| *border <= from)..] {
            if border >= end {
                break;
            }
            settle_page(runtime, &threads, from..border, number, Whose::One);
            from = border;
        }
        settle_page(runtime, &threads, from..end, number, Whose::One);
    }
}

/// Whose the words of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All are one object's, or nobody's.
    One,
    EachItsOwner,
}

/// The same of a range within the page of this number.
fn settle_page(runtime: &Runtime, threads: &[(u32, ThreadContext)], range: Range<u64>, number: PageId, whose: Whose) {
    if number.0 >= exact::MOST_LINE_PAGES || range.is_empty() {
        return;
    }
    let words = ((range.start % PAGE) >> WORD_BITS)..(((range.end - 1) % PAGE) >> WORD_BITS) + 1;
    for (_, context) in threads {
        // What it has not counted has no memory, and must not get any.
        let counts = context.0 + PAGES + u64::from(number.0) * size_of::<PageCounts>() as u64;
        // SAFETY: a table of a thread that does not end meanwhile, with a record for each page; made of atomics.
        let counts = unsafe { &*(counts as *const PageCounts) };
        // Of updates there is a counter of their own.
        let updates = context.0 - UPDATES_BYTES + u64::from(number.0) * size_of::<u64>() as u64;
        // SAFETY: as above, below the context.
        let updates = unsafe { &*(updates as *const AtomicU64) };
        if [&counts.reads, &counts.writes, updates].iter().all(|count| count.load(Relaxed) == 0) {
            continue;
        }
        let base = table(runtime, context.0, number);
        // SAFETY: the thread of a context in use. Its extent changes only with the list of threads locked.
        let extent = unsafe { (&raw const (*(context.get(own::THREAD) as *const Thread)).extent).read_volatile() };
        let (mut reads, mut writes) = (0, 0);
        for at in words.clone() {
            let counter = word(base, at);
            if counter.load(Relaxed) == 0 {
                continue;
            }
            let count = counter.swap(0, Relaxed);
            if whose == Whose::EachItsOwner {
                log_words(runtime, extent, range.start + (at << WORD_BITS), count, number);
                continue;
            }
            let [more_reads, more_writes] = exact::word_counts(count);
            (reads, writes) = (reads + more_reads, writes + more_writes);
        }
        if (reads, writes) != (0, 0) {
            log_share(runtime, extent, range.start, reads, writes, number);
        }
    }
}

fn log_words(runtime: &Runtime, extent: Extent, address: u64, count: u64, number: PageId) {
    let [reads, writes] = exact::word_counts(count);
    log_share(runtime, extent, address, reads, writes, number);
}

fn log_share(runtime: &Runtime, extent: Extent, address: u64, reads: u64, writes: u64, number: PageId) {
    // What does not fit is logged as what could not be told apart: the collector knows how much there was of each page.
    runtime.process().log(log::SHARE, &[u64::from(extent.0), address, reads, writes, u64::from(number.0)], &[]);
}

fn table(runtime: &Runtime, context: u64, number: PageId) -> u64 {
    context + runtime.layout.words() + u64::from(number.0) * WORDS_OF_PAGE * 8
}

fn word(base: u64, at: u64) -> &'static AtomicU64 {
    debug_assert!(at < WORDS_OF_PAGE);
    // SAFETY: of a page's counters in the table of a thread that does not end meanwhile, which has so many for each
    // page below MOST_LINE_PAGES.
    unsafe { &*((base + at * 8) as *const AtomicU64) }
}

#[cold]
fn too_many(runtime: &Runtime) {
    if runtime.process().header().words_left_out.swap(1, Relaxed) == 0 {
        let text = b"a process has touched 32 GiB, page by page: objects that share pages that it touched after that are not told apart";
        runtime.process().log(log::NOTE, &[], text);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn words(address: u64, size: u64, count: u64) -> Vec<(u64, u64)> {
        spread(address, size, count).collect()
    }

    #[test]
    fn elements_are_counted_where_they_begin() {
        assert_eq!(words(0x1000, 8, 3), [(0, 1), (2, 1), (4, 1)]);
        assert_eq!(words(0x1003, 1, 6), [(0, 1), (1, 4), (2, 1)]);
        assert_eq!(words(0x1002, 2, 3), [(0, 1), (1, 2)]);
        assert_eq!(words(0x1ffc, 8, 1), [(1023, 1)]);
        assert_eq!(words(0x1000, 64, 1), [(0, 1)]);
    }

    #[test]
    fn reads_and_writes_share_a_word() {
        assert_eq!(pack(Kind::ReadWrite, 3), 3 << 32 | 3);
        assert_eq!(pack(Kind::Read, 3) + pack(Kind::Write, 4), 4 << 32 | 3);
        assert_eq!(exact::word_counts(4 << 32 | 3), [3, 4]);
    }
}
