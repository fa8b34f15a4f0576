//! How the traffic of a target would be under a remedy.

use super::case::Case;
use crate::model::about::Unit;
use crate::model::patterns::Pattern;
use numalens_simulate::Traffic;
use numalens_topology::NodeId;

impl Case<'_> {
    /// Accesses by users, those of the initialisation among them as the users have the memory.
    pub(super) fn by_user(&self, what: impl Fn(NodeId, f64, &mut Traffic)) -> Traffic {
        let mut after = Traffic::default();
        let pinned: f64 = self.users.values().sum();
        let all = self.usage.traffic.sum(|from, to| from.is_some() && to.is_some());
        for (node, part) in &self.users {
            what(*node, all * part / pinned.max(f64::MIN_POSITIVE), &mut after);
        }
        // What has no node or no home stays where it is.
        for ((from, to), accesses) in self.usage.traffic.cells() {
            if from.is_none() || to.is_none() {
                after.add(from, to, accesses);
            }
        }
        after
    }

    pub(super) fn all_local(&self) -> Traffic {
        self.by_user(|node, accesses, after| after.add(Some(node), self.near(node), accesses))
    }

    /// `own` of each user's accesses to its own node, the rest to the other users'.
    pub(super) fn mostly_local(&self, own: f64) -> Traffic {
        let own = if self.users.len() < 2 { 1.0 } else { own };
        let sum: f64 = self.users.values().sum();
        self.by_user(|node, accesses, after| {
            after.add(Some(node), self.near(node), accesses * own);
            for (other, part) in self.users.iter().filter(|(other, _)| **other != node) {
                let rest = accesses * (1.0 - own) * part / (sum - self.users[&node]).max(f64::MIN_POSITIVE);
                after.add(Some(node), self.near(*other), rest);
            }
        })
    }

    /// The traffic where the remedy costs as much as it can.
    pub(super) fn worst(&self, pattern: Pattern) -> Option<Traffic> {
        (pattern == Pattern::ReadByAll).then(|| self.replicated(1.0))
    }

    /// Reads are local; what is written while it is shared is written to every copy, and who wrote it before did so
    /// where it lies. To make a copy is to read all of it from there, with so many accesses for each byte: what a node
    /// reads once, it need not copy. Of time nobody knows how long that takes.
    pub(super) fn replicated(&self, of_byte: f64) -> Traffic {
        let shared = self.usage.written_while_shared(self.target.bytes) / 100.0;
        let writes = self.usage.all.writes as f64 / (self.usage.all.accesses() as f64).max(1.0);
        let made = ((writes - shared) / (1.0 - shared).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let counted = self.usages.dataset.about.unit == Unit::Accesses;
        let homes = self.usage.traffic.homes();
        let homed: f64 = homes.values().sum();
        let copied = if counted && homed > 0.0 { self.target.touched() as f64 * of_byte } else { 0.0 };
        self.by_user(|node, accesses, after| {
            let maker = self.target.maker.flatten().unwrap_or(node);
            after.add(Some(maker), self.near(maker), accesses * made);
            let used = accesses * (1.0 - made);
            let reads = used * (1.0 - shared);
            let copied = copied.min(reads);
            after.add(Some(node), self.near(node), reads - copied);
            for (home, n) in &homes {
                after.add(Some(node), Some(*home), copied * n / homed);
            }
            for copy in self.users.keys() {
                after.add(Some(node), self.near(*copy), used * shared);
            }
        })
    }

    pub(super) fn interleaved(&self) -> Traffic {
        let machine = &self.usages.dataset.machine;
        let nodes: Vec<NodeId> =
            machine.nodes_with_memory().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
        self.by_user(|node, accesses, after| {
            nodes.iter().for_each(|to| after.add(Some(node), Some(*to), accesses / nodes.len() as f64));
        })
    }

    pub(super) fn fast_tier(&self) -> Traffic {
        let machine = &self.usages.dataset.machine;
        let near = |from: Option<NodeId>| {
            let fast = machine.nodes_with_memory().filter(|node| !node.cpus.is_empty());
            fast.min_by_key(|node| from.map_or(0, |from| machine.distance(from, node.id))).map(|node| node.id)
        };
        let mut after = Traffic::default();
        for ((from, to), accesses) in self.usage.traffic.cells() {
            after.add(from, if to.is_some_and(|to| machine.is_slower_memory(to)) { near(from) } else { to }, accesses);
        }
        after
    }

    pub(super) fn near(&self, node: NodeId) -> Option<NodeId> {
        self.usages.dataset.machine.nearest_with_memory(node)
    }
}
