//! Machines by description: what `--machine` takes.

use crate::PAGE_BYTES;
use crate::{CpuSet, LOCAL_DISTANCE, Machine, Node, NodeId, Preset, REMOTE_DISTANCE, TopologyError, hwloc};
use std::path::Path;

/// The most nodes that Linux can have (`CONFIG_NODES_SHIFT` is at most 10).
pub(crate) const MAX_NODES: usize = 1024;
/// The most CPUs of a virtual machine, that which a [`CpuSet`] holds.
const MAX_CPUS: usize = 65536;

/// What [`Machine::parse`] answers.
pub(crate) fn parse(spec: &str, host: &Machine) -> Result<Machine, TopologyError> {
    let spec = spec.trim();
    if spec == "real" {
        return Ok(host.clone());
    }
    if spec == "default" {
        return Ok(default_for(host));
    }
    if let Some(machine) = Machine::preset(spec) {
        return Ok(machine);
    }
    if let Some((nodes, cpus)) = counts(spec) {
        return grid(spec, nodes, cpus, host);
    }
    let path = Path::new(spec);
    if path.is_file() || spec.contains('/') || spec.ends_with(".xml") {
        return hwloc::read(path);
    }
    let presets: Vec<&str> = Preset::all().iter().map(|preset| preset.name).collect();
    let reason = format!(
        "it is neither `real` or `default`, nor NODESxCPUS such as 4x8, nor a file of `lstopo machine.xml`, nor one of the presets {}",
        presets.join(", ")
    );
    Err(TopologyError::Spec { spec: spec.to_owned(), reason })
}

/// What [`Machine::default_for`] answers.
pub(crate) fn default_for(host: &Machine) -> Machine {
    match host.nodes_with_memory().count() {
        0 | 1 => default_virtual(host),
        _ => host.clone(),
    }
}

/// The machine that a recording on a host with one node uses: 4 nodes that share out as many CPUs as the host has,
/// at least one each, so that programs start about as many threads as ever.
fn default_virtual(host: &Machine) -> Machine {
    let cpus = host.cpus().len();
    let shares = shares(cpus.max(4), 4);
    let name = match shares[0] == shares[3] {
        true => format!("4x{}", shares[0]),
        false => format!("{cpus} CPUs on 4 nodes"),
    };
    from_shares(name, &shares, host)
}

/// The two numbers of `4x8`, as far as they are numbers.
fn counts(spec: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    spec.split_once('x').filter(|(nodes, cpus)| is_number(nodes) && is_number(cpus))
}

fn grid(spec: &str, nodes: &str, cpus: &str, host: &Machine) -> Result<Machine, TopologyError> {
    let refuse = |reason: String| TopologyError::Spec { spec: spec.to_owned(), reason };
    let nodes: usize = match nodes.parse() {
        Ok(nodes) if (1..=MAX_NODES).contains(&nodes) => nodes,
        _ => return Err(refuse(format!("a machine has 1 to {MAX_NODES} nodes"))),
    };
    let cpus: usize = match cpus.parse() {
        Ok(cpus) if (1..=MAX_CPUS / nodes).contains(&cpus) => cpus,
        _ => {
            return Err(refuse(format!("each of {nodes} nodes has 1 to {} CPUs", MAX_CPUS / nodes)));
        }
    };
    Ok(from_shares(format!("{nodes}x{cpus}"), &vec![cpus; nodes], host))
}

/// `count` things shared out among `among`, the first getting one more where it does not come out even.
fn shares(count: usize, among: usize) -> Vec<usize> {
    (0..among).map(|index| count / among + usize::from(index < count % among)).collect()
}

