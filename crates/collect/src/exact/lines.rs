//! Cache lines and communication: what threads have counted of them becomes rows of the profile once nobody counts
//! there any more.
//!
//! That is when a process is over, or when pages with neighbouring numbers have all gone. Before, nobody reads them:
//! they are many, and no view asks when a line was accessed. Lines that one thread alone has accessed are reported
//! together, page by page. So are others, once there are very many rows.

use super::directory::Directory;
use super::file::SessionFile;
use super::release_memory::discard_lines;
use crate::session::Session;
use numalens_event::exact::{self, Extent, LINES_OF_PAGE, LineCounts};
use numalens_event::page::PAGE;
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_profile::tables::{CacheLine, LineCommunication};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// Bytes of a page's counts.
const PAGE_BYTES: u64 = LINES_OF_PAGE * size_of::<LineCounts>() as u64;
/// Pages that are looked at together.
const CHUNK: u32 = 1024;
const _: () = assert!((CHUNK as u64 * PAGE_BYTES).is_multiple_of(PAGE));
/// Rows up to which every line that several threads accessed has its own.
const MANY_ROWS: u64 = 1 << 20;
/// Rows up to which those have that threads often took from each other: so many times.
const MOST_ROWS: u64 = 1 << 22;
const OFTEN: u64 = 16;
/// Rows up to which it is looked up what lies in their lines.
const NAMED: u64 = 1 << 16;
/// Bytes of a word of [`LineCounts::words`].
const WORD: u64 = 4;

/// What a thread has counted of a line, in the order of [`LineCounts`].
#[derive(Clone, Copy, Default)]
struct Counts([u64; size_of::<LineCounts>() / 8]);

impl Counts {
    fn contended(&self) -> u64 {
        let [_, _, _, _, true_sharing, false_sharing, ..] = self.0;
        true_sharing + false_sharing
    }

    /// Where in the line the first word is that was accessed.
    fn first_word(&self) -> u64 {
        u64::from((self.0[6] as u16).trailing_zeros() % 16) * WORD
    }

    fn add(&mut self, other: &Counts) {
        let (words, counts) = (self.0[6] | other.0[6], self.0);
        self.0 = std::array::from_fn(|at| counts[at].wrapping_add(other.0[at]));
        self.0[6] = words;
    }
}

/// The lines of some pages, by the page's number and the line's: who accessed them.
type Lines = BTreeMap<(u32, u32), Vec<(ThreadId, Counts)>>;

/// Rows of cache lines.
#[derive(Default)]
pub struct LineReports {
    /// How many so far.
    rows: u64,
}

impl LineReports {
    /// Reports the cache lines of pages of a process, by their numbers, and gives their counters back. Nobody counts
    /// there any more.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn report(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        directory: &Directory,
        of: Extent,
        pages: Range<u32>,
    ) -> io::Result<()> {
        let pages = pages.start..pages.end.min(exact::MOST_LINE_PAGES);
        if pages.is_empty() {
            return Ok(());
        }
        // All at once: to find the end of what was written, the kernel walks over it.
        let threads = directory.threads_of(of);
        let written: Vec<(Extent, ThreadId, Vec<Range<u64>>)> =
            threads.map(|(extent, thread)| (extent, thread.id, written(file, extent, &pages))).collect();
        let chunk = |at: u64| ((at - exact::thread::LINES) / PAGE_BYTES) as u32 / CHUNK;
        let parts = written.iter().flat_map(|(.., parts)| parts);
        let chunks: BTreeSet<u32> = parts.flat_map(|part| chunk(part.start)..=chunk(part.end - 1)).collect();
        for chunk in chunks {
            let part = pages.start.max(chunk * CHUNK)..pages.end.min((chunk + 1) * CHUNK);
            let mut lines = Lines::new();
            for (extent, thread, parts) in &written {
                read(file, *extent, *thread, &within(parts, &part), &mut lines)?;
            }
            self.add(session, directory, of, lines);
        }
        for (extent, ..) in &written {
            discard_lines(file, *extent, &pages);
        }
        Ok(())
    }

    fn add(&mut self, session: &mut Session, directory: &Directory, of: Extent, lines: Lines) {
        let Some(process) = directory.process(of) else { return };
        let mut rows: Vec<CacheLine> = Vec::new();
        let mut together: BTreeMap<(u32, ThreadId), (u32, Counts)> = BTreeMap::new();
        let mut merged = false;
        let now = session.now_ns();
        for ((number, line), users) in lines {
            let reported = self.rows + rows.len() as u64;
            let contended: u64 = users.iter().map(|(_, counts)| counts.contended()).sum();
            let by_itself = users.len() > 1
                && (reported < MANY_ROWS || reported < MOST_ROWS && contended >= OFTEN * users.len() as u64);
            merged |= users.len() > 1 && !by_itself;
            let page = directory.known_page(process, number).map(|known| known.page);
            for (thread, counts) in users {
                match page {
                    Some(page) if by_itself => {
                        let first = page.address() + u64::from(line) * exact::LINE_BYTES + counts.first_word();
                        let object =
                            if reported < NAMED { session.holder_of(process.identity.pid, first, now) } else { None };
                        let row = row(process.id, thread, page.0, (Some(line), 1), &counts);
                        rows.push(CacheLine { object, ..row });
                    }
                    _ => {
                        let (lines, sum) = together.entry((number, thread)).or_default();
                        *lines += 1;
                        sum.add(&counts);
                    }
                }
            }
        }
        for ((number, thread), (lines, counts)) in together {
            // One that was killed while it was being filled has no address.
            let page = directory.known_page(process, number).map_or(0, |known| known.page.0);
            rows.push(row(process.id, thread, page, (None, lines), &counts));
        }
        self.rows += rows.len() as u64;
        if merged {
            session.coarsened("cache_lines: lines that several threads accessed were told together, page by page, as there were very many");
        }
        session.add_cache_lines(rows);
    }

    /// Reports which threads of a process accessed cache lines after which others.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn report_communication(
        &self,
        file: &SessionFile,
        session: &mut Session,
        directory: &Directory,
        of: Extent,
    ) -> io::Result<()> {
        let Some(process) = directory.process(of) else { return Ok(()) };
        let mut pairs: BTreeMap<(ThreadId, ThreadId), u64> = BTreeMap::new();
        let by_index = directory.thread_indices(of);
        for (extent, thread) in directory.threads_of(of) {
            let (from, bytes) = (exact::thread::COMMUNICATION, exact::thread::COMMUNICATION_BYTES);
            for part in file.written(extent, from, bytes) {
                let words = file.read(extent, &part)?;
                for (index, count) in ((part.start - from) / 8..).zip(words).filter(|&(_, count)| count != 0) {
                    if let Some(&other) = by_index.get(&(index as u32)) {
                        *pairs.entry((thread.id, other)).or_default() += count;
                    }
                }
            }
        }
        let rows = pairs.into_iter().map(|((thread, other), accesses)| LineCommunication {
            process: process.id,
            thread,
            other,
            accesses,
        });
        session.add_line_communication(rows.collect());
        Ok(())
    }
}

