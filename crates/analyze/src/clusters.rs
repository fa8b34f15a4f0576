//! Threads that share with each other and with nobody else.
//!
//! Two threads communicate through a page as much as the one that uses it less. Where pages have few samples each,
//! neighbouring pages stand for one: two threads that use the same array are rarely sampled on the same page of it. Threads
//! whose communication is a good part of what one of them does are one cluster. Clusters that span nodes could be put on a
//! node each, if that crowds no node more than now.

use crate::study::Study;
use crate::usage::basis;
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
pub fn threads(study: &Study) -> BTreeMap<ThreadId, f64> {
    let mut threads: FxHashMap<ThreadId, f64> = FxHashMap::default();
    for (key, tally) in study.flows.sums.iter().filter(|(key, _)| !key.initial) {
        *threads.entry(key.thread).or_default() += basis(tally) as f64;
    }
    threads.into_iter().collect()
}

/// What one thread does to one page.
struct Use {
    process: ProcessId,
    page: u64,
    thread: ThreadId,
    n: u64,
}

/// Who shares pages with whom, initialisations left out.
pub fn communication(study: &Study) -> Communication {
    let uses = study.flows.sums.iter().filter(|(key, _)| !key.initial);
    let mut uses: Vec<Use> = uses
        .map(|(key, tally)| Use { process: key.process, page: key.page.0, thread: key.thread, n: basis(tally) })
        .collect();
    // Sorted rather than hashed: neighbours of any width are then together.
    uses.par_sort_unstable_by_key(|one| (one.process, one.page));
    let shift = neighbourhood(&uses);
    let mut pairs: FxHashMap<(ThreadId, ThreadId), f64> = FxHashMap::default();
    let mut users: Vec<(ThreadId, f64)> = Vec::new();
    for part in uses.chunk_by(|a, b| (a.process, a.page >> shift) == (b.process, b.page >> shift)) {
        users.clear();
        users.extend(part.iter().map(|one| (one.thread, one.n as f64)));
        users.sort_unstable_by_key(|(thread, _)| *thread);
        users.dedup_by(|from, into| {
            let same = from.0 == into.0;
            into.1 += if same { from.1 } else { 0.0 };
            same
        });
        if users.len() > CROWD {
            continue;
        }
        for (i, (a, n)) in users.iter().enumerate() {
            for (b, m) in &users[i + 1..] {
                *pairs.entry((*a, *b)).or_default() += n.min(*m);
            }
        }
    }
    Communication { pairs: pairs.into_iter().collect(), threads: threads(study) }
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
pub fn find(study: &Study, communication: &Communication) -> Vec<Cluster> {
    let all: f64 = communication.threads.values().sum();
    let active: Vec<ThreadId> =
        communication.threads.iter().filter(|(_, n)| **n * 100.0 >= all).map(|(thread, _)| *thread).collect();
    let node = |thread: &ThreadId| study.pinning.last(*thread);
    let mut clusters: Vec<Vec<ThreadId>> = active.iter().map(|thread| vec![*thread]).collect();
    for ((a, b), shared) in &communication.pairs {
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
    place(study, clusters, &active).unwrap_or_default()
}

/// The largest first, each where most room is left.
fn place(study: &Study, clusters: Vec<Vec<ThreadId>>, active: &[ThreadId]) -> Option<Vec<Cluster>> {
    let crowd = |at: NodeId| active.iter().filter(|thread| study.pinning.last(**thread) == Some(at)).count();
    let most = study.machine.nodes_with_cpus().map(|node| crowd(node.id)).max()?;
    let mut free: Vec<(NodeId, usize)> =
        study.machine.nodes_with_cpus().map(|node| (node.id, node.cpus.len().max(most))).collect();
    let mut placed = Vec::new();
    for threads in clusters {
        // A node that it is on already, when there is a choice.
        let here = |at: NodeId| threads.iter().filter(|thread| study.pinning.last(**thread) == Some(at)).count();
        let (at, room) = free.iter_mut().max_by_key(|(at, room)| (*room, here(*at), Reverse(*at)))?;
        *room = room.checked_sub(threads.len())?;
        placed.push(Cluster { node: *at, threads });
    }
    Some(placed)
}
