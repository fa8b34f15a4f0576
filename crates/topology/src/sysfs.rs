//! The machine of a running kernel, from the files of sysfs.
//!
//! What the kernel promises, and what this reader makes of it:
//! - `sys/devices/system/node/online` lists the nodes; ids may have holes. Without that folder the kernel knows no
//!   NUMA, and the machine is one node with all online CPUs and all memory.
//! - `nodeN/cpulist` lists the node's CPUs; those that `cpu/online` does not list are left out (containers may show
//!   fewer). CPUs that are offline are not in the list, but stay as links `nodeN/cpuM`: a memory-only node has neither.
//! - `nodeN/distance` has one number per *online* node, in order. Older kernels and some containers lack the file.
//! - `memory_tiering/memory_tierT/nodelist` groups nodes with memory; T grows with the abstract distance, so order is
//!   rank. Kernels before 6.1 lack it: then nodes without CPUs are one tier slower than those with.

use crate::spec::{MAX_NODES, distances};
use crate::{CpuSet, Machine, Node, NodeId, TopologyError};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The machine that the kernel of a file tree describes; `root` is the folder that holds `sys` and `proc`, `/` for
/// the running kernel.
///
/// # Errors
/// When a file of sysfs cannot be read or does not say what it must, naming the file.
pub fn read(root: &Path) -> Result<Machine, TopologyError> {
    let online_cpus = optional(&root.join("sys/devices/system/cpu/online"), CpuSet::parse)?;
    let folder = root.join("sys/devices/system/node");
    let nodes = match optional(&folder.join("online"), CpuSet::parse)? {
        Some(ids) => read_nodes(root, &folder, &ids, online_cpus.as_ref())?,
        None => vec![without_numa(root, online_cpus)?],
    };
    let machine = Machine { name: "real".to_owned(), is_virtual: false, nodes };
    machine.validate()?;
    Ok(machine)
}

fn read_nodes(root: &Path, folder: &Path, ids: &CpuSet, online: Option<&CpuSet>) -> Result<Vec<Node>, TopologyError> {
    let count = ids.len();
    if ids.iter().any(|id| id as usize >= MAX_NODES) {
        let reason = format!("node ids past {} in `{ids}`", MAX_NODES - 1);
        return Err(TopologyError::Malformed { path: folder.join("online"), reason });
    }
    let mut nodes = Vec::with_capacity(count);
    for (index, id) in ids.iter().enumerate() {
        let node = folder.join(format!("node{id}"));
        let cpus = required(&node.join("cpulist"), CpuSet::parse)?;
        let listed = optional(&node.join("distance"), |text| numbers(text, count))?;
        let usable = online.map_or_else(|| cpus.clone(), |online| cpus.intersection(online));
        nodes.push(Node {
            id: NodeId(id as u16),
            only_unusable_cpus: usable.is_empty() && (!cpus.is_empty() || has_cpu_links(&node)?),
            cpus: usable,
            memory_bytes: required(&node.join("meminfo"), mem_total)?,
            distances: listed.unwrap_or_else(|| distances(index, count)),
            tier: 0,
            huge_page_sizes: huge_page_sizes(&node.join("hugepages"))?,
            // HMAT's figures for the nearest initiators: nanoseconds and MB/s. Zero means that the firmware said
            // nothing.
            latency_ns: access(&node, "read_latency")?,
            bandwidth: access(&node, "read_bandwidth")?.map(|mb_per_s| mb_per_s * 1e6),
        });
    }
    set_tiers(&root.join("sys/devices/virtual/memory_tiering"), &mut nodes)?;
    Ok(nodes)
}

/// A kernel built without NUMA: one node of everything.
fn without_numa(root: &Path, online_cpus: Option<CpuSet>) -> Result<Node, TopologyError> {
    let cpus = match online_cpus {
        Some(cpus) => cpus,
        None => required(&root.join("sys/devices/system/cpu/online"), CpuSet::parse)?,
    };
    Ok(Node {
        id: NodeId(0),
        cpus,
        only_unusable_cpus: false,
        memory_bytes: required(&root.join("proc/meminfo"), mem_total)?,
        distances: distances(0, 1),
        tier: 0,
        huge_page_sizes: huge_page_sizes(&root.join("sys/kernel/mm/hugepages"))?,
        latency_ns: None,
        bandwidth: None,
    })
}

/// Whether a node's folder has links to CPUs: they are its own, online or not.
fn has_cpu_links(node: &Path) -> Result<bool, TopologyError> {
    let is_cpu = |name: &str| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    Ok(entries(node)?.iter().any(|(name, _)| is_cpu(name)))
}

