//! Memory that an allocator hands on: blocks that lie on pages which other blocks have placed.
//!
//! Pages lie where they were touched first, also when their block has been freed and another one is there. Judged by
//! pages, such memory is what the first block was; and where blocks come and go, each page has had many users, though
//! every block had one:
//!
//! ```text
//!   time  ->          page 1               page 2
//!   block 1  thread 0 ========   block 2   thread 1 ========
//!   block 4  thread 1    =====   block 3   thread 0    =====      both pages: two users, half of it remote
//! ```
//!
//! Single blocks are known as far as a recording tells them apart, of a place the first few. What they tell:
//!
//! 1. *Next*: a block that was allocated where another one had been, when that was gone, and which has more remote
//!    accesses: what is told of the pages is about that one.
//! 2. *Own*: each block is one node's, while the blocks together have more bytes than the pages that they lie on.

use crate::facts::objects::ObjectFacts;
use crate::model::object_group::Group;
use crate::model::sharing::{self, Use};
use numalens_profile::ids::{ObjectId, Page, ProcessId};
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;

/// Bytes below which blocks share pages, so that pages say nothing of them.
const LEAST: u64 = 2 * Page::BYTES;
/// Blocks of a place that must be known.
const ENOUGH: usize = 8;
/// Blocks that begin between one and the beginning of another one that reaches into it are few.
const LOOK_BACK: usize = 8;

/// Single blocks of a recording.
#[derive(Default)]
pub struct Blocks {
    /// Accesses of those of one place, by node.
    uses: FxHashMap<Group, Vec<Use>>,
    /// Their accesses from other nodes.
    remote: FxHashMap<ObjectId, u64>,
    /// By address.
    order: Vec<(ProcessId, u64, ObjectId)>,
}

impl Blocks {
    /// Of objects and their accesses.
    pub fn of(objects: &FxHashMap<ObjectId, Object>, by_object: &ObjectFacts) -> Blocks {
        let mut blocks = Blocks::default();
        let single = |id: &ObjectId| {
            let object = objects.get(id)?;
            (object.kind == ObjectKind::Heap && object.count == 1 && object.size >= LEAST).then_some(object)
        };
        for (key, tally) in &by_object.sums {
            let Some(object) = single(&key.object) else { continue };
            if let Some(node) = key.node {
                let one = Use { part: u64::from(object.object.0), user: u32::from(node.0), n: tally.basis() };
                blocks.uses.entry(Group::of(object)).or_default().push(one);
            }
            if key.node.is_some() && key.home.is_some() && key.node != key.home {
                *blocks.remote.entry(object.object).or_default() += tally.basis();
            }
        }
        blocks.order =
            objects.keys().filter_map(single).map(|object| (object.process, object.base, object.object)).collect();
        blocks.order.sort_unstable();
        blocks
    }

    /// The block with the most remote accesses where this one had been, if it has more there than this one.
    pub fn next<'a>(&self, objects: &'a FxHashMap<ObjectId, Object>, gone: &Object) -> Option<&'a Object> {
        let death = gone.death_ns.filter(|_| gone.count == 1 && gone.kind == ObjectKind::Heap)?;
        let end = (gone.process, gone.base.saturating_add(gone.size));
        let before = |at: (ProcessId, u64)| self.order.partition_point(|(process, base, _)| (*process, *base) < at);
        let from = before((gone.process, gone.base)).saturating_sub(LOOK_BACK);
        let near = self.order[from..before(end)].iter().filter_map(|(.., id)| objects.get(id));
        let there = near.filter(|object| {
            object.process == gone.process && object.birth_ns >= death && Group::of(object) != Group::of(gone)
        });
        // Of a larger block, the part that is its share of these addresses.
        let remote = |object: &Object| {
            let ends = |object: &Object| object.base.saturating_add(object.size);
            let in_common = ends(object).min(ends(gone)).saturating_sub(object.base.max(gone.base));
            let all = self.remote.get(&object.object).copied().unwrap_or(0);
            (u128::from(all) * u128::from(in_common) / u128::from(object.size.max(1))) as u64
        };
        there.max_by_key(|object| (remote(object), object.object)).filter(|object| remote(object) > remote(gone))
    }

    /// The share of a block's main node, of the blocks of one place, which nodes have; nothing where few are known.
    pub fn own_share(&self, of: &Group, nodes: usize) -> Option<f64> {
        let mut uses = self.uses.get(of)?.clone();
        let known = sharing::of(&mut uses)?;
        let blocks = uses.chunk_by(|a, b| a.part == b.part).count();
        (blocks >= ENOUGH).then(|| known.main_share(nodes))
    }
}
