//! Which node a thread runs on, on a virtual machine.

use crate::{Machine, NodeId, TopologyError};
use std::fmt;
use std::str::FromStr;

/// How threads are placed on the nodes of a virtual machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ThreadPlacement {
    /// The thread with slot i is pinned to the (i mod N)-th node with CPUs.
    #[default]
    Spread,
    /// Threads fill one node's CPUs after the other's, in the order of nodes, and start over when all are taken.
    Compact,
    /// No thread is pinned.
    None,
}

impl ThreadPlacement {
    /// The node that the thread with a slot is pinned to; `None` when it is unpinned. A process has the lowest number,
    /// from 0 on, that no other one had when it began, its threads have those from there on, as they are created.
    pub fn node_of(self, machine: &Machine, slot: usize) -> Option<NodeId> {
        match self {
            ThreadPlacement::None => None,
            ThreadPlacement::Spread => {
                let nodes = machine.nodes_with_cpus().count();
                machine.nodes_with_cpus().nth(slot.checked_rem(nodes)?).map(|node| node.id)
            }
            ThreadPlacement::Compact => {
                let cpus: usize = machine.nodes.iter().map(|node| node.cpus.len()).sum();
                let mut left = slot.checked_rem(cpus)?;
                machine.nodes.iter().find_map(|node| match left.checked_sub(node.cpus.len()) {
                    None => Some(node.id),
                    Some(rest) => {
                        left = rest;
                        None
                    }
                })
            }
        }
    }
}

impl FromStr for ThreadPlacement {
    type Err = TopologyError;

    fn from_str(word: &str) -> Result<Self, TopologyError> {
        match word {
            "spread" => Ok(ThreadPlacement::Spread),
            "compact" => Ok(ThreadPlacement::Compact),
            "none" => Ok(ThreadPlacement::None),
            _ => Err(TopologyError::Word {
                what: "thread placement",
                word: word.to_owned(),
                known: "spread, compact, none",
            }),
        }
    }
}

impl fmt::Display for ThreadPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ThreadPlacement::Spread => "spread",
            ThreadPlacement::Compact => "compact",
            ThreadPlacement::None => "none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(placement: &str, machine: &str, threads: usize) -> Vec<Option<u16>> {
        let m = Machine::parse(machine, &Machine::preset("togian").unwrap()).unwrap();
        let placement: ThreadPlacement = placement.parse().unwrap();
        (0..threads).map(|thread| placement.node_of(&m, thread).map(|node| node.0)).collect()
    }

    #[test]
    fn spread_goes_round_the_nodes_with_cpus() {
        assert_eq!(nodes("spread", "3x2", 5), [Some(0), Some(1), Some(2), Some(0), Some(1)]);
        assert_eq!(nodes("spread", "cxl2", 4), [Some(0), Some(1), Some(0), Some(1)]);
    }

    #[test]
    fn compact_fills_node_by_node_and_starts_over() {
        assert_eq!(nodes("compact", "2x3", 8), [0, 0, 0, 1, 1, 1, 0, 0].map(Some));
        // The first node has 72 CPUs, the third 64, the others of the eight none.
        let knl = nodes("compact", "knl-snc4-flat", 273);
        for (thread, node) in [(0, 0), (71, 0), (72, 1), (144, 2), (207, 2), (208, 3), (271, 3), (272, 0)] {
            assert_eq!(knl[thread], Some(node), "thread {thread}");
        }
    }

    #[test]
    fn none_pins_nothing() {
        assert_eq!(nodes("none", "2x2", 2), [None, None]);
    }

    #[test]
    fn words_read_back() {
        for word in ["spread", "compact", "none"] {
            assert_eq!(word.parse::<ThreadPlacement>().unwrap().to_string(), word);
        }
        let error = "Spread".parse::<ThreadPlacement>().unwrap_err().to_string();
        assert_eq!(error, "unknown thread placement `Spread`; known are spread, compact, none");
    }
}
