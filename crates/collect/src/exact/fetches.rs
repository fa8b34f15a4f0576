//! How often code is executed: stretches as the agents registered them, and what a thread's counters say of them.

use super::drain::{Drain, Process, Thread};
use super::file::SessionFile;
use super::totals::{IN_FLIGHT_OF_CODE, Totals, grown};
use crate::sample::session::{CodePlace, Session};
use numalens_event::exact::{self, Extent, ProcessHeader, StretchRecord, stretch};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Pages that were found last are the ones that new code is on, as a rule.
const RECENT: usize = 4096;

/// Executed instructions are added up again when a thread's time has grown by one part in so many.
const LOOK_SHARE: u64 = 4;

/// Instructions of one page that are executed together.
#[derive(Clone, Copy)]
pub struct Stretch {
    page: Page,
    instructions: u32,
    counter: Counter,
}

/// What tells how often.
#[derive(Clone, Copy)]
enum Counter {
    Passes(u32),
    Site(u32),
    Correction(u32),
}

/// The stretches of a process, from the first of its own, and where their pages are.
#[derive(Default)]
pub struct Fetches {
    stretches: Vec<Stretch>,
    places: FxHashMap<Page, CodePlace>,
}

impl Fetches {
    /// Those below a number, of which `inherited` are the parent's.
    pub fn below(&self, number: u32, inherited: u32) -> &[Stretch] {
        let own = number.saturating_sub(inherited) as usize;
        &self.stretches[..own.min(self.stretches.len())]
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

/// Reads the stretches of a process that are new, with what is known of their pages now: the next look may find those gone.
///
/// # Errors
/// The session file cannot be mapped.
pub fn read(file: &SessionFile, session: &Session, extent: Extent, process: &mut Process) -> io::Result<()> {
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    let first = process.inherited_stretches + process.fetches.stretches.len() as u32;
    let given = header.stretches.load(Acquire).min(exact::MOST_STRETCHES);
    if given <= first {
        return Ok(());
    }
    let size = size_of::<StretchRecord>();
    let offset = (u64::from(first) * size as u64) & !4095;
    let skipped = (u64::from(first) * size as u64 - offset) as usize;
    let map = file.extent(extent, exact::process::STRETCHES + offset, skipped + (given - first) as usize * size)?;
    for record in map.words::<StretchRecord>(skipped, (given - first) as usize) {
        let (word, number) = (record.instructions.load(Relaxed), record.counter.load(Relaxed));
        let counter = match word >> stretch::KIND_SHIFT {
            stretch::SITE => Counter::Site(number),
            stretch::CORRECTION => Counter::Correction(number),
            _ => Counter::Passes(number),
        };
        let page = Page::of(record.address.load(Relaxed));
        let instructions = word & ((1 << stretch::KIND_SHIFT) - 1);
        process.fetches.stretches.push(Stretch { page, instructions, counter });
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
    stretches: impl Iterator<Item = &'a Stretch> + Clone,
) -> io::Result<FxHashMap<Page, u64>> {
    let last = totals.sites.last().map(|(at, _)| at >> classes_log2);
    let mut by_site = vec![0u64; last.map_or(0, |last| last as usize + 1)];
    for &(at, count) in &totals.sites {
        let total = &mut by_site[(at >> classes_log2) as usize];
        *total = total.wrapping_add(count);
    }
    let mut pages: FxHashMap<Page, u64> = FxHashMap::default();
    let mut add = |stretch: &Stretch, runs: u64| {
        if runs != 0 {
            let total = pages.entry(stretch.page).or_default();
            *total = total.wrapping_add(runs.wrapping_mul(stretch.instructions.into()));
        }
    };
    let passes = file.passes(thread)?;
    let passes = |number: u32| passes.as_ref().and_then(|passes| passes.get(number)).unwrap_or(0);
    for stretch in stretches.clone() {
        match stretch.counter {
            Counter::Passes(number) => add(stretch, passes(number)),
            Counter::Site(site) => add(stretch, by_site.get(site as usize).copied().unwrap_or(0)),
            Counter::Correction(_) => {}
        }
    }
    // Last: what they take back has been read by now.
    for stretch in stretches {
        if let Counter::Correction(number) = stretch.counter {
            add(stretch, passes(number));
        }
    }
    Ok(pages)
}

impl Drain {
    /// Instructions that a thread has executed until now, by page; none, if it is too early to look again: no view asks when code was executed,
    /// and it is much to add up.
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
        if !settled && now <= thread.code_ns + thread.code_ns / LOOK_SHARE {
            return Ok(FxHashMap::default());
        }
        thread.code_ns = now;
        let all = self.stretches(process);
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

    /// All stretches of a process: its own, its parent's until it was forked, and so on.
    fn stretches<'a>(&'a self, process: &'a Process) -> Vec<&'a [Stretch]> {
        let (mut all, mut of, mut end) = (Vec::new(), Some(process), u32::MAX);
        while let Some(process) = of {
            all.push(process.fetches.below(end, process.inherited_stretches));
            end = process.inherited_stretches;
            of = process.parent.filter(|_| end > 0).and_then(|parent| self.processes.get(&parent));
        }
        all
    }
}

/// The counters of passes of a thread, as far as they are in use.
pub struct Passes {
    map: super::file::Shared,
    first: u64,
}

impl Passes {
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
    /// The counters of passes of a thread.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn passes(&self, thread: Extent) -> io::Result<Option<Passes>> {
        let mut written = self.written(thread, exact::thread::PASSES, exact::thread::PASSES_BYTES);
        let Some(first) = written.next() else { return Ok(None) };
        let end = written.last().map_or(first.end, |last| last.end);
        let map = self.extent(thread, first.start, (end - first.start) as usize)?;
        Ok(Some(Passes { map, first: (first.start - exact::thread::PASSES) / 8 }))
    }
}
