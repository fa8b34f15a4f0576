//! Who used which page, and when: `page_accesses`, folded to three grains.
//!
//! | fold | tells apart | for |
//! |---|---|---|
//! | [`Flows`] | page, thread, node, home, initialisation | patterns, and other placements |
//! | [`PageFacts`] | page, node, home | whose a page is |
//! | [`Moments`] | page, thread, node, home, time bin | how use changes: as many as the table has rows, maybe |
//!
//! What a page's first toucher does while it touches pages is kept apart as *initial*: it would move with an
//! initialisation elsewhere, and must not pass for use.

use crate::facts::filter::Use;
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::page_sums::{Adding, OfPage, PageSums};
use crate::facts::shared_use::{Shared, SharedUse};
use crate::facts::sorted::Times;
use crate::facts::subjects::{Cursor, RunId};
use numalens_profile::ids::{Bin, Page, ProcessId, ThreadId};
use numalens_profile::tables::PageAccess;
use numalens_topology::NodeId;

/// Which accesses are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowKey {
    pub page: Page,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    /// Where the page was; none: nowhere, or not known.
    pub home: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
    /// By its first toucher, at the time of the touch.
    pub initial: bool,
}

impl OfPage for FlowKey {
    fn page(&self) -> (Page, ProcessId) {
        (self.page, self.process)
    }
}

/// The folded facts.
#[derive(Default)]
pub struct Flows {
    pub sums: PageSums<FlowKey>,
    /// What is done to each subject since others than its maker use it, in the order of
    /// [`SubjectId`](crate::facts::subjects::SubjectId)s: those behind have none.
    pub shared: Vec<Shared>,
}

/// The same in the making.
#[derive(Default)]
pub struct AddingFlows {
    sums: Adding<FlowKey>,
    shared: SharedUse,
    cursor: Cursor,
}

impl Fold for AddingFlows {
    type Facts = Flows;
    const NEED: Need = Need::Flows;

    fn merge(self, other: Self) -> Self {
        AddingFlows { sums: self.sums.merge(other.sums), shared: self.shared.merge(other.shared), cursor: self.cursor }
    }

    fn finish(self) -> Flows {
        Flows { sums: self.sums.finish(), shared: self.shared.finish() }
    }
}

impl FoldOf<PageAccess> for AddingFlows {
    const COLUMNS: &'static [&'static str] = PageAccess::COLUMNS;

    fn add(&mut self, row: &PageAccess, times: Times<'_>, of: &Context<'_>) {
        let Context { sieve, subjects, .. } = *of;
        let AddingFlows { sums, shared, cursor } = self;
        sieve.uses(row, times, subjects, cursor, |Use { node, home, run }, times| {
            let (page, process, thread) = (row.page, row.process, row.thread);
            let key = FlowKey { page, process, thread, node, home, run, initial: false };
            let touched = run.map(|run| subjects.toucher_of(run)).filter(|(toucher, _)| *toucher == Some(row.thread));
            let [initial, later] = match touched {
                // The bin of the touch and the next one.
                Some((_, bin)) => times.split(Bin(bin.0.saturating_add(2))),
                None => [Times::default(), times],
            };
            if !initial.is_empty() {
                sums.add(FlowKey { initial: true, ..key }, initial.sum());
            }
            if !later.is_empty() {
                let sum = later.sum();
                sums.add(key, sum);
                if let Some(subject) = run.map(|run| subjects.subject_of(run)) {
                    shared.add(subject, subjects.is_others(subject, node), later, sum);
                }
            }
        });
    }
}

/// Which accesses of pages are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageKey {
    pub page: Page,
    pub process: ProcessId,
    /// The node that the thread was bound to; where the profile does not tell it, by its pinning log at the end of the
    /// time bin.
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

impl Fold for AddingPages {
    type Facts = PageFacts;
    const NEED: Need = Need::Pages;

    fn merge(self, other: Self) -> Self {
        AddingPages { sums: self.sums.merge(other.sums), cursor: self.cursor }
    }

    fn finish(self) -> PageFacts {
        PageFacts { sums: self.sums.finish() }
    }
}

impl FoldOf<PageAccess> for AddingPages {
    const COLUMNS: &'static [&'static str] = PageAccess::COLUMNS;

    fn add(&mut self, row: &PageAccess, times: Times<'_>, of: &Context<'_>) {
        let Context { sieve, subjects, .. } = *of;
        let AddingPages { sums, cursor } = self;
        sieve.uses(row, times, subjects, cursor, |Use { node, home, .. }, times| {
            sums.add(PageKey { page: row.page, process: row.process, node, home }, times.sum());
        });
    }
}

/// Accesses of one thread to one page in one bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub page: Page,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    /// Where the page was; none: nowhere, or not known.
    pub home: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
    pub bin: Bin,
    pub accesses: u64,
}

/// All of them, in any order.
#[derive(Default)]
pub struct Moments {
    all: Vec<Moment>,
    cursor: Cursor,
}

impl Moments {
    /// Every one.
    pub fn iter(&self) -> impl Iterator<Item = &Moment> + Clone {
        self.all.iter()
    }
}

impl Fold for Moments {
    type Facts = Self;
    const NEED: Need = Need::Moments;

    fn merge(mut self, other: Self) -> Self {
        self.all.extend(other.all);
        self
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<PageAccess> for Moments {
    const COLUMNS: &'static [&'static str] = PageAccess::COLUMNS;

    fn add(&mut self, row: &PageAccess, times: Times<'_>, of: &Context<'_>) {
        let Context { sieve, subjects, .. } = *of;
        let Moments { all, cursor } = self;
        sieve.uses(row, times, subjects, cursor, |Use { node, home, run }, times| {
            let (page, process, thread) = (row.page, row.process, row.thread);
            let moments = times.iter().map(|(bin, tally)| (bin, tally.accesses()));
            all.extend(moments.map(|(bin, accesses)| Moment { page, process, thread, node, home, run, bin, accesses }));
        });
    }
}
