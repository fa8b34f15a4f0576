//! Machines from files of lstopo 2.9: `one-node.xml` from a small virtual machine, `synthetic.xml` from
//! `--input "node:4 core:4 pu:1"`, `cxl.xml` and `knl.xml` from `--input` of a sysfs tree with those nodes and distances.

use numalens_topology::{Machine, NodeId, TopologyError};
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn parse(path: &std::path::Path) -> Result<Machine, TopologyError> {
    Machine::parse(path.to_str().unwrap(), &Machine::preset("togian").unwrap())
}

/// One line per node: its CPUs, GiB, tier and distances.
fn lines(machine: &Machine) -> Vec<String> {
    let gib = |bytes: u64| bytes >> 30;
    let line = |node: &numalens_topology::Node| {
        format!("{}: [{}] {}G t{} {:?}", node.id, node.cpus, gib(node.memory_bytes), node.tier, node.distances)
    };
    machine.nodes.iter().map(line).collect()
}

#[test]
fn one_node() {
    let m = parse(&data("one-node.xml")).unwrap();
    assert_eq!((m.name.as_str(), m.is_virtual), ("one-node.xml", true));
    assert_eq!(lines(&m), ["0: [0-1] 9G t0 [10]"]);
    assert_eq!(m.nodes[0].memory_bytes, 10_026_700_800);
    assert_eq!(m.nodes[0].huge_page_sizes, [2 << 20, 1 << 30]);
}

#[test]
fn nodes_without_a_distance_matrix_are_equidistant() {
    let m = parse(&data("synthetic.xml")).unwrap();
    assert_eq!(
        lines(&m),
        [
            "0: [0-3] 1G t0 [10, 20, 20, 20]",
            "1: [4-7] 1G t0 [20, 10, 20, 20]",
            "2: [8-11] 1G t0 [20, 20, 10, 20]",
            "3: [12-15] 1G t0 [20, 20, 20, 10]",
        ]
    );
}

#[test]
fn memory_beside_a_socket_gets_none_of_its_cpus() {
    let m = parse(&data("cxl.xml")).unwrap();
    assert_eq!(lines(&m), ["0: [0-3] 8G t0 [10, 21, 14]", "1: [4-7] 8G t0 [21, 10, 24]", "2: [] 8G t1 [14, 24, 10]"]);
    assert_eq!(m.nearest_memory_only(NodeId(1)), [NodeId(2)]);
}

/// Eight nodes: hwloc breaks the 64 distances into seven lists.
#[test]
fn long_matrices_come_in_pieces() {
    let m = parse(&data("knl.xml")).unwrap();
    let preset = Machine::preset("knl-snc4-flat").unwrap();
    for (node, expected) in m.nodes.iter().zip(&preset.nodes) {
        assert_eq!(node.distances, expected.distances, "node {}", node.id);
        assert_eq!(node.memory_bytes, expected.memory_bytes, "node {}", node.id);
    }
    let cpus: Vec<String> = m.nodes.iter().map(|node| node.cpus.to_string()).collect();
    assert_eq!(cpus, ["0-1", "2-3", "4-5", "6-7", "", "", "", ""]);
}

