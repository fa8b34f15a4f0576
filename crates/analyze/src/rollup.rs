//! Sums that are written with a profile, so that whoever opens it need not read all facts ([`Rollup`]): made of a
//! dataset by the same folds that read the facts otherwise.

use crate::Dataset;
use crate::advice;
use crate::dataset::clusters;
use crate::dataset::usages::Usages;
use crate::facts::fold::Need;
use crate::facts::page_totals::of_part;
use crate::facts::page_use::{PageFacts, PageKey, PageUseKey};
use crate::facts::placement_targets::{FirstRows, RunId, TargetId};
use crate::facts::rollup::{MemoryUse, Rollup};
use crate::facts::usage::Usage;
use crate::model::sharing::Use;
use crate::model::tally::Tally;
use numalens_profile::tables::{
    CachedPage, MainUser, NodePage, PageAccess, PageSum, SummedWait, TargetPart, TargetSum, ThreadPair,
};
use numalens_profile::{Content, Error, Profile};
use numalens_topology::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a dataset must have been loaded with.
pub const NEEDS: &[Need] = advice::NEEDS;

/// Facts from which reading them takes longer than anybody wants to wait.
const MANY: u64 = 200_000;

/// How many times fewer sums by page there must be than facts, for them to be worth their room.
const FEWER: usize = 4;

/// Whether a profile has so many facts that sums are worth their room.
///
/// # Errors
/// It cannot be read.
pub fn is_worth_it(profile: &Profile) -> Result<bool, Error> {
    Ok(profile.count::<PageAccess>()? >= MANY)
}

