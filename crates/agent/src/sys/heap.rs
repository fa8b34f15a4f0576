//! The agent's own heap: size classes over large pieces of memory far away from the program's.
//!
//! Blocks up to 32 KiB come from free lists, four classes for each power of two; larger ones are mappings of their own,
//! which grow with `mremap` (the translator's tables do). Nothing here is ever near a module: the 2 GB around those are
//! for code arenas.

use crate::call;
use crate::sys::lock::Lock;
use crate::sys::{self, PAGE, raw};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

/// Largest block of a size class.
const LARGEST: usize = 32 << 10;
/// Smallest.
const SMALLEST: usize = 16;
const CLASSES: usize = 4 * 11 + 1;
/// Memory is taken from the kernel in pieces of this size.
const PIECE: u64 = 1 << 20;
/// So much of a piece is provided at a time, as it fills.
const STEP: u64 = 128 << 10;

/// The heap.
pub struct Heap {
    state: Lock<State>,
}

struct State {
    /// A singly linked list of free blocks for each class: the first word of a free block leads to the next.
    free: [*mut u8; CLASSES],
    next: u64,
    /// Up to here the kernel has provided the piece's pages.
    ready: u64,
    end: u64,
}

// SAFETY: the pointers are to memory that belongs to the heap.
unsafe impl Send for State {}

/// The class of a size, and the size of its blocks. Classes are 16 bytes apart up to 64, then a quarter of a power of
/// two.
const fn class_of(size: usize) -> (usize, usize) {
    if size <= 64 {
        let class = size.div_ceil(SMALLEST);
        let class = if class == 0 { 1 } else { class };
        return (class - 1, class * SMALLEST);
    }
    let log = (size - 1).ilog2() as usize;
    let step = 1 << (log - 2);
    let quarter = (size - 1 - (1 << log)) / step;
    (4 + (log - 6) * 4 + quarter, (1 << log) + (quarter + 1) * step)
}

impl Heap {
    /// An empty heap.
    pub const fn new() -> Self {
        Heap { state: Lock::new(State { free: [null_mut(); CLASSES], next: 0, ready: 0, end: 0 }) }
    }

    /// Keeps everybody out while the process forks.
    pub fn hold(&self) {
        self.state.hold();
    }

    /// Lets them in again.
    ///
    /// # Safety
    /// After [`Heap::hold`] by this thread, or in the child of a fork under it.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.state.force_free() };
    }
}

impl Default for Heap {
    fn default() -> Self {
        Heap::new()
    }
}

impl State {
    fn take(&mut self, class: usize, bytes: usize) -> *mut u8 {
        let first = self.free[class];
        if !first.is_null() {
            // SAFETY: a free block's first word leads to the next free one.
            self.free[class] = unsafe { first.cast::<*mut u8>().read() };
            return first;
        }
        // Blocks of a power of two are aligned to their size as long as all of their piece are; others to 16 bytes.
        let at = self.next.next_multiple_of(if bytes.is_power_of_two() { bytes as u64 } else { SMALLEST as u64 });
        if at + bytes as u64 > self.end {
            let Ok(piece) = sys::map_private(PIECE, raw::PROT_READ | raw::PROT_WRITE) else {
                return null_mut();
            };
            (self.next, self.ready, self.end) = (piece, piece, piece + PIECE);
            return self.take(class, bytes);
        }
        self.next = at + bytes as u64;
        sys::provide(&mut self.ready, self.next, self.end, STEP);
        at as *mut u8
    }
}

fn pages(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PAGE)
}

/// Bytes that a block must have for this layout: the size's power of two where alignment matters.
fn needed(layout: Layout) -> usize {
    if layout.align() > SMALLEST { layout.size().max(layout.align()).next_power_of_two() } else { layout.size() }
}

// SAFETY: blocks are disjoint, aligned as asked and stay until they are given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = needed(layout);
        if bytes > LARGEST {
            if layout.align() as u64 > PAGE {
                return null_mut();
            }
            let at = sys::map_private(pages(bytes), raw::PROT_READ | raw::PROT_WRITE);
            return at.map_or(null_mut(), |at| at as *mut u8);
        }
        let (class, bytes) = class_of(bytes);
        self.state.lock().take(class, bytes)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = needed(layout);
        if bytes > LARGEST {
            sys::unmap(block as u64, pages(bytes));
            return;
        }
        let (class, _) = class_of(bytes);
        let mut state = self.state.lock();
        // SAFETY: the block is ours again and at least 16 bytes long.
        unsafe { block.cast::<*mut u8>().write(state.free[class]) };
        state.free[class] = block;
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the layout has the old alignment, and `size` is what the caller vouches for.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (old_bytes, new_bytes) = (needed(layout), needed(new));
        if old_bytes > LARGEST && new_bytes > LARGEST {
            // The kernel would move it to where libraries are: the place is reserved first.
            let flags = raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED;
            let Ok(to) = sys::map_private(pages(new_bytes), raw::PROT_NONE) else { return null_mut() };
            // SAFETY: a mapping of our own, which moves with its contents to a reservation of our own.
            let moved = unsafe { call!(__NR_mremap, block, pages(old_bytes), pages(new_bytes), flags, to) };
            return moved.map_or(null_mut(), |at| at as *mut u8);
        }
        if old_bytes <= LARGEST && new_bytes <= LARGEST && class_of(old_bytes) == class_of(new_bytes) {
            return block;
        }
        // SAFETY: a new block that does not overlap the old one; the smaller of both sizes is readable and writable.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                core::ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                self.dealloc(block, layout);
            }
            to
        }
    }
}

/// The agent's heap.
#[cfg_attr(feature = "blob", global_allocator)]
pub static HEAP: Heap = Heap::new();

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn classes_cover_all_sizes_and_waste_at_most_a_quarter() {
        let mut last = (usize::MAX, 0);
        for size in 1..=LARGEST {
            let (class, bytes) = class_of(size);
            assert!(class < CLASSES && bytes >= size, "{size}");
            assert!(bytes < size + SMALLEST || bytes * 4 <= size * 5 + 4, "{size} takes {bytes}");
            assert!(class == last.0 || last.0 == usize::MAX || class == last.0 + 1 && bytes > last.1);
            last = (class, bytes);
        }
    }

    #[test]
    fn blocks_are_aligned_disjoint_and_reused() {
        let heap = Heap::new();
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        for round in 0..2000usize {
            let size = (round * 7919) % 50_000 + 1;
            let layout = Layout::from_size_align(size, 1 << (round % 8)).unwrap();
            // SAFETY: layouts of non-zero size; every block is written within its size and freed once.
            unsafe {
                let block = heap.alloc(layout);
                assert!(!block.is_null() && (block as usize).is_multiple_of(layout.align()));
                let mark = round as u8;
                block.write_bytes(mark, size);
                blocks.push((block, layout, mark));
                if round % 3 == 0 {
                    let (block, layout, mark) = blocks.swap_remove(round % blocks.len());
                    let grown = heap.realloc(block, layout, layout.size() * 2);
                    for at in 0..layout.size() {
                        assert_eq!(grown.add(at).read(), mark);
                    }
                    heap.dealloc(grown, Layout::from_size_align(layout.size() * 2, layout.align()).unwrap());
                }
            }
        }
        for (block, layout, mark) in blocks {
            // SAFETY: as above.
            unsafe {
                for at in 0..layout.size() {
                    assert_eq!(block.add(at).read(), mark);
                }
                heap.dealloc(block, layout);
            }
        }
    }
}
