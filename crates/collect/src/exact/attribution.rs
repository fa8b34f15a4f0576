//! Counts of pages that several objects share, divided by sampled accesses.
//!
//! Pages are drawn by their use, so each sampled access, a *sample*, stands for as many of all that went to such pages.
//! Counts are divided in windows of time with a few dozen samples each:
//!
//! ```text
//!   a page, while the same objects had it    its counts are divided by its samples, of each thread by its own
//!                                            where there are any
//!   without samples, but one might have      by the samples that stand for more than their own page's counts:
//!   been drawn                               what these lack
//!   the rest                                 not told apart
//! ```
//! What is kept for the interval of an object ([`Bound`]): the counts of which it may have had a part, how many
//! accesses a sample there stands for, what was not told apart, and what was divided by samples that may not have come
//! at random ([`Came::Later`]).

use crate::session::{Bound, PageClass, Who};
use numalens_profile::ids::{ObjectId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Samples of a window.
const SAMPLES: usize = 32;

/// How much more than of equal, independent ones the variance is of samples that are drawn by time, and whose weights
/// come from the same samples.
const UNEVEN: f64 = 2.0;

/// How long after its page was drawn an access came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// As soon as it does where the page is in use.
    Soon,
    /// In a time that is [`LATER`] times as long, after that: it began what was not under way. By as many as come then
    /// can be told how many of those that came soon are of that kind as well.
    Later,
}

/// See [`Came::Later`].
pub const LATER: u64 = 3;

/// A sampled access.
#[derive(Clone, Copy, Debug)]
pub struct SampledAccess {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub class: PageClass,
    pub object: ObjectId,
    /// Accesses that its instruction makes at once.
    pub accesses: u64,
    /// Only those that came soon divide counts.
    pub came: Came,
}

/// Counts of a page between two polls.
#[derive(Clone, Debug)]
pub struct SharedCounts {
    pub page: u32,
    pub who: Who,
    /// Which poll has found them; they were counted after the one time, and until the other.
    pub poll: u64,
    pub since_ns: u64,
    pub until_ns: u64,
    /// When they were found.
    pub time_ns: u64,
    pub counts: [u64; 2],
    /// The objects that have had the page meanwhile, in order.
    pub page_owners: Vec<ObjectId>,
    /// What objects lie there is not known, as of variables.
    pub open: bool,
    /// The poll before has found it used, so that it might have been drawn.
    pub drawable: bool,
}

/// A part of the counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    pub who: Who,
    pub time_ns: u64,
    /// None: not told apart.
    pub object: Option<ObjectId>,
    pub counts: [u64; 2],
    /// Samples that say so.
    pub samples: u32,
}

/// What is uncertain, by object; and by the page's number, where it is not known what objects lie there.
#[derive(Default)]
pub struct Bounds {
    pub objects: FxHashMap<ObjectId, Bound>,
    pub pages: FxHashMap<u32, Bound>,
}

impl Bounds {
    /// Adds the same to each of these.
    pub fn add(&mut self, page_owners: &[ObjectId], bound: Bound) {
        for &object in page_owners {
            self.objects.entry(object).or_default().add(bound);
        }
    }
}

/// Counts and samples that wait to be divided.
#[derive(Default)]
pub struct Window {
    pages: FxHashMap<u32, OfPage>,
    samples: usize,
    /// By poll: until when it has counted, and how much.
    polls: BTreeMap<u64, (u64, u64)>,
}

#[derive(Default)]
struct OfPage {
    eras: Vec<Era>,
    accesses: Vec<SampledAccess>,
}

/// A time in which the same objects had a page.
struct Era {
    page_owners: Vec<ObjectId>,
    open: bool,
    until_ns: u64,
    /// In the order of [`Kind::whose`]: a program may have made thousands of threads.
    counts: Vec<(Kind, [u64; 2])>,
}

/// Counts that are divided alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    who: Who,
    time_ns: u64,
    drawable: bool,
}

impl Kind {
    fn whose(&self) -> (Who, bool) {
        (self.who, self.drawable)
    }
}

/// Pages of the same objects: these; where they are not known, one page.
type Stratum = (Option<u32>, Vec<ObjectId>);

impl Era {
    fn stratum(&self, page: u32) -> Stratum {
        (self.open.then_some(page), self.page_owners.clone())
    }
}

struct Sample {
    access: SampledAccess,
    stratum: Stratum,
    /// How many it would stand for by the use of all pages between two polls, beside others.
    of_poll: f64,
    /// Accesses that it stands for.
    weight: f64,
    is_counted: bool,
}

