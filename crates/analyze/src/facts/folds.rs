//! Facts, folded: time bins and whatever no analysis asks for are summed away while the tables are read, so that
//! millions of rows become thousands. Every fold merges by addition, in any order.

use crate::facts::divided::Division;
use crate::facts::filter::{Sieve, Use};
use crate::facts::flows::{FlowKey, Flows};
use crate::facts::margins::Margins;
use crate::facts::page_sums::{Adding, OfPage, PageSums};
use crate::facts::sorted::Times;
use crate::facts::sorted_sums::{Entries, SortedSums, merged};
use crate::facts::subjects::{Cursor, Subjects};
use crate::model::counts::{self, Tally};
use numalens_profile::ids::{ModuleId, ObjectId, Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::{CodeFetch, ObjectAccess, ObjectBound, PageAccess, SiteAccess};
use numalens_profile::words::Class;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::ops::AddAssign;

/// What one counted sample adds to a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Exact counts, and samples of a clock: the count itself.
    One,
    /// Samples of events: the period, so that the sum estimates the events.
    Period,
}

impl Weight {
    /// Counts of a row, each sample as what it stands for.
    pub fn weighed(self, reads: u64, writes: u64, samples: u32, period: u64) -> Weighed {
        let weight = match self {
            Weight::One => 1,
            Weight::Period => period.max(1),
        };
        let weighed = |count: u64| count.saturating_mul(weight).min(counts::MOST);
        Weighed { reads: weighed(reads), writes: weighed(writes), samples }
    }

    /// The same as a sum takes them.
    pub fn tally(self, reads: u64, writes: u64, samples: u32, period: u64) -> Tally {
        self.weighed(reads, writes, samples, period).tally()
    }
}

/// Counts of one row: what its tally follows from, in less than half of the room. There are millions.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    reads: u64,
    writes: u64,
    samples: u32,
}

impl Weighed {
    /// Some of it, to have it at hand.
    #[inline]
    pub fn any(&self) -> u64 {
        self.reads
    }

    /// As a sum takes them.
    #[inline]
    pub fn tally(&self) -> Tally {
        let Weighed { reads, writes, samples } = *self;
        if samples == 0 {
            return Tally { reads, writes, ..Tally::default() };
        }
        let estimated = reads + writes;
        let squares = u128::from(estimated) * u128::from(estimated) / u128::from(samples);
        Tally { reads, writes, samples: u64::from(samples), estimated, squares }
    }
}

/// Stands for the instruction of accesses that were counted by whole pages, which do not know it.
pub const NO_SITE: SiteId = SiteId(u32::MAX);

/// Sums by key.
pub type Sums<K> = FxHashMap<K, Tally>;

/// Both together.
pub fn merge<K: Eq + Hash>(mut into: Sums<K>, mut from: Sums<K>) -> Sums<K> {
    if into.len() < from.len() {
        std::mem::swap(&mut into, &mut from);
    }
    for (key, tally) in from {
        *into.entry(key).or_default() += tally;
    }
    into
}

/// `site_accesses`, summed in two ways: what joins them no analysis asks for, and it would be as many sums as there are rows. An imported
/// profile may have nothing finer either, and less ([`Margins`]).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SiteFacts {
    /// Few, and asked for by thread and by nodes.
    who: Sums<Who>,
    sites: Entries<(SiteId, Class)>,
    pub margins: Option<Margins>,
    /// How many accesses that were looked at tell the instruction of counts that do not know it; 0: counts know it.
    pub divided_by: u64,
}

/// Who accesses, its node, the page's home, and the class.
type Who = (ThreadId, Option<NodeId>, Option<NodeId>, Class);

/// The same in the making.
#[derive(Default)]
pub struct AddingSites {
    who: Sums<Who>,
    /// The sum of the latest rows: neighbours are mostly alike.
    latest: Option<(Who, Tally)>,
    sites: SortedSums<(SiteId, Class)>,
}

/// One row of a projection after the other.
pub type Rows<'a, K> = Box<dyn Iterator<Item = (K, Tally)> + 'a>;

