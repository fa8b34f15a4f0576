//! What every target's memory is used for, by whom, and what it is to the program as a whole.

use crate::facts::shared_pages::{SharedHugePages, SharedPages};
use crate::facts::shared_use::Shared;
use crate::model::sharing::{self, Sharing, Use};
use crate::model::tally::{self, Tally};
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// One target's accesses.
#[derive(Default)]
pub struct Usage {
    /// All of them, and those of its initialisation.
    pub all: Tally,
    pub initial: Tally,
    pub traffic: Traffic,
    /// Without the initialisation: by the threads' nodes, by thread, by object.
    pub nodes: BTreeMap<Option<NodeId>, Tally>,
    pub threads: BTreeMap<ThreadId, Tally>,
    pub objects: BTreeMap<Option<ObjectId>, BTreeMap<Option<NodeId>, Tally>>,
    /// By threads that began when the page's first toucher had ended.
    pub successors: u64,
    /// While nodes other than the initialiser's use it.
    pub shared: Shared,
    pub pages: SharedPages,
    pub huge_pages: SharedHugePages,
}

impl Usage {
    /// Adds what a thread does from a node.
    pub fn add(
        &mut self,
        (thread, node, initial): (ThreadId, Option<NodeId>, bool),
        tally: &Tally,
        object: Option<ObjectId>,
    ) {
        self.all += *tally;
        if initial {
            self.initial += *tally;
            return;
        }
        *self.nodes.entry(node).or_default() += *tally;
        *self.threads.entry(thread).or_default() += *tally;
        *self.objects.entry(object).or_default().entry(node).or_default() += *tally;
    }

    /// Both together.
    pub fn merge(&mut self, other: Usage) {
        self.all += other.all;
        self.initial += other.initial;
        self.traffic.add_all(&other.traffic, 1.0);
        other.nodes.into_iter().for_each(|(node, tally)| *self.nodes.entry(node).or_default() += tally);
        other.threads.into_iter().for_each(|(thread, tally)| *self.threads.entry(thread).or_default() += tally);
        for (object, nodes) in other.objects {
            let own = self.objects.entry(object).or_default();
            nodes.into_iter().for_each(|(node, tally)| *own.entry(node).or_default() += tally);
        }
        tally::add(&mut self.successors, other.successors);
        self.pages.merge(other.pages);
        self.huge_pages.merge(other.huge_pages);
    }

    /// Nodes that do at least a twentieth of what pinned threads do.
    pub fn users(&self) -> BTreeMap<NodeId, f64> {
        let nodes = || self.nodes.iter().filter_map(|(node, tally)| Some(((*node)?, tally.accesses() as f64)));
        let sum: f64 = nodes().map(|(_, accesses)| accesses).sum();
        nodes().filter(|(_, accesses)| *accesses > 0.0 && *accesses * 20.0 >= sum).collect()
    }

    /// How nodes share its pages, or neighbourhoods of pages where samples are few.
    pub fn page_sharing(&self) -> Option<Sharing> {
        self.pages.sharing(4 * self.users().len() as u64)
    }

    /// How nodes share its huge pages; nothing where most of it is used as small ones.
    pub fn huge_page_sharing(&self) -> Option<Sharing> {
        let mostly = self.huge_pages.n() * 2 > self.pages.n;
        mostly.then(|| self.huge_pages.sharing()).flatten()
    }

    /// How nodes share its objects; nothing where there is one only.
    pub fn object_sharing(&self) -> Option<Sharing> {
        let objects = self.objects.keys().flatten().count();
        let mut uses: Vec<Use> = self
            .objects
            .iter()
            .flat_map(|(object, nodes)| nodes.iter().map(move |(node, tally)| (object, node, tally)))
            .filter_map(|(object, node, tally)| {
                Some(Use { part: u64::from((*object)?.0), user: u32::from((*node)?.0), n: tally.basis() })
            })
            .collect();
        (objects > 1).then(|| sharing::of(&mut uses)).flatten()
    }

    /// Nodes whose threads write to it after its initialisation, each a twentieth of the writes at least.
    pub fn writers(&self) -> usize {
        let writes: u64 = self.nodes.values().map(|tally| tally.writes).sum();
        self.nodes.iter().filter(|(node, t)| node.is_some() && t.writes > 0 && t.writes * 20 >= writes).count()
    }

    /// Writes in percent of all accesses while nodes other than the initialiser's use it; it has so many bytes.
    ///
    /// What the initialiser writes in the bin in which they begin is its initialisation, unless it writes later too and
    /// this is more than an initialisation takes, or far more. Where all that it ever writes is no more than one word
    /// for every four bytes, all of it is: counts may be found, and have their time, a while after they were made.
    pub fn written_while_shared(&self, bytes: u64) -> f64 {
        let Shared { mut others, before, opening, mut own } = self.shared;
        if tally::total([before.writes, opening.writes, own.writes]) <= bytes / 4 + bytes / 64 {
            own.writes = 0;
        } else if opening.writes > bytes.saturating_mul(4) || opening.writes > bytes / 2 && own.writes > 0 {
            own += opening;
        }
        others += own;
        others.writes as f64 * 100.0 / (others.accesses() as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a maker writes to 4 KiB before, in and after the bin in which others begin, who only read.
    fn written(before: u64, opening: u64, own: u64) -> f64 {
        let writes = |writes| Tally { writes, ..Tally::default() };
        let others = Tally { reads: 100_000, ..Tally::default() };
        let shared = Shared { others, before: writes(before), opening: writes(opening), own: writes(own) };
        Usage { shared, ..Usage::default() }.written_while_shared(4096)
    }

    #[test]
    fn who_fills_memory_by_bytes_and_again_only_initialises_it() {
        assert_eq!([written(0, 512, 0), written(0, 4096, 0), written(4096, 4096, 0)], [0.0; 3]);
        // Who goes on, and who writes all of it over and over, does more.
        assert!(written(0, 4096, 4096) > 7.0 && written(0, 20_000, 0) > 15.0);
        assert_eq!(written(4096, 1024, 1024), 1024.0 * 100.0 / 101_024.0);
    }
}
