//! Blocks of the heap, of which the preloaded library tells as they begin and before they end. What has been counted where they lie belongs to whoever had
//! the memory until then, so it is settled at both moments.
//!
//! With `--objects exact` words change hands (`words.rs`). Otherwise pages do, those that are the block's as a whole (`pages/anew.rs`).

use crate::lock::Lock;
use crate::runtime::Runtime;
use crate::sys::PAGE;
use crate::words;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The bit that tells blocks that the program itself tells of from those that they lie in.
pub const TOLD: u64 = 1 << 63;
/// Smaller blocks have few pages for themselves, and there are many of them.
const SMALLEST: u64 = 8 * PAGE;

/// A block that lives.
#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    /// So many it had when all its pages last began anew.
    anew: u64,
}

/// The blocks that live.
struct Blocks {
    of_allocators: HashMap<u64, Block, FxBuildHasher>,
    /// Those that the program itself tells of, which lie in others.
    told: BTreeMap<u64, Block>,
}

static BLOCKS: Lock<Blocks> =
    Lock::new(Blocks { of_allocators: HashMap::with_hasher(FxBuildHasher), told: BTreeMap::new() });

impl Blocks {
    fn insert(&mut self, key: u64, block: Block) {
        if key & TOLD == 0 {
            self.of_allocators.insert(key, block)
        } else {
            self.told.insert(key & !TOLD, block)
        };
    }

    fn remove(&mut self, key: u64) -> Option<Block> {
        if key & TOLD == 0 { self.of_allocators.remove(&key) } else { self.told.remove(&(key & !TOLD)) }
    }

    fn forget_told(&mut self, range: Range<u64>) {
        let starts: Vec<u64> = self.told.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            self.told.remove(&start);
        }
    }

    /// Where in a range told blocks begin and end: what lies between two of these is one object's. In order.
    fn borders(&self, range: &Range<u64>) -> Vec<u64> {
        if self.told.is_empty() {
            return Vec::new();
        }
        let end = |(start, block): (&u64, &Block)| start.saturating_add(block.bytes);
        let before = self.told.range(..range.start).next_back().map(end);
        let within = self.told.range(range.clone()).flat_map(|block| [*block.0, end(block)]);
        let mut borders: Vec<u64> = before.into_iter().chain(within).collect();
        borders.retain(|border| range.start < *border && *border < range.end);
        borders.sort_unstable();
        borders.dedup();
        borders
    }
}

/// Nobody else may change what is known of blocks until [`release`]: around a fork.
pub fn hold() {
    BLOCKS.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { BLOCKS.force_free() };
}

fn range_of(key: u64, bytes: u64) -> Range<u64> {
    let start = key & !TOLD;
    start..start.saturating_add(bytes)
}

/// A block begins.
pub fn born(runtime: &Runtime, key: u64, bytes: u64) {
    if runtime.layout.words {
        settle_words(runtime, range_of(key, bytes));
    } else if bytes >= SMALLEST {
        begin_pages_anew(runtime, range_of(key, bytes));
    } else {
        return;
    }
    BLOCKS.lock().insert(key, Block { bytes, anew: bytes });
}

/// A block has another size now, and is where it was: its end will be told, and then that it begins. As blocks may grow by a few bytes a thousand times, those pages alone
/// begin anew that it has got or lost, and all of them whenever it has grown by an eighth.
pub fn grows(runtime: &Runtime, key: u64, bytes: u64) {
    let before = BLOCKS.lock().remove(key).unwrap_or(Block { bytes: 0, anew: 0 });
    if bytes.max(before.bytes) < SMALLEST {
        return;
    }
    let range = range_of(key, bytes.max(before.bytes));
    let all = bytes >= before.anew + before.anew / 8;
    // The page in which the smaller of the two ends is the larger one's as a whole.
    let kept = if all { 0 } else { bytes.min(before.bytes) };
    let from = (range.start.saturating_add(kept) & !(PAGE - 1)).max(range.start);
    begin_pages_anew(runtime, from..range.end);
    if bytes >= SMALLEST {
        let anew = if all { bytes } else { before.anew.min(bytes) };
        BLOCKS.lock().insert(key, Block { bytes, anew });
    }
}

/// A block is about to end, or has ended. Returns its bytes; 0: it is not known.
pub fn dies(runtime: &Runtime, key: u64) -> u64 {
    let Some(Block { bytes, .. }) = BLOCKS.lock().remove(key) else { return 0 };
    let range = range_of(key, bytes);
    if runtime.layout.words {
        settle_words(runtime, range.clone());
    } else {
        begin_pages_anew(runtime, range.clone());
    }
    if key & TOLD == 0 {
        // Whose allocator gives back the memory of its blocks does not tell of each.
        BLOCKS.lock().forget_told(range);
    }
    bytes
}

/// Memory is about to be unmapped or moved.
pub fn leaves(runtime: &Runtime, range: Range<u64>) {
    if runtime.layout.words {
        settle_words(runtime, range);
    }
}

fn settle_words(runtime: &Runtime, range: Range<u64>) {
    let borders = BLOCKS.lock().borders(&range);
    words::settle(runtime, range, &borders);
}

fn begin_pages_anew(runtime: &Runtime, range: Range<u64>) {
    // Lines are told by the numbers of their pages.
    if !runtime.layout.lines {
        runtime.shadow.begin_anew(runtime.process(), range);
    }
}
