//! Which pages share their counters, so that a recording stays within its budget of memory.
//!
//! Problem: a thread counts 16 bytes for each page that it accesses, and the collector keeps as much. A program all of
//! whose threads access all of its memory needs threads x pages of these.
//!
//! Mechanism: pages that one or two threads access keep counters of their own, as these grow with the memory alone.
//! Where more do, 2 MiB are counted together, by region ([`process::regions`](super::process::Regions)), as far as they
//! are one object's and in one class, and have one main user where nodes have an object's pages in turn
//! ([`page_users`](super::page_users)). So all sums stay exact: by thread, node, home, class, object and line. What is
//! given up is which page of the region it was.
//!
//! ```text
//!   the file grows beyond the budget  ->  chunks that more threads than [`APART`] use  ->  regions
//! ```

use super::directory::Directory;
use super::file::SessionFile;
use super::known_pages::KnownPage;
use super::page_records::PageRecords;
use super::page_users::{Division, MainUser, PageUsers};
use super::process::Process;
use crate::session::{Owner, Session};
use numalens_event::exact::{self, Extent, PageCounts, PageRecord, touch};
use numalens_event::page::PAGE;
use numalens_profile::ids::{ObjectId, Page};
use numalens_profile::tables::PageRegion;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Pages of a region.
const CHUNK: u64 = 512;
/// The counters of so many threads are no reason to share them.
const APART: u16 = 2;
/// Fewer pages of one kind go on with counters of their own.
const FEWEST: usize = 8;
/// What the file may take in any case, and of the memory that programs use.
const FREE_BYTES: u64 = 64 << 20;
const PER_MILLE: u64 = 25;
/// And for each thread.
const OF_THREAD: u64 = 64 << 10;
/// What the collector keeps of a page, and of what a thread has counted there, in bytes.
const PAGE_COST: u64 = 250;
const COUNTER_COST: u64 = 150;
const COUNTER: u64 = size_of::<PageCounts>() as u64;
/// A page whose block is still being made belongs to its mapping for so long at most, as a rule.
const FRESH_NS: u64 = 20_000_000;

/// Keeps the session file within its budget, and the collector with it.
#[derive(Default)]
pub struct Sharing {
    /// What there was when pages were last to be assigned.
    latest: Extents,
    /// What the file may take before they are again, as of the latest poll.
    limit: u64,
}

/// How much there is of what pages are assigned by.
#[derive(Clone, Copy, Default)]
struct Extents {
    file_bytes: u64,
    pages: u64,
    threads: u64,
}

impl Extents {
    fn of(file: &SessionFile, directory: &Directory) -> Self {
        Extents {
            file_bytes: file.bytes(),
            pages: directory.living_pages(),
            threads: directory.running_threads() as u64,
        }
    }

    /// Whether the programs have grown by so much since that more may be crowded.
    fn are_known_better(&self, before: &Extents) -> bool {
        grown(before.pages) < self.pages || grown(before.threads) < self.threads
    }
}

/// What is worth a look at all after one at so much.
fn grown(before: u64) -> u64 {
    before + before / 16
}

impl Sharing {
    /// Whether the file has grown so much that a poll should see to it.
    pub fn is_due(&self, file: &SessionFile) -> bool {
        self.limit != 0 && file.bytes() > self.limit
    }

    /// What the file may take.
    fn budget(session: &Session, now: &Extents) -> u64 {
        let Extents { pages, threads, .. } = *now;
        // Half of what is free stays for what comes until it takes effect that pages are assigned.
        let of_file = FREE_BYTES / 2 + pages * PAGE * PER_MILLE / 1000 + threads * OF_THREAD;
        let counters = session.memory_budget().saturating_sub(pages * PAGE_COST) / COUNTER_COST;
        let of_collector = pages * size_of::<PageRecord>() as u64 + counters.max(pages) * COUNTER;
        of_file.min(of_collector)
    }

