//! What pages are used for, summed by target, page after page: sums of parts of the pages merge, in order.

use crate::facts::page_use::PageUseKey;
use crate::facts::placement_targets::{RunId, TargetId};
use crate::facts::totals::Basis;
use crate::facts::usage::Usage;
use crate::facts::waiting::Waiting;
use crate::facts::working_sets::DensePages;
use crate::model::sharing::Use;
use crate::model::tally::{self, Tally};
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// What accesses cost: by node, home and number.
pub type Weigher<'a> = &'a (dyn Fn(Option<NodeId>, Option<NodeId>, u64) -> f64 + Sync);

/// Sums in the making.
#[derive(Default)]
pub struct PageTotals {
    pub targets: FxHashMap<TargetId, Usage>,
    pub traffic: Traffic,
    pub all: Tally,
    pub pages: DensePages,
    /// Pages of one row stand together for a while, and the same threads use them: what they do is added first.
    run: Option<RunId>,
    of_run: FxHashMap<User, Tally>,
    /// Of one page, while it is added.
    uses: Vec<(TargetId, u64, Use)>,
}

/// Who does something to pages, and where they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User {
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub initial: bool,
}

impl PageTotals {
    /// Adds the sums of one page. Those that wait are not among them.
    pub fn add(&mut self, of: &Basis<'_>, waiting: &Waiting, weighed: Weigher<'_>, page: &[(PageUseKey, Tally)]) {
        self.pages.add(of.targets, page, waiting);
        self.uses.clear();
        for (key, tally) in page {
            let rest = waiting.without(key, *tally);
            if key.run != self.run {
                self.end_run(of, weighed);
                self.run = key.run;
            }
            let PageUseKey { thread, node, home, initial, .. } = *key;
            // Where the page was then: another one may have its address by now.
            *self.of_run.entry(User { thread, node, home, initial }).or_default() += rest;
            if let (Some(run), Some(node), false) = (key.run, node, initial) {
                let part = part_of(key.process, key.page.0);
                self.add_user(of.targets.target_of(run), of.targets.small_pages_of(run), part, (node, rest.basis()));
            }
        }
        self.share_page();
    }

    /// Adds what a node does to the page that is being added. Nodes are few, threads may be many.
    fn add_user(&mut self, target: TargetId, small_pages: u64, part: u64, (node, n): (NodeId, u64)) {
        let user = u32::from(node.0);
        let same = |of: &&mut (TargetId, u64, Use)| of.0 == target && of.1 == small_pages && of.2.user == user;
        match self.uses.iter_mut().find(same) {
            Some((.., known)) => known.n = known.n.saturating_add(n),
            None => self.uses.push((target, small_pages, Use { part, user, n })),
        }
    }

    /// Adds who shares the page.
    fn share_page(&mut self) {
        let mut uses = std::mem::take(&mut self.uses);
        uses.sort_unstable();
        let mut of_target = Vec::with_capacity(uses.len());
        for same in uses.chunk_by(|a, b| a.0 == b.0) {
            let usage = self.targets.entry(same[0].0).or_default();
            of_target.clear();
            of_target.extend(same.iter().map(|(.., one)| *one));
            of_target.sort_unstable();
            usage.pages.add(&of_target);
            for (_, small_pages, one) in same.iter().filter(|(_, small_pages, _)| *small_pages > 1) {
                let (process, number) = of_part(one.part);
                usage.huge_pages.add(Use { part: part_of(process, number / small_pages), ..*one });
            }
        }
        self.uses = uses;
    }

    /// Adds what was done to the pages of the latest row.
    fn end_run(&mut self, of: &Basis<'_>, weighed: Weigher<'_>) {
        let (run, mut of_run) = (self.run, std::mem::take(&mut self.of_run));
        of_run.drain().for_each(|(user, tally)| self.add_run(of, weighed, run, user, tally));
        self.of_run = of_run;
    }

    /// Adds what one user does to the pages of a row.
    pub fn add_run(&mut self, of: &Basis<'_>, weighed: Weigher<'_>, run: Option<RunId>, user: User, tally: Tally) {
        let User { thread, node, home, initial } = user;
        let accesses = weighed(node, home, tally.accesses());
        self.traffic.add(node, home, accesses);
        self.all += tally;
        let Some(run) = run else { return };
        let usage = self.targets.entry(of.targets.target_of(run)).or_default();
        if of.targets.toucher_of(run).0.is_some_and(|toucher| (of.ends_before)(toucher, thread)) {
            tally::add(&mut usage.successors, tally.accesses());
        }
        usage.add((thread, node, initial), &tally, of.targets.object_of(run));
        usage.traffic.add(node, home, accesses);
    }

    /// Both together.
    pub fn merge(self, other: Self, of: &Basis<'_>, weighed: Weigher<'_>) -> Self {
        let (mut one, other) = (self.finished(of, weighed), other.finished(of, weighed));
        for (target, usage) in other.targets {
            one.targets.entry(target).or_default().merge(usage);
        }
        one.traffic.add_all(&other.traffic, 1.0);
        one.all += other.all;
        one.pages.merge(other.pages);
        one
    }

    /// With all that was added.
    pub fn finished(mut self, of: &Basis<'_>, weighed: Weigher<'_>) -> Self {
        self.end_run(of, weighed);
        self.run = None;
        self
    }
}

/// The bits of a page's number. Processes have address spaces of their own: above there is room to say which.
const NUMBER_BITS: u32 = 52;

/// Where a page's number and its process are one.
pub fn part_of(process: ProcessId, number: u64) -> u64 {
    number | u64::from(process.0) << NUMBER_BITS
}

/// Both of them.
pub fn of_part(part: u64) -> (ProcessId, u64) {
    (ProcessId((part >> NUMBER_BITS) as u32), part & ((1 << NUMBER_BITS) - 1))
}
