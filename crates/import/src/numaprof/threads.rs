//! Threads: their matrices, and the log of where they were bound.

use super::PROCESS;
use super::format::{self, Policy};
use numalens_profile::ids::ThreadId;
use numalens_profile::tables::{NodeAccess, Placement, Thread};
use numalens_topology::{CpuSet, Machine, NodeId};
use std::collections::BTreeMap;

/// Rows of the threads of a file.
pub struct Threads {
    pub rows: Vec<Thread>,
    pub placements: Vec<Placement>,
    pub accesses: Vec<NodeAccess>,
    /// The latest time that any of them names.
    pub last_clock: u64,
}

/// Threads have no numbers in the file: their place in it is their id.
pub fn read(threads: &[format::Thread], machine: &Machine) -> Result<Threads, String> {
    let mut all = Threads { rows: Vec::new(), placements: Vec::new(), accesses: Vec::new(), last_clock: 0 };
    for (number, thread) in (0..).zip(threads) {
        let id = ThreadId(number);
        let of_thread = |why: String| format!("thread {number}: {why}");
        all.accesses.extend(accesses(id, thread, machine).map_err(of_thread)?);
        placements(id, thread, machine, &mut all.placements).map_err(of_thread)?;
        all.last_clock = all.last_clock.max(thread.clock_start).max(thread.clock_end);
        all.rows.push(Thread {
            process: PROCESS,
            thread: id,
            tid: number,
            name: format!("thread {number}"),
            start_ns: thread.clock_start,
            end_ns: (thread.clock_end >= thread.clock_start && thread.clock_end > 0).then_some(thread.clock_end),
            switches: 0,
            migrations: 0,
        });
    }
    Ok(all)
}

/// -1: none, unpinned.
fn node(number: i64, machine: &Machine) -> Result<Option<NodeId>, String> {
    if number == -1 {
        return Ok(None);
    }
    let node = u16::try_from(number).ok().map(NodeId).filter(|node| machine.node(*node).is_some());
    node.map(Some).ok_or_else(|| format!("there is no node {number}"))
}

/// Cells of a matrix that are not 0.
type Cells = BTreeMap<(Option<NodeId>, NodeId), u64>;

fn cells(matrix: &BTreeMap<String, Vec<u64>>, machine: &Machine) -> Result<Cells, String> {
    let mut cells = Cells::new();
    for (row, counts) in matrix {
        let number = row.parse().map_err(|_| format!("`{}` is no row of a matrix", row.escape_debug()))?;
        for (column, n) in (0..).zip(counts).filter(|(_, n)| **n > 0) {
            let home = node(column, machine)?.ok_or_else(|| format!("column {column} of a matrix is no node"))?;
            cells.insert((node(number, machine)?, home), *n);
        }
    }
    Ok(cells)
}

fn accesses(id: ThreadId, thread: &format::Thread, machine: &Machine) -> Result<Vec<NodeAccess>, String> {
    let accessed = cells(&thread.access_matrix, machine)?;
    let allocated = cells(&thread.allocation_matrix, machine)?;
    let own = node(thread.numa.unwrap_or(-1), machine)?;
    let mut touched = Cells::new();
    for (column, n) in (0..).zip(&thread.touched_pages).filter(|(_, n)| **n > 0) {
        touched.insert((own, node(column, machine)?.unwrap_or_default()), *n);
    }
    let mut keys: Vec<_> = [&accessed, &allocated, &touched].into_iter().flat_map(BTreeMap::keys).copied().collect();
    keys.sort();
    keys.dedup();
    let at = |cells: &Cells, key: &(Option<NodeId>, NodeId)| cells.get(key).copied().unwrap_or(0);
    let row = |key: &(Option<NodeId>, NodeId)| NodeAccess {
        process: PROCESS,
        thread: id,
        node: key.0,
        home: Some(key.1),
        accesses: at(&accessed, key),
        allocated: at(&allocated, key),
        touched: at(&touched, key),
    };
    Ok(keys.iter().map(row).collect())
}

/// The pinning log. Which CPUs a thread was allowed is in the file for its end only.
fn placements(
    id: ThreadId,
    thread: &format::Thread,
    machine: &Machine,
    log: &mut Vec<Placement>,
) -> Result<(), String> {
    let policy_at = |time: u64| {
        let in_force = thread.mem_policy_log.iter().rev().find(|change| change.at <= time);
        policy(in_force.map_or(&thread.mem_policy, |change| &change.policy))
    };
    let last_cpus: CpuSet = thread.binding.iter().copied().collect();
    let mut before: Option<NodeId> = None;
    let bindings = thread.binding_log.len();
    for (index, change) in thread.binding_log.iter().enumerate() {
        let node = node(change.numa, machine)?;
        let cpus = match node.and_then(|node| machine.node(node)) {
            _ if index + 1 == bindings => last_cpus.to_string(),
            Some(node) => node.cpus.to_string(),
            None => String::new(),
        };
        let cause = if index == 0 { "start" } else { "observed" };
        log.push(Placement {
            process: PROCESS,
            thread: id,
            time_ns: change.at,
            cpus,
            node,
            policy: policy_at(change.at),
            cause: cause.to_owned(),
        });
        before = node;
    }
    if bindings == 0 {
        before = node(thread.numa.unwrap_or(-1), machine)?;
        log.push(Placement {
            process: PROCESS,
            thread: id,
            time_ns: thread.clock_start,
            cpus: last_cpus.to_string(),
            node: before,
            policy: policy(&thread.mem_policy),
            cause: "start".to_owned(),
        });
    }
    let after = thread.binding_log.last().map_or(thread.clock_start, |change| change.at);
    log.extend(thread.mem_policy_log.iter().filter(|change| change.at > after).map(|change| Placement {
        process: PROCESS,
        thread: id,
        time_ns: change.at,
        cpus: last_cpus.to_string(),
        node: before,
        policy: policy(&change.policy),
        cause: "set_mempolicy".to_owned(),
    }));
    Ok(())
}

/// `MPOL_BIND` and a mask in the words of the kernel: `bind:0-1`.
fn policy(policy: &Policy) -> String {
    let mode = policy.mode.strip_prefix("MPOL_").unwrap_or(&policy.mode).to_lowercase();
    let nodes: CpuSet = policy.mask.iter().copied().collect();
    match (mode.as_str(), nodes.is_empty()) {
        ("", _) => "default".to_owned(),
        (mode, true) => mode.to_owned(),
        (mode, false) => format!("{mode}:{nodes}"),
    }
}
