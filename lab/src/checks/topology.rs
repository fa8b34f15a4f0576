//! `numalens machine show` against what qemu was told and what sysfs says.

use super::Context;
use miette::{IntoDiagnostic, Result, WrapErr};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;

/// The part of `machine show --format json` that the kernel can be asked about.
#[derive(Deserialize)]
struct Shown {
    schema: u32,
    machine: ShownMachine,
}

#[derive(Deserialize)]
struct ShownMachine {
    r#virtual: bool,
    nodes: Vec<ShownNode>,
}

#[derive(Deserialize)]
struct ShownNode {
    node: u16,
    cpus: String,
    memory_bytes: u64,
    distances: Vec<u32>,
    tier: u32,
}

/// The part of `machine measure --format json` that can be right or wrong here.
#[derive(Deserialize)]
struct Measured {
    nodes: Vec<usize>,
    latency_ns: Vec<Vec<Option<f64>>>,
    bandwidth_bytes_per_s: Vec<Vec<Option<f64>>>,
    notes: Vec<String>,
}

/// Compares node by node.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let read = |name: &str| {
        let path = context.directory.join(name);
        fs::read_to_string(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())
    };
    let mut wrong = Vec::new();
    let machine = context.machine;
    let (sysfs, meminfo, tiers) = (read("sysfs")?, read("meminfo")?, tiers(&read("tiers")?));
    let shown: Shown = serde_json::from_str(&read("machine.json")?).into_diagnostic().wrap_err("machine.json")?;
    if shown.schema != 1 || shown.machine.r#virtual {
        wrong.push(format!("shows schema {} and virtual: {}", shown.schema, shown.machine.r#virtual));
    }
    if shown.machine.nodes.len() != machine.cpus.len() {
        wrong.push(format!("shows {} nodes of {}", shown.machine.nodes.len(), machine.cpus.len()));
    }
    for (node, distances) in machine.distances.iter().enumerate() {
        let cpus = machine.cpus_of(node);
        let cpus = if cpus.is_empty() { String::new() } else { format!("{}-{}", cpus.start, cpus.end - 1) };
        // First the kernel against what qemu was told: if the guest is another machine, nothing else means anything.
        let words: Vec<_> = distances.iter().map(u32::to_string).collect();
        let line = format!("node{node} cpus={cpus} distance={}", words.join(" "));
        if !sysfs.lines().any(|found| found == line) {
            wrong.push(format!("sysfs has no line `{line}`"));
        }
        let Some(shown) = shown.machine.nodes.iter().find(|shown| usize::from(shown.node) == node) else {
            wrong.push(format!("node {node} is not shown"));
            continue;
        };
        if shown.cpus != cpus {
            wrong.push(format!("node {node}: shows CPUs {}, has {cpus}", shown.cpus));
        }
        if shown.distances != *distances {
            wrong.push(format!("node {node}: shows distances {:?}, has {distances:?}", shown.distances));
        }
        let memory = memory(&meminfo, node);
        if Some(shown.memory_bytes) != memory {
            wrong.push(format!("node {node}: shows {} bytes, has {memory:?}", shown.memory_bytes));
        }
        // The kernel numbers tiers by a distance, numalens by rank.
        if let Some(tier) = tiers.get(&shown.node) {
            let rank =
                tiers.values().collect::<std::collections::BTreeSet<_>>().into_iter().position(|other| other == tier);
            if rank != Some(shown.tier as usize) {
                wrong.push(format!(
                    "node {node}: shows tier {}, is in the kernel's tier {tier}, of rank {rank:?}",
                    shown.tier
                ));
            }
        }
    }
    let measured: Measured =
        serde_json::from_str(&read("measured.json")?).into_diagnostic().wrap_err("measured.json")?;
    wrong.extend(check_measured(&measured, machine.cpus));
    let written: Shown =
        serde_json::from_str(&read("measured-machine.json")?).into_diagnostic().wrap_err("measured-machine.json")?;
    for (written, shown) in written.machine.nodes.iter().zip(&shown.machine.nodes) {
        let of = |node: &ShownNode| (node.node, node.cpus.clone(), node.memory_bytes, node.tier);
        if of(written) != of(shown) {
            wrong.push(format!("node {}: measured.xml has {:?}, the host {:?}", shown.node, of(written), of(shown)));
        }
    }
    if written.machine.nodes.len() != shown.machine.nodes.len() {
        wrong.push(format!("measured.xml has {} nodes", written.machine.nodes.len()));
    }
    Ok(wrong)
}

/// Whether each way was measured that there is. `cpus`: how many each node has.
fn check_measured(measured: &Measured, cpus: &[u32]) -> Vec<String> {
    let mut wrong = Vec::new();
    if measured.nodes != (0..cpus.len()).collect::<Vec<_>>() {
        wrong.push(format!("measures nodes {:?}", measured.nodes));
        return wrong;
    }
    for (from, to) in cpus.iter().enumerate().flat_map(|(from, _)| (0..cpus.len()).map(move |to| (from, to))) {
        for (what, figure) in
            [("latency", measured.latency_ns[from][to]), ("bandwidth", measured.bandwidth_bytes_per_s[from][to])]
        {
            let is_full = measured.notes.iter().any(|note| note.starts_with(&format!("node {to} has ")));
            let wanted = cpus[from] > 0 && !is_full;
            if figure.is_some_and(|figure| figure > 0.0) != wanted {
                wrong.push(format!("{what} from node {from} to {to}: {figure:?} ({:?})", measured.notes));
            }
        }
    }
    wrong
}

/// Bytes of a node, from the meminfo of all nodes.
fn memory(meminfo: &str, node: usize) -> Option<u64> {
    let words = meminfo.lines().find_map(|line| line.trim().strip_prefix(&format!("Node {node} MemTotal:")))?;
    Some(words.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The kernel's tier of each node, from lines `/sys/.../memory_tier4/nodelist:0-2`.
fn tiers(text: &str) -> BTreeMap<u16, u32> {
    let mut tiers = BTreeMap::new();
    for line in text.lines() {
        let Some((path, list)) = line.split_once(':') else { continue };
        let Some(tier) = path.split("memory_tier").last().and_then(|rest| rest.split('/').next()?.parse().ok()) else {
            continue;
        };
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse()) {
                tiers.extend((first..=last).map(|node| (node, tier)));
            }
        }
    }
    tiers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_tiers() {
        let text = "/sys/devices/virtual/memory_tiering/memory_tier4/nodelist:0-1,3\n/sys/devices/virtual/memory_tiering/memory_tier961/nodelist:2\n";
        assert_eq!(tiers(text), BTreeMap::from([(0, 4), (1, 4), (2, 961), (3, 4)]));
    }

    #[test]
    fn reads_the_memory_of_a_node() {
        let text = "\nNode 0 MemTotal:         481000 kB\nNode 0 MemFree: 1 kB\nNode 1 MemTotal: 2 kB\n";
        assert_eq!(memory(text, 1), Some(2048));
        assert_eq!(memory(text, 2), None);
    }
}
