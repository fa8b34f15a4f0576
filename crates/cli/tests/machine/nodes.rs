//! Machines with many nodes, or of any numbers; machines that are measured, and such as cannot be.

use super::*;
use serde_json::Value;
use std::process::Command;

/// A machine of hwloc with nodes of these numbers: two CPUs each, usable ones and others; 1 GiB, all as far from each
/// other.
fn machine_file(lab: &Lab, nodes: &[(u32, &str, &str)]) -> String {
    let mut text = String::from("<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\">");
    for (number, usable, complete) in nodes {
        let sets = format!("cpuset=\"{usable}\" complete_cpuset=\"{complete}\"");
        text += &format!(
            "<object type=\"Package\" {sets}><object type=\"NUMANode\" os_index=\"{number}\" {sets} local_memory=\"1073741824\"/></object>"
        );
    }
    let path = lab.at("machine.xml");
    std::fs::write(&path, text + "</object></topology>").unwrap();
    path
}

/// As on POWER, whose nodes of graphics memory begin at 252; the last is the highest that Linux can have.
#[test]
fn nodes_have_any_numbers() {
    let lab = Lab::exact();
    let program = lab.build("machine/numbers.c", &["-O1", "-lnuma"]);
    let nodes = [(0, "0x3", "0x3"), (8, "0xc", "0xc"), (252, "0x30", "0x30"), (1023, "0xc0", "0xc0")];
    let machine = machine_file(&lab, &nodes);
    let recorded = record(&lab, &["--machine", &machine], &[&program, "252", "1023"]);
    let wanted = "bound: 252\nof memory: 1023\nhomes: 252 1023, a mask of one word: refused\nmoved: 1023\nallowed: 0 8 252 1023\n";
    assert_eq!(recorded.said(), wanted);
    let matrix = recorded.matrix();
    assert!(matrix[0][3] >= 100_000, "the first thread is on node 0, its page on node 1023: {matrix:?}");
    let text = "numactl --hardware; numactl -N 8 -m 252 numactl --show";
    let said = record(&lab, &["--machine", &machine], &["/bin/sh", "-c", text]).outcome.stdout;
    for line in ["available: 4 nodes (0,8,252,1023)", "node 252 cpus: 4 5", "nodebind: 8 ", "membind: 252 "] {
        assert!(said.lines().any(|found| found == line), "`{line}` in {said}");
    }
}

/// More nodes than bits of a word: each is told from all others, and each thread has its own.
#[test]
fn machines_have_many_nodes() {
    let lab = Lab::exact();
    let program = lab.build("machine/numbers.c", &["-O1", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "300x1"], &[&program, "70", "299"]);
    let said = recorded.said();
    assert!(
        said.starts_with("bound: 70\nof memory: 299\nhomes: 70 299, a mask of one word: refused\nmoved: 299\n"),
        "{said}"
    );
    let matrix = recorded.matrix();
    assert!(matrix.len() >= 300 && matrix[0][299] >= 100_000, "{} rows: {:?}", matrix.len(), matrix[0]);
}

/// What a job may not use is no memory tier: the accesses of its threads to that node's memory are remote.
#[test]
fn a_node_that_a_job_has_no_cpus_of_is_remote() {
    let lab = Lab::exact();
    let program = lab.build("machine/numbers.c", &["-O1", "-lnuma"]);
    for complete in ["0xc", "0x0"] {
        let machine = machine_file(&lab, &[(0, "0x3", "0x3"), (1, "0x0", complete)]);
        let recorded = record(&lab, &["--machine", &machine], &[&program, "1", "1"]);
        let classes = &recorded.report()["summary"]["classes"];
        let count = |class: &str| classes[class].as_u64().unwrap_or(0);
        assert!(count("remote") >= 100_000, "{classes}");
        assert_eq!(count("memory_tier_local") + count("memory_tier_remote"), 0, "{classes}");
    }
}

#[test]
fn a_measured_machine_is_read_by_hwloc_and_as_a_machine() {
    let lab = Lab::exact();
    let json = |arguments: &[&str]| json(numalens(&["machine"]).args(arguments).current_dir(lab.path()));
    let before = json(&["show"])["machine"].take();
    let measured = json(&["measure", "-o", "measured.xml"]);
    let host = json(&["show"])["machine"].take();
    let nodes = host["nodes"].as_array().unwrap();
    for (number, node) in nodes.iter().enumerate().filter(|(_, node)| node["cpus"] != "") {
        assert_eq!(measured["nodes"][number], node["node"]);
        let latency = measured["latency_ns"][number][number].as_f64();
        let full =
            measured["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("free memory"));
        assert!(full || latency.is_some_and(|ns| (0.1..10_000.0).contains(&ns)), "{measured}");
    }
    let written = json(&["show", "--machine", "measured.xml"])["machine"].take();
    for (written, node) in written["nodes"].as_array().unwrap().iter().zip(nodes) {
        for what in ["node", "cpus", "tier"] {
            assert_eq!(written[what], node[what], "{what}");
        }
    }
    // A host that is a virtual machine itself may be given memory, or lose some, meanwhile.
    let memory = |machine: &Value| -> Vec<u64> {
        machine["nodes"].as_array().unwrap().iter().map(|node| node["memory_bytes"].as_u64().unwrap()).collect()
    };
    for (written, (before, after)) in memory(&written).into_iter().zip(memory(&before).into_iter().zip(memory(&host))) {
        assert!(before.min(after) <= written && written <= before.max(after), "{before} {written} {after}");
    }
    let mut hwloc = Command::new("lstopo-no-graphics");
    let seen = stdout(hwloc.args(["-i", "measured.xml", "--of", "console"]).current_dir(lab.path()));
    assert_eq!(seen.lines().filter(|line| line.contains("NUMANode L#")).count(), nodes.len(), "{seen}");
    let said = failure(&mut numalens(&["machine", "measure", "-o", "/nowhere/measured.xml"]), 1);
    assert!(said.contains("/nowhere/measured.xml"), "{said}");
}

#[test]
fn a_machine_that_is_too_large_is_refused() {
    let lab = Lab::exact();
    for (machine, way_out) in [("1025x1", "1 to 1024 nodes"), ("2x5000", "--engine sample")] {
        let mut record = numalens(&["record", "--engine", "exact", "--machine", machine, "--", "true"]);
        let said = failure(record.current_dir(lab.path()), 2);
        assert!(said.contains(way_out), "{machine}: {said}");
    }
}
