//! What all memory is used for: the usage of every target, and of the program as a whole.

use crate::facts::cache_lines::LineFacts;
use crate::facts::code::Code;
use crate::facts::handed_on::Blocks;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_use::{PageUse, PageUseKey};
use crate::facts::placement_targets::PlacementTargets;
use crate::facts::sites::SiteFacts;
use crate::facts::usage::Usage;
use crate::facts::waiting::Waiting;
use crate::facts::working_sets::WorkingSets;
use crate::model::about::{About, Unit};
use crate::model::tally::{self, Tally};
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::Object;
use numalens_simulate::{CostModel, Traffic};
use numalens_topology::{Machine, NodeId};
use rustc_hash::FxHashMap;

/// What totals are made of.
pub struct Basis<'a> {
    pub about: &'a About,
    pub machine: &'a Machine,
    pub objects: &'a FxHashMap<ObjectId, Object>,
    pub code: &'a Code,
    pub targets: &'a PlacementTargets,
    pub sites: &'a SiteFacts,
    pub by_object: &'a ObjectFacts,
    pub lines: &'a LineFacts,
    pub page_use: &'a PageUse,
    /// Whether a thread had ended when another one began.
    pub ends_before: &'a dyn Fn(ThreadId, ThreadId) -> bool,
}

/// Accesses of the whole program, by target. Those that wait are not among them.
#[derive(Default)]
pub struct Totals {
    /// In the order of [`TargetId`](crate::facts::placement_targets::TargetId)s.
    pub targets: Vec<Usage>,
    pub traffic: Traffic,
    pub all: Tally,
    /// What of it private caches keep.
    pub working_sets: WorkingSets,
    pub waiting: Waiting,
    /// Single blocks, as far as they are known.
    pub blocks: Blocks,
}

/// Accesses as the cost model wants them: a clock sample on a real machine is time, and the way has been paid in it.
pub fn weigher<'a>(
    about: &About,
    machine: &Machine,
    model: CostModel<'a>,
) -> impl Fn(Option<NodeId>, Option<NodeId>, u64) -> f64 + use<'a> {
    let paid = matches!(about.unit, Unit::Time { .. }) && !machine.is_virtual;
    move |from, home, accesses| match home {
        Some(home) if paid => accesses as f64 / model.latency(from, home),
        _ => accesses as f64,
    }
}

impl Totals {
    /// Sums all of them, each at its cost.
    pub fn new(of: &Basis<'_>, model: &CostModel<'_>) -> Totals {
        let targets = of.targets.all.iter().map(|_| Usage::default()).collect();
        let mut totals =
            Totals { targets, waiting: Waiting::of(of.sites, of.code, of.lines, of.page_use), ..Totals::default() };
        totals.blocks = Blocks::of(of.objects, of.by_object);
        let weighed = weigher(of.about, of.machine, *model);
        // Pages of one row stand together for a while, and the same threads use them: what they do is added first.
        let mut by_thread: FxHashMap<(ThreadId, Option<NodeId>, Option<NodeId>, bool), Tally> = FxHashMap::default();
        for of_row in of.page_use.sums.chunks_by(|a, b| a.run == b.run) {
            let run = of_row[0].0.run;
            by_thread.clear();
            for (key, tally) in of_row {
                let rest = totals.waiting.without(key, *tally);
                // Where the page was then: another one may have its address by now.
                *by_thread.entry((key.thread, key.node, key.home, key.initial)).or_default() += rest;
            }
            let waiting = &totals.waiting;
            let mut usage = run.map(|run| &mut totals.targets[of.targets.target_of(run).0 as usize]);
            let object = run.and_then(|run| of.targets.object_of(run));
            let toucher = run.and_then(|run| of.targets.toucher_of(run).0);
            if let Some(usage) = &mut usage {
                let small_pages = run.map_or(1, |run| of.targets.small_pages_of(run));
                let rest = |(key, tally): &(PageUseKey, Tally)| (*key, waiting.without(key, *tally));
                of_row.iter().map(rest).for_each(|(key, tally)| usage.add_page(&key, &tally, small_pages));
            }
            for ((thread, node, home, initial), tally) in &by_thread {
                let accesses = weighed(*node, *home, tally.accesses());
                totals.traffic.add(*node, *home, accesses);
                totals.all += *tally;
                if let Some(usage) = &mut usage {
                    if toucher.is_some_and(|toucher| (of.ends_before)(toucher, *thread)) {
                        tally::add(&mut usage.successors, tally.accesses());
                    }
                    usage.add((*thread, *node, *initial), tally, object);
                    usage.traffic.add(*node, *home, accesses);
                }
            }
        }
        for (usage, shared) in totals.targets.iter_mut().zip(&of.page_use.shared) {
            usage.shared = *shared;
        }
        totals.working_sets = WorkingSets::new(of.targets, of.page_use, &totals.targets, &totals.waiting);
        totals
    }
}
