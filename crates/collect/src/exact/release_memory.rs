//! Memory of the session file that nobody needs any more.
//!
//! A program that maps, touches and unmaps memory all its life goes on getting new page numbers. Their records and
//! counters are given back in groups, once all pages of a group have gone and every thread's last counts of them have
//! been reported. The same goes for what ended threads and processes leave.

use super::file::SessionFile;
use numalens_event::exact::{self, Extent, LastAccess, LineCounts, PageCounts, PageRecord, end};
use numalens_event::page::PAGE;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Pages whose smallest counters share a page of memory.
pub use numalens_event::exact::GROUP;
/// Bytes of a counter of updates.
const UPDATES: usize = size_of::<u64>();
const _: () = assert!(GROUP as usize * UPDATES == PAGE as usize);
const _: () = assert!((GROUP as usize * size_of::<PageCounts>()).is_multiple_of(PAGE as usize));
const _: () = assert!((GROUP as usize * size_of::<PageRecord>()).is_multiple_of(PAGE as usize));
const _: () = assert!((GROUP as u64 * exact::LINES_OF_PAGE * size_of::<LineCounts>() as u64).is_multiple_of(PAGE));

/// The page numbers of a process that have ended, by group.
#[derive(Default)]
pub struct Releasable {
    ended: Vec<u16>,
    /// Groups of which all pages have ended since the last poll.
    full: Vec<u32>,
    /// Those of the poll before. A last page that was settled at that very moment was in neither place: it has been
    /// found by now.
    due: Vec<u32>,
}

impl Releasable {
    /// The page `number` has ended.
    pub fn page(&mut self, number: u32) {
        let group = (number / GROUP) as usize;
        if self.ended.len() <= group {
            self.ended.resize(group + 1, 0);
        }
        self.ended[group] += 1;
        if u32::from(self.ended[group]) == GROUP {
            self.full.push(number / GROUP);
        }
    }

    /// The numbers of a group are given again.
    pub fn begins_again(&mut self, group: u32) {
        if let Some(ended) = self.ended.get_mut(group as usize) {
            *ended = 0;
        }
    }

    /// The pages, by their numbers, that were full at the poll before this one: they and what threads have counted of
    /// them can be given back.
    pub fn take_due(&mut self) -> Vec<Range<u32>> {
        let due = std::mem::replace(&mut self.due, std::mem::take(&mut self.full));
        side_by_side(due)
    }
}

/// The pages of groups: ranges, as few as there can be.
fn side_by_side(mut groups: Vec<u32>) -> Vec<Range<u32>> {
    groups.sort_unstable();
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for group in groups {
        let pages = group * GROUP..(group + 1) * GROUP;
        match ranges.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => ranges.push(pages),
        }
    }
    ranges
}

/// Gives back what is kept of whole groups of pages, of a process and of its threads, which have been counted.
pub fn discard_pages(file: &SessionFile, process: Extent, threads: impl Iterator<Item = Extent>, pages: &Range<u32>) {
    file.discard(process, part(exact::process::PAGES, pages, size_of::<PageRecord>()));
    let bytes = exact::LINES_OF_PAGE as usize * size_of::<LastAccess>();
    let with_lines = pages.start.min(exact::MOST_LINE_PAGES)..pages.end.min(exact::MOST_LINE_PAGES);
    if !with_lines.is_empty() {
        file.discard(process, part(exact::process::LINES, &with_lines, bytes));
    }
    for thread in threads {
        if !with_lines.is_empty() {
            let words = exact::WORDS_OF_PAGE as usize * size_of::<u64>();
            file.discard(thread, part(exact::thread::WORDS, &with_lines, words));
        }
        discard_counters(file, thread, pages);
    }
}