impl Sample {
    /// One that has not been weighed.
    fn of(access: SampledAccess) -> Self {
        Sample { access, stratum: Stratum::default(), of_poll: 0.0, weight: 0.0, is_counted: false }
    }
}

impl Window {
    /// Adds a sampled access.
    pub fn add_sample(&mut self, page: u32, access: SampledAccess) {
        self.pages.entry(page).or_default().accesses.push(access);
        self.samples += usize::from(access.came == Came::Soon);
    }

    /// Adds counts.
    pub fn count(&mut self, more: SharedCounts) {
        let eras = &mut self.pages.entry(more.page).or_default().eras;
        let kind = Kind { who: more.who, time_ns: more.time_ns, drawable: more.drawable };
        let (until_ns, sum) = self.polls.entry(more.poll).or_default();
        (*until_ns, *sum) = ((*until_ns).max(more.until_ns), *sum + more.counts[0] + more.counts[1]);
        match eras.iter_mut().rev().find(|era| era.page_owners == more.page_owners && era.until_ns + 1 >= more.since_ns)
        {
            Some(era) => {
                era.until_ns = era.until_ns.max(more.until_ns);
                match era.counts.binary_search_by_key(&kind.whose(), |(known, _)| known.whose()) {
                    Ok(at) => {
                        let (known, sum) = &mut era.counts[at];
                        known.time_ns = kind.time_ns;
                        *sum = [sum[0] + more.counts[0], sum[1] + more.counts[1]];
                    }
                    Err(at) => era.counts.insert(at, (kind, more.counts)),
                }
            }
            None => {
                let SharedCounts { page_owners, open, until_ns, .. } = more;
                eras.push(Era { page_owners, open, until_ns, counts: vec![(kind, more.counts)] });
            }
        }
    }

    /// Whether there are enough samples.
    pub fn is_full(&self) -> bool {
        self.samples >= SAMPLES
    }

    /// Divides all that is there; the parts' sums are the counts.
    pub fn attribute(&mut self, bounds: &mut Bounds, mut report: impl FnMut(Part)) {
        let mut division = self.take();
        let left = division.within_pages(&mut report);
        let lost = division.across_pages(left, &mut report);
        division.bound(bounds, &lost);
    }

    /// Takes out what can be divided, with its samples; those of pages that the next poll counts stay.
    fn take(&mut self) -> Division {
        let mut division = Division::default();
        let mut pages: Vec<(u32, OfPage)> = std::mem::take(&mut self.pages).into_iter().collect();
        pages.sort_unstable_by_key(|&(page, _)| page);
        self.samples = 0;
        let polls: Vec<(u64, u64)> = std::mem::take(&mut self.polls).into_values().collect();
        let until_ns = polls.iter().map(|&(until_ns, _)| until_ns).max().unwrap_or(0);
        for (page, of_page) in pages {
            let later = division.add(page, of_page);
            // What these report is counted by the next poll.
            let later: Vec<SampledAccess> = later.into_iter().filter(|access| access.time_ns > until_ns).collect();
            if !later.is_empty() {
                self.samples += later.iter().filter(|access| access.came == Came::Soon).count();
                self.pages.insert(page, OfPage { eras: Vec::new(), accesses: later });
            }
        }
        weigh(&mut division.samples, &polls);
        division
    }
}

/// Counts that are being divided.
#[derive(Default)]
struct Division {
    samples: Vec<Sample>,
    /// With their pages, and the range of their samples.
    eras: Vec<(u32, Era, Range<usize>)>,
    /// By who had pages: accesses that came soon, and later.
    came: FxHashMap<Stratum, (u64, u64)>,
    /// By who had pages: what was counted there where a sample might have been drawn, and how many accesses the samples
    /// there stand for.
    strata: FxHashMap<Stratum, (f64, f64)>,
}

/// Counts of pages without samples, though one might have been drawn: whose, when they were found, and who had them.
type Left = FxHashMap<(Who, u64, Stratum), [u64; 2]>;

/// Counts that no sample speaks for: of which class, and who had the pages.
type Lost = FxHashSet<(PageClass, Stratum)>;