    /// Assigns pages to regions if the file grows beyond its budget.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn keep(&mut self, file: &SessionFile, session: &mut Session, directory: &mut Directory) -> io::Result<()> {
        let header = file.header();
        // What is counted by line or word is found by the numbers of pages.
        let is_by_page = header.lines.load(Relaxed) != 0 || header.cache().is_some() || session.records_every_object();
        if is_by_page {
            self.limit = u64::MAX;
            return Ok(());
        }
        let now = Extents::of(file, directory);
        let budget = Self::budget(session, &now);
        self.limit = budget.max(grown(self.latest.file_bytes));
        if now.file_bytes <= budget || !(self.is_due(file) || now.are_known_better(&self.latest)) {
            return Ok(());
        }
        let is_urgent = now.file_bytes > 2 * budget;
        self.latest = now;
        self.limit = budget.max(grown(now.file_bytes));
        for extent in directory.extents() {
            let (crowded, users) = (crowded(file, directory, extent), PageUsers::of(file, directory, extent));
            let Some(process) = directory.processes.get_mut(&extent) else { continue };
            let old_ns = process.life.attributable_until(session).saturating_sub(FRESH_NS);
            if !process.life.ended {
                let together = assign(file, extent, process, &crowded, old_ns, &users, is_urgent)?;
                session.pages_are_counted_together(together);
            }
        }
        Ok(())
    }
}

/// Numbers whose counters share a page of memory.
const TOGETHER: u32 = (PAGE / COUNTER) as u32;

/// The chunks of a process whose pages have counters of more threads than should keep them apart. Asks where threads
/// have counters, not what these have: that takes the time of all that is counted.
fn crowded(file: &SessionFile, directory: &Directory, extent: Extent) -> Vec<u64> {
    let Some(process) = directory.process(extent) else { return Vec::new() };
    let mut threads: Vec<u16> = Vec::new();
    for (thread, _) in directory.threads_of(extent).filter(|(_, thread)| !thread.ended) {
        let mut has = Vec::new();
        for (table, bytes) in [(exact::thread::PAGES, COUNTER), (exact::thread::UPDATES, 8)] {
            for part in file.written(thread, table, u64::from(process.pages.end()) * bytes) {
                let together = |at: u64| (at - table) / bytes / u64::from(TOGETHER);
                let (start, end) = (together(part.start) as usize, together(part.end) as usize);
                has.resize(has.len().max(end), false);
                has[start..end].fill(true);
            }
        }
        threads.resize(threads.len().max(has.len()), 0u16);
        threads.iter_mut().zip(has).for_each(|(threads, has)| *threads = threads.saturating_add(has.into()));
    }
    let numbers = (0..).step_by(TOGETHER as usize).zip(threads).filter(|&(_, threads)| threads > APART);
    let numbers = numbers.flat_map(|(first, _)| first..first + TOGETHER);
    let own = numbers.filter_map(|number| process.pages.own(number)).filter(|&own| process.regions.of(own).is_none());
    let known = own.filter_map(|own| process.pages.known.get(own)).filter(|known| !known.ended);
    let mut crowded: Vec<u64> = known.map(|known| known.page.0 / CHUNK).collect();
    crowded.sort_unstable();
    crowded.dedup();
    crowded
}

fn pages_of(chunk: u64) -> Range<Page> {
    Page(chunk * CHUNK)..Page((chunk + 1) * CHUNK)
}

/// Assigns the pages of chunks that began before `old_ns` to regions, those of one object, one class and, where it is
/// divided, one main user to each. `is_urgent`: also those of which that is not known. Returns the regions.
fn assign(
    file: &SessionFile,
    extent: Extent,
    process: &mut Process,
    chunks: &[u64],
    old_ns: u64,
    users: &PageUsers<'_>,
    is_urgent: bool,
) -> io::Result<Vec<PageRegion>> {
    let (mut called, mut together) = (Vec::new(), Vec::new());
    let records = PageRecords::map(file, extent, 0..process.pages.end())?;
    let division = division(process, chunks, users)?;
    for &chunk in chunks {
        for (class, pages) in kinds(&records, process, chunk, old_ns, |object, pages| {
            match division.is_divided(object) {
                Some(true) => by_user(process, users, pages),
                // There may be time to see.
                None if !is_urgent => Ok(Vec::new()),
                _ => Ok(vec![pages]),
            }
        })? {
            let Some(&(first, own)) = pages.first() else { continue };
            let region = process.regions.push(region_of(process, first, own, &pages));
            for record in PageRecords::map(file, extent, region..region + 1)?.all() {
                record.page.store(first.0, Relaxed);
                record.class.store(class, Relaxed);
                record.how.store(touch::REGION, Release);
            }
            for &(_, own) in &pages {
                let Some(record) = records.get(process.pages.number(own)) else { continue };
                record.assign(region);
                process.regions.assign(own, region);
            }
            together.push(PageRegion { process: process.id, page: first, pages: pages.len() as u32 });
            called.push(first);
        }
    }
    process.header().regions.store(process.regions.count(), Release);
    // An access to one of each region brings the agent to have all join.
    if !process.life.is_over {
        process.doubt(&called);
    }
    Ok(together)
}

