//! Machines from file trees that look like what the kernel shows.

use numalens_topology::{Machine, NodeId, sysfs};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const NODE: &str = "sys/devices/system/node";

struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Tree(tempfile::tempdir().unwrap())
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn without(self, path: &str) -> Self {
        fs::remove_file(self.0.path().join(path)).unwrap();
        self
    }

    fn node(self, id: u16, cpus: &str, mib: u64, distance: &str) -> Self {
        let folder = format!("{NODE}/node{id}");
        let kib = mib * 1024;
        self.with(&format!("{folder}/cpulist"), &format!("{cpus}\n"))
            .with(&format!("{folder}/distance"), &format!("{distance}\n"))
            .with(&format!("{folder}/meminfo"), &format!("Node {id} MemTotal:  {kib} kB\nNode {id} MemFree:  1 kB\n"))
            .with(&format!("{folder}/hugepages/hugepages-1048576kB/nr_hugepages"), "0\n")
            .with(&format!("{folder}/hugepages/hugepages-2048kB/nr_hugepages"), "0\n")
    }

    fn tier(self, tier: u32, nodes: &str) -> Self {
        self.with(&format!("sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist"), &format!("{nodes}\n"))
    }

    fn machine(&self) -> Machine {
        sysfs::read(self.0.path()).unwrap()
    }

    /// The error, with the tree's own folder cut off.
    fn error(&self) -> String {
        let error = sysfs::read(self.0.path()).unwrap_err().to_string();
        error.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn two_nodes() -> Tree {
    Tree::new()
        .with("sys/devices/system/cpu/online", "0-7\n")
        .with(&format!("{NODE}/online"), "0-1\n")
        .node(0, "0-3", 1024, "10 21")
        .node(1, "4-7", 2048, "21 10")
}

fn tiers(machine: &Machine) -> Vec<u32> {
    machine.nodes.iter().map(|node| node.tier).collect()
}

#[test]
fn two_symmetric_nodes() {
    let m = two_nodes().machine();
    assert_eq!((m.name.as_str(), m.is_virtual, m.nodes.len()), ("real", false, 2));
    assert_eq!(m.nodes[1].id, NodeId(1));
    assert_eq!(m.nodes[1].cpus.to_string(), "4-7");
    assert_eq!(m.nodes[1].memory_bytes, 2 << 30);
    assert_eq!(m.nodes[1].distances, [21, 10]);
    assert_eq!(m.nodes[1].huge_page_sizes, [2 << 20, 1 << 30]);
    assert_eq!((m.nodes[1].latency_ns, m.nodes[1].bandwidth), (None, None));
    assert_eq!(tiers(&m), [0, 0]);
}

#[test]
fn numbers_with_holes() {
    let m = Tree::new()
        .with(&format!("{NODE}/online"), "0,8,252-253\n")
        .node(0, "0-1", 1024, "10 40 80 80")
        .node(8, "2-3", 1024, "40 10 80 80")
        .node(252, "", 256, "80 80 10 90")
        .node(253, "", 256, "80 80 90 10")
        .machine();
    assert_eq!(m.nodes.iter().map(|node| node.id.0).collect::<Vec<_>>(), [0, 8, 252, 253]);
    assert_eq!(m.distance(NodeId(8), NodeId(0)), 40);
    assert_eq!(m.distance(NodeId(253), NodeId(252)), 90);
    assert_eq!(tiers(&m), [0, 0, 1, 1]);
}

#[test]
fn a_memory_only_node_has_the_kernels_tier() {
    let tree = Tree::new()
        .with("sys/devices/system/cpu/online", "0-3\n")
        .with(&format!("{NODE}/online"), "0-2\n")
        .node(0, "0-1", 1024, "10 21 14")
        .node(1, "2-3", 1024, "21 10 24")
        .node(2, "", 4096, "14 24 10");
    assert_eq!(tiers(&tree.machine()), [0, 0, 1], "a kernel without tiers");
    // Ranks are by number, not by text, and empty tiers have none.
    let tree = tree.tier(4, "0-1").tier(22, "2").tier(10, "");
    assert_eq!(tiers(&tree.machine()), [0, 0, 1]);
    // Faster memory than that of the CPUs.
    assert_eq!(tiers(&tree.tier(22, "").tier(3, "2").machine()), [1, 1, 0]);
}

#[test]
fn offline_cpus_do_not_count() {
    let m = two_nodes().with("sys/devices/system/cpu/online", "0-2,4-7\n").machine();
    assert_eq!(m.nodes[0].cpus.to_string(), "0-2");
    assert_eq!(m.node_of_cpu(3), None);
}

/// A node all of whose CPUs are offline, or hidden by a container, is no memory tier.
#[test]
fn a_node_without_usable_cpus_is_no_tier() {
    let offline = || {
        two_nodes()
            .with("sys/devices/system/cpu/online", "0-3\n")
            .with(&format!("{NODE}/node1/cpulist"), "\n")
            .with(&format!("{NODE}/node1/cpu4/online"), "0\n")
    };
    let hidden = two_nodes().with("sys/devices/system/cpu/online", "0-3\n").machine();
    for m in [offline().machine(), hidden] {
        assert!(m.nodes[1].cpus.is_empty() && m.nodes[1].only_unusable_cpus && !m.is_memory_only(NodeId(1)));
        assert_eq!(tiers(&m), [0, 0]);
    }
    // Beside it is real memory without CPUs.
    let m = offline().node(1, "", 2048, "21 10").without(&format!("{NODE}/node1/cpu4/online"));
    fs::remove_dir(m.0.path().join(format!("{NODE}/node1/cpu4"))).unwrap();
    assert!(m.machine().is_memory_only(NodeId(1)));
}

#[test]
fn offline_nodes_are_not_there() {
    let m =
        two_nodes().with(&format!("{NODE}/online"), "1\n").with(&format!("{NODE}/node1/distance"), "10\n").machine();
    assert_eq!(m.nodes.len(), 1);
    assert_eq!((m.index_of(NodeId(0)), m.index_of(NodeId(1))), (None, Some(0)));
}

#[test]
fn a_node_may_have_cpus_and_no_memory() {
    let m = two_nodes().node(1, "4-7", 0, "21 10").machine();
    assert_eq!(m.nodes[1].memory_bytes, 0);
    assert_eq!(m.nearest_with_memory(NodeId(1)), Some(NodeId(0)));
}

#[test]
fn a_missing_distance_file_makes_nodes_equidistant() {
    let m = two_nodes().without(&format!("{NODE}/node1/distance")).machine();
    assert_eq!(m.nodes[0].distances, [10, 21]);
    assert_eq!(m.nodes[1].distances, [20, 10]);
}

#[test]
fn takes_latency_and_bandwidth_of_the_firmware() {
    let access = format!("{NODE}/node0/access0/initiators");
    let m = two_nodes()
        .with(&format!("{access}/read_latency"), "76\n")
        .with(&format!("{access}/read_bandwidth"), "131072\n")
        .machine();
    assert_eq!(m.nodes[0].latency_ns, Some(76.0));
    assert_eq!(m.nodes[0].bandwidth, Some(131_072e6));
    let m = two_nodes().with(&format!("{access}/read_latency"), "0\n").machine();
    assert_eq!(m.nodes[0].latency_ns, None, "0 is how the kernel says nothing");
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let tree = Tree::new()
        .with("sys/devices/system/cpu/online", "0-3\n")
        .with("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
        .with("proc/meminfo", "MemTotal:        1024 kB\nMemFree:  12 kB\n");
    let m = tree.machine();
    assert_eq!(m.nodes.len(), 1);
    assert_eq!((m.nodes[0].cpus.to_string().as_str(), m.nodes[0].memory_bytes), ("0-3", 1 << 20));
    assert_eq!(m.nodes[0].huge_page_sizes, [2 << 20]);
    assert_eq!(m.nodes[0].distances, [10]);
}

#[test]
fn names_the_file_and_what_is_wrong_with_it() {
    let node0 = format!("{NODE}/node0");
    for (path, text, expected) in [
        (format!("{NODE}/online"), "0-1,x\n", format!("{NODE}/online: `0-1,x` is not a list")),
        (format!("{NODE}/online"), "0-5000\n", format!("{NODE}/online: node ids past 1023")),
        (format!("{NODE}/online"), "0,2\n", format!("cannot read {NODE}/node2/cpulist")),
        (format!("{NODE}/online"), "\n", "no node has CPUs".to_owned()),
        (format!("{node0}/cpulist"), "0-\n", format!("{node0}/cpulist: `0-` is not a list")),
        (format!("{node0}/cpulist"), "0-4\n", "CPUs 4 are on node 1 and on a node before it".to_owned()),
        (format!("{node0}/distance"), "10\n", format!("{node0}/distance: 1 distances for 2 online nodes: `10`")),
        (format!("{node0}/distance"), "10 -1\n", format!("{node0}/distance: `10 -1`")),
        (format!("{node0}/meminfo"), "Node 0 MemFree: 1 kB\n", format!("{node0}/meminfo: there is no line MemTotal")),
        (format!("{node0}/meminfo"), "Node 0 MemTotal: x kB\n", format!("{node0}/meminfo: MemTotal is `x kB`")),
        (
            format!("{node0}/access0/initiators/read_latency"),
            "fast\n",
            format!("{node0}/access0/initiators/read_latency: `fast` is not a number"),
        ),
        (
            "sys/devices/virtual/memory_tiering/memory_tier4/nodelist".to_owned(),
            "?\n",
            "memory_tier4/nodelist: `?` is not a list".to_owned(),
        ),
    ] {
        let error = two_nodes().with(&path, text).error();
        assert!(error.contains(&expected), "{path} with {text:?}: {error}");
    }
    let error = two_nodes().with(&format!("{node0}/cpulist"), &"0,".repeat(1 << 20)).error();
    assert!(error.contains("cpulist: longer than 1 MiB"), "{error}");
    let error = Tree::new().error();
    assert_eq!(error, "cannot read sys/devices/system/cpu/online: entity not found");
}

#[test]
fn reads_the_host() {
    let m = Machine::host().unwrap();
    m.validate().unwrap();
    assert!(!m.is_virtual);
    // The kernel's own list of online CPUs, which the nodes must share out.
    let online = fs::read_to_string(Path::new("/sys/devices/system/cpu/online")).unwrap();
    assert_eq!(m.cpus().to_string(), online.trim());
}
