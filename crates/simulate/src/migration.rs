//! Policies that move pages while the program runs, on what its accesses so far have told. Both begin with first touch
//! and see one page at a time:
//!
//! ```text
//!   time bins of one page      0    1    2    3    4    5
//!   accesses from node         0    1    1    1    2    1
//!
//!   numa-balancing   a period of a second is over: the next access faults. Its node gets the page, unless the fault
//!                    before came from another one.
//!   kmaf             a bin is over: the node with two thirds of the page's accesses gets it, where older accesses
//!                    count for less.
//! ```
//!
//! The first is what Linux does by `kernel.numa_balancing`, less its group statistics for pages that several threads
//! fault on and its limit of memory scanned a second. The second follows kMAF (Diener et al., PACT 2014), which keeps a
//! history so as not to move what is moved back.

use crate::moments::Moment;
use crate::recording::{PageUse, Recording};
use crate::replay::Outcome;
use numalens_topology::{Machine, NodeId, mix};
use std::collections::BTreeMap;

/// When a page moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Migration {
    /// At a fault that the kernel provokes once a period.
    NumaBalancing,
    /// When its history says that most accesses come from another node.
    Kmaf,
}

/// How often Linux lets accesses fault, and how long it waits before the first time
/// (`numa_balancing_scan_period_min_ms`, `scan_delay_ms`).
const SCAN_NS: u64 = 1_000_000_000;

/// What is left of an access in the history after each bin, and the part of the history that makes a node the main
/// user. Together they leave a page alone that two nodes use in turn.
const KEPT: f64 = 0.75;
const MAIN: f64 = 2.0 / 3.0;

/// Where a page is, and what is known of it.
struct Walk<'a> {
    machine: &'a Machine,
    home: NodeId,
    /// What copying it costs.
    copy: f64,
    outcome: &'a mut Outcome,
}

/// Adds what becomes of a page, that lies on `home` at first: its accesses, which are in the order of time, and its
/// moves. `node_of` is where the thread of an access runs.
pub fn walk(
    migration: Migration,
    (recording, machine): (&Recording, &Machine),
    (page, home): (&PageUse, NodeId),
    moments: &[Moment],
    node_of: &dyn Fn(&Moment) -> Option<NodeId>,
    outcome: &mut Outcome,
) {
    let mut walk = Walk { machine, home, copy: recording.copy, outcome };
    match migration {
        Migration::NumaBalancing => walk.balance(page, moments, node_of, recording.bins_in(SCAN_NS)),
        Migration::Kmaf => walk.follow_history(moments, node_of),
    }
}

impl Walk<'_> {
    fn balance(
        &mut self,
        page: &PageUse,
        moments: &[Moment],
        node_of: &dyn Fn(&Moment) -> Option<NodeId>,
        bins_a_period: u32,
    ) {
        let period_of = |moment: &Moment| moment.bin / bins_a_period;
        let mut faulted: Option<NodeId> = None;
        for period in moments.chunk_by(|a, b| period_of(a) == period_of(b)) {
            let number = period_of(&period[0]);
            if let Some(node) = (number > 0).then(|| next_to_touch(page, number, period, node_of)).flatten() {
                if faulted.is_none_or(|before| before == node) {
                    self.move_near(node);
                }
                faulted = Some(node);
            }
            period.iter().for_each(|moment| self.access(moment, node_of));
        }
    }

    fn follow_history(&mut self, moments: &[Moment], node_of: &dyn Fn(&Moment) -> Option<NodeId>) {
        let mut history: BTreeMap<NodeId, f64> = BTreeMap::new();
        for bin in moments.chunk_by(|a, b| a.bin == b.bin) {
            history.values_mut().for_each(|accesses| *accesses *= KEPT);
            for moment in bin {
                self.access(moment, node_of);
                if let Some(node) = node_of(moment) {
                    *history.entry(node).or_default() += moment.accesses;
                }
            }
            let all: f64 = history.values().sum();
            if let Some((node, _)) = history.iter().find(|(_, accesses)| **accesses > MAIN * all) {
                self.move_near(*node);
            }
        }
    }

    fn access(&mut self, moment: &Moment, node_of: &dyn Fn(&Moment) -> Option<NodeId>) {
        self.outcome.traffic.add(node_of(moment), Some(self.home), moment.accesses);
    }

    /// The node's memory gets the page: it is read where it was and written where it will be.
    fn move_near(&mut self, node: NodeId) {
        let Some(to) = self.machine.nearest_with_memory(node).filter(|to| *to != self.home) else { return };
        self.outcome.moved += 1;
        self.outcome.copying.add(Some(to), Some(self.home), self.copy / 2.0);
        self.outcome.copying.add(Some(to), Some(to), self.copy / 2.0);
        self.home = to;
    }
}