/// Which objects' pages are divided among nodes, by those in chunks.
fn division(process: &Process, chunks: &[u64], users: &PageUsers<'_>) -> io::Result<Division> {
    let drawn = users.draw(process.pages.end())?;
    let mut division = Division::default();
    for &chunk in chunks {
        let pages = process.pages.live_in(pages_of(chunk)).into_iter();
        let of_one = pages.filter_map(|(_, own)| match process.pages.known[own].owner {
            Owner::One(object) => Some((object, process.pages.number(own))),
            _ => None,
        });
        division.add_chunk(&drawn, of_one);
    }
    Ok(division)
}

/// Pages of a divided object, by their main users; not those that are hardly used yet.
fn by_user(process: &Process, users: &PageUsers<'_>, pages: Kind) -> io::Result<Vec<Kind>> {
    let numbers: Vec<u32> = pages.iter().map(|&(_, own)| process.pages.number(own)).collect();
    let mut kinds: BTreeMap<MainUser, Kind> = BTreeMap::new();
    for (page, user) in pages.into_iter().zip(users.main_users(&numbers)?) {
        kinds.entry(user).or_default().push(page);
    }
    kinds.remove(&MainUser::Unknown);
    Ok(kinds.into_values().filter(|pages| pages.len() >= FEWEST).collect())
}

/// What is known of a region that has these pages, of which `first` is the first and `own` one.
fn region_of(process: &Process, first: Page, own: u32, pages: &Kind) -> KnownPage {
    let (by, _) = process.pages.known[own].filled.get();
    let filled = pages.iter().map(|&(_, own)| process.pages.known[own].filled.get()).filter(|(tid, _)| *tid == by);
    let filled = filled.fold([0; 2], |all, (_, one)| [0, 1].map(|kind| all[kind] + one[kind]));
    process.pages.known[own].as_region(first, filled)
}

/// Pages that may share counters: which they are, and which of the process's own.
type Kind = Vec<(Page, u32)>;

/// The pages of a chunk that began before `old_ns`, are one object's and in one class, by these, and as `divide`
/// divides them: with the class's number.
fn kinds(
    records: &PageRecords,
    process: &Process,
    chunk: u64,
    old_ns: u64,
    divide: impl Fn(ObjectId, Kind) -> io::Result<Vec<Kind>>,
) -> io::Result<Vec<(u32, Kind)>> {
    let mut kinds: FxHashMap<(u32, ObjectId), Kind> = FxHashMap::default();
    for (page, own) in process.pages.live_in(pages_of(chunk)) {
        let (known, number) = (&process.pages.known[own], process.pages.number(own));
        let Owner::One(object) = known.owner else { continue };
        // What is still to be found out about it changes its class.
        let Some(record) = records.get(number) else { continue };
        let is_known = record.open.load(Acquire) == 0
            && process.regions.of(own).is_none()
            && !known.ended
            && known.begin_ns < old_ns;
        if is_known && known.class.0.is_some() && !process.shared.knows(number) {
            kinds.entry((record.class.load(Relaxed), object)).or_default().push((page, own));
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().filter(|(_, pages)| pages.len() >= FEWEST).collect();
    kinds.sort_unstable_by_key(|(kind, _)| *kind);
    let mut divided = Vec::new();
    for ((class, object), pages) in kinds {
        divided.extend(divide(object, pages)?.into_iter().map(|pages| (class, pages)));
    }
    Ok(divided)
}