/// Gives `write` the sums of a dataset of a whole recording that was loaded with [`NEEDS`], as tables. Nothing where
/// its counts are no exact ones, or where it has been loaded with sums.
pub fn of<T>(dataset: &Dataset, write: impl FnOnce(Vec<Content<'_>>) -> T) -> Option<T> {
    let is_exact = !dataset.about.sampled() && dataset.facts.sites.imported.is_none();
    if !is_exact || dataset.facts.page_use.sums.is_empty() {
        return None;
    }
    let (rollup, pages) = (rollup(dataset), PageFacts::of(&dataset.facts.page_use));
    let mut contents = rollup.contents();
    if pages.sums.len() * FEWER <= dataset.facts.page_use.sums.len() {
        contents.insert(0, Content::of(|| pages.sums.iter().map(node_page)));
    }
    Some(write(contents))
}

fn node_page((key, tally): (PageKey, Tally)) -> NodePage {
    let PageKey { process, page, node, home } = key;
    NodePage { process, page, node, home, reads: tally.reads, writes: tally.writes }
}

fn rollup(dataset: &Dataset) -> Rollup {
    let usages = Usages::of(dataset);
    let rows = dataset.memory.targets.first_rows();
    let Sums { memory, users, .. } = sums(&usages, &rows);
    let pairs = clusters::pairs(dataset).into_iter();
    let used = memory.keys().filter_map(|used| Some(dataset.memory.targets.target_of(used.run?))).collect();
    let (targets, parts) = of_targets(&usages, &rows, &used);
    let mut pages: Vec<PageSum> = memory.into_iter().map(page_sum).collect();
    pages.sort_by_key(|row| (row.first_row, row.thread, row.node, row.home, row.initial));
    let mut users: Vec<MainUser> =
        users.into_iter().map(|(node, [own, accesses])| MainUser { node, own, accesses }).collect();
    users.sort_by_key(|row| row.node);
    Rollup {
        pages,
        targets,
        parts,
        pairs: pairs
            .map(|(((thread, node), (other, other_node)), accesses)| ThreadPair {
                thread,
                node,
                other,
                other_node,
                accesses,
            })
            .collect(),
        cached: (advice::cached_crowds(&usages).into_iter())
            .map(|(process, page)| CachedPage { process, page })
            .collect(),
        users,
        waits: usages.waiting.sites().into_iter().map(|(site, accesses)| SummedWait { site, accesses }).collect(),
    }
}

/// Sums in the making.
#[derive(Default)]
struct Sums {
    /// All accesses, and those that do not wait.
    memory: FxHashMap<MemoryUse, [Tally; 2]>,
    /// Accesses to pages by the node that uses them most: its own, all.
    users: FxHashMap<NodeId, [u64; 2]>,
    /// Pages of one row stand together for a while, and the same threads use them.
    run: Option<RunId>,
    of_run: FxHashMap<MemoryUse, [Tally; 2]>,
}

impl Sums {
    fn add(&mut self, usages: &Usages, rows: &FirstRows, page: &[(PageUseKey, Tally)]) {
        let mut nodes: Vec<(NodeId, u64)> = Vec::new();
        for (key, tally) in page {
            if key.run != self.run {
                self.end_run(rows);
                self.run = key.run;
            }
            let sums = self.of_run.entry(MemoryUse::from(*key)).or_default();
            sums[0] += *tally;
            sums[1] += usages.waiting.without(key, *tally);
            let Some(node) = key.node.filter(|node| usages.dataset.machine.has_cpus(*node)) else { continue };
            match nodes.iter_mut().find(|(known, _)| *known == node) {
                Some((_, n)) => *n += tally.accesses(),
                None => nodes.push((node, tally.accesses())),
            }
        }
        let all = nodes.iter().map(|(_, n)| n).sum::<u64>();
        if let Some((node, most)) = nodes.into_iter().max_by_key(|(node, n)| (*n, *node)) {
            let sums = self.users.entry(node).or_default();
            *sums = [sums[0] + most, sums[1] + all];
        }
    }

    fn end_run(&mut self, rows: &FirstRows) {
        let mut of_run = std::mem::take(&mut self.of_run);
        for (MemoryUse { run, by }, more) in of_run.drain() {
            add(&mut self.memory, MemoryUse { run: run.map(|run| rows.of_run(run)), by }, more);
        }
        self.of_run = of_run;
    }

    fn merge(mut self, mut other: Sums, rows: &FirstRows) -> Sums {
        self.end_run(rows);
        other.end_run(rows);
        other.memory.into_iter().for_each(|(used, more)| add(&mut self.memory, used, more));
        for (node, [own, all]) in other.users {
            let sums = self.users.entry(node).or_default();
            *sums = [sums[0] + own, sums[1] + all];
        }
        self
    }
}

fn add(memory: &mut FxHashMap<MemoryUse, [Tally; 2]>, used: MemoryUse, more: [Tally; 2]) {
    let sums = memory.entry(used).or_default();
    sums[0] += more[0];
    sums[1] += more[1];
}

fn sums(usages: &Usages, rows: &FirstRows) -> Sums {
    let mut sums = usages.dataset.facts.page_use.sums.fold_pages(
        Sums::default,
        |sums, page| sums.add(usages, rows, page),
        |one, other| one.merge(other, rows),
    );
    sums.end_run(rows);
    sums
}

fn page_sum((MemoryUse { run, by }, [all, rest]): (MemoryUse, [Tally; 2])) -> PageSum {
    PageSum {
        first_row: run.map(RunId::row),
        thread: by.thread,
        node: by.node,
        home: by.home,
        initial: by.initial,
        reads: all.reads,
        writes: all.writes,
        waiting_reads: all.reads.saturating_sub(rest.reads),
        waiting_writes: all.writes.saturating_sub(rest.writes),
    }
}

/// Targets that anybody uses, and parts of them.
fn of_targets(usages: &Usages, rows: &FirstRows, used: &FxHashSet<TargetId>) -> (Vec<TargetSum>, Vec<TargetPart>) {
    let (mut targets, mut parts) = (Vec::new(), Vec::new());
    for (id, usage) in (0..).map(TargetId).zip(&usages.targets) {
        let Some(row) = rows.of_target(id).filter(|_| used.contains(&id)) else { continue };
        let first_row = row.row();
        targets.push(target_sum(first_row, usage, usages.working_sets.sums(id)));
        let part = |huge: bool| {
            move |one: Use| {
                let (process, number) = of_part(one.part);
                let node = NodeId(u16::try_from(one.user).unwrap_or(u16::MAX));
                TargetPart { first_row, huge, process, number, node, accesses: one.n }
            }
        };
        parts.extend(usage.pages.few.iter().copied().map(part(false)));
        parts.extend(usage.huge_pages.uses().into_iter().map(part(true)));
    }
    (targets, parts)
}

fn target_sum(first_row: u32, usage: &Usage, (used, cached): (u64, u64)) -> TargetSum {
    let (pages, shared) = (&usage.pages, &usage.shared);
    TargetSum {
        first_row,
        accesses: pages.n,
        shared: pages.basis,
        same: pages.same as u64,
        same_high: (pages.same >> 64) as u64,
        used,
        cached,
        others_reads: shared.others.reads,
        others_writes: shared.others.writes,
        before_reads: shared.before.reads,
        before_writes: shared.before.writes,
        opening_reads: shared.opening.reads,
        opening_writes: shared.opening.writes,
        own_reads: shared.own.reads,
        own_writes: shared.own.writes,
    }
}
