//! What a thread has counted until now: the flat tables, and what is pending in its last pages and direct tables.

use super::by_number::ByNumber;
use super::direct::{self, Count};
use super::file::SessionFile;
use numalens_aggregate::settle;
use numalens_event::exact::{self, Extent, LastPageRecord, PageCounts, site};
use numalens_profile::ids::SiteId;
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

/// What numbers in a thread's tables stand for.
pub trait Lookup {
    /// A row of site counters.
    fn row(&self, number: u32) -> Option<Row>;
    /// A last page.
    fn last_page(&self, number: u32) -> Option<LastPageSlot>;
    /// Under which number what stands for a page is to be counted.
    fn counted_in(&self, page: u32) -> u32;
    /// A last page is the one that begins at `address`; its record is at `offset` of the thread's extent.
    fn is_on(&self, address: u64, offset: u64);
    /// A direct table has counted; that is where its counters are.
    fn direct(&self, place: direct::Place);
}

/// The sites that a row stands for.
fn members(known: &impl Lookup, row: u32) -> Range<u32> {
    match known.row(row) {
        Some(Row::Several(members)) => members,
        Some(Row::Site(..)) => row..row + 1,
        None => 0..0,
    }
}

/// What a row of site counters counts.
#[derive(Clone)]
pub enum Row {
    /// A site, with its flags.
    Site(SiteId, u32),
    /// One access of each of these.
    Several(Range<u32>),
}

/// A group of sites that is counted by executions while it keeps to a page.
#[derive(Clone, Copy)]
pub struct LastPageSlot {
    /// The row that stands for its sites.
    pub row: u32,
    /// The number of its execution counter.
    pub executions: u32,
}

/// What a thread has counted until now: by site and class, and by page number.
#[derive(Default)]
pub struct Totals {
    /// At `site << classes_log2 | class`, in this order.
    pub sites: Vec<(u64, u64)>,
    /// Reads and writes.
    pub pages: ByNumber<[u64; 2]>,
    /// The same of those that missed the thread's private cache.
    pub site_misses: Vec<(u64, u64)>,
    pub page_misses: ByNumber<[u64; 2]>,
    /// Executions that these may have too many, if the thread runs: see [`IN_FLIGHT_OF_SITE`].
    pub in_flight: u64,
}

impl Totals {
    /// Reads the tables of a thread, of which so many sites may be found.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read(
        file: &SessionFile,
        extent: Extent,
        classes_log2: u32,
        known: &impl Lookup,
        sites: usize,
    ) -> io::Result<Self> {
        let mut totals = Totals::default();
        totals.sites.reserve(sites);
        let taken_back = || file.entry(extent).map_or(0, |entry| entry.taken_back.load(Acquire));
        let before = taken_back();
        let mut reader = Reader { file, extent, classes_log2, known, totals };
        // Before the accesses, which are no fewer.
        if file.header().cache().is_some() {
            reader.add_misses()?;
        }
        // In this order: see `numalens_event::exact`.
        reader.add_tables()?;
        reader.add_last_pages()?;
        reader.add_direct()?;
        let mut totals = reader.totals;
        // The execution that runs now, and those that broke off meanwhile: they may have been read before they were
        // taken back.
        totals.in_flight = 1 + u64::from(taken_back().wrapping_sub(before));
        // Tables are read class by class, so these are in order by pieces.
        settle(&mut totals.sites, u64::wrapping_add);
        settle(&mut totals.site_misses, u64::wrapping_add);
        Ok(totals)
    }
}

impl Totals {
    /// Adds what was counted in regions and does not stand in the file any more.
    pub fn add_vacated(&mut self, counts: impl Iterator<Item = (u32, [u64; 2])>) {
        for (region, counts) in counts {
            let total = self.pages.at(region);
            *total = [0, 1].map(|kind| total[kind].wrapping_add(counts[kind]));
        }
    }
}

/// A thread whose tables are being added up.
struct Reader<'a, L> {
    file: &'a SessionFile,
    extent: Extent,
    classes_log2: u32,
    known: &'a L,
    totals: Totals,
}