/// A machine of equidistant nodes with so many CPUs each, numbered node by node.
fn from_shares(name: String, shares: &[usize], host: &Machine) -> Machine {
    let memory: u64 = host.nodes.iter().map(|node| node.memory_bytes).sum();
    let huge_page_sizes = host.nodes.iter().map(|node| &node.huge_page_sizes).max_by_key(|sizes| sizes.len());
    let mut first = 0;
    let nodes = shares.iter().enumerate().map(|(index, &cpus)| {
        let own = first..first + cpus as u32;
        first = own.end;
        Node {
            id: NodeId(index as u16),
            cpus: CpuSet::from_iter(own),
            // Whole pages, and never none: a virtual machine's nodes all have memory.
            memory_bytes: (memory / shares.len() as u64).max(PAGE_BYTES) & !(PAGE_BYTES - 1),
            distances: distances(index, shares.len()),
            tier: 0,
            huge_page_sizes: huge_page_sizes.cloned().unwrap_or_default(),
            only_unusable_cpus: false,
            latency_ns: None,
            bandwidth: None,
        }
    });
    Machine { name, is_virtual: true, nodes: nodes.collect() }
}

/// The row of node `index` when nothing is known of the distances.
pub(crate) fn distances(index: usize, nodes: usize) -> Vec<u32> {
    (0..nodes).map(|other| if other == index { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cpus: u32) -> Machine {
        let node = Node {
            id: NodeId(0),
            cpus: CpuSet::from_iter(0..cpus),
            memory_bytes: 8 << 30,
            distances: vec![10],
            tier: 0,
            huge_page_sizes: vec![2 << 20],
            only_unusable_cpus: false,
            latency_ns: None,
            bandwidth: None,
        };
        Machine { name: "real".to_owned(), is_virtual: false, nodes: vec![node] }
    }

    #[test]
    fn grids() {
        let m = Machine::parse("4x8", &host(2)).unwrap();
        m.validate().unwrap();
        assert_eq!((m.name.as_str(), m.is_virtual, m.nodes.len()), ("4x8", true, 4));
        assert_eq!(m.nodes[2].cpus.to_string(), "16-23");
        assert_eq!(m.nodes[2].distances, [20, 20, 10, 20]);
        assert_eq!(m.nodes[2].memory_bytes, 2 << 30);
        assert_eq!(m.nodes[2].huge_page_sizes, [2 << 20]);
        Machine::parse("1024x64", &host(2)).unwrap().validate().unwrap();
        assert_eq!(Machine::parse("1x1", &host(2)).unwrap().nodes[0].distances, [10]);
    }

    #[test]
    fn the_default_shares_out_the_hosts_cpus() {
        let cpus = |host_cpus| {
            let m = default_virtual(&host(host_cpus));
            m.validate().unwrap();
            (m.name.clone(), m.nodes.iter().map(|node| node.cpus.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(cpus(2), ("4x1".to_owned(), "0 1 2 3".to_owned()));
        assert_eq!(cpus(8), ("4x2".to_owned(), "0-1 2-3 4-5 6-7".to_owned()));
        assert_eq!(cpus(6), ("6 CPUs on 4 nodes".to_owned(), "0-1 2-3 4 5".to_owned()));
    }

    #[test]
    fn real_is_the_host_and_default_is_what_record_uses() {
        let parse = |spec, host: &Machine| Machine::parse(spec, host).unwrap();
        assert_eq!(parse("real", &host(3)), host(3));
        assert_eq!(parse("default", &host(6)), default_virtual(&host(6)));
        let two_nodes = parse("2x3", &host(6));
        assert_eq!(parse("default", &two_nodes), two_nodes);
    }

    #[test]
    fn refuses_what_is_no_machine() {
        for (spec, expected) in [
            ("4y8", "togian, xeon64, opteron24, knl-snc4-flat, epyc-nps4, cxl2"),
            ("", "NODESxCPUS"),
            ("x", "NODESxCPUS"),
            ("0x8", "1 to 1024 nodes"),
            ("1025x1", "1 to 1024 nodes"),
            ("99999999999999999999x1", "1 to 1024 nodes"),
            ("4x0", "each of 4 nodes has 1 to 16384 CPUs"),
            ("4x99999999999999999999", "each of 4 nodes has 1 to 16384 CPUs"),
            ("missing.xml", "cannot read missing.xml"),
            ("/nowhere/at-all", "cannot read /nowhere/at-all"),
        ] {
            let error = Machine::parse(spec, &host(2)).unwrap_err().to_string();
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }
}
