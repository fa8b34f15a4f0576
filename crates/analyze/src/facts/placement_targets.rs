//! Targets of advice: the memory that one line of the program could place otherwise.
//!
//! Heap objects of one allocation stack are one target, a named global, file or stack is one; pages of which no object
//! is known belong to the instruction that touched them first.

mod build;
mod cursor;
mod runs;

pub use build::Pinning;
pub use cursor::Cursor;

use crate::facts::ancestry::Ancestry;
use crate::facts::policies::Policy;
use crate::model::tally;
use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{Object, PageRegion};
use numalens_profile::words::{ObjectKind, Placed, SystemCall};
use numalens_topology::NodeId;
use runs::{Layers, Run};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// A target: an index of [`PlacementTargets::all`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetId(pub u32);

/// A row of `pages`: an index into them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunId(u32);

impl RunId {
    /// A number that is not 0.
    pub fn number(self) -> u32 {
        self.0 + 1
    }

    /// The row of such a number; 0: none.
    pub fn of_number(number: u32) -> Option<RunId> {
        number.checked_sub(1).map(RunId)
    }

    /// Its place among all rows.
    pub fn row(self) -> u32 {
        self.0
    }
}

/// Rows that stand for others.
pub struct FirstRows {
    of_target: Vec<Option<RunId>>,
    of_run: Vec<RunId>,
}

impl FirstRows {
    /// The first row of a target; none: it has no pages.
    pub fn of_target(&self, target: TargetId) -> Option<RunId> {
        self.of_target[target.0 as usize]
    }

    /// The first row with the target, object and first toucher of this one.
    pub fn of_run(&self, run: RunId) -> RunId {
        self.of_run[run.0 as usize]
    }
}

/// Who touches pages first, and the node that it is on.
pub type Toucher = (ThreadId, Option<NodeId>);

/// One target, and what placed it.
#[derive(Clone, Debug, Default)]
pub struct PlacementTarget {
    pub kind: Option<ObjectKind>,
    /// The largest of its objects, when objects are known.
    pub example: Option<Object>,
    /// Of all its objects.
    pub size: u64,
    pub count: u64,
    /// Bytes by home, those of pages that moved at each.
    pub homes: BTreeMap<Option<NodeId>, u64>,
    /// Bytes placed by first toucher and its node then, by place and by how.
    pub touchers: BTreeMap<Option<Toucher>, u64>,
    pub places: BTreeMap<(Option<StackId>, Option<SiteId>), u64>,
    /// By the kernel, in calls of theirs; those of accesses are not here.
    pub calls: BTreeMap<SystemCall, u64>,
    pub placed: BTreeMap<Placed, u64>,
    pub bytes: u64,
    /// Of these, placed under a policy that takes pages elsewhere than to who touches them.
    pub policies: BTreeMap<Policy, u64>,
    /// The node of whoever placed most of it; none: nobody is known to have placed any.
    pub maker: Option<Option<NodeId>>,
}

impl PlacementTarget {
    /// Bytes that anybody is known to have touched: placed while it was recorded, or there before.
    pub fn touched(&self) -> u64 {
        self.bytes.max(tally::total(self.homes.values().copied()))
    }

    /// Small pages placed.
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(Page::BYTES)
    }
}

/// All targets, and which pages are theirs.
#[derive(Default)]
pub struct PlacementTargets {
    pub all: Vec<PlacementTarget>,
    runs: Vec<Run>,
    /// Runs of a process in the order of pages, then of time.
    processes: FxHashMap<ProcessId, (u32, u32)>,
    layers: FxHashMap<ProcessId, Layers>,
    ancestry: Ancestry,
    /// Pages that stand for several: how many.
    regions: FxHashMap<(ProcessId, Page), u32>,
}

impl PlacementTargets {
    /// The row that covers a page at a time; where none does, the newest that ever covered it. Of those that share a
    /// time bin, as the page moved, the one with the home that is known; where the one of that time has another home,
    /// one before it that has this. What a process has not placed itself is what the one has placed that forked it.
    pub fn run_of(&self, process: ProcessId, page: Page, bin: Bin, home: Option<NodeId>) -> Option<RunId> {
        let own = |process| self.own_run_of(process, page, bin, home);
        own(process).or_else(|| self.ancestry.above(process).find_map(own))
    }

    fn own_run_of(&self, process: ProcessId, page: Page, bin: Bin, home: Option<NodeId>) -> Option<RunId> {
        let holds = |run: &Run| run.bins.0 <= bin && run.bins.1.is_none_or(|end| bin < end);
        let touches = |run: &Run| run.bins.0 <= bin && run.bins.1.is_none_or(|end| bin <= end);
        // Counts are looked at now and then: an array may be gone by then, and another be where it was, elsewhere.
        let likely = |run: &Run| match run.home {
            Some(_) if run.home == home && touches(run) => 3,
            None if holds(run) => 2,
            Some(_) if run.home == home && run.bins.0 <= bin => 1,
            _ => 0,
        };
        let covering = self.layers.get(&process)?.covering(&self.runs, page);
        let (run, _) = covering.max_by_key(|(at, run)| (likely(run), holds(run), run.bins.0, Reverse(*at)))?;
        Some(RunId(run))
    }

    fn run(&self, run: RunId) -> &Run {
        &self.runs[run.0 as usize]
    }

