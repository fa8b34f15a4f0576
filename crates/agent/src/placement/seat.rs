//! What is known of where a thread may run, and its counters for each node.

use core::sync::atomic::AtomicU64;
use numalens_event::exact::{self, Extent};

/// Words of a set of CPUs.
pub const CPU_WORDS: usize = exact::MOST_CPUS / 64;
/// Known, policy, its nodes, those named, the CPUs: as `exact::ThreadPlace`.
pub const WORDS: usize = CPUS + CPU_WORDS;
/// Where the CPUs begin.
pub const CPUS: usize = NODES + 2 * exact::NODE_WORDS;
/// Where the nodes begin.
pub const NODES: usize = 2;
const _: () = assert!(WORDS * 8 == size_of::<exact::ThreadPlace>());
/// A place in words.
pub type Words = [u64; WORDS];
/// That of a thread which nobody has told.
pub const NOWHERE: Words = [0; WORDS];

/// Counters that a thread has for a node.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Where they are.
    pub extent: Extent,
    /// The index of the node; negative: those for the time in which it is unpinned.
    pub node: i32,
    /// How often entries of the table of pages had changed when the thread left them.
    pub(super) forgotten: u64,
}

/// How often threads were to look again at their pages, as entries of the table of pages had changed: added to
/// under the lock of the threads. Counters that are not
/// mapped at that time look again at all of their pages when they are.
pub static FORGOTTEN: AtomicU64 = AtomicU64::new(0);
