//! From the usage of one target to a pattern and its remedy.

use super::candidate::{Candidate, Effect, LEAST_SHARE, MUCH};
use super::case::{Case, OWN, cases, is_far, is_slow};
use super::judgement::Judgement;
use super::neighbours::Neighbours;
use super::program::Clusters;
use super::{causes, evidence};
use crate::dataset::usages::Usages;
use crate::facts::contended_lines;
use crate::facts::objects::is_shared_memory;
use crate::facts::placement_targets::PlacementTarget;
use crate::facts::usage::Usage;
use crate::model::object_group::Group;
use crate::model::patterns::{Pattern, Remedy};
use crate::model::report::Field;
use numalens_profile::words::{ObjectKind, Placed};
use numalens_simulate::Traffic;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Percent of writes up to which memory counts as only read.
const RARELY: f64 = 2.0;
/// Part of a target's bytes that one node's threads touched first: serial.
const SERIAL: f64 = 0.8;
/// Samples, or exact accesses, of a target below which it is not judged.
const ENOUGH: u64 = 20;
/// Bytes that one access copies at best.
const LINE: f64 = 64.0;

/// What an object is used like, with what was seen of it.
pub struct Judged {
    /// Pattern and remedy; none: nothing to change, or too little was seen to say.
    pub pattern: Option<(Pattern, Remedy)>,
    pub evidence: Vec<Field>,
}

/// Every object that was accessed, those of one allocation stack as one; also those that concern too little for advice.
pub fn objects(usages: &Usages) -> FxHashMap<Group, Judged> {
    let contended = contended_lines::contended(usages.dataset.lines());
    let judged = cases(usages).filter_map(|(id, target, usage)| {
        let example = target.example.as_ref().filter(|_| usage.all.accesses() > 0)?;
        let case = Case::new(usages, (id, target, usage), contended.get(&id));
        let judged = if usage.all.basis() < ENOUGH { None } else { case.judge() };
        let pattern = judged.map(|(pattern, remedy, _)| (pattern, remedy));
        Some((Group::of(example), Judged { pattern, evidence: evidence::of(&[&case]) }))
    });
    // In order: targets may be of one group.
    judged.collect::<Vec<_>>().into_iter().collect()
}

/// The candidates of all targets, those of one cause as one.
pub(super) fn candidates(usages: &Usages, clusters: &Clusters, neighbours: &Neighbours<'_>) -> Vec<Candidate> {
    let contended = contended_lines::contended(usages.dataset.lines());
    let judged = cases(usages).filter_map(|(id, target, usage)| {
        if !is_far(usages, usage)
            || usage.all.basis() < ENOUGH
            || clusters.explain(usage)
            || is_a_runtimes(usages, target)
        {
            return None;
        }
        let case = Case::new(usages, (id, target, usage), contended.get(&id));
        let (pattern, remedy, after) = case.judge()?;
        let page = neighbours.page(target.example.as_ref(), usage.traffic.total());
        Some(Judgement { case, pattern, remedy, after, page }).filter(Judgement::has_place)
    });
    let groups = causes::groups(judged.collect());
    groups.iter().filter_map(|group| candidate(usages, group)).collect()
}

/// Whether it is memory in which a runtime keeps what it knows.
fn is_a_runtimes(usages: &Usages, target: &PlacementTarget) -> bool {
    let stack = target.example.as_ref().and_then(|object| object.stack);
    stack.and_then(|stack| usages.dataset.code.runtime_memory(stack)).is_some_and(|memory| memory.is_its_own)
}

/// What is said of memory that is handed from thread to thread, where much is: it may lie otherwise the next time.
pub(super) fn varies(usages: &Usages) -> Option<String> {
    let much =
        |usage: &Usage| usage.successors * 2 > usage.all.accesses() && usages.share(usage.traffic.total()).0 >= MUCH;
    let (id, target, usage) =
        cases(usages).filter(|(.., usage)| much(usage)).max_by_key(|(.., usage)| usage.successors)?;
    let case = Case::new(usages, (id, target, usage), None);
    let example = target.example.as_ref().filter(|_| case.handed_on.is_some())?;
    let place = usages.dataset.wanted_at(example.stack, example.site)?.location;
    let share = usages.share(usage.traffic.total()).0;
    Some(format!(
        "{share:.0} % of the accesses are to blocks of {place}, which malloc hands from threads that have ended to later ones: how much of it is remote may differ from run to run"
    ))
}