impl<L: Lookup> Reader<'_, L> {
    fn add_misses(&mut self) -> io::Result<()> {
        const { assert!(size_of::<PageCounts>() == 16) };
        let &mut Self { file, extent, classes_log2, .. } = self;
        let (sites, pages) = (exact::thread::MISSES, exact::thread::MISSES + exact::thread::SITES_BYTES);
        for part in file.written(extent, sites, exact::thread::SITES_BYTES) {
            let words = file.read(extent, &part)?;
            let counts = ((part.start - sites) / 8..).zip(words).filter(|(_, count)| *count != 0);
            let key = |at| {
                let (site, class) = exact::site_and_class(at, classes_log2);
                key(site, class, classes_log2)
            };
            self.totals.site_misses.extend(counts.map(|(at, count)| (key(at), count)));
        }
        for part in file.written(extent, pages, exact::thread::PAGES_BYTES) {
            let words = file.read(extent, &part)?;
            let counts = words.as_chunks::<2>().0.iter().copied();
            let counts = ((part.start - pages) / 16..).zip(counts).filter(|(_, counts)| *counts != [0, 0]);
            counts.for_each(|(number, counts)| *self.totals.page_misses.at(number as u32) = counts);
        }
        Ok(())
    }

    /// Adds up what stands in the flat tables.
    fn add_tables(&mut self) -> io::Result<()> {
        let &mut Self { file, extent, classes_log2, known, .. } = self;
        each_counter(file, extent, exact::thread::SITES, exact::thread::SITES_BYTES, |at, count| {
            let (row, class) = exact::site_and_class(at, classes_log2);
            self.add_row(members(known, row), class, count);
        })?;
        for range in file.written(extent, exact::thread::PAGES, exact::thread::PAGES_BYTES) {
            let map = file.extent(extent, range.start, (range.end - range.start) as usize)?;
            let size = size_of::<PageCounts>() as u64;
            let first = (range.start - exact::thread::PAGES) / size;
            // Those of a region mostly stand side by side.
            let (mut counted_in, mut sum) = (0, [0; 2]);
            for (at, counts) in (first..).zip(map.words::<PageCounts>(0, map.len() / size as usize)) {
                let now = [counts.reads.load(Acquire), counts.writes.load(Acquire)];
                if now == [0, 0] {
                    continue;
                }
                let number = self.known.counted_in(at as u32);
                if number != counted_in {
                    self.add(counted_in, std::mem::take(&mut sum));
                    counted_in = number;
                }
                sum = [0, 1].map(|kind| sum[kind].wrapping_add(now[kind]));
            }
            self.add(counted_in, sum);
        }
        each_counter(file, extent, exact::thread::UPDATES, exact::thread::UPDATES_BYTES, |at, count| {
            self.add_page(at, [count; 2]);
        })
    }

    /// Adds what is pending in last pages.
    fn add_last_pages(&mut self) -> io::Result<()> {
        let &mut Self { file, extent, classes_log2, known, .. } = self;
        let Some(executions) = file.executions(extent)? else { return Ok(()) };
        for range in file.written(extent, exact::thread::LAST_PAGES, exact::thread::LAST_PAGES_BYTES) {
            let map = file.extent(extent, range.start, (range.end - range.start) as usize)?;
            let size = size_of::<LastPageRecord>();
            let number = (range.start - exact::thread::LAST_PAGES) / size as u64;
            for (number, record) in (number..).zip(map.words::<LastPageRecord>(0, map.len() / size)) {
                if record.entry.load(Acquire) as u32 == 0 {
                    continue;
                }
                let Some(last_page) = known.last_page(number as u32) else { continue };
                let address = record.page.load(Acquire);
                if address != 0 {
                    known.is_on(address, exact::thread::LAST_PAGES + number * size as u64);
                }
                let counter = executions.counter(last_page.executions);
                let Some((entry, pending)) = counter.and_then(|counter| pending(record, counter)) else { continue };
                let members = members(known, last_page.row);
                // That of a megamorphic group was counted.
                let (column, page) = exact::column_and_page(entry);
                if page != 0 {
                    self.add_page(page, kinds(known, members.clone()).map(|kind| pending.wrapping_mul(kind)));
                }
                let (_, class) = exact::site_and_class(column, classes_log2);
                self.add_row(members, class, pending);
            }
        }
        Ok(())
    }

    /// Adds what is pending in direct tables.
    fn add_direct(&mut self) -> io::Result<()> {
        let &mut Self { file, extent, classes_log2, known, .. } = self;
        for direct in direct::pending(file, extent)? {
            known.direct(direct.place);
            let members = members(known, direct.row);
            for run in direct.counts.chunk_by(|one, next| one.column == next.column) {
                let (_, class) = exact::site_and_class(run[0].column, classes_log2);
                let executions = run.iter().fold(0u64, |sum, one| sum.wrapping_add(one.executions));
                self.add_row(members.clone(), class, executions);
            }
            let kinds = kinds(known, members);
            for Count { page, executions, .. } in direct.counts {
                self.add_page(page, kinds.map(|kind| executions.wrapping_mul(kind)));
            }
        }
        Ok(())
    }

    fn add_row(&mut self, members: Range<u32>, class: u32, count: u64) {
        for member in members {
            self.totals.sites.push((key(member, class, self.classes_log2), count));
        }
    }

    fn add_page(&mut self, page: u64, counts: [u64; 2]) {
        self.add(self.known.counted_in(page as u32), counts);
    }

    /// Adds to a number that is counted as itself.
    fn add(&mut self, number: u32, counts: [u64; 2]) {
        if counts != [0, 0] {
            let total = self.totals.pages.at(number);
            *total = [0, 1].map(|kind| total[kind].wrapping_add(counts[kind]));
        }
    }
}

