//! Accesses by cache line, and by word.

use crate::page::PAGE;
use core::sync::atomic::AtomicU64;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// Cache lines of a page.
pub const LINES_OF_PAGE: u64 = PAGE / LINE_BYTES;
/// Page numbers below this one have their cache lines counted: 32 GiB touched at 4 KiB.
pub const MOST_LINE_PAGES: u32 = 1 << 23;
/// log2 of the bytes of a word of which accesses are counted by themselves.
pub const WORD_BITS: u32 = 2;
/// Such words of a page. Those of pages below [`MOST_LINE_PAGES`] are counted.
pub const WORDS_OF_PAGE: u64 = PAGE >> WORD_BITS;
/// Reads of a word are counted in the lower half of 64 bits, writes in the upper one, from this bit on.
pub const WORD_WRITES: u32 = 32;

/// Reads and writes that a counter of a word has.
pub const fn word_counts(counter: u64) -> [u64; 2] {
    [counter & u32::MAX as u64, counter >> WORD_WRITES]
}

/// Who accessed a cache line last: the agent's, see there. Both words change at once.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct LastAccess {
    /// The thread, its node, and what was found out about its accesses.
    pub who: AtomicU64,
    /// The words that it and the thread before it accessed.
    pub words: AtomicU64,
}

/// Accesses of one thread to one cache line. Generated code finds it by the address within its page.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct LineCounts {
    /// Reads.
    pub reads: AtomicU64,
    /// Writes.
    pub writes: AtomicU64,
    /// Accesses that found another thread to be the last one.
    pub transitions: AtomicU64,
    /// Of those: bound to another node.
    pub node_transitions: AtomicU64,
    /// Of those that found another thread: this one then read what that one had written, or wrote what that one had
    /// accessed.
    pub true_sharing: AtomicU64,
    /// Of those: one of the two wrote, but none of what it did concerns the other.
    pub false_sharing: AtomicU64,
    /// Words of 4 bytes that it has accessed, a bit each; and written, 16 bits higher.
    pub words: AtomicU64,
}
