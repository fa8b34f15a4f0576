//! Sums of `page_accesses` that a profile has as tables of their own (`page_sums` and those behind it): what the first
//! screen and advice make of all facts, made once. There may be a hundred million facts, and a few thousand sums.
//!
//! ```text
//!   page_accesses -> PageUse -> Totals, communication, ...        the facts of any part, for whoever asks more
//!                       \                    ^
//!                        `-> page_sums ... --'                    the whole recording
//! ```
//!
//! Sums leave out what waits, as it was known when they were made. With other names of code they say nothing.

use crate::facts::page_totals::{PageTotals, User, part_of};
use crate::facts::page_use::PageUseKey;
use crate::facts::placement_targets::{PlacementTargets, RunId, TargetId};
use crate::facts::shared_pages::SharedPages;
use crate::facts::shared_use::Shared;
use crate::facts::totals::{Basis, Totals, weigher};
use crate::facts::waiting::Waiting;
use crate::facts::working_sets::WorkingSets;
use crate::model::sharing::Use;
use crate::model::tally::{MOST, Tally};
use numalens_profile::ids::{Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::{CachedPage, MainUser, PageSum, SummedWait, TargetPart, TargetSum, ThreadPair};
use numalens_profile::{Content, Error, Profile};
use numalens_simulate::CostModel;
use numalens_topology::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A thread while it was on a node.
type Place = (ThreadId, Option<NodeId>);

/// The rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rollup {
    pub pages: Vec<PageSum>,
    pub targets: Vec<TargetSum>,
    pub parts: Vec<TargetPart>,
    pub pairs: Vec<ThreadPair>,
    pub cached: Vec<CachedPage>,
    pub users: Vec<MainUser>,
    pub waits: Vec<SummedWait>,
}

impl Rollup {
    /// Whether a profile has sums.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_in(profile: &Profile) -> Result<bool, Error> {
        Ok(profile.count::<PageSum>()? > 0)
    }

    /// Those of a profile.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(profile: &Profile) -> Result<Rollup, Error> {
        Ok(Rollup {
            pages: profile.rows()?,
            targets: profile.rows()?,
            parts: profile.rows()?,
            pairs: profile.rows()?,
            cached: profile.rows()?,
            users: profile.rows()?,
            waits: profile.rows()?,
        })
    }

    /// As tables of a profile.
    pub fn contents(&self) -> Vec<Content<'_>> {
        vec![
            // The last one that a crash leaves out is the one that says that there are sums.
            Content::of(|| self.targets.iter().cloned()),
            Content::of(|| self.parts.iter().cloned()),
            Content::of(|| self.pairs.iter().cloned()),
            Content::of(|| self.cached.iter().cloned()),
            Content::of(|| self.users.iter().cloned()),
            Content::of(|| self.waits.iter().cloned()),
            Content::of(|| self.pages.iter().cloned()),
        ]
    }

    /// Whether they are of these targets, and leave out what waits as it is known now.
    pub fn fits(&self, targets: &PlacementTargets, waiting: &Waiting) -> bool {
        let sites: Vec<(SiteId, u64)> = self.waits.iter().map(|row| (row.site, row.accesses)).collect();
        if sites != waiting.sites() {
            return false;
        }
        let target = |row: u32| targets.run_at(row).map(|run| targets.target_of(run));
        let mut known: FxHashSet<TargetId> = FxHashSet::default();
        // Names of objects make targets: of others there may be more, or fewer.
        self.targets.iter().all(|row| target(row.first_row).is_some_and(|target| known.insert(target)))
            && (self.pages.iter().filter_map(|row| row.first_row))
                .all(|row| target(row).is_some_and(|target| known.contains(&target)))
            && (self.parts.iter()).all(|row| target(row.first_row).is_some_and(|target| known.contains(&target)))
            && self.knows_pairs()
    }

    /// Whether those who share anything do anything.
    fn knows_pairs(&self) -> bool {
        let active: FxHashSet<ThreadId> = self.pages.iter().filter(|row| !row.initial).map(|row| row.thread).collect();
        self.pairs.iter().all(|row| active.contains(&row.thread) && active.contains(&row.other))
    }

    /// Who uses which memory, waiting included.
    pub fn uses<'a>(&'a self, targets: &'a PlacementTargets) -> impl Iterator<Item = (MemoryUse, Tally)> + 'a {
        self.pages.iter().map(|row| (MemoryUse { run: row.run(targets), by: row.user() }, row.tally()))
    }

    /// Accesses to shared pages of each pair of threads on nodes.
    pub fn pairs(&self) -> BTreeMap<(Place, Place), f64> {
        let pair = |row: &ThreadPair| ((row.thread, row.node), (row.other, row.other_node));
        self.pairs.iter().map(|row| (pair(row), row.accesses)).collect()
    }

    /// Pages of several small objects whose users have them in their caches.
    pub fn cached_pages(&self) -> Vec<(ProcessId, Page)> {
        self.cached.iter().map(|row| (row.process, row.page)).collect()
    }

    /// What [`Totals::new`] makes of all page use.
    pub fn totals(&self, of: &Basis<'_>, model: &CostModel<'_>) -> Totals {
        let weighed = weigher(of.about, of.machine, *model);
        let mut sums = PageTotals::default();
        for row in &self.pages {
            let run = row.run(of.targets);
            sums.add_run(of, &weighed, run, row.user(), row.rest());
        }
        let target = |row: u32| of.targets.run_at(row).map(|run| of.targets.target_of(run));
        let mut working_sets = FxHashMap::default();
        for row in &self.targets {
            let Some(target) = target(row.first_row) else { continue };
            let usage = sums.targets.entry(target).or_default();
            let same = u128::from(row.same) | u128::from(row.same_high) << 64;
            usage.pages = SharedPages { n: row.accesses, basis: row.shared, same, few: Vec::new() };
            usage.shared = row.shares();
            working_sets.insert(target, (row.used, row.cached));
        }
        for row in &self.parts {
            let Some(target) = target(row.first_row) else { continue };
            let usage = sums.targets.entry(target).or_default();
            let part = part_of(row.process, row.number);
            let one = Use { part, user: u32::from(row.node.0), n: row.accesses };
            match row.huge {
                true => usage.huge_pages.add(one),
                false => usage.pages.few.push(one),
            }
        }
        let waiting = Waiting::of_code(of.sites, of.code);
        let working_sets = WorkingSets::of_sums(working_sets.into_iter());
        Totals { working_sets, ..Totals::of(of, sums, waiting) }
    }
}

