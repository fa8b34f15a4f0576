//! Where a thread is on a virtual machine, among the CPUs that the program lets it run on.
//!
//! `--placement` is that machine's scheduler: it decides what the program leaves open, once for each thread, by its
//! slot ([`numalens_event::exact::Slots`]).
//!
//! ```text
//!   spread    slot i on the (i mod n)-th of the n nodes that its CPUs are on; there on one CPU after the other
//!   compact   slot i on the (i mod c)-th of its c CPUs, in the order of nodes
//!   none      bound where its CPUs are all on one node; else on none of their nodes for long: the host's CPUs
//!             stand for them in turn
//! ```
//! With the CPUs of the whole machine that is what `numalens_topology::ThreadPlacement` says.

use super::cpus::{CpuSet, NodeSet};
use super::nodes::node_of_cpu;
use super::policy::{self, Policy};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{MOST_NODES, Placement, threads};

/// Where a thread may run, where it does, and where its pages go.
#[derive(Clone, Debug)]
pub struct Place {
    /// The CPUs that it may run on. Of a thread of a real machine: none, as the kernel is asked.
    pub cpus: CpuSet,
    /// What it has set for its pages.
    pub policy: Policy,
    /// The number of the node that took the page before, where pages go round.
    pub last: Cell<u32>,
    /// The index of the node that it is kept on; negative: none.
    pub node: i32,
    /// The nodes of `cpus`, by index.
    nodes: NodeSet,
    /// Which of its CPUs on a node it is on: modulo their number.
    turn: u32,
}

impl Place {
    /// That of a thread of a real machine.
    pub fn nowhere() -> Place {
        Place::among(CpuSet::EMPTY, Policy::NONE)
    }

    /// That of a thread which may run on `cpus`, before it is [`Place::seated`].
    pub fn among(cpus: CpuSet, policy: Policy) -> Place {
        Place { cpus, policy, last: Cell::new(policy::NOBODY), node: -1, nodes: NodeSet::EMPTY, turn: 0 }
    }

    /// The same for the thread that has a slot: on some of its CPUs, which are the machine's.
    pub fn seated(self, placement: &Placement, slot: u32) -> Place {
        let slot = placement.first_slot.load(Relaxed) + slot;
        let cpus = &self.cpus;
        let mut counts = [0u32; MOST_NODES];
        let mut nodes = NodeSet::EMPTY;
        for node in cpus.iter().filter_map(|cpu| node_of_cpu(placement, cpu)) {
            if let Some(count) = counts.get_mut(usize::from(node)) {
                *count += 1;
                nodes.insert(node.into());
            }
        }
        let all: u32 = counts.iter().sum();
        let (node, turn) = match placement.threads.load(Relaxed) {
            _ if nodes.is_empty() => (-1, 0),
            threads::COMPACT => {
                let mut left = slot % all;
                let found = counts.iter().position(|&count| {
                    let here = left < count;
                    left -= if here { 0 } else { count };
                    here
                });
                (found.map_or(-1, |node| node as i32), left)
            }
            threads::FREE if nodes.only().is_none() => (-1, slot / nodes.len()),
            _ => (nth(&nodes, slot % nodes.len()), slot / nodes.len()),
        };
        Place { node, nodes, turn, ..self }
    }

    /// The index of the node that the thread is on now, while the host has it on `host_cpu`; negative: it has no CPU.
    pub fn current_node(&self, host_cpu: impl FnOnce() -> u32) -> i32 {
        match (self.node, self.nodes.len()) {
            (_, 0) => -1,
            (-1, nodes) => nth(&self.nodes, host_cpu() % nodes),
            (node, _) => node,
        }
    }

    /// The CPU that the thread is on now, and the index of its node.
    pub fn current(&self, placement: &Placement, host_cpu: impl FnOnce() -> u32) -> Option<(u32, u16)> {
        let node = u16::try_from(self.current_node(host_cpu)).ok()?;
        let here = || self.cpus.iter().filter(|&cpu| node_of_cpu(placement, cpu) == Some(node));
        let count = (here().count() as u32).max(1);
        here().nth((self.turn % count) as usize).map(|cpu| (cpu, node))
    }
}

/// The `n`-th node of a set.
fn nth(nodes: &NodeSet, n: u32) -> i32 {
    nodes.iter().nth(n as usize).map_or(-1, |node| node as i32)
}

/// All CPUs of the machine.
pub fn all_cpus(placement: &Placement) -> CpuSet {
    (0..placement.cpu_numbers.load(Relaxed)).filter(|&cpu| node_of_cpu(placement, cpu).is_some()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use numalens_event::exact;

    /// A machine of four nodes with four CPUs each, all as far from each other; the second without memory.
    pub fn machine(kind: u32) -> Box<Placement> {
        // SAFETY: made of atomic integers, for which any bits are valid.
        let placement: Box<Placement> = unsafe { Box::new_zeroed().assume_init() };
        placement.threads.store(kind, Relaxed);
        placement.cpu_numbers.store(16, Relaxed);
        placement.node_of_cpu.iter().for_each(|node| node.store(exact::NO_NODE, Relaxed));
        (0..16).for_each(|cpu| placement.node_of_cpu[cpu].store((cpu / 4) as u16, Relaxed));
        (0..4).for_each(|node| placement.kernel_nodes[node].store(node as u32 + 1, Relaxed));
        placement.memory_nodes_used.store(3, Relaxed);
        [0, 2, 3].into_iter().enumerate().for_each(|(at, node)| placement.memory_nodes[at].store(node, Relaxed));
        for (node, row) in [[0, 2, 3], [2, 3, 0], [2, 3, 0], [3, 0, 2]].into_iter().enumerate() {
            row.into_iter().enumerate().for_each(|(at, to)| placement.fallback[node][at].store(to + 1, Relaxed));
        }
        placement
    }

    fn seats(kind: u32, cpus: impl Iterator<Item = u32> + Clone, count: u32) -> Vec<(i32, u32)> {
        let machine = machine(kind);
        let seat = |index| {
            let place = Place::among(cpus.clone().collect(), Policy::NONE).seated(&machine, index);
            (place.node, place.current(&machine, || 1).unwrap().0)
        };
        (0..count).map(seat).collect()
    }

    #[test]
    fn threads_are_spread_over_the_nodes_that_the_program_leaves_open() {
        assert_eq!(seats(threads::SPREAD, 0..16, 6), [(0, 0), (1, 4), (2, 8), (3, 12), (0, 1), (1, 5)]);
        assert_eq!(seats(threads::SPREAD, 6..10, 5), [(1, 6), (2, 8), (1, 7), (2, 9), (1, 6)]);
        assert_eq!(seats(threads::SPREAD, 13..14, 2), [(3, 13), (3, 13)]);
    }

    #[test]
    fn or_fill_one_after_the_other() {
        assert_eq!(seats(threads::COMPACT, 0..16, 18)[3..6], [(0, 3), (1, 4), (1, 5)]);
        assert_eq!(seats(threads::COMPACT, 0..16, 18)[16..], [(0, 0), (0, 1)]);
        assert_eq!(seats(threads::COMPACT, 7..9, 3), [(1, 7), (2, 8), (1, 7)]);
    }

    #[test]
    fn or_are_bound_by_the_program_alone() {
        // The host has them on its CPU 1.
        assert_eq!(seats(threads::FREE, 0..16, 2), [(-1, 4), (-1, 4)]);
        assert_eq!(seats(threads::FREE, 8..12, 3), [(2, 8), (2, 9), (2, 10)]);
    }
}