impl SiteFacts {
    /// By thread and class; several rows may have the same.
    pub fn by_thread(&self) -> Rows<'_, (ThreadId, Class)> {
        match &self.margins {
            Some(margins) => Margins::rows(&margins.threads),
            None => Box::new(self.who.iter().map(|((thread, _, _, class), tally)| ((*thread, *class), *tally))),
        }
    }

    /// By site and class, in the order of sites unless the profile has but sums.
    pub fn by_site(&self) -> Rows<'_, (SiteId, Class)> {
        match &self.margins {
            Some(margins) => Margins::rows(&margins.sites),
            None => Box::new(self.sites.iter().copied()),
        }
    }

    /// By thread, its node, and the page's home; several rows may have the same.
    pub fn by_nodes(&self) -> Rows<'_, (ThreadId, Option<NodeId>, Option<NodeId>)> {
        match &self.margins {
            Some(margins) => {
                let tally = |n: u64| Tally { reads: n, ..Tally::default() };
                let cell = move |cell: &crate::facts::margins::Cell| {
                    ((cell.thread, cell.node, cell.home), tally(cell.accesses))
                };
                Box::new(margins.nodes.iter().map(cell))
            }
            None => Box::new(self.who.iter().map(|((thread, node, home, _), tally)| ((*thread, *node, *home), *tally))),
        }
    }

    /// Divides accesses that do not know their instruction by those that were looked at.
    pub fn divide_unknown(&mut self, division: &Division<SiteId>) {
        self.divided_by = division.seen();
        let unknown = self.sites.split_off(self.sites.partition_point(|((site, _), _)| *site < NO_SITE));
        let mut sums = SortedSums::default();
        for ((_, class), tally) in unknown {
            let parts = division.divide(class, tally, NO_SITE).into_iter();
            parts.for_each(|(site, part)| sums.add((site, class), part));
        }
        self.sites = merged(std::mem::take(&mut self.sites), sums.finish());
    }

    /// Whether there are no accesses.
    pub fn is_empty(&self) -> bool {
        self.who.is_empty() && self.margins.is_none()
    }
}

impl AddingSites {
    /// Columns that [`AddingSites::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "thread", "node", "site", "home", "class", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key.
    pub fn add(&mut self, row: &SiteAccess, times: Times<'_>) {
        self.add_times((row.thread, row.node, row.home, row.class), row.site, times);
    }

    /// Adds those of `object_accesses`, for figures of one object.
    pub fn add_of_object(&mut self, row: &ObjectAccess, times: Times<'_>) {
        self.add_times((row.thread, row.node, row.home, row.class), row.site.unwrap_or(NO_SITE), times);
    }

    fn add_times(&mut self, who: Who, site: SiteId, times: Times<'_>) {
        let sum = times.sum();
        match &mut self.latest {
            Some((latest, total)) if *latest == who => *total += sum,
            _ => {
                self.end_run();
                self.latest = Some((who, sum));
            }
        }
        self.sites.add((site, who.3), sum);
    }

    fn end_run(&mut self) {
        if let Some((who, sum)) = self.latest.take() {
            *self.who.entry(who).or_default() += sum;
        }
    }

    /// Both together.
    pub fn merge(mut self, mut other: Self) -> Self {
        self.end_run();
        other.end_run();
        AddingSites { who: merge(self.who, other.who), latest: None, sites: self.sites.merge(other.sites) }
    }

    /// What was added.
    pub fn finish(mut self) -> SiteFacts {
        self.end_run();
        SiteFacts { who: self.who, sites: self.sites.finish(), margins: None, divided_by: 0 }
    }
}

/// Which accesses of objects are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectKey {
    pub object: ObjectId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub class: Class,
}

/// `object_accesses` without time, thread and site, and what is uncertain of them, of the whole recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectFacts {
    pub sums: Sums<ObjectKey>,
    pub bounds: FxHashMap<ObjectId, Bound>,
}

/// What is uncertain of accesses to objects of an exact recording: sums of [`ObjectBound`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bound {
    pub divided: u64,
    pub squares: f64,
    pub untold: u64,
    pub skewed: u64,
}

impl AddAssign for Bound {
    fn add_assign(&mut self, other: Self) {
        self.divided = self.divided.saturating_add(other.divided).min(counts::MOST);
        self.squares += other.squares;
        self.untold = self.untold.saturating_add(other.untold).min(counts::MOST);
        self.skewed = self.skewed.saturating_add(other.skewed).min(counts::MOST);
    }
}

impl ObjectFacts {
    /// Columns that [`ObjectFacts::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "node", "object", "home", "class", "reads", "writes", "samples", "period"];

