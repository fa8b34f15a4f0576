//! Sampled accesses by cache line and thread: `samples`, folded.

use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use numalens_profile::ids::{ObjectId, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::Sample;
use numalens_profile::words::Access;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// Bytes of a cache line, as a shift.
pub const LINE_SHIFT: u32 = 6;

/// A thread's samples in a line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LineKey {
    pub process: ProcessId,
    pub line: u64,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub site: SiteId,
}

/// What it did there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineUse {
    pub samples: u64,
    pub writes: u64,
    /// A bit for each of the line's eight words that was accessed, or written.
    pub words: u8,
    pub written: u8,
    /// An object that it accessed there.
    pub object: Option<ObjectId>,
}

/// Samples by line and thread.
#[derive(Default)]
pub struct LineFacts(pub FxHashMap<LineKey, LineUse>);

impl Fold for LineFacts {
    type Facts = Self;
    const NEED: Need = Need::CacheLines;

    fn merge(mut self, other: Self) -> Self {
        for (key, more) in other.0 {
            self.0.entry(key).or_default().merge(&more);
        }
        self
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<Sample> for LineFacts {
    const COLUMNS: &'static [&'static str] = &["process", "thread", "site", "address", "access", "node", "object"];

    fn add(&mut self, row: &Sample, _: Times<'_>, _: &Context<'_>) {
        let line = row.address >> LINE_SHIFT;
        let key = LineKey { process: row.process, line, thread: row.thread, node: row.node, site: row.site };
        let found = self.0.entry(key).or_default();
        found.samples += 1;
        found.writes += u64::from(row.access != Access::Read);
        let word = 1 << ((row.address >> 3) & 7);
        found.words |= word;
        found.written |= if row.access == Access::Read { 0 } else { word };
        found.object = found.object.or(row.object);
    }
}

impl LineUse {
    /// Adds what it did elsewhere in the line.
    pub fn merge(&mut self, other: &LineUse) {
        self.samples += other.samples;
        self.writes += other.writes;
        self.words |= other.words;
        self.written |= other.written;
        self.object = self.object.or(other.object);
    }
}
