//! Accesses by object, and what is uncertain of them: `object_accesses` and `object_bounds`, folded.

use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::tally::{Bound, Sums, merge};
use numalens_profile::ids::{ObjectId, Page};
use numalens_profile::tables::{Object, ObjectAccess, ObjectBound};
use numalens_profile::words::{Class, ObjectKind};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// How the names of files begin that are memory for several processes, no disk behind them: those of shm_open, and
/// what has no file.
const SHARED_MEMORY: [&str; 2] = ["/dev/shm/", "shared memory"];

/// Whether an object is memory that processes share.
pub fn is_shared_memory(object: &Object) -> bool {
    object.kind == ObjectKind::File && SHARED_MEMORY.iter().any(|begin| object.name.starts_with(begin))
}

/// Which accesses of objects are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectKey {
    pub object: ObjectId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub class: Class,
}

/// `object_accesses` without time, thread and site, and what is uncertain of them, of the whole recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectFacts {
    pub sums: Sums<ObjectKey>,
    pub bounds: FxHashMap<ObjectId, Bound>,
}

impl ObjectFacts {
    /// Adds what is uncertain of an object.
    pub fn bound(&mut self, row: &ObjectBound) {
        let &ObjectBound { divided, squares, untold, skewed, .. } = row;
        let squares = if squares.is_finite() { squares.max(0.0) } else { f64::MAX };
        *self.bounds.entry(row.object).or_default() += Bound { divided, squares, untold, skewed };
    }
}

impl Fold for ObjectFacts {
    type Facts = Self;
    const NEED: Need = Need::Objects;

    fn merge(self, other: Self) -> Self {
        ObjectFacts { sums: merge(self.sums, other.sums), ..self }
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<ObjectAccess> for ObjectFacts {
    const COLUMNS: &'static [&'static str] =
        &["process", "node", "object", "home", "class", "reads", "writes", "samples", "period"];

    fn add(&mut self, row: &ObjectAccess, times: Times<'_>, _: &Context<'_>) {
        let key = ObjectKey { object: row.object, node: row.node, home: row.home, class: row.class };
        *self.sums.entry(key).or_default() += times.sum();
    }
}

/// The pages on which an object lies.
pub fn pages_of(object: &Object) -> RangeInclusive<Page> {
    Page::of(object.base)..=Page::of(object.base.saturating_add(object.size.saturating_sub(1)))
}
