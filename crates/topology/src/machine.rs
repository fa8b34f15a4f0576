//! The machine and the questions asked of it.

use crate::{CpuSet, NodeId, Preset, TopologyError, spec, sysfs};
use std::path::Path;

/// The SLIT distance of a node to itself (ACPI; `LOCAL_DISTANCE` of Linux).
pub const LOCAL_DISTANCE: u32 = 10;
/// The distance between nodes of which nothing is known (`REMOTE_DISTANCE` of Linux).
pub const REMOTE_DISTANCE: u32 = 20;

/// A node of a machine: CPUs, memory, or both.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The kernel's number.
    pub id: NodeId,
    /// The online CPUs of the node. Empty for memory-only nodes (HBM, CXL, PMEM).
    pub cpus: CpuSet,
    /// Whether the node has CPUs of which none is in `cpus`: all are offline, or not allowed where the machine was
    /// described. Its memory is that of a node with CPUs, and no memory tier of its own.
    pub only_unusable_cpus: bool,
    /// Memory in bytes; 0 for nodes without memory.
    pub memory_bytes: u64,
    /// SLIT distances to the nodes, in the order of [`Machine::nodes`]. 10 is the distance to itself.
    pub distances: Vec<u32>,
    /// Memory tier, 0 the fastest.
    pub tier: u32,
    /// Huge page sizes in bytes, ascending.
    pub huge_page_sizes: Vec<u64>,
    /// Read latency from the nearest CPUs in nanoseconds, where the firmware (ACPI HMAT) or a measurement tells.
    pub latency_ns: Option<f64>,
    /// Read bandwidth from the nearest CPUs in bytes per second, where the firmware (ACPI HMAT) or a measurement tells.
    pub bandwidth: Option<f64>,
}

/// A machine: this host, one described in a file, or an invented one.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// `real` for the host, else the preset, the form `4x8` or the file's name.
    pub name: String,
    /// Whether placement is simulated: `false` only for the host as it is.
    pub is_virtual: bool,
    /// The online nodes in ascending order of id. Ids may have holes.
    pub nodes: Vec<Node>,
}

impl Node {
    /// Whether it has memory and no CPUs, not even such as cannot be used.
    pub fn is_memory_only(&self) -> bool {
        self.cpus.is_empty() && !self.only_unusable_cpus && self.memory_bytes > 0
    }
}

impl Machine {
    /// The machine that this process runs on.
    ///
    /// # Errors
    /// When a file of sysfs cannot be read or does not say what it must, naming the file.
    pub fn host() -> Result<Machine, TopologyError> {
        sysfs::read(Path::new("/"))
    }

    /// The machine that `spec` describes: `real` (this host), `default` ([`Machine::default_for`]), `NxC` (N nodes of C
    /// CPUs), a preset's name, or the path of an hwloc XML file. Memory and huge page sizes of `NxC` are the host's,
    /// shared out.
    ///
    /// # Errors
    /// When `spec` is none of these, saying which there are; when the file cannot be read or describes no machine.
    pub fn parse(spec: &str, host: &Machine) -> Result<Machine, TopologyError> {
        spec::parse(spec, host)
    }

    /// The machine that a recording uses when nothing else is asked for: the host when several of its nodes have
    /// memory, else a virtual machine of four nodes, because nothing is remote on one node.
    pub fn default_for(host: &Machine) -> Machine {
        spec::default_for(host)
    }

    /// The machine of the preset of that name.
    pub fn preset(name: &str) -> Option<Machine> {
        Preset::named(name)?.machine().ok()
    }

    /// Where a node stands in [`Machine::nodes`]; `None` for a node that the machine does not have.
    pub fn index_of(&self, node: NodeId) -> Option<usize> {
        // Ids are dense on almost every machine, so look where the id says before searching.
        let dense = usize::from(node.0);
        match self.nodes.get(dense) {
            Some(found) if found.id == node => Some(dense),
            _ => self.nodes.iter().position(|n| n.id == node),
        }
    }

