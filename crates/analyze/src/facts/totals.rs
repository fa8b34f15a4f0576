//! What all memory is used for: the usage of every target, and of the program as a whole.

use crate::facts::cache_lines::LineFacts;
use crate::facts::code::Code;
use crate::facts::handed_on::Blocks;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_totals::PageTotals;
use crate::facts::page_use::PageUse;
use crate::facts::placement_targets::{PlacementTargets, TargetId};
use crate::facts::sites::SiteFacts;
use crate::facts::usage::Usage;
use crate::facts::waiting::Waiting;
use crate::facts::working_sets::WorkingSets;
use crate::model::about::{About, Unit};
use crate::model::tally::Tally;
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
    pub ends_before: &'a (dyn Fn(ThreadId, ThreadId) -> bool + Sync),
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
        let waiting = Waiting::of(of.sites, of.code, of.lines, of.page_use);
        let weighed = weigher(of.about, of.machine, *model);
        let sums = of.page_use.sums.fold_pages(
            PageTotals::default,
            |sums, page| sums.add(of, &waiting, &weighed, page),
            |one, other| one.merge(other, of, &weighed),
        );
        let mut sums = sums.finished(of, &weighed);
        let pages = std::mem::take(&mut sums.pages);
        let mut totals = Totals::of(of, sums, waiting);
        for (usage, shared) in totals.targets.iter_mut().zip(&of.page_use.shared) {
            usage.shared = *shared;
        }
        totals.working_sets = WorkingSets::new(of.targets, pages, &totals.targets);
        totals
    }

    /// Of the sums of all pages; nothing is known yet of what caches keep.
    pub fn of(of: &Basis<'_>, sums: PageTotals, waiting: Waiting) -> Totals {
        let PageTotals { mut targets, traffic, all, .. } = sums;
        let targets =
            (0..of.targets.all.len() as u32).map(|id| targets.remove(&TargetId(id)).unwrap_or_default()).collect();
        let blocks = Blocks::of(of.objects, of.by_object);
        Totals { targets, traffic, all, working_sets: WorkingSets::default(), waiting, blocks }
    }
}