/// Gives back what a thread has counted of pages: of whole groups.
pub fn discard_counters(file: &SessionFile, thread: Extent, pages: &Range<u32>) {
    for table in [exact::thread::PAGES, exact::thread::MISSES + exact::thread::SITES_BYTES] {
        file.discard(thread, part(table, pages, size_of::<PageCounts>()));
    }
    file.discard(thread, part(exact::thread::UPDATES, pages, UPDATES));
}

/// Gives back what a thread has counted of the lines of pages: of whole groups.
pub fn discard_lines(file: &SessionFile, thread: Extent, pages: &Range<u32>) {
    let bytes = exact::LINES_OF_PAGE as usize * size_of::<LineCounts>();
    file.discard(thread, part(exact::thread::LINES, pages, bytes));
}

/// Where a table at `offset` has the records of pages, of so many bytes each.
fn part(offset: u64, pages: &Range<u32>, bytes: usize) -> Range<u64> {
    let at = |page: u32| offset + u64::from(page) * bytes as u64;
    at(pages.start)..at(pages.end)
}

/// Gives back what an ended thread has counted, but for cache lines, which are reported with its process. Where one was
/// that has executed a program stays: that program begins there, on a virtual machine, and asks for it when it runs.
pub fn discard_thread(file: &SessionFile, thread: Extent) {
    file.discard(thread, 0..exact::thread::PLACE);
    if file.entry(thread).is_none_or(|entry| entry.end.load(Relaxed) != end::EXEC) {
        file.discard(thread, exact::thread::PLACE..exact::thread::LINES);
    }
    file.discard(thread, exact::thread::MISSES..exact::EXTENT_BYTES);
}

/// Gives back what a thread has counted by word, which has been attributed to objects.
pub fn discard_words(file: &SessionFile, thread: Extent) {
    file.discard(thread, exact::thread::WORDS..exact::thread::WORDS + exact::thread::WORDS_BYTES);
}

/// Gives back what an ended process has said. Its header stays, for the program that follows; so does the table that
/// its children may use.
pub fn discard_process(file: &SessionFile, process: Extent) {
    file.discard(process, exact::process::LOG..exact::process::LOOKUP);
    file.discard(process, exact::process::SITES..exact::EXTENT_BYTES);
}

#[cfg(test)]
mod tests {
    use super::super::file::ExactOptions;
    use super::super::image::Image;
    use super::*;
    use numalens_topology::{Machine, PagePolicy, ThreadPlacement};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn where_the_next_program_begins_stays() {
        let host = Machine::preset("togian").unwrap();
        let machine = Machine::parse("4x2", &host).unwrap();
        let options = ExactOptions {
            machine: &machine,
            placement: ThreadPlacement::default(),
            policy: PagePolicy::default(),
            stack: false,
            code: false,
            lines: false,
            words: false,
            cache: None,
            follow: true,
            counting: true,
        };
        let file = SessionFile::create(&Image { pieces: Vec::new(), bytes: 0, entry: 0 }, &options).unwrap();
        let threads = [Extent(0), Extent(1)];
        file.header().extents.store(2, Relaxed);
        file.entry(threads[1]).unwrap().end.store(end::EXEC, Relaxed);
        for thread in threads {
            let place = file.extent(thread, exact::thread::PLACE, PAGE as usize).unwrap();
            let counts = file.extent(thread, exact::thread::SITES, PAGE as usize).unwrap();
            place.words::<AtomicU64>(0, 1)[0].store(1, Relaxed);
            counts.words::<AtomicU64>(0, 1)[0].store(1, Relaxed);
            discard_thread(&file, thread);
            assert_eq!(counts.words::<AtomicU64>(0, 1)[0].load(Relaxed), 0);
        }
        assert_eq!(threads.map(|thread| file.thread_place(thread).is_some()), [false, true]);
    }

    #[test]
    fn neighbours_are_given_back_together() {
        assert_eq!(side_by_side(vec![7, 2, 3, 4, 9, 8]), [2 * GROUP..5 * GROUP, 7 * GROUP..10 * GROUP]);
        assert!(side_by_side(Vec::new()).is_empty());
    }
}