/// Of targets of one cause, the one with the most accesses first.
fn candidate(usages: &Usages, group: &[Judgement<'_>]) -> Option<Candidate> {
    let (mut before, mut after, mut worst) = (Traffic::default(), Traffic::default(), Traffic::default());
    for one in group {
        before.add_all(&one.case.usage.traffic, 1.0);
        after.add_all(&one.after, 1.0);
        worst.add_all(&one.case.worst(one.pattern).unwrap_or_else(|| one.after.clone()), 1.0);
    }
    let first = group.first().filter(|_| usages.share(before.total()).2 >= LEAST_SHARE)?;
    let cases: Vec<&Case<'_>> = group.iter().map(|one| &one.case).collect();
    let certain = cases.iter().all(|case| case.is_certain(first.pattern));
    let mut evidence = evidence::of(&cases);
    if !certain && first.case.contended.is_none() {
        evidence.push(evidence::unknown_words());
    }
    let name = first.example().map(|object| object.name.clone());
    Some(Candidate {
        pattern: first.pattern,
        remedy: first.remedy,
        place: first.place(),
        object: first.object(),
        name: name.filter(|name| !name.is_empty() && group.len() == 1),
        evidence,
        members: if group.len() > 1 { group.iter().map(Judgement::member).collect() } else { Vec::new() },
        effect: Effect::Traffic { before, after, worst: certain.then_some(worst) },
    })
}

impl Case<'_> {
    /// Pattern, remedy, and how its traffic would be then.
    pub(super) fn judge(&self) -> Option<(Pattern, Remedy, Traffic)> {
        let (pattern, remedy, after) = self.judge_use()?;
        let by_touch = matches!(pattern, Pattern::MisplacedBlocks | Pattern::PrivateElsewhere);
        // Where one node touched all of it first, it would lie there without the policy.
        if by_touch && self.policy().is_some() && self.serial_share() < SERIAL {
            return Some((Pattern::PlacedByPolicy, Remedy::DropPolicy, after));
        }
        Some((pattern, remedy, after))
    }

    pub(super) fn judge_use(&self) -> Option<(Pattern, Remedy, Traffic)> {
        if is_slow(self.usages, self.usage) {
            return Some((Pattern::SlowTier, Remedy::MoveToTier, self.fast_tier()));
        }
        if !is_far(self.usages, self.usage) {
            return None;
        }
        let n = self.users.len();
        if self.line_is_shared() {
            return Some((Pattern::SharedLine, Remedy::SplitLine, self.all_local()));
        }
        if self.usages.working_sets.keep(self.id) {
            return None;
        }
        if let Some(handed_on) = &self.handed_on {
            return Some((Pattern::HandedOn, Remedy::FreshPages, self.mostly_local(handed_on.own)));
        }
        let of_objects = self.objects.map_or(0.0, |sharing| sharing.main_share(n));
        // A file is one thing, although each process has it mapped as an object of its own.
        let are_several = self.usage.objects.len() > 1 && self.target.kind != Some(ObjectKind::File);
        if (n == 1 && !self.lies_with_its_user()) || (of_objects >= OWN && are_several) {
            return Some((
                Pattern::PrivateElsewhere,
                self.made_locally(),
                self.mostly_local(of_objects.max(self.of_pages())),
            ));
        }
        // Placement by pages is about pages: fewer than users cannot be divided.
        if self.of_pages() >= OWN && self.target.pages() >= n as u64 {
            // Whoever touches a huge page first, most of it is others'.
            if self.huge_pages.is_some_and(|sharing| sharing.main_share(n) < OWN) {
                return Some((Pattern::HugePageSplit, Remedy::AlignToHugePages, self.mostly_local(self.of_pages())));
            }
            return Some(self.blocks());
        }
        if self.usage.written_while_shared(self.target.bytes) < RARELY {
            return Some((Pattern::ReadByAll, Remedy::Replicate, self.replicated(1.0 / LINE)));
        }
        self.pages.map(|_| (Pattern::SharedReadWrite, Remedy::Interleave, self.interleaved()))
    }

    /// Disjoint parts: who touched them says what went wrong.
    pub(super) fn blocks(&self) -> (Pattern, Remedy, Traffic) {
        let after = self.mostly_local(self.of_pages());
        let unseen = self.target.placed.get(&Placed::Unseen).copied().unwrap_or(0);
        let of_disk =
            self.target.kind == Some(ObjectKind::File) && !self.target.example.as_ref().is_some_and(is_shared_memory);
        let by_kernel = unseen * 2 > self.target.bytes || of_disk;
        match (self.serial_share() >= SERIAL, by_kernel) {
            (true, false) => (Pattern::SerialInitialisation, Remedy::ParallelInitialisation, after),
            // Objects of one line that are each small: one line allocates for all.
            (false, false) if self.target.count > self.users.len() as u64 => {
                (Pattern::PrivateElsewhere, self.made_locally(), after)
            }
            _ => (Pattern::MisplacedBlocks, Remedy::BlockPlacement, after),
        }
    }

    /// How its user is the one who makes it. Nobody allocates a stack.
    pub(super) fn made_locally(&self) -> Remedy {
        if self.target.kind == Some(ObjectKind::Stack) { Remedy::LocalStack } else { Remedy::LocalAllocation }
    }

    /// Whether it was seen, and does not only follow from how small it is.
    pub(super) fn is_certain(&self, pattern: Pattern) -> bool {
        pattern != Pattern::SharedLine || self.contended.is_some_and(|lines| lines.often * 2 > lines.samples)
    }
}
