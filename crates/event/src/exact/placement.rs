//! Where pages and threads go, and the classes in which accesses to pages are counted for it.

use super::slots::Slots;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Where pages and threads go on a virtual machine. Nodes are indices in the machine's list.
#[repr(C)]
#[derive(Debug)]
pub struct Placement {
    /// 1: a virtual machine. 0: homes are the kernel's, asked with `move_pages`.
    pub is_virtual: AtomicU32,
    /// One of [`policy`].
    pub policy: AtomicU32,
    /// Seed of [`policy::RANDOM`].
    pub seed: AtomicU64,
    /// Nodes of the machine.
    pub nodes: AtomicU32,
    /// Entries used of `memory_nodes`.
    pub memory_nodes_used: AtomicU32,
    /// Entries used of `cpu_nodes`.
    pub cpu_nodes_used: AtomicU32,
    /// One of [`threads`].
    pub threads: AtomicU32,
    /// One more than the highest number of a CPU.
    pub cpu_numbers: AtomicU32,
    /// All memory of the machine in KiB; 0: not known.
    pub memory_kib: AtomicU64,
    /// The nodes with memory.
    pub memory_nodes: [AtomicU16; MOST_NODES],
    /// The nodes with CPUs.
    pub cpu_nodes: [AtomicU16; MOST_NODES],
    /// For a toucher's node, the node that takes its page under first touch or `bind`.
    pub home_of: [AtomicU16; MOST_NODES],
    /// For each node, those with memory in the order in which the kernel falls back to them, each plus 1; 0 past the
    /// last. Of most machines little of it is ever written, and the file has holes for the rest.
    pub fallback: [[AtomicU16; MOST_NODES]; MOST_NODES],
    /// The kernel's number of each node, plus 1; 0 past the last.
    pub kernel_nodes: [AtomicU32; MOST_NODES],
    /// Node of each CPU of the machine in force.
    pub node_of_cpu: [AtomicU16; MOST_CPUS],
    /// What slots are counted from: of several recordings on one machine, rank r's begin where the r-th slot of one
    /// would be.
    pub first_slot: AtomicU32,
    /// Which of them are taken.
    pub slots: Slots,
}

/// Nodes at most, and one more than the highest number of a node: as many as Linux can be built for.
pub const MOST_NODES: usize = 1024;
/// Words of a set of nodes by their numbers, a bit each.
pub const NODE_WORDS: usize = MOST_NODES / 64;
/// CPUs at most.
pub const MOST_CPUS: usize = 8192;
/// No node: unpinned, or without a home.
pub const NO_NODE: u16 = u16::MAX;

/// Where threads run on a virtual machine, among the CPUs that they may run on.
pub mod threads {
    /// Each on one node, in turn.
    pub const SPREAD: u32 = 0;
    /// Each on one node, which are filled one after the other.
    pub const COMPACT: u32 = 1;
    /// Wherever the program lets them.
    pub const FREE: u32 = 2;
}

/// Page placement policies.
pub mod policy {
    /// `home_of` the toucher's node.
    pub const HOME_OF: u32 = 0;
    /// Page by page over the nodes with memory.
    pub const INTERLEAVE: u32 = 1;
    /// Drawn for each page.
    pub const RANDOM: u32 = 2;
}

/// Where the page `page` goes under a policy of [`policy`]; the same arithmetic as the collector's policies have.
pub fn home_under(policy: u32, seed: u64, page: u64, memory_nodes: u64) -> Option<u64> {
    match policy {
        policy::INTERLEAVE if memory_nodes > 0 => Some(page % memory_nodes),
        policy::RANDOM if memory_nodes > 0 => Some(mix(mix(seed) ^ page) % memory_nodes),
        _ => None,
    }
}

/// The finalizer of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Most classes: a home, or none, times placed by a pinned or an unpinned thread; [`PENDING_HOME`]; [`READ_ONLY`]; and
/// 0, which is none.
pub const MOST_CLASSES: usize = 2 * (MOST_NODES + 1) + 3;
/// The word of the class of accesses to pages of which nobody knows yet where they will be: those that place a page on
/// a real machine. The page's record says where that was, once it is known.
pub const PENDING_HOME: u32 = 1 << 31 | 1 << 17;
/// The word of the class of reads of the zero page, which is nowhere: the next write of such a page makes it another
/// one. Always the first class.
pub const READ_ONLY: u32 = 1 << 31 | 1 << 18 | NO_NODE as u32;

/// Bits of a home, and one for whether the thread was pinned.
pub const CLASS_BITS: u32 = 17;

/// What a class means, as a word that is never 0: pages with this home (index in the machine's list), placed by a
/// pinned thread or not. The lowest [`CLASS_BITS`] tell it from others that this makes.
pub fn class_word(home: Option<u16>, pinned: bool) -> u32 {
    1 << 31 | u32::from(pinned) << 16 | u32::from(home.unwrap_or(NO_NODE))
}

/// The meaning of a word made by [`class_word`], or of [`READ_ONLY`]; none for any other.
pub fn class_meaning(word: u32) -> Option<(Option<u16>, bool)> {
    let home = word as u16;
    (word >> 31 != 0 && word != PENDING_HOME).then_some(((home != NO_NODE).then_some(home), word >> 16 & 1 != 0))
}
