//! What is pending in the direct tables of a thread: see `numalens_event::exact`.

use super::file::SessionFile;
use numalens_event::exact::thread::{DIRECT, DIRECT_COUNTERS, DIRECT_COUNTERS_BYTES, DIRECT_WORDS, DIRECT_WORDS_BYTES};
use numalens_event::exact::{self, DirectHeader, Extent, direct};
use numalens_event::page::{self, PAGE};
use numalens_profile::ids::Page;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A direct table that has counted something.
pub struct Pending {
    /// The row that stands for its sites.
    pub row: u32,
    pub place: Place,
    /// By page.
    pub counts: Vec<Count>,
}

/// Where the counters of a direct table are.
#[derive(Clone, Debug)]
pub struct Place {
    thread: Extent,
    /// The address of the first page that has one, and the addresses of those whose counters may have begun.
    base: u64,
    begun: Range<u64>,
    /// Where they begin in the thread's extent.
    counters: u64,
}

impl Place {
    /// Has the next access to each of `pages` that the direct table would count come to the agent. The thread may run.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn ask(&self, file: &SessionFile, pages: &[Page]) -> io::Result<()> {
        let mut pages = pages.iter().map(|page| page.address()).filter(|page| self.begun.contains(page)).peekable();
        if pages.peek().is_none() {
            return Ok(());
        }
        let at = |page: u64| self.counters + (page - self.base) / PAGE * 4;
        let first = page::begin(at(self.begun.start));
        let map = file.extent(self.thread, first, (at(self.begun.end) - first) as usize)?;
        for page in pages {
            direct::ask(&map.words::<AtomicU32>((at(page) - first) as usize, 1)[0]);
        }
        Ok(())
    }
}

/// Executions on a page.
pub struct Count {
    /// The page's number.
    pub page: u64,
    /// Where the column of its class begins among the site counters.
    pub column: u64,
    pub executions: u64,
}

/// The direct tables of a thread. It may run: what it changes at this moment is left out, and is found in the flat
/// tables by the next poll.
///
/// # Errors
/// The session file cannot be mapped.
pub fn pending(file: &SessionFile, thread: Extent) -> io::Result<Vec<Pending>> {
    if file.written(thread, DIRECT, DIRECT_COUNTERS - DIRECT).next().is_none() {
        return Ok(Vec::new());
    }
    let map = file.extent(thread, DIRECT, (DIRECT_COUNTERS - DIRECT) as usize)?;
    let mut all = Vec::new();
    for (number, header) in (0..).zip(map.words::<DirectHeader>(0, exact::MOST_DIRECT as usize)) {
        let has_begun = [&header.reads, &header.writes].iter().any(|count| count.load(Acquire) != 0);
        if !has_begun {
            continue;
        }
        let counters = DIRECT_COUNTERS + number * DIRECT_COUNTERS_BYTES;
        let mut counts = counts(file, thread, counters, DIRECT_WORDS + number * DIRECT_WORDS_BYTES)?;
        // Classes side by side: there are few.
        counts.sort_unstable_by_key(|count| count.column);
        if !counts.is_empty() {
            let (base, begun) = header.begun();
            let place = Place { thread, base, begun, counters };
            all.push(Pending { row: header.row.load(Acquire), place, counts });
        }
    }
    Ok(all)
}

/// What the counters of a direct table have, which are at this offset of the thread's extent; at the other one stands
/// what they count for.
fn counts(file: &SessionFile, thread: Extent, counters: u64, words: u64) -> io::Result<Vec<Count>> {
    let mut found = Vec::new();
    for range in file.written(thread, counters, DIRECT_COUNTERS_BYTES) {
        let map = file.extent(thread, range.start, (range.end - range.start) as usize)?;
        let first = (range.start - counters) / 4;
        let words = file.extent(thread, words + first * 8, map.len() * 2)?;
        let count = map.len() / 4;
        let pairs = map.words::<AtomicU32>(0, count).iter().zip(words.words::<AtomicU64>(0, count));
        for (counter, word) in pairs {
            if counter.load(Acquire) == 0 {
                continue;
            }
            let before = word.load(Acquire);
            let executions = u64::from(direct::count_of(counter.load(Acquire)));
            if executions != 0 && word.load(Acquire) == before {
                let (column, page) = exact::column_and_page(before);
                found.push(Count { page, column, executions });
            }
        }
    }
    Ok(found)
}
