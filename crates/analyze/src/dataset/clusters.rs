//! Threads that share with each other and with nobody else.
//!
//! Two threads communicate through a page as much as the one that uses it less. Where pages have few samples each,
//! neighbouring pages stand for one: two threads that use the same array are rarely sampled on the same page of it.
//! Threads whose communication is a good part of what one of them does are one cluster. Clusters that span nodes could
//! be put on a node each, if that crowds no node more than now.

use crate::dataset::Dataset;
use crate::facts::node_occupancy::NodeOccupancy;
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_topology::NodeId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A cluster, and the node for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    pub threads: Vec<ThreadId>,
    pub node: NodeId,
}

/// Accesses that two threads make to the same pages, and those of each alone.
#[derive(Default)]
pub struct Communication {
    pub pairs: BTreeMap<(ThreadId, ThreadId), f64>,
    /// The same by the nodes that the two were on.
    pub nodes: BTreeMap<(Option<NodeId>, Option<NodeId>), f64>,
    pub threads: BTreeMap<ThreadId, f64>,
}

/// Threads of one page beyond this number are a crowd: they share with everybody, which forms no clusters.
const CROWD: usize = 64;
/// Part of a thread's accesses that makes it belong to another.
const TOGETHER: f64 = 0.3;
/// Samples that a page, or a neighbourhood of pages, should have.
const SAMPLES: u64 = 6;
/// Neighbourhoods of 2 MiB are the largest.
const WIDEST: u32 = 9;

/// Accesses of each thread, initialisations left out.
pub fn threads(dataset: &Dataset) -> BTreeMap<ThreadId, f64> {
    let mut threads: FxHashMap<ThreadId, f64> = FxHashMap::default();
    for (key, tally) in dataset.facts.page_use.sums.iter().filter(|(key, _)| !key.initial) {
        *threads.entry(key.thread).or_default() += tally.basis() as f64;
    }
    threads.into_iter().collect()
}

/// What one thread does to one page, on one node.
struct Use {
    process: ProcessId,
    page: u64,
    thread: ThreadId,
    node: Option<NodeId>,
    n: u64,
}

/// The same in a neighbourhood of pages, on all nodes.
struct User {
    thread: ThreadId,
    n: f64,
    nodes: Vec<(Option<NodeId>, f64)>,
}

impl User {
    /// Of all parts of one thread, which are together.
    fn of(parts: &[&Use]) -> User {
        let mut nodes: Vec<(Option<NodeId>, f64)> = Vec::new();
        for part in parts {
            match nodes.iter_mut().find(|(node, _)| *node == part.node) {
                Some((_, n)) => *n += part.n as f64,
                None => nodes.push((part.node, part.n as f64)),
            }
        }
        User { thread: parts[0].thread, n: nodes.iter().map(|(_, n)| n).sum(), nodes }
    }

    /// Which part of what it did was done on each node.
    fn parts(&self) -> impl Iterator<Item = (Option<NodeId>, f64)> {
        self.nodes.iter().filter(|_| self.n > 0.0).map(|(node, n)| (*node, n / self.n))
    }
}

/// Who shares pages with whom, initialisations left out.
pub fn communication(dataset: &Dataset) -> Communication {
    let uses = dataset.facts.page_use.sums.iter().filter(|(key, _)| !key.initial);
    let mut uses: Vec<Use> = uses
        .map(|(key, tally)| Use {
            process: key.process,
            page: key.page.0,
            thread: key.thread,
            node: key.node,
            n: tally.basis(),
        })
        .collect();
    // Sorted rather than hashed: neighbours of any width are then together.
    uses.par_sort_unstable_by_key(|one| (one.process, one.page));
    let shift = neighbourhood(&uses);
    let mut pairs: FxHashMap<(ThreadId, ThreadId), f64> = FxHashMap::default();
    let mut nodes: BTreeMap<(Option<NodeId>, Option<NodeId>), f64> = BTreeMap::new();
    let mut parts: Vec<&Use> = Vec::new();
    for part in uses.chunk_by(|a, b| (a.process, a.page >> shift) == (b.process, b.page >> shift)) {
        parts.clear();
        parts.extend(part);
        parts.sort_unstable_by_key(|one| one.thread);
        let users: Vec<User> = parts.chunk_by(|a, b| a.thread == b.thread).map(User::of).collect();
        if users.len() > CROWD {
            continue;
        }
        for (i, a) in users.iter().enumerate() {
            for b in &users[i + 1..] {
                let shared = a.n.min(b.n);
                *pairs.entry((a.thread, b.thread)).or_default() += shared;
                for (from, of_a) in a.parts() {
                    for (to, of_b) in b.parts() {
                        *nodes.entry((from, to)).or_default() += shared * of_a * of_b;
                    }
                }
            }
        }
    }
    Communication { pairs: pairs.into_iter().collect(), nodes, threads: threads(dataset) }
}

