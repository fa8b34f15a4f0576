//! Which node a page lands on, on a virtual machine.

use crate::{Machine, NodeId, TopologyError};
use std::fmt;
use std::str::FromStr;

/// Where a page lands when it is first touched on a virtual machine. Nodes of a virtual machine never run full, so the
/// kernel's `preferred` is `bind` here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PagePolicy {
    /// On the node of the thread that touches it first.
    #[default]
    FirstTouch,
    /// Page by page over the nodes with memory.
    Interleave,
    /// All on one node.
    Bind(NodeId),
    /// On a node with memory drawn for each page; the same seed draws the same nodes.
    Random(u64),
}

/// The forms that [`PagePolicy::from_str`] reads.
const KNOWN: &str = "first-touch, interleave, bind:NODE, random, random:SEED";

impl PagePolicy {
    /// Checks that a node named by the policy can hold pages on this machine.
    ///
    /// # Errors
    /// [`TopologyError::PolicyNode`] when it cannot.
    pub fn check(self, machine: &Machine) -> Result<(), TopologyError> {
        let PagePolicy::Bind(node) = self else {
            return Ok(());
        };
        let reason = match machine.node(node) {
            Some(found) if found.memory_bytes > 0 => return Ok(()),
            Some(_) => "has without memory",
            None => "does not have",
        };
        let known: Vec<String> = machine.nodes_with_memory().map(|node| node.id.to_string()).collect();
        Err(TopologyError::PolicyNode { node, machine: machine.name.clone(), reason, known: known.join(", ") })
    }

    /// The home of a page (by number, address / page size) first touched by a thread running on `toucher`.
    ///
    /// Where the policy's own answer has no memory (a node of CPUs only), the nearest node that has some takes the
    /// page, as in the kernel's zone lists.
    pub fn home(self, machine: &Machine, page: u64, toucher: NodeId) -> NodeId {
        let nth = |draw: u64| match machine.nodes_with_memory().count() as u64 {
            0 => None,
            nodes => machine.nodes_with_memory().nth((draw % nodes) as usize).map(|node| node.id),
        };
        let home = match self {
            PagePolicy::FirstTouch => machine.nearest_with_memory(toucher),
            PagePolicy::Interleave => nth(page),
            PagePolicy::Bind(node) => machine.nearest_with_memory(node),
            PagePolicy::Random(seed) => nth(mix(mix(seed) ^ page)),
        };
        home.unwrap_or(toucher)
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `x`. Chance that is the same every
/// time.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl FromStr for PagePolicy {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let unknown = || TopologyError::Word { what: "page policy", word: text.to_owned(), known: KNOWN };
        match text.split_once(':') {
            None => match text {
                "first-touch" => Ok(PagePolicy::FirstTouch),
                "interleave" => Ok(PagePolicy::Interleave),
                "random" => Ok(PagePolicy::Random(0)),
                _ => Err(unknown()),
            },
            Some(("bind", node)) => node.parse().map(|node| PagePolicy::Bind(NodeId(node))).map_err(|_| unknown()),
            Some(("random", seed)) => seed.parse().map(PagePolicy::Random).map_err(|_| unknown()),
            Some(_) => Err(unknown()),
        }
    }
}

impl fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PagePolicy::FirstTouch => f.pad("first-touch"),
            PagePolicy::Interleave => f.pad("interleave"),
            PagePolicy::Bind(node) => write!(f, "bind:{node}"),
            PagePolicy::Random(seed) => write!(f, "random:{seed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(spec: &str) -> Machine {
        Machine::parse(spec, &Machine::preset("togian").unwrap()).unwrap()
    }

    fn homes(policy: &str, m: &Machine, pages: std::ops::Range<u64>, toucher: u16) -> Vec<u16> {
        let policy: PagePolicy = policy.parse().unwrap();
        pages.map(|page| policy.home(m, page, NodeId(toucher)).0).collect()
    }

    #[test]
    fn first_touch_stays_with_the_toucher() {
        assert_eq!(homes("first-touch", &machine("4x2"), 0..3, 2), [2, 2, 2]);
        let mut m = machine("togian");
        m.nodes[3].memory_bytes = 0;
        // Nearest to node 3 are 1, 2, 4 and 5, at 16: the first of them takes it.
        assert_eq!(homes("first-touch", &m, 0..2, 3), [1, 1]);
    }

    #[test]
    fn interleave_goes_round_the_nodes_with_memory() {
        assert_eq!(homes("interleave", &machine("3x2"), 4..9, 0), [1, 2, 0, 1, 2]);
        let mut m = machine("3x2");
        m.nodes[1].memory_bytes = 0;
        assert_eq!(homes("interleave", &m, 0..4, 1), [0, 2, 0, 2]);
    }

    #[test]
    fn bind_needs_a_node_with_memory() {
        let mut m = machine("4x2");
        m.nodes[1].memory_bytes = 0;
        assert_eq!(homes("bind:3", &m, 0..2, 0), [3, 3]);
        assert!(PagePolicy::Bind(NodeId(3)).check(&m).is_ok());
        let error = PagePolicy::Bind(NodeId(9)).check(&m).unwrap_err().to_string();
        assert!(error.contains("does not have") && error.contains("0, 2, 3"), "{error}");
        assert!(PagePolicy::Bind(NodeId(1)).check(&m).unwrap_err().to_string().contains("without memory"));
    }

    #[test]
    fn random_is_even_and_repeatable() {
        let m = machine("4x2");
        let drawn = homes("random:7", &m, 0..4000, 0);
        assert_eq!(drawn, homes("random:7", &m, 0..4000, 3));
        assert_ne!(drawn, homes("random:8", &m, 0..4000, 0));
        for node in 0..4 {
            let pages = drawn.iter().filter(|&&home| home == node).count();
            assert!((900..1100).contains(&pages), "{pages} of 4000 pages on node {node}");
        }
    }

    #[test]
    fn words_read_back() {
        for word in ["first-touch", "interleave", "bind:12", "random:99"] {
            assert_eq!(word.parse::<PagePolicy>().unwrap().to_string(), word);
        }
        for word in ["", "bind", "bind:", "bind:-1", "bind:70000", "random:x", "interleave:0", "firsttouch"] {
            assert!(word.parse::<PagePolicy>().unwrap_err().to_string().contains(KNOWN), "{word}");
        }
    }
}