/// Exact counts.
fn tally(reads: u64, writes: u64) -> Tally {
    Tally { reads: reads.min(MOST), writes: writes.min(MOST), ..Tally::default() }
}

/// Memory, and who uses it where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryUse {
    /// A row of `pages` with its target, object and first toucher; none: no row has it.
    pub run: Option<RunId>,
    pub by: User,
}

impl From<PageUseKey> for MemoryUse {
    fn from(key: PageUseKey) -> Self {
        let PageUseKey { thread, node, home, initial, run, .. } = key;
        MemoryUse { run, by: User { thread, node, home, initial } }
    }
}

/// What rows say.
trait PageSumRow {
    /// Who.
    fn user(&self) -> User;
    /// All accesses.
    fn tally(&self) -> Tally;
    /// Those that do not wait.
    fn rest(&self) -> Tally;
    /// The row of `pages` that stands for the memory.
    fn run(&self, targets: &PlacementTargets) -> Option<RunId>;
}

impl PageSumRow for PageSum {
    fn user(&self) -> User {
        User { thread: self.thread, node: self.node, home: self.home, initial: self.initial }
    }

    fn tally(&self) -> Tally {
        tally(self.reads, self.writes)
    }

    fn rest(&self) -> Tally {
        let reads = self.reads.saturating_sub(self.waiting_reads);
        tally(reads, self.writes.saturating_sub(self.waiting_writes))
    }

    fn run(&self, targets: &PlacementTargets) -> Option<RunId> {
        self.first_row.and_then(|row| targets.run_at(row))
    }
}

/// The same of targets.
trait TargetSumRow {
    fn shares(&self) -> Shared;
}

impl TargetSumRow for TargetSum {
    fn shares(&self) -> Shared {
        Shared {
            others: tally(self.others_reads, self.others_writes),
            before: tally(self.before_reads, self.before_writes),
            opening: tally(self.opening_reads, self.opening_writes),
            own: tally(self.own_reads, self.own_writes),
        }
    }
}
