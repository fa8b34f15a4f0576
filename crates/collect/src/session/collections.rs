//! Collections of garbage: who has led them and helped, how long, and which objects they have processed.

use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_profile::tables::{Collection, ProcessedObjects};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// What the phase is called that a runtime's collection is, where it tells of no more.
pub const COLLECTION: &str = "garbage collection";

/// A thread's part in one that is over.
pub struct Part {
    pub process: ProcessId,
    pub thread: Option<ThreadId>,
    pub node: Option<NodeId>,
    pub kind: String,
    pub leads: bool,
    pub ns: u64,
}

/// Whose objects, where: thread's node, home, generation.
type Objects = (ProcessId, Option<NodeId>, Option<NodeId>, Option<u32>);

/// Those of a recording. There are as many rows as threads have nodes and collections kinds.
#[derive(Default)]
pub struct Collections {
    rows: Vec<Collection>,
    index: FxHashMap<(ProcessId, Option<ThreadId>, Option<NodeId>, String), usize>,
    objects: FxHashMap<Objects, u64>,
}

impl Collections {
    /// A thread has done its part.
    pub fn add(&mut self, part: Part) {
        let Part { process, thread, node, kind, leads, ns } = part;
        let row = *self.index.entry((process, thread, node, kind)).or_insert_with_key(|key| {
            let (kind, zero) = (key.3.clone(), 0);
            self.rows.push(Collection {
                process,
                thread,
                node,
                kind,
                led: zero,
                led_ns: zero,
                longest_ns: zero,
                helped: zero,
                helped_ns: zero,
            });
            self.rows.len() - 1
        });
        let row = &mut self.rows[row];
        if leads {
            row.led += 1;
            row.led_ns = row.led_ns.saturating_add(ns);
            row.longest_ns = row.longest_ns.max(ns);
        } else {
            row.helped += 1;
            row.helped_ns = row.helped_ns.saturating_add(ns);
        }
    }

    /// A thread on `node` has processed objects that lie on `home`.
    pub fn processed(
        &mut self,
        process: ProcessId,
        [node, home]: [Option<NodeId>; 2],
        generation: Option<u32>,
        objects: u64,
    ) {
        let sum = self.objects.entry((process, node, home, generation)).or_default();
        *sum = sum.saturating_add(objects);
    }

    /// The rows of `collections`.
    pub fn rows(&self) -> &[Collection] {
        &self.rows
    }

    /// The rows of `processed_objects`, in order.
    pub fn object_rows(&self) -> Vec<ProcessedObjects> {
        let row = |(&(process, node, home, generation), &objects): (&Objects, &u64)| ProcessedObjects {
            process,
            node,
            home,
            generation,
            objects,
        };
        let mut rows: Vec<ProcessedObjects> = self.objects.iter().map(row).collect();
        rows.sort_by_key(|row| (row.process, row.generation, row.node, row.home));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_kind_add_up_by_thread_and_node() {
        let mut collections = Collections::default();
        let mut part = |thread, node, leads, ns| {
            collections.add(Part {
                process: ProcessId(0),
                thread: Some(ThreadId(thread)),
                node: Some(NodeId(node)),
                kind: "generation 0".to_owned(),
                leads,
                ns,
            });
        };
        part(0, 0, true, 30);
        part(1, 1, false, 20);
        part(0, 0, true, 50);
        part(0, 0, false, 10);
        let of = |row: &Collection| (row.led, row.led_ns, row.longest_ns, row.helped, row.helped_ns);
        assert_eq!(collections.rows().iter().map(of).collect::<Vec<_>>(), [(2, 80, 50, 1, 10), (0, 0, 0, 1, 20)]);
        for objects in [3, 4] {
            collections.processed(ProcessId(0), [Some(NodeId(0)), None], Some(1), objects);
        }
        collections.processed(ProcessId(0), [Some(NodeId(0)), None], None, 5);
        let rows: Vec<_> = collections.object_rows().iter().map(|row| (row.generation, row.objects)).collect();
        assert_eq!(rows, [(None, 5), (Some(1), 7)]);
    }
}
