//! Where an access went, seen from the thread that made it.

use crate::{Machine, NodeId};

/// The class of an access (docs/reference/metrics.md). The classes partition the accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Locality {
    /// A pinned thread to a page placed by a pinned thread, same node.
    Local,
    /// A pinned thread to a page placed by a pinned thread, other node.
    Remote,
    /// A pinned thread to a page placed by an unpinned one.
    UnpinnedPage,
    /// An unpinned thread to a page placed by a pinned one.
    UnpinnedThread,
    /// An unpinned thread to a page placed by an unpinned one.
    UnpinnedBoth,
    /// A pinned thread to a page on a node without CPUs, when no other such node is nearer to the thread.
    MemoryTierLocal,
    /// Any other access to a page on a node without CPUs.
    MemoryTierRemote,
    /// Any thread to a page that has no home.
    Unplaced,
}

impl Machine {
    /// Classifies an access by a thread on `thread` (`None`: unpinned) to a page homed on `home` (`None`: it has no
    /// home: the shared zero page, gone before it could be asked for). `placed_by_pinned` says whether the page's first
    /// toucher was pinned, or the page was bound or moved to a node explicitly.
    ///
    /// The home's kind is tested first: pages on nodes without CPUs are in a memory tier class whoever placed them.
    pub fn locality(&self, thread: Option<NodeId>, home: Option<NodeId>, placed_by_pinned: bool) -> Locality {
        let Some(home) = home else {
            return Locality::Unplaced;
        };
        if self.is_memory_only(home) {
            return match thread {
                Some(thread) if self.no_memory_only_is_nearer(thread, home) => Locality::MemoryTierLocal,
                _ => Locality::MemoryTierRemote,
            };
        }
        match (thread, placed_by_pinned) {
            (Some(thread), true) if thread == home => Locality::Local,
            (Some(_), true) => Locality::Remote,
            (Some(_), false) => Locality::UnpinnedPage,
            (None, true) => Locality::UnpinnedThread,
            (None, false) => Locality::UnpinnedBoth,
        }
    }

    fn no_memory_only_is_nearer(&self, thread: NodeId, home: NodeId) -> bool {
        let distance = self.distance(thread, home);
        self.nodes.iter().all(|node| !self.is_memory_only(node.id) || self.distance(thread, node.id) >= distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str) -> Machine {
        let host = Machine::preset("togian").unwrap();
        Machine::parse(name, &host).unwrap()
    }

    /// The table of access classes of docs/reference/metrics.md, row by row.
    #[test]
    fn table_of_classes() {
        let m = preset("knl-snc4-flat");
        let n = |id| Some(NodeId(id));
        for (thread, home, placed_by_pinned, expected) in [
            // memory tiers: local when no other node without CPUs is nearer, whoever placed the page
            (n(0), n(4), true, Locality::MemoryTierLocal),
            (n(0), n(4), false, Locality::MemoryTierLocal),
            (n(0), n(5), true, Locality::MemoryTierRemote),
            (n(1), n(5), true, Locality::MemoryTierLocal),
            (None, n(4), true, Locality::MemoryTierRemote),
            (None, n(4), false, Locality::MemoryTierRemote),
            // a memory policy binds the thread to the tier's node itself
            (n(6), n(6), true, Locality::MemoryTierLocal),
            (n(6), n(7), true, Locality::MemoryTierRemote),
            // nodes with CPUs
            (n(2), n(2), true, Locality::Local),
            (n(2), n(3), true, Locality::Remote),
            (n(2), n(2), false, Locality::UnpinnedPage),
            (n(2), n(3), false, Locality::UnpinnedPage),
            (None, n(2), true, Locality::UnpinnedThread),
            (None, n(2), false, Locality::UnpinnedBoth),
            // no home
            (n(2), None, true, Locality::Unplaced),
            (n(2), None, false, Locality::Unplaced),
            (None, None, true, Locality::Unplaced),
            (None, None, false, Locality::Unplaced),
        ] {
            let class = m.locality(thread, home, placed_by_pinned);
            assert_eq!(class, expected, "thread on {thread:?}, page on {home:?}, placed by pinned: {placed_by_pinned}");
        }
    }

    #[test]
    fn the_only_tier_is_local_to_every_pinned_thread() {
        let m = preset("cxl2");
        assert_eq!(m.locality(Some(NodeId(0)), Some(NodeId(2)), true), Locality::MemoryTierLocal);
        assert_eq!(m.locality(Some(NodeId(1)), Some(NodeId(2)), true), Locality::MemoryTierLocal);
    }

    #[test]
    fn a_node_without_cpus_and_memory_is_no_tier() {
        let mut m = preset("2x2");
        m.nodes[1].cpus = Default::default();
        m.nodes[1].memory_bytes = 0;
        assert_eq!(m.locality(Some(NodeId(0)), Some(NodeId(1)), true), Locality::Remote);
    }
}
