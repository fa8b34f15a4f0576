//! How often code is executed: segments as the agents registered them, and what a thread's counters say of them.

use super::file::SessionFile;
use super::known_pages::KnownPages;
use super::totals::Totals;
use crate::session::{CodePlace, Session};
use numalens_event::exact::{self, Extent, ProcessHeader, SegmentRecord, segment};
use numalens_event::page;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Pages that were found last are the ones that new code is on, as a rule.
const RECENT: usize = 4096;

/// Instructions of one page that are executed together.
#[derive(Clone, Copy)]
pub struct Segment {
    page: Page,
    instructions: u32,
    counter: Counter,
}

/// What says how often.
#[derive(Clone, Copy)]
enum Counter {
    Executions(u32),
    Site(u32),
    Correction(u32),
}

/// The segments of a process, from the first of its own, and where their pages are.
#[derive(Default)]
pub struct Fetches {
    /// Numbers below are its parent's.
    inherited: u32,
    segments: Vec<Segment>,
    places: FxHashMap<Page, CodePlace>,
}

impl Fetches {
    /// Of a process that has inherited so many.
    pub fn new(inherited: u32) -> Self {
        Fetches { inherited, ..Fetches::default() }
    }

    /// How many are its parent's.
    pub fn inherited(&self) -> u32 {
        self.inherited
    }

    /// Its own below a number.
    pub fn below(&self, number: u32) -> &[Segment] {
        let own = number.saturating_sub(self.inherited) as usize;
        &self.segments[..own.min(self.segments.len())]
    }

    /// Where a page of code is, or was last.
    pub fn place(&mut self, session: &Session, pid: i32, page: Page) -> CodePlace {
        let now = session.code_place(pid, page);
        let known = self.places.entry(page).or_insert(now);
        // What is gone was where it was.
        known.module = known.module.or(now.module);
        known.home = now.home.or(known.home);
        *known
    }

    /// Reads the segments that are new, with what is known of their pages now: the next poll may find those gone.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read(
        &mut self,
        file: &SessionFile,
        session: &Session,
        extent: Extent,
        header: &ProcessHeader,
        pid: i32,
        pages: &KnownPages,
    ) -> io::Result<()> {
        let first = self.inherited + self.segments.len() as u32;
        let given = header.segments.load(Acquire).min(exact::MOST_SEGMENTS);
        if given <= first {
            return Ok(());
        }
        let size = size_of::<SegmentRecord>();
        let offset = page::begin(u64::from(first) * size as u64);
        let skipped = (u64::from(first) * size as u64 - offset) as usize;
        let map = file.extent(extent, exact::process::SEGMENTS + offset, skipped + (given - first) as usize * size)?;
        for record in map.words::<SegmentRecord>(skipped, (given - first) as usize) {
            let segment = Segment::from(record);
            self.segments.push(segment);
            if let Entry::Vacant(place) = self.places.entry(segment.page) {
                let mut found = session.code_place(pid, segment.page);
                let home = || pages.latest().take(RECENT).find(|known| known.page == segment.page)?.class.0;
                found.home = found.home.or_else(home);
                place.insert(found);
            }
        }
        Ok(())
    }
}

impl From<&SegmentRecord> for Segment {
    fn from(record: &SegmentRecord) -> Self {
        let (word, number) = (record.instructions.load(Relaxed), record.counter.load(Relaxed));
        let counter = match word >> segment::KIND_SHIFT {
            segment::SITE => Counter::Site(number),
            segment::CORRECTION => Counter::Correction(number),
            _ => Counter::Executions(number),
        };
        let page = Page::of(record.address.load(Relaxed));
        Segment { page, instructions: word & ((1 << segment::KIND_SHIFT) - 1), counter }
    }
}

/// Instructions that a thread has executed until now, by page.
///
/// # Errors
/// The session file cannot be mapped.
pub fn executed(
    file: &SessionFile,
    thread: Extent,
    totals: &Totals,
    classes_log2: u32,
    segments: &[&[Segment]],
) -> io::Result<FxHashMap<Page, u64>> {
    let last = totals.sites.last().map(|(at, _)| at >> classes_log2);
    let mut by_site = vec![0u64; last.map_or(0, |last| last as usize + 1)];
    for &(at, count) in &totals.sites {
        let total = &mut by_site[(at >> classes_log2) as usize];
        *total = total.wrapping_add(count);
    }
    let mut pages: FxHashMap<Page, u64> = FxHashMap::default();
    let mut add = |segment: &Segment, runs: u64| {
        if runs != 0 {
            let total = pages.entry(segment.page).or_default();
            *total = total.wrapping_add(runs.wrapping_mul(segment.instructions.into()));
        }
    };
    let executions = file.executions(thread)?;
    let executions = |number: u32| executions.as_ref().and_then(|executions| executions.get(number)).unwrap_or(0);
    for segment in segments.iter().copied().flatten() {
        match segment.counter {
            Counter::Executions(number) => add(segment, executions(number)),
            Counter::Site(site) => add(segment, by_site.get(site as usize).copied().unwrap_or(0)),
            Counter::Correction(_) => {}
        }
    }
    // Last: what they take back has been read by now.
    for segment in segments.iter().copied().flatten() {
        if let Counter::Correction(number) = segment.counter {
            add(segment, executions(number));
        }
    }
    Ok(pages)
}

/// The execution counters of a thread, as far as they are in use.
pub struct Executions {
    map: super::file::Shared,
    first: u64,
}

impl Executions {
    /// The counter of a number; none: it has never been used.
    pub fn counter(&self, number: u32) -> Option<&AtomicU64> {
        let at = u64::from(number).checked_sub(self.first)?;
        self.map.words::<AtomicU64>(0, self.map.len() / 8).get(at as usize)
    }

    fn get(&self, number: u32) -> Option<u64> {
        self.counter(number).map(|counter| counter.load(Acquire))
    }
}

impl SessionFile {
    /// The execution counters of a thread.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn executions(&self, thread: Extent) -> io::Result<Option<Executions>> {
        let mut written = self.written(thread, exact::thread::EXECUTIONS, exact::thread::EXECUTIONS_BYTES);
        let Some(first) = written.next() else { return Ok(None) };
        let end = written.last().map_or(first.end, |last| last.end);
        let map = self.extent(thread, first.start, (end - first.start) as usize)?;
        Ok(Some(Executions { map, first: (first.start - exact::thread::EXECUTIONS) / 8 }))
    }
}
