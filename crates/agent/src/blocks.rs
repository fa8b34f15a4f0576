//! Blocks of the heap, which the preloaded library reports as they begin and before they end. What has been counted
//! where they lie belongs to whoever had the memory until then, so it is settled at both moments.
//!
//! With `--objects exact` words change hands (`words.rs`). Otherwise pages do, those that are the block's as a whole
//! (`pages/generation.rs`).

use crate::counting::words;
use crate::pages::{self, may_begin_generation};
use crate::state::runtime::Runtime;
use crate::sys::PAGE;
use crate::sys::lock::Lock;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The bit that tells blocks that the program itself declares from those that they lie in.
pub const DECLARED: u64 = 1 << 63;
/// Smaller blocks have few pages for themselves, and there are many of them.
const SMALLEST: u64 = 8 * PAGE;

/// The blocks that live, with their bytes.
struct Blocks {
    of_allocators: HashMap<u64, u64, FxBuildHasher>,
    /// Those that the program itself declares, which lie in others.
    declared: BTreeMap<u64, u64>,
}

static BLOCKS: Lock<Blocks> =
    Lock::new(Blocks { of_allocators: HashMap::with_hasher(FxBuildHasher), declared: BTreeMap::new() });

impl Blocks {
    fn insert(&mut self, key: u64, bytes: u64) {
        if key & DECLARED == 0 {
            self.of_allocators.insert(key, bytes)
        } else {
            self.declared.insert(key & !DECLARED, bytes)
        };
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        if key & DECLARED == 0 { self.of_allocators.remove(&key) } else { self.declared.remove(&(key & !DECLARED)) }
    }

    fn forget_declared(&mut self, range: Range<u64>) {
        let starts: Vec<u64> = self.declared.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            self.declared.remove(&start);
        }
    }

    /// Where in a range declared blocks begin and end: what lies between two of these is one object's. In order.
    fn borders(&self, range: &Range<u64>) -> Vec<u64> {
        if self.declared.is_empty() {
            return Vec::new();
        }
        let end = |(start, bytes): (&u64, &u64)| start.saturating_add(*bytes);
        let before = self.declared.range(..range.start).next_back().map(end);
        let within = self.declared.range(range.clone()).flat_map(|block| [*block.0, end(block)]);
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
    let start = key & !DECLARED;
    start..start.saturating_add(bytes)
}

/// Whether the pages of a block of so many bytes begin a generation with it. Lines are told apart by page numbers.
fn begins_generation(runtime: &Runtime, bytes: u64) -> bool {
    bytes >= SMALLEST && !runtime.layout.lines && may_begin_generation(runtime.process())
}

/// A block begins.
pub fn born(runtime: &Runtime, key: u64, bytes: u64) {
    if runtime.layout.words {
        settle_words(runtime, range_of(key, bytes));
    } else if begins_generation(runtime, bytes) {
        pages::begin_generation(&runtime.shadow, runtime.process(), range_of(key, bytes));
    } else {
        return;
    }
    BLOCKS.lock().insert(key, bytes);
}

/// A block is about to end. Returns its bytes; 0: it is not known.
pub fn dies(runtime: &Runtime, key: u64) -> u64 {
    let Some(bytes) = BLOCKS.lock().remove(key) else { return 0 };
    let range = range_of(key, bytes);
    if runtime.layout.words {
        settle_words(runtime, range.clone());
    } else {
        pages::begin_generation(&runtime.shadow, runtime.process(), range.clone());
    }
    if key & DECLARED == 0 {
        // Whose allocator gives back the memory of its blocks does not tell of each.
        BLOCKS.lock().forget_declared(range);
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
