//! What traffic costs.
//!
//! Two things make remote memory slow: the way there, and the queue at the memory controller when many go to the same
//! node. The way is known: SLIT distances, 10 being local. How much of the queue a program feels depends on how near it
//! is to saturating a controller, which a profile of accesses does not tell. So the queue has a weight *q* between two
//! extremes:
//!
//! ```text
//!   cost of an access from i to j  =  distance(i, j) / 10  *  (1 + q * max(0, load(j) / mean load - 1))
//!
//!   q = 0   latency alone: nobody waits for a controller
//!   q = 1   bandwidth alone: N nodes on one controller take N times as long as on N
//! ```
//!
//! An estimate is made with [`QUEUE`], its interval spans what q = 0 and q = 1 say. Load counts what goes to a node,
//! over the nodes that have memory of the same tier as it. Unpinned threads are anywhere with equal probability.

use crate::Traffic;
use numalens_topology::{LOCAL_DISTANCE, Machine, NodeId};
use std::collections::BTreeMap;

/// The weight of the queue in estimates: programs that wait for memory feel their controllers, few saturate them.
pub const QUEUE: f64 = 0.25;

/// Prices traffic on a machine.
#[derive(Clone, Copy, Debug)]
pub struct CostModel<'a> {
    machine: &'a Machine,
}

/// A relative change in percent of the memory time: the estimate, and the ends of what it may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

impl<'a> CostModel<'a> {
    /// For this machine.
    pub fn new(machine: &'a Machine) -> Self {
        CostModel { machine }
    }

    /// What an access from a node (none: from anywhere) to a home costs without any queue, a local one being 1.
    pub fn latency(&self, from: Option<NodeId>, home: NodeId) -> f64 {
        let distance = |from| f64::from(self.machine.distance(from, home)) / f64::from(LOCAL_DISTANCE);
        match from {
            Some(from) => distance(from),
            None => {
                let (sum, n) =
                    self.machine.nodes_with_cpus().fold((0.0, 0u32), |(sum, n), node| (sum + distance(node.id), n + 1));
                if n == 0 { 1.0 } else { sum / f64::from(n) }
            }
        }
    }

    /// Memory time of this traffic in units of one local access, with weight `queue` (0 to 1) of the controllers' load.
    /// What has no home costs as if local.
    pub fn time(&self, traffic: &Traffic, queue: f64) -> f64 {
        self.time_among(traffic, traffic, queue)
    }

    /// The same of a part of the traffic `all`, whose load decides the queues.
    pub fn time_among(&self, part: &Traffic, all: &Traffic, queue: f64) -> f64 {
        let factors = self.queues(&all.homes(), queue);
        part.cells()
            .map(|((from, to), accesses)| match to {
                Some(home) => accesses * self.latency(from, home) * factors.get(&home).copied().unwrap_or(1.0),
                None => accesses,
            })
            .sum()
    }

    /// How much slower each node answers for its load.
    fn queues(&self, loads: &BTreeMap<NodeId, f64>, queue: f64) -> BTreeMap<NodeId, f64> {
        let tier = |node: NodeId| self.machine.node(node).map(|node| node.tier);
        let factor = |node: NodeId, load: f64| {
            let peers = self.machine.nodes_with_memory().filter(|peer| Some(peer.tier) == tier(node));
            let (sum, n) =
                peers.fold((0.0, 0u32), |(sum, n), peer| (sum + loads.get(&peer.id).copied().unwrap_or(0.0), n + 1));
            if sum <= 0.0 { 1.0 } else { 1.0 + queue * (load * f64::from(n) / sum - 1.0).max(0.0) }
        };
        loads.iter().map(|(node, load)| (*node, factor(*node, *load))).collect()
    }

    /// What `after` would gain over `before`, in percent of the memory time of `before`; negative when it costs more.
    pub fn gain(&self, before: &Traffic, after: &Traffic) -> Cost {
        self.gain_on(before, self, after)
    }

    /// The same where `after` is on a machine that may be another one.
    pub fn gain_on(&self, before: &Traffic, machine: &CostModel<'_>, after: &Traffic) -> Cost {
        let gain = |queue| {
            let time = self.time(before, queue);
            if time <= 0.0 { 0.0 } else { (time - machine.time(after, queue)) * 100.0 / time }
        };
        let all = [gain(0.0), gain(QUEUE), gain(1.0)];
        Cost {
            estimate: all[1],
            low: all.iter().copied().fold(f64::INFINITY, f64::min),
            high: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let host = Machine::preset("togian").unwrap();
        Machine::parse("4x1", &host).unwrap()
    }

    fn traffic(cells: &[(u16, u16, f64)]) -> Traffic {
        let mut traffic = Traffic::default();
        cells.iter().for_each(|(from, to, n)| traffic.add(Some(NodeId(*from)), Some(NodeId(*to)), *n));
        traffic
    }

    #[test]
    fn all_to_one_node_costs_the_way_and_the_queue() {
        let machine = machine();
        let model = CostModel::new(&machine);
        let far = f64::from(machine.distance(NodeId(1), NodeId(0))) / 10.0;
        let one = traffic(&[(0, 0, 1.0), (1, 0, 1.0), (2, 0, 1.0), (3, 0, 1.0)]);
        assert!((model.time(&one, 0.0) - (1.0 + 3.0 * far)).abs() < 1e-12);
        // Bandwidth alone: four nodes on one controller of four.
        assert!((model.time(&one, 1.0) - 4.0 * (1.0 + 3.0 * far)).abs() < 1e-12);
        let own = traffic(&[(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)]);
        let gain = model.gain(&one, &own);
        assert!((gain.low - (1.0 - 4.0 / (1.0 + 3.0 * far)) * 100.0).abs() < 1e-9, "{gain:?}");
        assert!((gain.high - (1.0 - 1.0 / (1.0 + 3.0 * far)) * 100.0).abs() < 1e-9, "{gain:?}");
        assert!(gain.low < gain.estimate && gain.estimate < gain.high);
        // Parts of the whole cost what the whole costs.
        let parts = [traffic(&[(0, 0, 1.0), (1, 0, 1.0)]), traffic(&[(2, 0, 1.0), (3, 0, 1.0)])];
        let sum: f64 = parts.iter().map(|part| model.time_among(part, &one, QUEUE)).sum();
        assert!((sum - model.time(&one, QUEUE)).abs() < 1e-12);
    }

    #[test]
    fn interleaving_gains_by_the_queue_alone() {
        let machine = machine();
        let model = CostModel::new(&machine);
        let (mut one, mut all) = (Traffic::default(), Traffic::default());
        for from in 0..4 {
            one.add(Some(NodeId(from)), Some(NodeId(0)), 4.0);
            (0..4).for_each(|to| all.add(Some(NodeId(from)), Some(NodeId(to)), 1.0));
        }
        let gain = model.gain(&one, &all);
        assert!(gain.low.abs() < 1e-9 && (gain.high - 75.0).abs() < 1e-9, "{gain:?}");
        assert_eq!(model.gain(&all, &all), Cost { estimate: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn what_has_no_place_has_no_way() {
        let machine = machine();
        let model = CostModel::new(&machine);
        let mut nowhere = Traffic::default();
        nowhere.add(Some(NodeId(1)), None, 3.0);
        assert_eq!(model.time(&nowhere, 1.0), 3.0);
        // Anywhere: the mean of the ways.
        let mean = (0..4).map(|from| f64::from(machine.distance(NodeId(from), NodeId(2)))).sum::<f64>() / 40.0;
        assert!((model.latency(None, NodeId(2)) - mean).abs() < 1e-12);
    }
}