impl Division {
    /// Adds what was counted of a page. Returns sampled accesses that came after all of it.
    fn add(&mut self, page: u32, mut of_page: OfPage) -> Vec<SampledAccess> {
        of_page.accesses.sort_by_key(|access| access.time_ns);
        // Threads report their times one after the other.
        of_page.eras.sort_by_key(|era| era.until_ns);
        let mut access = of_page.accesses.into_iter().peekable();
        for era in of_page.eras {
            let first = self.samples.len();
            let came = self.came.entry(era.stratum(page)).or_default();
            while let Some(access) = access.next_if(|access| access.time_ns <= era.until_ns) {
                match access.came {
                    Came::Soon => {
                        came.0 += 1;
                        self.samples.push(Sample::of(access));
                    }
                    Came::Later => came.1 += 1,
                }
            }
            self.eras.push((page, era, first..self.samples.len()));
        }
        access.collect()
    }

    /// Divides the counts of each page by its own samples. Returns those of pages without any.
    fn within_pages(&mut self, report: &mut impl FnMut(Part)) -> Left {
        let mut left = Left::default();
        for (page, era, range) in &self.eras {
            let stratum = era.stratum(*page);
            let (drawable, of_poll) = self.strata.entry(stratum.clone()).or_default();
            *drawable += sum(&era.counts, |kind| kind.drawable) as f64;
            let samples = &mut self.samples[range.clone()];
            *of_poll += samples.iter().map(|sample| sample.of_poll).sum::<f64>();
            for sample in &mut *samples {
                sample.stratum = stratum.clone();
            }
            for &(Kind { who, time_ns, drawable }, counts) in &era.counts {
                if samples.is_empty() {
                    if drawable {
                        add(left.entry((who, time_ns, stratum.clone())).or_default(), counts);
                    } else {
                        report(Part { who, time_ns, object: None, counts, samples: 0 });
                    }
                    continue;
                }
                let of_thread = samples.iter().any(|sample| sample.access.thread == who.thread);
                let is_counted = |sample: &Sample| !of_thread || sample.access.thread == who.thread;
                let weigh = |sample: &Sample| if is_counted(sample) { sample.of_poll } else { 0.0 };
                share(samples, weigh, who, time_ns, counts, report);
            }
        }
        left
    }

    /// Divides the counts of pages without samples. Each sample stands for as many of all accesses there for which one
    /// might have been drawn: for those of pages without any it stands with what is more than its own page's. Returns
    /// what no sample speaks for.
    fn across_pages(&mut self, left: Left, report: &mut impl FnMut(Part)) -> Lost {
        let lack = |sample: &Sample| {
            let (drawable, of_poll) = self.strata.get(&sample.stratum).copied().unwrap_or_default();
            (drawable * sample.of_poll / of_poll.max(1.0) - sample.weight).max(0.0)
        };
        let lacks: Vec<f64> = self.samples.iter().map(lack).collect();
        let samples = &mut self.samples;
        let mut left: Vec<((Who, u64, Stratum), [u64; 2])> = left.into_iter().collect();
        left.sort_unstable();
        let mut lost = Lost::default();
        for ((who, time_ns, stratum), counts) in left {
            let fits = |sample: &Sample| sample.access.class == who.class && sample.stratum == stratum;
            let of_thread = |sample: &Sample| fits(sample) && sample.access.thread == who.thread;
            let weights = |of: &dyn Fn(&Sample) -> bool, by: &dyn Fn(usize) -> f64| -> Option<Vec<f64>> {
                let weight = |(at, sample): (usize, &Sample)| if of(sample) { by(at) } else { 0.0 };
                let weights: Vec<f64> = samples.iter().enumerate().map(weight).collect();
                weights.iter().any(|&weight| weight > 0.0).then_some(weights)
            };
            let (lack, of_poll) = (|at: usize| lacks[at], |at: usize| samples[at].of_poll);
            let found =
                weights(&of_thread, &lack).or_else(|| weights(&fits, &lack)).or_else(|| weights(&fits, &of_poll));
            let Some(weights) = found else {
                lost.insert((who.class, stratum));
                report(Part { who, time_ns, object: None, counts, samples: 0 });
                continue;
            };
            let mut weights = weights.into_iter();
            share(samples, |_| weights.next().unwrap_or(0.0), who, time_ns, counts, report);
        }
        lost
    }

