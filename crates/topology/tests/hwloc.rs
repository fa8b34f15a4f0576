//! Machines from files of lstopo 2.9: `one-node.xml` from a small virtual machine, `synthetic.xml` from
//! `--input "node:4 core:4 pu:1"`, `cxl.xml` and `knl.xml` from `--input` of a sysfs tree with those nodes and
//! distances.

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
        ("<topology version=\"2.0\">", "<topology>", "a file of hwloc 1; `lstopo -i FILE machine.xml` of hwloc 2"),
        ("<topology version=\"2.0\">", "<topology version=\"4.0\">", "lstopo --export-xml-flags v2 machine.xml"),
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
    assert!(error.contains("numbers past 65535") && error.len() < 400, "{error}");
}

/// A file of hwloc with these objects inside of the machine and these elements behind it.
fn file_of(version: &str, machine: &str, objects: &str, behind: &str) -> Result<Machine, TopologyError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    let text = format!(
        "<topology version=\"{version}\"><object type=\"Machine\" os_index=\"0\" {machine}>{objects}</object>{behind}</topology>"
    );
    std::fs::write(&path, text).unwrap();
    parse(&path)
}

/// A package with one node of 1 GiB and the CPUs of a hexadecimal digit, which could be used or not.
fn package(number: u32, usable: u32, complete: u32) -> String {
    let sets = format!(r#"cpuset="{usable:#x}" complete_cpuset="{complete:#x}" complete_nodeset="{:#x}""#, 1 << number);
    let cpu = |cpu: u32| {
        let bit = 1u32 << cpu;
        format!(r#"<object type="PU" os_index="{cpu}" cpuset="{bit:#x}" complete_nodeset="{:#x}"/>"#, 1 << number)
    };
    let cpus: String = (0..32).filter(|bit| usable >> bit & 1 != 0).map(cpu).collect();
    format!(
        r#"<object type="Package" {sets}><object type="NUMANode" os_index="{number}" gp_index="{}" {sets} local_memory="1073741824"/>{cpus}</object>"#,
        number + 10
    )
}

/// Each node's number, CPUs, tier, and whether it is memory without CPUs.
fn kinds(machine: &Machine) -> Vec<String> {
    let kind = |node: &numalens_topology::Node| {
        let what = match (node.is_memory_only(), node.only_unusable_cpus) {
            (true, _) => " tier",
            (false, true) => " unusable",
            (false, false) => "",
        };
        format!("{}: [{}] t{}{what}", node.id, node.cpus, node.tier)
    };
    machine.nodes.iter().map(kind).collect()
}

/// A job may use the first two of four nodes' CPUs, and all memory. The others are no memory tiers: accesses there are
/// remote.
#[test]
fn nodes_without_allowed_cpus_are_no_tiers() {
    let objects =
        [(0, 3, 3), (1, 4, 12), (2, 0, 0x30), (3, 0, 0xc0)].map(|(node, usable, all)| package(node, usable, all));
    let m = file_of("2.0", r#"cpuset="0x7" complete_cpuset="0xff""#, &objects.concat(), "").unwrap();
    assert_eq!(kinds(&m), ["0: [0-1] t0", "1: [2] t0", "2: [] t0 unusable", "3: [] t0 unusable"]);
    assert_eq!(m.locality(Some(NodeId(0)), Some(NodeId(3)), true), numalens_topology::Locality::Remote);
}

/// `lstopo --restrict` forgets which CPUs it took.
#[test]
fn nor_are_those_that_were_restricted_away() {
    let objects = [package(0, 3, 3), package(1, 0, 0)].concat();
    let m = file_of("2.0", r#"cpuset="0x3" complete_cpuset="0x3""#, &objects, "").unwrap();
    assert_eq!(kinds(&m), ["0: [0-1] t0", "1: [] t0 unusable"]);
}

/// The kernel lists no offline CPU under its node: those of the machine that are of no node are of the node that has
/// none.
#[test]
fn nor_are_those_whose_cpus_are_offline() {
    let bare = r#"<object type="NUMANode" os_index="1" cpuset="0x0" complete_cpuset="0x0" local_memory="1073741824"/>"#;
    let kinds_of = |complete: &str, bare: &str| {
        let machine = format!(r#"cpuset="0x3" complete_cpuset="{complete}""#);
        kinds(&file_of("2.0", &machine, &(package(0, 3, 3) + bare), "").unwrap()).remove(1)
    };
    assert_eq!(kinds_of("0xf", bare), "1: [] t0 unusable");
    assert_eq!(kinds_of("0x3", bare), "1: [] t1 tier", "all CPUs are other nodes'");
    let special = bare.replace("os_index", r#"subtype="CXL-DRAM" os_index"#);
    assert_eq!(kinds_of("0xf", &special), "1: [] t1 tier", "said to be special memory");
}

/// The memory of node 1 was not allowed, its CPUs were.
#[test]
fn cpus_stay_when_their_node_was_not_allowed() {
    let gone = package(1, 0xc, 0xc);
    let from = gone.find("<object type=\"NUMANode\"").unwrap();
    let to = from + gone[from..].find("/>").unwrap() + 2;
    let objects = package(0, 3, 3) + &gone[..from] + &gone[to..] + &package(2, 0x30, 0x30);
    let distances = r#"<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os"><indexes>0 2 </indexes><u64values>10 28 28 10 </u64values></distances2>"#;
    let m = file_of("2.0", r#"cpuset="0x3f" complete_cpuset="0x3f""#, &objects, distances).unwrap();
    assert_eq!(kinds(&m), ["0: [0-1] t0", "1: [2-3] t0", "2: [4-5] t0"]);
    assert_eq!((m.nodes[1].memory_bytes, m.nodes[1].distances.as_slice()), (0, [28, 10, 28].as_slice()));
    assert_eq!((m.distance(NodeId(0), NodeId(2)), m.distance(NodeId(2), NodeId(1))), (28, 28));
    let whole = r#"cpuset="0xff" complete_cpuset="0xff""#;
    let error = file_of("2.0", whole, &objects, distances).unwrap_err();
    assert!(error.to_string().contains("CPUs 6-7 are of no NUMA node"), "{error}");
    // Where there is one node, it is theirs.
    assert_eq!(kinds(&file_of("2.0", whole, &package(0, 3, 3), "").unwrap()), ["0: [0-7] t0"]);
}

#[test]
fn numbers_of_nodes_have_holes_and_are_any() {
    let node = |number: u32, cpus: u32, memory: &str| {
        format!(r#"<object type="NUMANode" os_index="{number}" cpuset="{cpus:#x}" {memory}/>"#)
    };
    let memory = r#"local_memory="1073741824""#;
    let objects = node(0, 1, memory) + &node(8, 2, "") + &node(252, 4, memory) + &node(1023, 8, memory);
    let m = file_of("2.0", r#"cpuset="0xf" complete_cpuset="0xf""#, &objects, "").unwrap();
    assert_eq!(kinds(&m), ["0: [0] t0", "8: [1] t0", "252: [2] t0", "1023: [3] t0"]);
    assert_eq!(m.nodes[1].memory_bytes, 0);
    let error = file_of("2.0", r#"cpuset="0x2""#, &node(8, 2, ""), "").unwrap_err().to_string();
    assert!(error.contains("no node has memory") && error.contains("local_memory=\"BYTES\""), "{error}");
}

/// hwloc 3: page sizes and tiers stand behind the machine, memory in a cache of its own.
#[test]
fn files_of_hwloc_3_are_read() {
    let memory = |number: u32, subtype: &str| {
        format!(
            r#"<object type="NUMANode" subtype="{subtype}" os_index="{number}" cpuset="0xf" complete_cpuset="0xf" local_memory="1073741824"/>"#
        )
    };
    let cached = format!(r#"<object type="MemCache" cpuset="0xf">{}</object>"#, memory(0, "DRAM"));
    let behind = r#"<memtier kinds="1" nodeset="0x2"/><memtier kinds="2" nodeset="0x1"/><info name="PageSizes" value="4096,2097152,1073741824"/>"#;
    let m = file_of("3.0", r#"cpuset="0xf" complete_cpuset="0xf""#, &(cached + &memory(1, "HBM")), behind).unwrap();
    assert_eq!(kinds(&m), ["0: [0-3] t1", "1: [] t0 tier"]);
    assert_eq!(m.nodes[1].huge_page_sizes, [2 << 20, 1 << 30]);
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