/// From which node the first access of a period comes: any of its first bin, by their numbers, and always the same one.
fn next_to_touch(
    page: &PageUse,
    period: u32,
    moments: &[Moment],
    node_of: &dyn Fn(&Moment) -> Option<NodeId>,
) -> Option<NodeId> {
    let first = moments[0].bin;
    let candidates = || {
        moments
            .iter()
            .take_while(|moment| moment.bin == first)
            .filter_map(|moment| Some((node_of(moment)?, moment.accesses)))
    };
    let all: f64 = candidates().map(|(_, accesses)| accesses).sum();
    let noise = mix(page.number ^ u64::from(page.space) << 48 ^ u64::from(period) << 32);
    let mut left = (noise >> 11) as f64 / (1u64 << 53) as f64 * all;
    let mut last = None;
    for (node, accesses) in candidates() {
        last = Some(node);
        left -= accesses;
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Moments, Policy, Threads, User, figures, replay};

    /// One page that thread 0 touched on node 0; `uses` are thread and accesses of each bin of half a second. Threads
    /// are on the nodes of their numbers.
    fn outcome(policy: &str, uses: &[(u32, f64)]) -> (Outcome, f64) {
        let machine = Machine::parse("4x1", &Machine::preset("togian").unwrap()).unwrap();
        let node = |thread: u32| Some(NodeId(thread as u16));
        let moment = |(bin, &(thread, accesses))| Moment { bin, thread, node: node(thread), accesses };
        let user =
            |&(thread, reads): &(u32, f64)| User { thread, node: node(thread), reads, writes: 0.0, initial: 0.0 };
        let page = PageUse {
            toucher: Some(0),
            toucher_node: node(0),
            home: node(0),
            users: uses.iter().map(user).collect(),
            ..PageUse::default()
        };
        let moments = Moments::new(1, (0..).zip(uses).map(|used| (0, moment(used))));
        let recording =
            Recording { pages: vec![page], moments, bin_ns: SCAN_NS / 2, copy: 128.0, ..Recording::default() };
        let policy: Policy = policy.parse().unwrap();
        let outcome = replay(&recording, &machine, Threads::Recorded, policy, &[]);
        let local = figures(&outcome.traffic, &machine).local_share.unwrap();
        (outcome, local)
    }

    #[test]
    fn a_page_follows_its_only_user() {
        let uses = [(0, 10.0), (1, 10.0), (1, 10.0), (1, 10.0), (1, 10.0)];
        // The second that the kernel waits is two bins; then the first access has the page moved.
        let (balanced, local) = outcome("numa-balancing", &uses);
        assert_eq!((balanced.moved, local, balanced.traffic.total()), (1, 80.0, 50.0));
        // After three bins node 1 has 1 + 0.75 + 0.56 of the history, node 0 has 0.42: that is over two thirds, as it
        // was after two, 1.75 to 0.56.
        let (kmaf, local) = outcome("kmaf", &uses);
        assert_eq!((kmaf.moved, local, kmaf.traffic.total()), (1, 60.0, 50.0));
        // A read of where it was and a write of where it is for each line.
        let cell = |from: u16, to: u16| ((Some(NodeId(from)), Some(NodeId(to))), 64.0);
        assert_eq!(kmaf.copying.cells().collect::<Vec<_>>(), [cell(1, 0), cell(1, 1)]);
    }

    #[test]
    fn what_is_used_in_turn_stays() {
        // A period each.
        let turns: Vec<(u32, f64)> = (0..20).map(|bin| (bin / 2 % 2, 10.0)).collect();
        let (balanced, _) = outcome("numa-balancing", &turns);
        assert_eq!(balanced.moved, 1, "the first fault has none before it; of the others none is of the same node");
        let even: Vec<(u32, f64)> = (0..20).map(|bin| (bin % 2, 10.0)).collect();
        let (kmaf, _) = outcome("kmaf", &even);
        assert_eq!(kmaf.moved, 0);
        let (stays, local) = outcome("first-touch", &turns);
        assert_eq!((stays.moved, local), (0, 50.0));
    }

    #[test]
    fn nobody_in_particular_uses_it() {
        // Four nodes in every bin: never more than half from one of them.
        let moments: Vec<Moment> = (0..80u32)
            .map(|at| Moment { bin: at / 4, thread: at % 4, node: Some(NodeId((at % 4) as u16)), accesses: 5.0 })
            .collect();
        let machine = Machine::parse("4x1", &Machine::preset("togian").unwrap()).unwrap();
        let page = PageUse { home: Some(NodeId(0)), ..PageUse::default() };
        let recording = Recording { bin_ns: SCAN_NS, ..Recording::default() };
        let walked = |migration| {
            let mut outcome = Outcome::default();
            let home = NodeId(0);
            walk(migration, (&recording, &machine), (&page, home), &moments, &|moment| moment.node, &mut outcome);
            assert_eq!(outcome.traffic.total(), 400.0);
            outcome.moved
        };
        assert_eq!(walked(Migration::Kmaf), 0);
        let moved = walked(Migration::NumaBalancing);
        assert!((1..12).contains(&moved), "by chance, where two faults in turn are of one node: {moved}");
    }
}
