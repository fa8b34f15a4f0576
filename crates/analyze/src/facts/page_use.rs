//! Who used which page, and when: `page_accesses`, folded to three grains.
//!
//! | fold | tells apart | for |
//! |---|---|---|
//! | [`PageUse`] | page, thread, node, home, initialisation | patterns, and other placements |
//! | [`PageFacts`] | page, node, home | whose a page is |
//! | [`PageUseByTime`] | page, thread, node, home, time bin | how use changes: as many as the table has rows, maybe |
//!
//! What a page's first toucher does while it touches pages is kept apart as *initial*: it would move with an
//! initialisation elsewhere, and must not pass for use.

use crate::facts::filter::Use;
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::packed::{Packable, Parts};
use crate::facts::page_sums::{Adding, OfPage, PageSums};
use crate::facts::placement_targets::{Cursor, RunId};
use crate::facts::shared_use::{Shared, SharedUse};
use crate::facts::sorted::Times;
use crate::model::tally::{MOST, Tally};
use numalens_profile::ids::{Bin, Page, ProcessId, ThreadId};
use numalens_profile::tables::{NodePage, PageAccess};
use numalens_topology::NodeId;

/// Which accesses are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageUseKey {
    pub process: ProcessId,
    pub page: Page,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    /// Where the page was; none: nowhere, or not known.
    pub home: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
    /// By its first toucher, at the time of the touch.
    pub initial: bool,
}

impl Packable for PageUseKey {
    fn parts(&self) -> Parts {
        let PageUseKey { process, page, thread, node, home, run, initial } = *self;
        Parts { process, page, thread, node, home, run: run.map_or(0, RunId::number), initial }
    }

    #[inline]
    fn of(parts: &Parts) -> Self {
        let Parts { process, page, thread, node, home, run, initial } = *parts;
        PageUseKey { process, page, thread, node, home, run: RunId::of_number(run), initial }
    }
}

impl OfPage for PageUseKey {
    fn page(&self) -> (Page, ProcessId) {
        (self.page, self.process)
    }
}

/// The folded facts.
#[derive(Default)]
pub struct PageUse {
    pub sums: PageSums<PageUseKey>,
    /// What is done to each target since others than its maker use it, in the order of
    /// [`TargetId`](crate::facts::placement_targets::TargetId)s: those behind have none.
    pub shared: Vec<Shared>,
}

/// The same in the making.
#[derive(Default)]
pub struct AddingPageUse {
    sums: Adding<PageUseKey>,
    shared: SharedUse,
    cursor: Cursor,
}

impl Fold for AddingPageUse {
    type Facts = PageUse;
    const NEED: Need = Need::PageUse;

    fn merge(self, other: Self) -> Self {
        AddingPageUse {
            sums: self.sums.merge(other.sums),
            shared: self.shared.merge(other.shared),
            cursor: self.cursor,
        }
    }

    fn finish(self) -> PageUse {
        PageUse { sums: self.sums.finish(), shared: self.shared.finish() }
    }
}

impl FoldOf<PageAccess> for AddingPageUse {
    const COLUMNS: &'static [&'static str] = PageAccess::COLUMNS;

    fn add(&mut self, row: &PageAccess, times: Times<'_>, of: &Context<'_>) {
        let Context { row_filter, targets, .. } = *of;
        let AddingPageUse { sums, shared, cursor } = self;
        row_filter.uses(row, times, targets, cursor, |Use { node, home, run }, times| {
            let (page, process, thread) = (row.page, row.process, row.thread);
            let key = PageUseKey { page, process, thread, node, home, run, initial: false };
            let touched = run.map(|run| targets.toucher_of(run)).filter(|(toucher, _)| *toucher == Some(row.thread));
            let [initial, later] = match touched {
                // The bin of the touch and the next one.
                Some((_, bin)) => times.split(Bin(bin.0.saturating_add(2))),
                None => [Times::default(), times],
            };
            if !initial.is_empty() {
                sums.add(PageUseKey { initial: true, ..key }, initial.sum());
            }
            if !later.is_empty() {
                let sum = later.sum();
                sums.add(key, sum);
                if let Some(target) = run.map(|run| targets.target_of(run)) {
                    shared.add(target, targets.is_others(target, node), later, sum);
                }
            }
        });
    }
}

/// Which accesses of pages are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageKey {
    pub process: ProcessId,
    pub page: Page,
    /// The node that the thread was bound to; where the profile does not tell it, by its pinning log at the end of the
    /// time bin.
    pub node: Option<NodeId>,
    /// Where the page was then; none: nowhere, or the profile does not tell it.
    pub home: Option<NodeId>,
}

impl Packable for PageKey {
    fn parts(&self) -> Parts {
        let PageKey { process, page, node, home } = *self;
        Parts { process, page, node, home, ..Parts::default() }
    }

    #[inline]
    fn of(parts: &Parts) -> Self {
        let Parts { process, page, node, home, .. } = *parts;
        PageKey { process, page, node, home }
    }
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
    /// Those that page use tell apart further.
    pub fn of(page_use: &PageUse) -> Self {
        let key = |key: &PageUseKey| PageKey { page: key.page, process: key.process, node: key.node, home: key.home };
        PageFacts { sums: page_use.sums.by(key) }
    }
}

impl AddingPages {
    /// Adds what is summed already.
    pub fn add_sum(&mut self, row: &NodePage) {
        let NodePage { process, page, node, home, reads, writes } = *row;
        let tally = Tally { reads: reads.min(MOST), writes: writes.min(MOST), ..Tally::default() };
        self.sums.add(PageKey { process, page, node, home }, tally);
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
        let Context { row_filter, targets, .. } = *of;
        let AddingPages { sums, cursor } = self;
        row_filter.uses(row, times, targets, cursor, |Use { node, home, .. }, times| {
            sums.add(PageKey { page: row.page, process: row.process, node, home }, times.sum());
        });
    }
}

/// Accesses of one thread to one page in one bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedUse {
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
pub struct PageUseByTime {
    all: Vec<TimedUse>,
    cursor: Cursor,
}

impl PageUseByTime {
    /// Every one.
    pub fn iter(&self) -> impl Iterator<Item = &TimedUse> + Clone {
        self.all.iter()
    }
}

impl Fold for PageUseByTime {
    type Facts = Self;
    const NEED: Need = Need::PageUseByTime;

    fn merge(mut self, other: Self) -> Self {
        self.all.extend(other.all);
        self
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<PageAccess> for PageUseByTime {
    const COLUMNS: &'static [&'static str] = PageAccess::COLUMNS;

    fn add(&mut self, row: &PageAccess, times: Times<'_>, of: &Context<'_>) {
        let Context { row_filter, targets, .. } = *of;
        let PageUseByTime { all, cursor } = self;
        row_filter.uses(row, times, targets, cursor, |Use { node, home, run }, times| {
            let (page, process, thread) = (row.page, row.process, row.thread);
            let page_use_by_time = times.iter().map(|(bin, tally)| (bin, tally.accesses()));
            all.extend(page_use_by_time.map(|(bin, accesses)| TimedUse {
                page,
                process,
                thread,
                node,
                home,
                run,
                bin,
                accesses,
            }));
        });
    }
}
