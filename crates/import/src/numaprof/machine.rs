//! The machine that was recorded on. A file has its nodes and CPUs, and of distances only which are nearer.

use super::format::{self, Document};
use crate::{ImportError, NUMAPROF, Options};
use numalens_profile::ids::Page;
use numalens_topology::{CpuSet, LOCAL_DISTANCE, Machine, Node, NodeId};
use std::path::Path;

/// Linux has no more nodes.
const MOST_NODES: usize = 1024;

/// The user's machine, else the file's.
///
/// # Errors
/// The user's lacks nodes that the file has; the file's contradicts itself.
pub fn of(
    document: &Document,
    options: &Options,
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Machine, ImportError> {
    let own = own(document).map_err(|why| ImportError::Form { path: file.to_owned(), form: NUMAPROF, why })?;
    let Some(machine) = &options.machine else {
        notes.push(
            "distances between nodes are not in the file, only which are nearer: 20, 30, ... stand for them; --machine knows better"
                .to_owned(),
        );
        return Ok(own);
    };
    let unfit = |why: String| ImportError::Machine { path: file.to_owned(), machine: machine.name.clone(), why };
    if let Some(node) = own.nodes.iter().find(|node| machine.node(node.id).is_none()) {
        return Err(unfit(format!("the file has {} nodes, and it lacks node {}", own.nodes.len(), node.id)));
    }
    let pairs = || own.nodes.iter().flat_map(|a| own.nodes.iter().map(|b| (a.id, b.id)));
    if let Some((a, b)) =
        pairs().find(|&(a, b)| (own.distance(a, b) == LOCAL_DISTANCE) != (machine.distance(a, b) == LOCAL_DISTANCE))
    {
        return Err(unfit(format!("the file and it disagree on which of nodes {a} and {b} are one")));
    }
    // Ranks in the file follow the distances, so equal ranks of one node mean equal distances.
    let contradicts = |&(a, b): &(NodeId, NodeId)| {
        own.nodes.iter().any(|c| {
            (own.distance(a, b) < own.distance(a, c.id)) != (machine.distance(a, b) < machine.distance(a, c.id))
        })
    };
    if let Some((a, b)) = pairs().find(contradicts) {
        notes.push(format!(
            "the distance from node {a} to node {b} on {} has another rank than in the file: is it the same machine?",
            machine.name
        ));
    }
    Ok(Machine { is_virtual: false, ..machine.clone() })
}

/// The machine as the file has it.
fn own(document: &Document) -> Result<Machine, String> {
    let mut nodes: Vec<(u16, &format::Node)> = Vec::new();
    for (key, node) in &document.topo {
        let id = key.parse().ok().filter(|id| usize::from(*id) < MOST_NODES);
        nodes.push((id.ok_or_else(|| format!("`{}` in topo is no node", key.escape_debug()))?, node));
    }
    nodes.sort_by_key(|(id, _)| *id);
    let count = nodes.len();
    let highest = nodes.last().map_or(0, |(id, _)| *id);
    let peak = |id: u16| document.process.max_allocated_pages.get(usize::from(id)).copied().unwrap_or(0);
    let mut taken = CpuSet::new();
    let mut found = Vec::new();
    for &(id, node) in &nodes {
        if node.distance.len() < count && node.distance.len() != usize::from(highest) + 1 {
            return Err(format!("node {id} has {} distances, but there are {count} nodes", node.distance.len()));
        }
        let mut cpus = CpuSet::new();
        // CPUs without a node are given to node 0 in some files, those of others may be among them.
        for cpu in &node.cpus {
            if taken.insert(*cpu) {
                cpus.insert(*cpu);
            }
        }
        let rank = |(place, to): (usize, u16)| {
            let place = if node.distance.len() > count { usize::from(to) } else { place };
            let rank = node.distance.get(place).copied().unwrap_or(u32::from(to != id));
            LOCAL_DISTANCE.saturating_mul(rank.saturating_add(1))
        };
        found.push(Node {
            id: NodeId(id),
            cpus,
            // How much it has is not in the file; at least what the program had there.
            memory_bytes: peak(id).saturating_mul(Page::BYTES).max(Page::BYTES),
            distances: nodes.iter().map(|(id, _)| *id).enumerate().map(rank).collect(),
            tier: if node.is_mcdram || !nodes.iter().any(|(_, node)| node.is_mcdram) { 0 } else { 1 },
            huge_page_sizes: Vec::new(),
            only_unusable_cpus: false,
            latency_ns: None,
            bandwidth: None,
        });
    }
    let machine = Machine { name: format!("{count} nodes of {}", host(document)), is_virtual: false, nodes: found };
    machine.validate().map_err(|error| error.to_string())?;
    Ok(machine)
}

fn host(document: &Document) -> &str {
    match document.infos.hostname.as_str() {
        "" => "an unnamed host",
        name => name,
    }
}