    /// Adds what is uncertain of an object.
    pub fn bound(&mut self, row: &ObjectBound) {
        let &ObjectBound { divided, squares, untold, skewed, .. } = row;
        let squares = if squares.is_finite() { squares.max(0.0) } else { f64::MAX };
        *self.bounds.entry(row.object).or_default() += Bound { divided, squares, untold, skewed };
    }

    /// Adds accesses of one key.
    pub fn add(&mut self, row: &ObjectAccess, times: Times<'_>) {
        let key = ObjectKey { object: row.object, node: row.node, home: row.home, class: row.class };
        *self.sums.entry(key).or_default() += times.sum();
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        ObjectFacts { sums: merge(self.sums, other.sums), ..self }
    }
}

/// Which accesses of pages are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageKey {
    pub page: Page,
    pub process: ProcessId,
    /// The node that the thread was bound to; where the profile does not tell it, by its pinning log at the end of the time bin.
    pub node: Option<NodeId>,
    /// Where the page was then; none: nowhere, or the profile does not tell it.
    pub home: Option<NodeId>,
}

impl OfPage for PageKey {
    fn page(&self) -> (Page, ProcessId) {
        (self.page, self.process)
    }
}

/// `page_accesses` by page, node and home.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageFacts {
    pub sums: PageSums<PageKey>,
}

/// The same in the making.
#[derive(Default)]
pub struct AddingPages {
    sums: Adding<PageKey>,
    cursor: Cursor,
}

impl PageFacts {
    /// Those that flows tell apart further.
    pub fn of(flows: &Flows) -> Self {
        let key = |key: &FlowKey| PageKey { page: key.page, process: key.process, node: key.node, home: key.home };
        PageFacts { sums: flows.sums.by(key) }
    }
}

impl AddingPages {
    /// Columns that [`AddingPages::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "thread", "node", "home", "page", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key, as far as they are of the part.
    pub fn add(&mut self, row: &PageAccess, times: Times<'_>, subjects: &Subjects, sieve: &Sieve<'_>) {
        let AddingPages { sums, cursor } = self;
        sieve.uses(row, times, subjects, cursor, |Use { node, home, .. }, times| {
            sums.add(PageKey { page: row.page, process: row.process, node, home }, times.sum());
        });
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        AddingPages { sums: self.sums.merge(other.sums), cursor: self.cursor }
    }

    /// What was added.
    pub fn finish(self) -> PageFacts {
        PageFacts { sums: self.sums.finish() }
    }
}

/// Which instructions are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodeKey {
    pub module: Option<ModuleId>,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
}

/// `code_fetches` by module and nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CodeFacts {
    pub instructions: FxHashMap<CodeKey, u64>,
    /// By page and its home.
    pub pages: FxHashMap<(Option<ModuleId>, Page, Option<NodeId>), u64>,
}

impl CodeFacts {
    /// Columns that [`CodeFacts::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "node", "page", "module", "home", "instructions", "period"];

    /// Adds a row.
    pub fn add(&mut self, row: &CodeFetch, weight: Weight) {
        let instructions = weight.tally(row.instructions, 0, 0, row.period).reads;
        let key = CodeKey { module: row.module, node: row.node, home: row.home };
        counts::add(self.instructions.entry(key).or_default(), instructions);
        counts::add(self.pages.entry((row.module, row.page, row.home)).or_default(), instructions);
    }

    /// The fewest pages of a module that hold nine tenths of its fetches.
    pub fn hot_pages(&self, module: Option<ModuleId>) -> usize {
        let mut by_page: FxHashMap<Page, u64> = FxHashMap::default();
        for ((_, page, _), n) in self.pages.iter().filter(|((of, ..), _)| *of == module) {
            *by_page.entry(*page).or_default() += n;
        }
        let mut pages: Vec<u64> = by_page.into_values().collect();
        pages.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = pages.iter().sum::<u64>() / 10 * 9;
        let sums = pages.iter().scan(0, |sum, n| {
            let before = *sum;
            *sum += n;
            Some(before)
        });
        sums.take_while(|before| *before < wanted).count()
    }

    /// Both together.
    pub fn merge(mut self, other: Self) -> Self {
        for (key, n) in other.instructions {
            counts::add(self.instructions.entry(key).or_default(), n);
        }
        for (key, n) in other.pages {
            counts::add(self.pages.entry(key).or_default(), n);
        }
        self
    }
}