    /// The node of that id.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.index_of(node).map(|index| &self.nodes[index])
    }

    /// The node that a CPU belongs to; `None` for CPUs that are offline or do not exist.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<NodeId> {
        self.nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.id)
    }

    /// All online CPUs.
    pub fn cpus(&self) -> CpuSet {
        self.nodes.iter().flat_map(|node| node.cpus.iter()).collect()
    }

    /// The SLIT distance from `a` to `b`; when the machine lacks one of them, 10 for the same node and 20 for others.
    pub fn distance(&self, a: NodeId, b: NodeId) -> u32 {
        let known = self.index_of(b).and_then(|to| self.node(a)?.distances.get(to).copied());
        known.unwrap_or(if a == b { LOCAL_DISTANCE } else { REMOTE_DISTANCE })
    }

    /// The nodes that threads can be placed on.
    pub fn nodes_with_cpus(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.cpus.is_empty())
    }

    /// The nodes that pages can be placed on.
    pub fn nodes_with_memory(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.memory_bytes > 0)
    }

    /// Whether the machine has that node and the node has CPUs.
    pub fn has_cpus(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|node| !node.cpus.is_empty())
    }

    /// Whether the machine has that node and the node has memory and no CPUs: HBM, CXL, PMEM. A node whose CPUs cannot
    /// be used is none.
    pub fn is_memory_only(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(Node::is_memory_only)
    }

    /// The node that a thread allowed on these CPUs is pinned to. Offline CPUs in the set do not count, as the thread
    /// cannot run there; `None` when the others span several nodes, or when none are left.
    pub fn single_node(&self, cpus: &CpuSet) -> Option<NodeId> {
        let mut nodes = self.nodes.iter().filter(|node| !node.cpus.intersection(cpus).is_empty());
        let first = nodes.next()?;
        nodes.next().is_none().then_some(first.id)
    }

    /// The memory-only nodes that no other memory-only node is nearer than, seen from `from`; several when they are
    /// equally near, none when the machine has no such node. Pages there are `memory_tier_local` to threads on `from`.
    pub fn nearest_memory_only(&self, from: NodeId) -> Vec<NodeId> {
        let memory_only = || self.nodes.iter().filter(|node| self.is_memory_only(node.id)).map(|node| node.id);
        let Some(least) = memory_only().map(|node| self.distance(from, node)).min() else {
            return Vec::new();
        };
        memory_only().filter(|&node| self.distance(from, node) == least).collect()
    }

    /// Whether a node is memory without CPUs that is slower than that of a node with CPUs: the kernel ranks it so, or
    /// ranks both alike (as it does where the firmware says nothing else), while the CPUs are nearer to their own and
    /// no bandwidth speaks for it.
    pub fn is_slower_memory(&self, node: NodeId) -> bool {
        let Some(slow) = self.node(node).filter(|_| self.is_memory_only(node)) else { return false };
        let mut fast = self.nodes_with_memory().filter(|fast| !fast.cpus.is_empty());
        fast.any(|fast| {
            let farther = self.distance(fast.id, node) > self.distance(fast.id, fast.id);
            let wider = slow.bandwidth.zip(fast.bandwidth).is_some_and(|(slow, fast)| slow > fast);
            fast.tier < slow.tier || (fast.tier == slow.tier && farther && !wider)
        })
    }

    /// The node with memory that is nearest to `from`, itself if it has memory; the first in order when several are
    /// equally near. `None` only for a machine without memory, which [`Machine::validate`] refuses.
    pub fn nearest_with_memory(&self, from: NodeId) -> Option<NodeId> {
        let is_self = |node: &&Node| node.id != from;
        self.nodes_with_memory().min_by_key(|node| (is_self(node), self.distance(from, node.id))).map(|node| node.id)
    }

    /// Checks that the machine does not contradict itself: ids unique and ascending, distances square and positive,
    /// no CPU on two nodes, at least one node with CPUs and one with memory.
    ///
    /// # Errors
    /// [`TopologyError::Invalid`] naming the first contradiction.
    pub fn validate(&self) -> Result<(), TopologyError> {
        let invalid = |reason: String| Err(TopologyError::Invalid { machine: self.name.clone(), reason });
        let mut seen = CpuSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if index > 0 && self.nodes[index - 1].id >= node.id {
                return invalid(format!("node {} follows node {}", node.id, self.nodes[index - 1].id));
            }
            if node.distances.len() != self.nodes.len() {
                let (has, wants) = (node.distances.len(), self.nodes.len());
                return invalid(format!("node {} has {has} distances, but there are {wants} nodes", node.id));
            }
            if let Some(to) = node.distances.iter().position(|&distance| distance == 0) {
                return invalid(format!("the distance from node {} to node {} is 0", node.id, self.nodes[to].id));
            }
            let twice = seen.intersection(&node.cpus);
            if !twice.is_empty() {
                return invalid(format!("CPUs {twice} are on node {} and on a node before it", node.id));
            }
            seen.extend(node.cpus.iter());
        }
        if self.nodes_with_cpus().next().is_none() {
            return invalid("no node has CPUs".to_owned());
        }
        if self.nodes_with_memory().next().is_none() {
            return invalid("no node has memory".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u16, cpus: &str, memory_bytes: u64, distances: &[u32]) -> Node {
        Node {
            id: NodeId(id),
            cpus: CpuSet::parse(cpus).unwrap(),
            memory_bytes,
            distances: distances.to_vec(),
            tier: 0,
            huge_page_sizes: Vec::new(),
            only_unusable_cpus: false,
            latency_ns: None,
            bandwidth: None,
        }
    }

    /// Ids with a hole, one node without memory, two without CPUs.
    fn machine() -> Machine {
        let nodes = vec![
            node(0, "0-1", 1 << 30, &[10, 21, 17, 28]),
            node(2, "2-3", 0, &[21, 10, 28, 28]),
            node(3, "", 1 << 30, &[17, 28, 10, 28]),
            node(7, "", 1 << 30, &[28, 28, 28, 10]),
        ];
        Machine { name: "test".to_owned(), is_virtual: true, nodes }
    }

    #[test]
    fn memory_without_cpus_is_slower_by_rank_or_by_distance() {
        let slower = |m: &Machine| m.nodes.iter().map(|node| m.is_slower_memory(node.id)).collect::<Vec<_>>();
        let mut m = machine();
        assert_eq!(slower(&m), [false, false, true, true], "ranked alike: by distance");
        m.nodes[0].tier = 1;
        m.nodes[3].tier = 2;
        assert_eq!(slower(&m), [false, false, false, true], "ranked faster, ranked slower");
        let mut m = machine();
        (m.nodes[0].bandwidth, m.nodes[2].bandwidth, m.nodes[3].bandwidth) = (Some(1e11), Some(4e11), Some(5e10));
        assert_eq!(slower(&m), [false, false, false, true], "ranked alike, farther, but wider");
        let slower = |preset| slower(&Machine::preset(preset).unwrap());
        assert_eq!(slower("cxl2"), [false, false, true]);
        assert!(!slower("knl-snc4-flat").contains(&true));
    }

    #[test]
    fn answers_by_id_not_by_position() {
        let m = machine();
        m.validate().unwrap();
        assert_eq!(m.index_of(NodeId(2)), Some(1));
        assert_eq!(m.index_of(NodeId(7)), Some(3));
        assert_eq!(m.index_of(NodeId(1)), None);
        assert_eq!(m.distance(NodeId(2), NodeId(3)), 28);
        assert_eq!(m.distance(NodeId(3), NodeId(0)), 17);
        assert_eq!((m.distance(NodeId(9), NodeId(9)), m.distance(NodeId(9), NodeId(0))), (10, 20));
        assert_eq!(m.node_of_cpu(3), Some(NodeId(2)));
        assert_eq!(m.node_of_cpu(4), None);
        assert!(m.has_cpus(NodeId(2)) && !m.has_cpus(NodeId(3)) && !m.has_cpus(NodeId(1)));
        assert!(m.is_memory_only(NodeId(7)) && !m.is_memory_only(NodeId(2)) && !m.is_memory_only(NodeId(1)));
        assert_eq!(m.cpus().to_string(), "0-3");
    }

    #[test]
    fn a_thread_is_pinned_when_its_online_cpus_are_on_one_node() {
        let m = machine();
        let single = |cpus| m.single_node(&CpuSet::parse(cpus).unwrap());
        assert_eq!(single("0"), Some(NodeId(0)));
        assert_eq!(single("2-3"), Some(NodeId(2)));
        assert_eq!(single("1-2"), None);
        assert_eq!(single("3-100"), Some(NodeId(2)), "offline CPUs do not unpin");
        assert_eq!(single("0-65535"), None);
        assert_eq!(single("64"), None);
        assert_eq!(single(""), None);
    }

    #[test]
    fn finds_the_nearest() {
        let m = machine();
        assert_eq!(m.nearest_memory_only(NodeId(0)), [NodeId(3)]);
        assert_eq!(m.nearest_memory_only(NodeId(2)), [NodeId(3), NodeId(7)]);
        assert_eq!(m.nearest_memory_only(NodeId(7)), [NodeId(7)]);
        assert_eq!(m.nearest_with_memory(NodeId(0)), Some(NodeId(0)));
        assert_eq!(m.nearest_with_memory(NodeId(2)), Some(NodeId(0)));
    }

    #[test]
    fn names_the_contradiction() {
        let broken = |change: fn(&mut Machine), expected: &str| {
            let mut m = machine();
            change(&mut m);
            let error = m.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        broken(|m| m.nodes[1].id = NodeId(0), "node 0 follows node 0");
        broken(|m| m.nodes[2].distances.truncate(2), "node 3 has 2 distances, but there are 4");
        broken(|m| m.nodes[0].distances[1] = 0, "from node 0 to node 2 is 0");
        broken(|m| m.nodes[1].cpus = CpuSet::from_iter([1, 2]), "CPUs 1 are on node 2");
        broken(|m| m.nodes.iter_mut().for_each(|n| n.cpus = CpuSet::new()), "no node has CPUs");
        broken(|m| m.nodes.iter_mut().for_each(|n| n.memory_bytes = 0), "no node has memory");
        broken(|m| m.nodes.clear(), "no node has CPUs");
    }
}