/// `line`: which one; and how many lines the row stands for.
fn row(
    process: ProcessId,
    thread: ThreadId,
    page: u64,
    (line, lines): (Option<u32>, u32),
    counts: &Counts,
) -> CacheLine {
    let [reads, writes, transitions, node_transitions, true_sharing, false_sharing, words, _] = counts.0;
    // Of several lines they say nothing.
    let words = if line.is_some() { words } else { 0 };
    CacheLine {
        process,
        thread,
        page: numalens_profile::ids::Page(page),
        line,
        lines,
        object: None,
        reads,
        writes,
        words_accessed: words as u32 & 0xffff,
        words_written: (words >> 16) as u32 & 0xffff,
        transitions,
        node_transitions,
        true_sharing,
        false_sharing,
    }
}

/// Where a thread's counts of the lines of pages stand.
fn place(pages: &Range<u32>) -> Range<u64> {
    let at = |page: u32| exact::thread::LINES + u64::from(page) * PAGE_BYTES;
    at(pages.start)..at(pages.end)
}

/// What a thread has written of the lines of pages.
fn written(file: &SessionFile, extent: Extent, pages: &Range<u32>) -> Vec<Range<u64>> {
    let place = place(pages);
    file.written(extent, place.start, place.end - place.start).collect()
}

/// Those of `parts`, in order, that are of some pages.
fn within(parts: &[Range<u64>], pages: &Range<u32>) -> Vec<Range<u64>> {
    let place = place(pages);
    let first = parts.partition_point(|part| part.end <= place.start);
    let here = parts[first..].iter().take_while(|part| part.start < place.end);
    here.map(|part| part.start.max(place.start)..part.end.min(place.end)).collect()
}

fn read(
    file: &SessionFile,
    extent: Extent,
    thread: ThreadId,
    parts: &[Range<u64>],
    lines: &mut Lines,
) -> io::Result<()> {
    const SIZE: u64 = size_of::<LineCounts>() as u64;
    const WORDS: usize = SIZE as usize / 8;
    for part in parts {
        // Memory begins and ends within records.
        let first = (part.start - exact::thread::LINES) / SIZE;
        let end = (part.end - exact::thread::LINES).div_ceil(SIZE);
        let words = file.read(extent, &(exact::thread::LINES + first * SIZE..exact::thread::LINES + end * SIZE))?;
        let (records, _) = words.as_chunks::<WORDS>();
        for (number, counts) in (first..).zip(records).filter(|(_, counts)| **counts != [0; WORDS]) {
            let (page, line) = ((number / LINES_OF_PAGE) as u32, (number % LINES_OF_PAGE) as u32);
            let users = lines.entry((page, line)).or_default();
            match users.iter_mut().find(|(known, _)| *known == thread) {
                Some((_, sum)) => sum.add(&Counts(*counts)),
                None => users.push((thread, Counts(*counts))),
            }
        }
    }
    Ok(())
}