/// How many of the members of a row read, and write.
fn kinds(known: &impl Lookup, members: Range<u32>) -> [u64; 2] {
    let flags = members.map(|member| match known.row(member) {
        Some(Row::Site(_, flags)) => flags,
        _ => 0,
    });
    flags.fold([0; 2], |sum, flags| {
        [sum[0] + u64::from(flags & site::READ != 0), sum[1] + u64::from(flags & site::WRITE != 0)]
    })
}

/// Calls `found` for the counters of a table of 64-bit words that are not 0: with their places in it.
fn each_counter(
    file: &SessionFile,
    extent: Extent,
    table: u64,
    bytes: u64,
    mut found: impl FnMut(u64, u64),
) -> io::Result<()> {
    for range in file.written(extent, table, bytes) {
        let map = file.extent(extent, range.start, (range.end - range.start) as usize)?;
        for (at, counter) in ((range.start - table) / 8..).zip(map.words::<AtomicU64>(0, map.len() / 8)) {
            let count = counter.load(Acquire);
            if count != 0 {
                found(at, count);
            }
        }
    }
    Ok(())
}

/// Counts of pages as they stand in a thread's flat tables, by their numbers.
///
/// # Errors
/// The session file cannot be read.
pub fn flat_counts(file: &SessionFile, thread: Extent, pages: &Range<u32>) -> io::Result<Vec<(u32, [u64; 2])>> {
    let part = |table: u64, bytes: u64| table + u64::from(pages.start) * bytes..table + u64::from(pages.end) * bytes;
    let both = file.read(thread, &part(exact::thread::PAGES, size_of::<PageCounts>() as u64))?;
    let updates = file.read(thread, &part(exact::thread::UPDATES, 8))?;
    let counts = both.as_chunks::<2>().0.iter().zip(updates);
    let counts = counts.map(|(both, updates)| both.map(|count| count.wrapping_add(updates)));
    Ok((pages.start..).zip(counts).filter(|(_, counts)| *counts != [0, 0]).collect())
}

/// Where [`Totals::sites`] has the count of a site and class.
fn key(site: u32, class: u32, classes_log2: u32) -> u64 {
    u64::from(site) << classes_log2 | u64::from(class)
}

/// The entry of a last page and the executions that are pending in it; `None` while it changes.
fn pending(record: &LastPageRecord, executions: &AtomicU64) -> Option<(u64, u64)> {
    let before = (record.entry.load(Acquire), record.since.load(Acquire));
    let executions = executions.load(Acquire);
    let after = (record.since.load(Acquire), record.entry.load(Acquire));
    let (entry, since) = before;
    (entry as u32 != 0 && (since, entry) == after).then(|| (entry, executions.wrapping_sub(since)))
}

/// Accesses of a site, and of a page, that a running thread may have counted before it makes them, and may take back:
/// those of one execution of a fragment, of which there is one at a time, but several may break off while the
/// counters are read ([`Totals::in_flight`]). They are reported with the next poll that finds more.
pub const IN_FLIGHT_OF_SITE: u64 = 1;
/// The same of a page.
pub const IN_FLIGHT_OF_PAGE: u64 = 512;

/// Instructions of a page that a running thread may have counted and not executed: a few executions that broke off and
/// are not corrected yet.
pub const IN_FLIGHT_OF_CODE: u64 = 4096;

/// How much a counter has grown, apart from what is in flight. It may be found smaller than before while the thread
/// changes it: then it has not grown, until it has.
pub fn grown(before: &mut u64, now: u64, in_flight: u64) -> u64 {
    let now = if now > i64::MAX as u64 { 0 } else { now.saturating_sub(in_flight) };
    let more = now.saturating_sub(*before);
    *before += more;
    more
}
