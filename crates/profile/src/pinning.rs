//! The pinning log: which node a thread was bound to, when.

use crate::ids::{Bin, ThreadId};
use crate::tables::Placement;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// What changes with threads: by thread, in order of time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadLog<T> {
    threads: FxHashMap<ThreadId, Vec<(u64, T)>>,
    bin_ns: u64,
}

impl<T> ThreadLog<T> {
    /// From what is so from which time on; `bin_ns` is the width of a time bin.
    pub fn new(entries: impl IntoIterator<Item = (ThreadId, u64, T)>, bin_ns: u64) -> Self {
        let mut threads: FxHashMap<ThreadId, Vec<(u64, T)>> = FxHashMap::default();
        for (thread, time_ns, entry) in entries {
            threads.entry(thread).or_default().push((time_ns, entry));
        }
        for log in threads.values_mut() {
            log.sort_by_key(|(time, _)| *time);
        }
        ThreadLog { threads, bin_ns }
    }

    /// A thread's entries.
    pub fn of(&self, thread: ThreadId) -> &[(u64, T)] {
        self.threads.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// What holds for a thread at a time. Before its first entry that one holds.
    pub fn at(&self, thread: ThreadId, time_ns: u64) -> Option<&T> {
        let log = self.of(thread);
        let entry = log.partition_point(|(time, _)| *time <= time_ns).saturating_sub(1);
        log.get(entry).map(|(_, entry)| entry)
    }

    /// The same when a time bin ends.
    pub fn at_end_of(&self, thread: ThreadId, bin: Bin) -> Option<&T> {
        self.at(thread, (u64::from(bin.0) + 1).saturating_mul(self.bin_ns).saturating_sub(1))
    }
}

/// Placements by thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PinningLog(ThreadLog<Option<NodeId>>);

impl PinningLog {
    /// From the table's rows; `bin_ns` is the width of a time bin.
    pub fn new(placements: &[Placement], bin_ns: u64) -> Self {
        PinningLog(ThreadLog::new(placements.iter().map(|row| (row.thread, row.time_ns, row.node)), bin_ns))
    }

    /// The thread's node at a time; none: unpinned. Before the first entry the first one holds.
    pub fn at(&self, thread: ThreadId, time_ns: u64) -> Option<NodeId> {
        *self.0.at(thread, time_ns)?
    }

    /// The thread's node when a time bin ends. Threads that pin themselves do so as they start, before they work,
    /// so the end of a bin tells more about it than its beginning.
    pub fn at_end_of(&self, thread: ThreadId, bin: Bin) -> Option<NodeId> {
        *self.0.at_end_of(thread, bin)?
    }

    /// The thread's node, where it is the same all the time.
    pub fn always(&self, thread: ThreadId) -> Option<Option<NodeId>> {
        match self.0.of(thread) {
            [] => Some(None),
            [(_, only)] => Some(*only),
            _ => None,
        }
    }

    /// The thread's node in the end: where it worked, if it was placed once and for all.
    pub fn last(&self, thread: ThreadId) -> Option<NodeId> {
        self.0.of(thread).last()?.1
    }

    /// The nodes that a thread was bound to, in order of time, repetitions left out.
    pub fn nodes(&self, thread: ThreadId) -> Vec<Option<NodeId>> {
        let mut nodes: Vec<_> = self.0.of(thread).iter().map(|(_, node)| *node).collect();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ProcessId;

    fn placement(time_ns: u64, node: Option<u16>) -> Placement {
        Placement {
            process: ProcessId(0),
            thread: ThreadId(3),
            time_ns,
            cpus: "0-3".into(),
            node: node.map(NodeId),
            policy: "default".into(),
            cause: "start".into(),
        }
    }

    #[test]
    fn the_entry_in_force_counts() {
        let log = PinningLog::new(&[placement(1500, Some(1)), placement(100, None), placement(3000, Some(2))], 1000);
        let at = |time| log.at(ThreadId(3), time);
        assert_eq!(
            (at(0), at(100), at(1499), at(1500), at(9000)),
            (None, None, None, Some(NodeId(1)), Some(NodeId(2)))
        );
        assert_eq!(log.at_end_of(ThreadId(3), Bin(0)), None);
        assert_eq!(log.at_end_of(ThreadId(3), Bin(1)), Some(NodeId(1)));
        assert_eq!(log.at(ThreadId(4), 100), None);
        assert_eq!(log.nodes(ThreadId(3)), [None, Some(NodeId(1)), Some(NodeId(2))]);
    }
}