    /// The row with a place among all rows.
    pub fn run_at(&self, row: u32) -> Option<RunId> {
        ((row as usize) < self.runs.len()).then_some(RunId(row))
    }

    /// The first row of each row's target, and of its target, object and first toucher.
    pub fn first_rows(&self) -> FirstRows {
        let mut of_target: Vec<Option<RunId>> = vec![None; self.all.len()];
        let mut known: FxHashMap<(TargetId, Option<ObjectId>, Option<ThreadId>), RunId> = FxHashMap::default();
        let of_run = |(at, run): (u32, &Run)| {
            of_target[run.target.0 as usize].get_or_insert(RunId(at));
            *known.entry((run.target, run.object, run.thread)).or_insert(RunId(at))
        };
        let of_run = (0..).zip(&self.runs).map(of_run).collect();
        FirstRows { of_target, of_run }
    }

    /// Whose memory a row is.
    pub fn target_of(&self, run: RunId) -> TargetId {
        self.run(run).target
    }

    /// Whether accesses from a node are not those of the node that made the target.
    pub fn is_others(&self, target: TargetId, node: Option<NodeId>) -> bool {
        self.all[target.0 as usize].maker != Some(node)
    }

    /// The target of an object, where some of its pages are known.
    pub fn of_object(&self, object: ObjectId) -> Option<TargetId> {
        self.runs.iter().find(|run| run.object == Some(object)).map(|run| run.target)
    }

    /// The pages of some objects, in order, whatever process they are of.
    pub fn pages_of(&self, objects: &FxHashSet<ObjectId>) -> Vec<Range<u64>> {
        let of_them = self.runs.iter().filter(|run| run.object.is_some_and(|object| objects.contains(&object)));
        let mut pages: Vec<Range<u64>> = of_them.map(|run| run.page.0..run.end()).collect();
        pages.sort_unstable_by_key(|pages| (pages.start, pages.end));
        pages.dedup_by(|next, last| {
            let meets = next.start <= last.end;
            if meets {
                last.end = last.end.max(next.end);
            }
            meets
        });
        pages
    }

    /// Where the pages of a row lie.
    pub fn home_of(&self, run: RunId) -> Option<NodeId> {
        self.run(run).home
    }

    /// Small pages that each page of a row has: one, or as many as are in a huge page.
    pub fn small_pages_of(&self, run: RunId) -> u64 {
        u64::from(self.run(run).small_pages)
    }

    /// The same with what pages stand for.
    pub fn with_regions(mut self, regions: &[PageRegion]) -> Self {
        for row in regions {
            let pages = self.regions.entry((row.process, row.page)).or_default();
            *pages = row.pages.max(*pages);
        }
        self
    }

    /// How many pages the facts of a page are of.
    pub fn pages_counted_as(&self, process: ProcessId, page: Page) -> u32 {
        self.regions.get(&(process, page)).map_or(1, |pages| *pages.max(&1))
    }

    /// The object of a row.
    pub fn object_of(&self, run: RunId) -> Option<ObjectId> {
        self.run(run).object
    }

    /// Who touched the pages of a row first, and when.
    pub fn toucher_of(&self, run: RunId) -> (Option<ThreadId>, Bin) {
        (self.run(run).thread, self.run(run).bins.0)
    }

    /// The node that the first toucher of the pages of a row was on then.
    pub fn toucher_node_of(&self, run: RunId) -> Option<NodeId> {
        self.run(run).node
    }

    /// Whether the pages of a row were placed by a pinned thread.
    pub fn is_pinned(&self, run: RunId) -> bool {
        self.run(run).placed != Placed::Unpinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::placed::tests::row;
    use crate::facts::policies::Policies;
    use numalens_profile::PinningLog;
    use numalens_profile::tables::PlacedPages;
    use numalens_profile::words::Fault;

    fn placed(page: u64, count: u64, bins: (u32, Option<u32>), home: u16, object: u32) -> PlacedPages {
        let row = row(page, count, bins, Placed::Pinned, Fault::Anonymous);
        PlacedPages { home: Some(NodeId(home)), object: Some(ObjectId(object)), ..row }
    }

    /// One array of 1,000 pages, and at its addresses another one that was placed page by page.
    #[test]
    fn a_large_run_is_found_below_many_small_ones() {
        let mut rows = vec![placed(100, 1000, (0, Some(5)), 0, 1)];
        rows.extend((100..1100).map(|page| placed(page, 1, (5, None), 1, 2)));
        let pinning = Pinning { nodes: &PinningLog::default(), policies: &Policies::default() };
        let targets = PlacementTargets::new(&rows, &rows, &FxHashMap::default(), &pinning, &[]);
        for page in [100, 500, 1099] {
            let object = |bin, home| {
                let run = targets.run_of(ProcessId(0), Page(page), Bin(bin), Some(NodeId(home)));
                run.and_then(|run| targets.object_of(run))
            };
            assert_eq!((object(2, 0), object(7, 1)), (Some(ObjectId(1)), Some(ObjectId(2))), "page {page}");
            assert_eq!(object(5, 0), Some(ObjectId(1)), "page {page}: the home tells, at the time of both");
        }
        assert!(targets.run_of(ProcessId(0), Page(1100), Bin(7), None).is_none());
    }
}
