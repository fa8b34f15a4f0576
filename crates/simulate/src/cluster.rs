//! Threads that use the same pages, together on a node: what a scheduler could do that knew who shares with whom.
//!
//! ```text
//!   weight(a, b) = sum over pages of min(accesses of a, accesses of b)
//! ```
//! Nodes are filled one after the other, each with as many threads as its part of the CPUs: first the thread that
//! shares most with those left, then always the one that shares most with the node's. Greedy, and good enough where
//! there is structure; where there is none, any division is as good.

use crate::recording::Recording;
use numalens_topology::{Machine, NodeId};
use std::collections::BTreeMap;

/// Pages of more threads than these say nothing of who belongs together.
const CROWD: usize = 64;

/// The node of each thread, by place in the order in which threads started.
pub fn cluster(recording: &Recording, machine: &Machine) -> BTreeMap<u32, NodeId> {
    let weights = weights(recording);
    let mut left: Vec<u32> =
        recording.pages.iter().flat_map(|page| page.users.iter().map(|user| user.thread)).collect();
    left.sort_unstable();
    left.dedup();
    let (threads, cpus) = (left.len(), machine.nodes_with_cpus().map(|node| node.cpus.len()).sum::<usize>().max(1));
    let mut placed = BTreeMap::new();
    let mut cpus_before = 0;
    for node in machine.nodes_with_cpus() {
        cpus_before += node.cpus.len();
        let room = (threads * cpus_before).div_ceil(cpus) - placed.len();
        // What each thread that is left shares with those left, and then with the node's.
        let mut shares: BTreeMap<u32, f64> =
            left.iter().map(|&a| (a, left.iter().map(|&b| weight(&weights, a, b)).sum())).collect();
        for taken in 0..room {
            // The first of equals.
            let Some((&next, _)) = shares.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)) else { break };
            placed.insert(next, node.id);
            left.retain(|&thread| thread != next);
            shares.remove(&next);
            for (&thread, share) in &mut shares {
                let before = if taken == 0 { 0.0 } else { *share };
                *share = before + weight(&weights, next, thread);
            }
        }
    }
    placed
}

fn weight(weights: &BTreeMap<(u32, u32), f64>, a: u32, b: u32) -> f64 {
    weights.get(&(a.min(b), a.max(b))).copied().unwrap_or(0.0)
}

fn weights(recording: &Recording) -> BTreeMap<(u32, u32), f64> {
    let mut weights = BTreeMap::new();
    let mut users: BTreeMap<u32, f64> = BTreeMap::new();
    for page in &recording.pages {
        users.clear();
        page.users.iter().for_each(|user| *users.entry(user.thread).or_default() += user.accesses() - user.initial);
        users.retain(|_, accesses| *accesses > 0.0);
        if users.len() > CROWD {
            continue;
        }
        for (a, of_a) in &users {
            for (b, of_b) in users.range(a + 1..) {
                *weights.entry((*a, *b)).or_default() += of_a.min(*of_b);
            }
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{PageUse, User};

    #[test]
    fn threads_that_share_are_together() {
        // Threads 0 and 2 share a page, 1 and 3 another.
        let user = |thread: u32| User { thread, node: None, reads: 10.0, writes: 0.0, initial: 0.0 };
        let page = |number: u64, users: [u32; 2]| PageUse {
            number,
            users: users.map(user).into_iter().collect(),
            ..PageUse::default()
        };
        let recording = Recording { pages: vec![page(1, [0, 2]), page(2, [1, 3])], ..Recording::default() };
        let machine = Machine::parse("2x2", &Machine::preset("togian").unwrap()).unwrap();
        let placed = cluster(&recording, &machine);
        assert_eq!(placed.len(), 4);
        assert_eq!(placed[&0], placed[&2]);
        assert_eq!(placed[&1], placed[&3]);
        assert_ne!(placed[&0], placed[&1]);
        // Five threads of one process, on nodes of two: nobody is left out.
        let all = Recording {
            pages: (0..5).map(|thread| page(u64::from(thread), [thread, (thread + 1) % 5])).collect(),
            ..Recording::default()
        };
        assert_eq!(cluster(&all, &machine).len(), 5);
    }
}
