//! How often code is executed: segments as the agents registered them, and what a thread's counters say of them.

use super::drain::{Drain, Process, Thread};
use super::file::SessionFile;
use super::totals::{IN_FLIGHT_OF_CODE, Totals, grown};
use crate::session::{CodePlace, Session};
use numalens_event::exact::{self, Extent, ProcessHeader, SegmentRecord, segment};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Pages that were found last are the ones that new code is on, as a rule.
const RECENT: usize = 4096;

/// Executed instructions are added up again when a thread's time has grown by one part in so many.
const POLL_SHARE: u64 = 4;

/// Instructions of one page that are executed together.
#[derive(Clone, Copy)]
pub struct Segment {
    page: Page,
    instructions: u32,
    counter: Counter,
}

/// What tells how often.
#[derive(Clone, Copy)]
enum Counter {
    Executions(u32),
    Site(u32),
    Correction(u32),
}

/// The segments of a process, from the first of its own, and where their pages are.
#[derive(Default)]
pub struct Fetches {
    segments: Vec<Segment>,
    places: FxHashMap<Page, CodePlace>,
}

impl Fetches {
    /// Those below a number, of which `inherited` are the parent's.
    pub fn below(&self, number: u32, inherited: u32) -> &[Segment] {
        let own = number.saturating_sub(inherited) as usize;
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
}

/// Reads the segments of a process that are new, with what is known of their pages now: the next poll may find those
/// gone.
///
/// # Errors
/// The session file cannot be mapped.
pub fn read(file: &SessionFile, session: &Session, extent: Extent, process: &mut Process) -> io::Result<()> {
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    let first = process.inherited_segments + process.fetches.segments.len() as u32;
    let given = header.segments.load(Acquire).min(exact::MOST_SEGMENTS);
    if given <= first {
        return Ok(());
    }
    let size = size_of::<SegmentRecord>();
    let offset = (u64::from(first) * size as u64) & !4095;
    let skipped = (u64::from(first) * size as u64 - offset) as usize;
    let map = file.extent(extent, exact::process::SEGMENTS + offset, skipped + (given - first) as usize * size)?;
    for record in map.words::<SegmentRecord>(skipped, (given - first) as usize) {
        let (word, number) = (record.instructions.load(Relaxed), record.counter.load(Relaxed));
        let counter = match word >> segment::KIND_SHIFT {
            segment::SITE => Counter::Site(number),
            segment::CORRECTION => Counter::Correction(number),
            _ => Counter::Executions(number),
        };
        let page = Page::of(record.address.load(Relaxed));
        let instructions = word & ((1 << segment::KIND_SHIFT) - 1);
        process.fetches.segments.push(Segment { page, instructions, counter });
        if !process.fetches.places.contains_key(&page) {
            let mut place = session.code_place(process.pid, page);
            let home = || process.pages.latest().take(RECENT).find(|known| known.page == page)?.class.0;
            place.home = place.home.or_else(home);
            process.fetches.places.insert(page, place);
        }
    }
    Ok(())
}

/// Instructions that a thread has executed until now, by page.
///
/// # Errors
/// The session file cannot be mapped.
fn executed<'a>(
    file: &SessionFile,
    thread: Extent,
    totals: &Totals,
    classes_log2: u32,
    segments: impl Iterator<Item = &'a Segment> + Clone,
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
    for segment in segments.clone() {
        match segment.counter {
            Counter::Executions(number) => add(segment, executions(number)),
            Counter::Site(site) => add(segment, by_site.get(site as usize).copied().unwrap_or(0)),
            Counter::Correction(_) => {}
        }
    }
    // Last: what they take back has been read by now.
    for segment in segments {
        if let Counter::Correction(number) = segment.counter {
            add(segment, executions(number));
        }
    }
    Ok(pages)
}

impl Drain {
    /// Instructions that a thread has executed until now, by page; none, if it is too early to look again: no view asks
    /// when code was executed, and it is much to add up.
    #[expect(clippy::too_many_arguments, reason = "what a look has at hand")]
    pub(super) fn executed(
        &self,
        file: &SessionFile,
        session: &Session,
        extent: Extent,
        thread: &mut Thread,
        process: &Process,
        totals: &Totals,
        settled: bool,
    ) -> io::Result<FxHashMap<Page, u64>> {
        let now = session.now_ns();
        if !settled && now <= thread.code_ns + thread.code_ns / POLL_SHARE {
            return Ok(FxHashMap::default());
        }
        thread.code_ns = now;
        let all = self.segments(process);
        let classes_log2 = file.header().classes_log2.load(Relaxed);
        executed(file, extent, totals, classes_log2, all.iter().copied().flatten())
    }

    /// Adds what a thread has executed since the last time.
    pub(super) fn count_code(
        &mut self,
        session: &mut Session,
        thread: &mut Thread,
        executed: FxHashMap<Page, u64>,
        time_ns: u64,
        settled: bool,
    ) {
        let counting = session.is_counting();
        let Some(process) = self.processes.get_mut(&thread.process) else { return };
        let in_flight = if settled { 0 } else { IN_FLIGHT_OF_CODE };
        for (page, now) in executed {
            let more = grown(thread.code.entry(page).or_default(), now, in_flight);
            if more > 0 && counting {
                let place = process.fetches.place(session, process.pid, page);
                session.count_code(process.id, thread.id, time_ns, thread.node, page, place, more);
            }
        }
    }

    /// All segments of a process: its own, its parent's until it was forked, and so on.
    fn segments<'a>(&'a self, process: &'a Process) -> Vec<&'a [Segment]> {
        let (mut all, mut of, mut end) = (Vec::new(), Some(process), u32::MAX);
        while let Some(process) = of {
            all.push(process.fetches.below(end, process.inherited_segments));
            end = process.inherited_segments;
            of = process.parent.filter(|_| end > 0).and_then(|parent| self.processes.get(&parent));
        }
        all
    }
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