/// Ranks the tiers that have nodes, fastest 0. A node in no tier (without memory, or a kernel without tiers) is of tier
/// 0 when it has CPUs, usable or not, else one slower than the slowest node with CPUs.
fn set_tiers(folder: &Path, nodes: &mut [Node]) -> Result<(), TopologyError> {
    let mut tiers: Vec<(u64, CpuSet)> = Vec::new();
    for (name, path) in entries(folder)? {
        if let Some(tier) = name.strip_prefix("memory_tier").and_then(|digits| digits.parse().ok()) {
            tiers.push((tier, required(&path.join("nodelist"), CpuSet::parse)?));
        }
    }
    tiers.retain(|(_, members)| nodes.iter().any(|node| members.contains(node.id.0.into())));
    tiers.sort();
    let rank = |node: &Node| (0..).zip(&tiers).find(|(_, (_, members))| members.contains(node.id.0.into()));
    let ranks: Vec<Option<u32>> = nodes.iter().map(|node| rank(node).map(|(rank, _)| rank)).collect();
    let with_cpus = nodes.iter().zip(&ranks).filter(|(node, _)| !node.cpus.is_empty());
    let slowest_with_cpus = with_cpus.filter_map(|(_, &rank)| rank).max().unwrap_or(0);
    for (node, rank) in nodes.iter_mut().zip(ranks) {
        let unranked = if node.cpus.is_empty() && !node.only_unusable_cpus { slowest_with_cpus + 1 } else { 0 };
        node.tier = rank.unwrap_or(unranked);
    }
    Ok(())
}

/// A figure of the node's nearest initiators, where the firmware has an HMAT.
fn access(node: &Path, name: &str) -> Result<Option<f64>, TopologyError> {
    let parse = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{}` is not a number", excerpt(text)));
    let figure = optional(&node.join("access0/initiators").join(name), parse)?;
    Ok(figure.filter(|&figure| figure > 0).map(|figure| figure as f64))
}

/// The sizes for which there is a folder `hugepages-2048kB`, in bytes.
fn huge_page_sizes(folder: &Path) -> Result<Vec<u64>, TopologyError> {
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024);
    let mut sizes: Vec<u64> = entries(folder)?.iter().filter_map(|(name, _)| size(name)).collect();
    sizes.sort_unstable();
    Ok(sizes)
}

/// `Node 0 MemTotal:  7694548 kB` or, in /proc/meminfo, without the node; in bytes.
fn mem_total(text: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.split_once("MemTotal:")).ok_or("there is no line MemTotal")?.1;
    let kib = line.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| format!("MemTotal is `{}`", excerpt(line)))
}

fn numbers(text: &str, count: usize) -> Result<Vec<u32>, String> {
    let numbers: Vec<u32> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("`{}`", excerpt(text)))?;
    match numbers.len() == count {
        true => Ok(numbers),
        false => Err(format!("{} distances for {count} online nodes: `{}`", numbers.len(), excerpt(text))),
    }
}

fn excerpt(text: &str) -> String {
    text.trim().chars().take(60).collect()
}

/// Files of sysfs are small; the bound keeps a hostile tree from filling memory.
const MAX_BYTES: u64 = 1 << 20;

fn required<T, E: ToString>(path: &Path, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, TopologyError> {
    optional(path, parse)?.ok_or_else(|| TopologyError::Read { path: path.into(), reason: ErrorKind::NotFound.into() })
}

fn optional<T, E: ToString>(path: &Path, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<Option<T>, TopologyError> {
    let text = match read_bounded(path, MAX_BYTES) {
        Err(TopologyError::Read { reason, .. }) if reason.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        text => text?,
    };
    parse(&text).map(Some).map_err(|reason| TopologyError::Malformed { path: path.into(), reason: reason.to_string() })
}

/// The text of a file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<String, TopologyError> {
    use std::io::Read;
    let read_error = |reason| TopologyError::Read { path: path.into(), reason };
    let malformed = |reason: &str| TopologyError::Malformed { path: path.into(), reason: reason.to_owned() };
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(read_error)?;
    if bytes.len() as u64 > limit {
        return Err(malformed(&format!("longer than {} MiB", limit >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| malformed("not a text file"))
}

/// Names and paths of a folder's entries; none when there is no such folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, TopologyError> {
    let read_error = |reason| TopologyError::Read { path: folder.into(), reason };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(read_error)?,
    };
    let named = |entry: fs::DirEntry| (entry.file_name().to_string_lossy().into_owned(), entry.path());
    entries.map(|entry| entry.map(named).map_err(read_error)).collect()
}