/// Pages that stand for one, as a power of two. The uses are in the order of pages.
fn neighbourhood(uses: &[Use]) -> u32 {
    let all: u64 = uses.iter().map(|one| one.n).sum();
    let parts =
        |shift: u32| uses.chunk_by(|a, b| (a.process, a.page >> shift) == (b.process, b.page >> shift)).count() as u64;
    (0..WIDEST).find(|shift| parts(*shift) * SAMPLES <= all).unwrap_or(WIDEST)
}

/// The clusters of a program and a node for each; nothing where threads share with all others or with none, where no
/// cluster spans nodes, or where the clusters fit on no nodes.
pub fn find(dataset: &Dataset, communication: &Communication) -> Vec<Cluster> {
    let all: f64 = communication.threads.values().sum();
    let active: Vec<ThreadId> =
        communication.threads.iter().filter(|(_, n)| **n * 100.0 >= all).map(|(thread, _)| *thread).collect();
    let occupancy = NodeOccupancy::of(&dataset.facts.sites, &dataset.program.pinning);
    let node = |thread: &ThreadId| occupancy.node(*thread);
    let mut clusters: Vec<Vec<ThreadId>> = active.iter().map(|thread| vec![*thread]).collect();
    // Whoever is gone before the other one begins shares nothing: memory was handed on.
    let together = |a: ThreadId, b: ThreadId| !dataset.program.ends_before(a, b) && !dataset.program.ends_before(b, a);
    for ((a, b), shared) in communication.pairs.iter().filter(|((a, b), _)| together(*a, *b)) {
        let least = communication.threads[a].min(communication.threads[b]);
        if *shared < least * TOGETHER {
            continue;
        }
        let at = |thread: &ThreadId| clusters.iter().position(|cluster| cluster.contains(thread));
        if let (Some(i), Some(j)) = (at(a), at(b))
            && i != j
        {
            let joined = clusters.swap_remove(i.max(j));
            clusters[i.min(j)].extend(joined);
        }
    }
    if clusters.len() < 2 || active.iter().any(|thread| node(thread).is_none()) {
        return Vec::new();
    }
    let spans = |cluster: &[ThreadId]| cluster.iter().any(|thread| node(thread) != node(&cluster[0]));
    if !clusters.iter().any(|cluster| spans(cluster)) {
        return Vec::new();
    }
    clusters.iter_mut().for_each(|cluster| cluster.sort());
    clusters.sort_by_key(|cluster| (Reverse(cluster.len()), cluster[0]));
    place(dataset, &occupancy, clusters, &active).unwrap_or_default()
}

/// The largest first, each where most room is left.
fn place(
    dataset: &Dataset,
    occupancy: &NodeOccupancy<'_>,
    clusters: Vec<Vec<ThreadId>>,
    active: &[ThreadId],
) -> Option<Vec<Cluster>> {
    let crowd = |at: NodeId| active.iter().filter(|thread| occupancy.node(**thread) == Some(at)).count();
    let most = dataset.machine.nodes_with_cpus().map(|node| crowd(node.id)).max()?;
    let mut free: Vec<(NodeId, usize)> =
        dataset.machine.nodes_with_cpus().map(|node| (node.id, node.cpus.len().max(most))).collect();
    let mut placed = Vec::new();
    for threads in clusters {
        // A node that it is on already, when there is a choice.
        let here = |at: NodeId| threads.iter().filter(|thread| occupancy.node(**thread) == Some(at)).count();
        let (at, room) = free.iter_mut().max_by_key(|(at, room)| (*room, here(*at), Reverse(*at)))?;
        *room = room.checked_sub(threads.len())?;
        placed.push(Cluster { node: *at, threads });
    }
    Some(placed)
}
