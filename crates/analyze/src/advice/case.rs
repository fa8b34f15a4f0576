//! One target of advice, and what is known of it: who uses it, who made it, what its lines do.

use crate::dataset::usages::Usages;
use crate::facts::code::OwnPlace;
use crate::facts::contended_lines::{self, Contended};
use crate::facts::placement_targets::{PlacementTarget, TargetId};
use crate::facts::policies::Policy;
use crate::facts::usage::Usage;
use crate::model::object_group::Group;
use crate::model::sharing::Sharing;
use crate::model::tally::Tally;
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;
use numalens_topology::NodeId;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Share of the main user from which a page, or an object, is called one node's.
pub(super) const OWN: f64 = 0.7;
/// The same from which blocks are said to be: of some of them, which are wholly known.
const OWN_BLOCK: f64 = 0.9;
/// Bytes of blocks for each byte of their pages from which pages were used again.
const AGAIN: f64 = 1.5;
/// Bytes up to which memory without sampled addresses may be one of lines that threads share: a page.
const FEW_LINES: u64 = 4096;

/// One target and what is known of it.
pub(super) struct Case<'a> {
    pub(super) usages: &'a Usages<'a>,
    pub(super) id: TargetId,
    pub(super) target: &'a PlacementTarget,
    pub(super) usage: &'a Usage,
    pub(super) users: BTreeMap<NodeId, f64>,
    pub(super) pages: Option<Sharing>,
    pub(super) huge_pages: Option<Sharing>,
    pub(super) objects: Option<Sharing>,
    pub(super) contended: Option<&'a Contended>,
    pub(super) handed_on: Option<HandedOn<'a>>,
}

/// What an allocator has put on pages that others had placed.
pub(super) struct HandedOn<'a> {
    /// Of another place; none: blocks of the same.
    pub(super) next: Option<&'a Object>,
    /// The share of a block's main node.
    pub(super) own: f64,
}

/// Targets and what they are used for.
pub(super) fn cases<'a>(
    usages: &'a Usages,
) -> impl IndexedParallelIterator<Item = (TargetId, &'a PlacementTarget, &'a Usage)> {
    let targets = usages.dataset.memory.targets.all.par_iter().zip(&usages.targets).enumerate();
    targets.map(|(index, (target, usage))| (TargetId(index as u32), target, usage))
}

/// Whether enough of it is on other nodes, or on slow ones, to matter.
pub(super) fn is_far(usages: &Usages, usage: &Usage) -> bool {
    usage.traffic.remote() * 20.0 >= usage.traffic.total() || is_slow(usages, usage)
}

/// Whether most of it goes to slower memory.
pub(super) fn is_slow(usages: &Usages, usage: &Usage) -> bool {
    let machine = &usages.dataset.machine;
    let on_slow = usage.traffic.sum(|_, to| to.is_some_and(|to| machine.is_slower_memory(to)));
    on_slow * 2.0 > usage.traffic.total()
}

impl<'a> Case<'a> {
    pub(super) fn new(
        usages: &'a Usages<'a>,
        (id, target, usage): (TargetId, &'a PlacementTarget, &'a Usage),
        contended: Option<&'a Contended>,
    ) -> Self {
        let (users, pages, objects) = (usage.users(), usage.page_sharing(), usage.object_sharing());
        let huge_pages = usage.huge_page_sharing();
        let mut case =
            Case { usages, id, target, usage, users, pages, huge_pages, objects, contended, handed_on: None };
        case.handed_on = case.handed_on();
        case
    }

    /// Whether its pages are no measure of its blocks: see [`crate::facts::handed_on`].
    pub(super) fn handed_on(&self) -> Option<HandedOn<'a>> {
        let example = self.target.example.as_ref().filter(|object| object.kind == ObjectKind::Heap)?;
        let blocks = &self.usages.blocks;
        if let Some(next) = blocks.next(&self.usages.dataset.memory.objects, example) {
            return Some(HandedOn { next: Some(next), own: self.of_pages() });
        }
        let again = self.target.count > 1 && self.target.size as f64 >= self.target.bytes as f64 * AGAIN;
        if !again || self.users.len() < 2 {
            return None;
        }
        let own = blocks.own_share(&Group::of(example), self.users.len()).filter(|own| *own >= OWN_BLOCK)?;
        let in_turn = self.usage.successors * 2 > self.usage.all.accesses();
        (in_turn || self.of_pages() < OWN).then_some(HandedOn { next: None, own })
    }
}

impl Case<'_> {
    /// The policy under which most of it was placed, unless that leaves pages to who touches them.
    pub(super) fn policy(&self) -> Option<&Policy> {
        let most = self.target.policies.iter().max_by_key(|(_, bytes)| **bytes);
        most.filter(|(_, bytes)| **bytes * 2 > self.target.bytes).map(|(policy, _)| policy)
    }

    pub(super) fn of_pages(&self) -> f64 {
        self.pages.map_or(0.0, |sharing| sharing.main_share(self.users.len()))
    }

    /// Of one user, whether most of it is on that node: then the far accesses are of others, which have few.
    pub(super) fn lies_with_its_user(&self) -> bool {
        let home = self.target.homes.iter().max_by_key(|(_, bytes)| **bytes).and_then(|(node, _)| *node);
        home.is_some_and(|home| self.users.contains_key(&home))
    }

    /// The largest part of its bytes that threads of one node touched first.
    pub(super) fn serial_share(&self) -> f64 {
        let mut nodes: BTreeMap<Option<NodeId>, u64> = BTreeMap::new();
        for (toucher, bytes) in &self.target.touchers {
            *nodes.entry(toucher.and_then(|(_, node)| node)).or_default() += bytes;
        }
        let most = nodes.iter().filter(|(node, _)| node.is_some()).map(|(_, bytes)| *bytes).max().unwrap_or(0);
        most as f64 / (self.target.bytes as f64).max(1.0)
    }

    /// Its lines are contended, as counted or sampled; without addresses, several nodes write to fewer pages than they
    /// are.
    pub(super) fn line_is_shared(&self) -> bool {
        // Beside exact counts a few accesses are looked at, where they are drawn: those of the target say how it
        // divides.
        let exact = self.usage.all.samples == 0;
        let used: u64 = self.usage.nodes.values().map(Tally::basis).sum();
        match self.contended {
            Some(lines) => lines.samples * 2 > if exact { lines.all } else { used },
            None => {
                self.usages.dataset.facts.lines.counted.is_empty()
                    && (exact || self.usages.dataset.facts.lines.sampled.0.is_empty())
                    && self.usage.writers() > 1
                    && self.writes_move_lines()
                    && self.target.pages() < self.users.len() as u64
                    // Parts of more are likely to be divided in the middle of a few lines only.
                    && self.target.size <= FEW_LINES
            }
        }
    }

    /// Whether lines could travel often enough to be felt: a write takes a line from every other node at most, so no
    /// more accesses than that many find it gone.
    pub(super) fn writes_move_lines(&self) -> bool {
        let writes: u64 = self.usage.nodes.values().map(|tally| tally.writes).sum();
        let accesses: u64 = self.usage.nodes.values().map(Tally::accesses).sum();
        writes * self.users.len() as u64 * contended_lines::OFTEN >= accesses
    }

    pub(super) fn first_touch(&self) -> Option<OwnPlace> {
        let (stack, site) = *self.target.places.iter().rev().max_by_key(|(_, bytes)| **bytes)?.0;
        self.usages.dataset.wanted_at(stack, site)
    }
}