/// Reads a file of lstopo with some of its text replaced.
fn changed(name: &str, changes: &[(&str, &str)]) -> Result<Machine, TopologyError> {
    let folder = tempfile::tempdir().unwrap();
    let mut text = std::fs::read_to_string(data(name)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    let path = folder.path().join("machine.xml");
    std::fs::write(&path, text).unwrap();
    parse(&path)
}

#[test]
fn special_memory_never_owns_cpus_and_says_how_fast_it_is() {
    // The kinds that newer hwloc writes: here on the node with the lower number.
    let m =
        changed("cxl.xml", &[(r#""NUMANode" os_index="0""#, r#""NUMANode" subtype="MCDRAM" os_index="0""#)]).unwrap();
    assert_eq!(lines(&m)[0], "0: [] 8G t0 [10, 21, 14]");
    assert_eq!(lines(&m)[2], "2: [0-3] 8G t1 [14, 24, 10]");
    assert_eq!(m.nodes[1].tier, 1);
}

#[test]
fn takes_the_tier_that_the_file_says() {
    let page = r#"gp_index="22" local_memory="8589934592">"#;
    let tier = format!(r#"{page}<info name="MemoryTier" value="3"/>"#);
    assert_eq!(changed("cxl.xml", &[(page, &tier)]).unwrap().nodes[2].tier, 3);
}

#[test]
fn distances_can_be_indexed_by_gp() {
    let by_gp = [("indexing=\"os\"", "indexing=\"gp\""), (">0 1 2 <", ">22 20 21 <")];
    let m = changed("cxl.xml", &by_gp).unwrap();
    // The first row of the matrix is now that of node 2.
    assert_eq!(m.distance(NodeId(2), NodeId(0)), 21);
    assert_eq!(m.distance(NodeId(2), NodeId(1)), 14);
}

#[test]
fn bandwidths_are_not_distances() {
    let m = changed("cxl.xml", &[("name=\"NUMALatency\"", "name=\"NUMABandwidth\"")]).unwrap();
    assert_eq!(m.nodes[0].distances, [10, 20, 20]);
    let m = changed("cxl.xml", &[("kind=\"5\" name=\"NUMALatency\"", "kind=\"9\"")]).unwrap();
    assert_eq!(m.nodes[0].distances, [10, 20, 20]);
    // hwloc 2.0 gave no names: the kind says latency.
    let m = changed("cxl.xml", &[(" name=\"NUMALatency\"", "")]).unwrap();
    assert_eq!(m.nodes[0].distances, [10, 21, 14]);
}

#[test]
fn says_what_is_wrong_with_a_file() {
    let page = "21 10 24 14 24 10 ";
    let cpuset = r#""NUMANode" os_index="0" cpuset="0x0000000f""#;
    for (from, to, expected) in [
        (
            "<topology version=\"2.0\">",
            "<topology>",
            "a file of hwloc 1; write it again with `lstopo machine.xml` of hwloc 2",
        ),
        ("<topology version=\"2.0\">", "<topology version=\"3.0\">", "a file of hwloc 3.0"),
        ("topology", "typology", "its root is <typology>"),
        ("</topology>", "", "not XML"),
        ("\"NUMANode\" os", "\"Node\" os", "0 NUMA nodes"),
        ("os_index=\"2\" cpuset=\"0x0000000f\"", "os_index=\"70000\" cpuset=\"0x0\"", "past 65535"),
        ("os_index=\"2\" cpuset=\"0x0000000f\"", "os_index=\"1\" cpuset=\"0x0\"", "node 1 follows node 1"),
        (cpuset, r#""NUMANode" os_index="0" cpuset="0xf...f""#, "it is infinite"),
        (cpuset, r#""NUMANode" os_index="0" cpuset="0xzz""#, "not hexadecimal words"),
        (page, "", "3 values for 3 nodes"),
        (page, "21 10 24 14 24 ten ", "`ten` in <u64values>"),
        (page, "21 10 24 14 24 0 ", "from node 2 to node 2 is 0"),
        (page, "21 10 24 14 24 99999999999 ", "99999999999 is too large"),
        (">0 1 2 <", ">0 1 3 <", "leave out a node"),
        ("local_memory=\"8589934592\"", "local_memory=\"-1\"", "local_memory=\"-1\" is not a number"),
        ("local_memory=\"8589934592\"", "", "no node has memory"),
    ] {
        let error = changed("cxl.xml", &[(from, to)]).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("machine.xml: "), "{from} -> {to}: {error}");
    }
    // CPU sets of any length are bounded, and are not repeated at length.
    let words = ",".repeat(1 << 20);
    let long = format!(r#""NUMANode" os_index="0" cpuset="0x1{words}""#);
    let error = changed("cxl.xml", &[(cpuset, &long)]).unwrap_err().to_string();
    assert!(error.contains("CPUs past 65535") && error.len() < 400, "{error}");
}

/// Entities that expand to entities: refused, quickly.
#[test]
fn survives_hostile_entities() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("laughs.xml");
    let mut text = String::from("<!DOCTYPE topology [<!ENTITY a0 \"ha\">");
    for level in 1..30 {
        text += &format!("<!ENTITY a{level} \"&a{0};&a{0};&a{0};&a{0};&a{0};&a{0};\">", level - 1);
    }
    text += "]><topology version=\"2.0\">&a29;</topology>";
    std::fs::write(&path, text).unwrap();
    assert!(parse(&path).unwrap_err().to_string().contains("not XML"));
    std::fs::write(&path, [0xff; 100]).unwrap();
    assert!(parse(&path).unwrap_err().to_string().contains("not a text file"));
    assert!(parse(folder.path()).unwrap_err().to_string().contains("cannot read"));
}
