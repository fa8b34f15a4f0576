//! Nodes, CPUs, distances, memory tiers: of this host, of a file, of an invented machine.
//!
//! A [`Machine`] is a value: reading and writing it does the only I/O of this crate ([`Machine::host`],
//! [`Machine::parse`] on a file, [`files::write`]), every question afterwards is pure. Virtual machines (`4x8`,
//! presets, hwloc files) answer the same questions, with [`ThreadPlacement`] and [`PagePolicy`] in the role of the
//! operating system.

mod cpuset;
mod error;
mod fallback;
pub mod files;
pub mod hwloc;
mod hwloc_write;
mod locality;
mod lowest_free;
mod machine;
mod placement;
mod policy;
mod preset;
mod spec;
pub mod sysfs;

pub use cpuset::CpuSet;
pub use error::TopologyError;
pub use locality::Locality;
pub use lowest_free::LowestFree;
pub use machine::{LOCAL_DISTANCE, Machine, Node, REMOTE_DISTANCE};
pub use placement::ThreadPlacement;
pub use policy::{PagePolicy, mix};
pub use preset::Preset;

/// Bytes of the smallest page of memory.
pub const PAGE_BYTES: u64 = 4096;

/// A NUMA node by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u16);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
