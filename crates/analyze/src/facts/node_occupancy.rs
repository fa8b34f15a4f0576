//! On which node each thread worked, for what is known by thread alone.
//!
//! Accesses are told with the node that their thread was on, and a thread that moved has some on each. Pairs of
//! threads, the users of a cache line and clusters have one node for each thread: that of most of its accesses, which
//! need not be the one that it was on in the end. Of threads that moved the sections say so.

use crate::facts::sites::SiteFacts;
use numalens_profile::PinningLog;
use numalens_profile::ids::ThreadId;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A thread has moved when it made more than one in so many of its accesses on another node: most bind themselves a
/// moment after they began.
const FEW: u64 = 100;

/// The node of each thread.
pub struct NodeOccupancy<'a> {
    pinning: &'a PinningLog,
    threads: FxHashMap<ThreadId, Occupancy>,
}

/// Where a thread worked most, and whether elsewhere as well.
struct Occupancy {
    node: Option<NodeId>,
    moved: bool,
}

impl<'a> NodeOccupancy<'a> {
    /// Of all threads.
    pub fn of(sites: &SiteFacts, pinning: &'a PinningLog) -> Self {
        let mut all: FxHashMap<ThreadId, BTreeMap<Option<NodeId>, u64>> = FxHashMap::default();
        for ((thread, node, _), tally) in sites.by_nodes() {
            *all.entry(thread).or_default().entry(node).or_default() += tally.accesses();
        }
        let one = |nodes: BTreeMap<Option<NodeId>, u64>| {
            let sum: u64 = nodes.values().sum();
            let (node, most) = nodes.into_iter().max_by_key(|(node, n)| (*n, Reverse(*node))).unwrap_or_default();
            Occupancy { node, moved: (sum - most) * FEW > sum }
        };
        NodeOccupancy { pinning, threads: all.into_iter().map(|(thread, nodes)| (thread, one(nodes))).collect() }
    }

    /// Its node; none: it was bound to none. Of one without accesses, where it was in the end.
    pub fn node(&self, thread: ThreadId) -> Option<NodeId> {
        self.threads.get(&thread).map_or_else(|| self.pinning.last(thread), |one| one.node)
    }

    /// What is to be said of those of `threads` that worked on several nodes.
    pub fn doubt(&self, threads: impl IntoIterator<Item = ThreadId>) -> Option<String> {
        let mut moved: Vec<ThreadId> = threads.into_iter().collect();
        moved.retain(|thread| self.threads.get(thread).is_some_and(|one| one.moved));
        moved.sort_unstable();
        moved.dedup();
        match moved.len() {
            0 => None,
            1 => Some(format!(
                "thread {} worked on several nodes: it stands on that of most of its accesses",
                moved[0].0
            )),
            n => Some(format!("{n} threads worked on several nodes: they stand on that of most of their accesses")),
        }
    }
}