    /// Adds what is uncertain of all that.
    fn bound(self, bounds: &mut Bounds, lost: &Lost) {
        let mut spreads: FxHashMap<Stratum, f64> = FxHashMap::default();
        for stratum in self.strata.into_keys() {
            let spread = spread(self.samples.iter().filter(|sample| sample.stratum == stratum));
            spreads.insert(stratum, spread);
        }
        for (page, era, range) in self.eras {
            let samples = &self.samples[range];
            let stratum = era.stratum(page);
            let is_counted = |kind: &Kind| {
                !samples.is_empty() || kind.drawable && !lost.contains(&(kind.who.class, stratum.clone()))
            };
            let divided = sum(&era.counts, is_counted);
            let untold = sum(&era.counts, |kind| !is_counted(kind));
            let spread = if samples.is_empty() { spreads[&stratum] } else { spread(samples) };
            let mut page_owners = era.page_owners;
            page_owners.extend(samples.iter().map(|sample| sample.access.object));
            page_owners.sort_unstable();
            page_owners.dedup();
            let bound = Bound {
                divided,
                squares: divided as f64 * spread * UNEVEN,
                untold,
                skewed: (divided as f64 * skew(self.came[&stratum])) as u64,
            };
            bounds.add(&page_owners, bound);
            if era.open {
                bounds.pages.entry(page).or_default().add(bound);
            }
        }
    }
}

/// Samples are drawn by time: where more is accessed between two polls than between two others, each stands for more.
fn weigh(samples: &mut [Sample], polls: &[(u64, u64)]) {
    let poll = |access: &SampledAccess| polls.iter().position(|&(until_ns, _)| access.time_ns <= until_ns);
    let mut of_poll = vec![0.0; polls.len()];
    for sample in samples.iter() {
        if let Some(poll) = poll(&sample.access) {
            of_poll[poll] += sample.access.accesses as f64;
        }
    }
    for sample in samples {
        let accesses = sample.access.accesses as f64;
        sample.of_poll =
            poll(&sample.access).map_or(accesses, |poll| accesses * polls[poll].1.max(1) as f64 / of_poll[poll]);
    }
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    *sum = [sum[0] + more[0], sum[1] + more[1]];
}

/// Accesses of some kinds.
fn sum(counts: &[(Kind, [u64; 2])], of: impl Fn(&Kind) -> bool) -> u64 {
    counts.iter().filter(|(kind, _)| of(kind)).map(|(_, [reads, writes])| reads + writes).sum()
}

/// Which part of what samples say may be wrong, as some of those that `came` soon were the first after a pause: in
/// every time after a draw there are as many.
fn skew((soon, later): (u64, u64)) -> f64 {
    let first = later as f64 / LATER as f64;
    if later == 0 { 0.0 } else { (first / (soon as f64 - first).max(0.0)).min(1.0) }
}

/// How many accesses a sample stands for that one of these accesses is counted by.
fn spread<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> f64 {
    let (sum, squares) = samples
        .into_iter()
        .fold((0.0, 0.0), |(sum, squares), sample| (sum + sample.weight, squares + sample.weight * sample.weight));
    if sum > 0.0 { squares / sum } else { 0.0 }
}

/// Divides counts by samples of such weights, one of which is not 0; the sums of the parts are the counts.
fn share(
    samples: &mut [Sample],
    weigh: impl FnMut(&Sample) -> f64,
    who: Who,
    time_ns: u64,
    counts: [u64; 2],
    report: &mut impl FnMut(Part),
) {
    let weights: Vec<f64> = samples.iter().map(weigh).collect();
    let all: f64 = weights.iter().sum();
    let total = (counts[0] + counts[1]) as f64;
    // Objects in the order of their samples: their weights, and samples that have not been reported yet.
    let mut objects: Vec<(ObjectId, f64, u32)> = Vec::new();
    for (sample, &weight) in samples.iter_mut().zip(&weights).filter(|&(_, &weight)| weight > 0.0) {
        sample.weight += total * weight / all;
        let fresh = u32::from(!std::mem::replace(&mut sample.is_counted, true));
        match objects.iter_mut().find(|(object, ..)| *object == sample.access.object) {
            Some((_, sum, samples)) => (*sum, *samples) = (*sum + weight, *samples + fresh),
            None => objects.push((sample.access.object, weight, fresh)),
        }
    }
    let (mut before, mut done) = (0.0, [0; 2]);
    let last = objects.len().saturating_sub(1);
    for (at, (object, weight, fresh)) in objects.into_iter().enumerate() {
        before += weight;
        let upto = match at == last {
            true => counts,
            false => counts.map(|count| ((count as f64 * (before / all)) as u64).min(count)),
        };
        let part = [0, 1].map(|kind| upto[kind].saturating_sub(done[kind]));
        add(&mut done, part);
        if part != [0, 0] {
            let samples = fresh.clamp(1, (part[0] + part[1]).min(u64::from(u32::MAX)) as u32);
            report(Part { who, time_ns, object: Some(object), counts: part, samples });
        }
    }
}

#[cfg(test)]
mod tests;
