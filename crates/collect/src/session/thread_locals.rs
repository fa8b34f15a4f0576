//! Thread-local variables: where each thread has its copy of those of the modules that the program began with.
//!
//! ```text
//!   ... stack | .. copies of libraries' | copy of the executable's | what FS points to
//!                  offset 2               offset 1
//! ```
//! The loader lays copies below where FS points, in the order in which it has loaded modules, each aligned as its file
//! says, small ones into gaps. Those of modules that are loaded later lie elsewhere, and are part of what holds them.

use crate::unwind::Module;
use numalens_profile::ids::ModuleId;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A module's copy.
#[derive(Clone)]
struct Copy {
    /// None: the recording's own library.
    module: Option<ModuleId>,
    image: Arc<Module>,
    /// How far below where FS points it begins.
    offset: u64,
    size: u64,
}

impl Copy {
    fn range(&self, pointer: u64) -> Range<u64> {
        let start = pointer.saturating_sub(self.offset);
        start..start.saturating_add(self.size).min(pointer)
    }
}

/// The thread-local variables of a process.
#[derive(Clone, Default)]
pub struct ThreadLocals {
    /// Of modules, the executable first, in the order in which they were loaded.
    copies: Vec<Copy>,
    /// The executable has some.
    of_executable: bool,
    /// A module has been loaded, and whether the first one has such variables is known.
    has_first: bool,
    /// Where FS points, in threads that are or were there.
    pointers: BTreeSet<u64>,
    /// The farthest that a copy begins below.
    reach: u64,
    /// The place that is free between copies, by distances.
    free: Range<u64>,
}

impl ThreadLocals {
    /// A module was loaded.
    pub fn loaded(&mut self, module: Option<ModuleId>, image: &Arc<Module>) {
        let is_first = !std::mem::replace(&mut self.has_first, true);
        let is_known = self.copies.iter().any(|copy| copy.image.serial() == image.serial());
        // Behind the first thread's setting of FS everything is loaded later.
        let Some(locals) = image.thread_locals().filter(|_| self.pointers.is_empty() && !is_known) else { return };
        let (offset, free) = place(self.reach, self.free.clone(), locals.svma, locals.size, locals.align);
        (self.reach, self.free) = (self.reach.max(offset), free);
        self.of_executable |= is_first;
        self.copies.push(Copy { module, image: image.clone(), offset, size: locals.size });
    }

    /// FS points there in a thread. Returns the addresses of the executable's variables.
    pub fn pointer(&mut self, pointer: u64) -> Range<u64> {
        if self.copies.is_empty() {
            return 0..0;
        }
        self.pointers.insert(pointer);
        self.copies.first().filter(|_| self.of_executable).map_or(0..0, |copy| copy.range(pointer))
    }

    /// Memory has gone.
    pub fn unmap(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.pointers.range(range).copied().collect();
        for pointer in gone {
            self.pointers.remove(&pointer);
        }
    }

    /// Whether any of a range belongs to the executable's.
    pub fn has_own_in(&self, range: &Range<u64>) -> bool {
        let Some(copy) = self.copies.first().filter(|_| self.of_executable) else { return false };
        let behind = range.end.saturating_add(copy.offset);
        self.pointers.range(range.start..=behind).any(|&pointer| {
            let own = copy.range(pointer);
            own.start < range.end && range.start < own.end
        })
    }

    /// The module whose variables lie at an address, and where the copy begins.
    pub fn at(&self, address: u64) -> Option<(ModuleId, &Module, u64)> {
        let near = self.pointers.range(address..=address.saturating_add(self.reach)).next()?;
        let copy = self.copies.iter().find(|copy| copy.range(*near).contains(&address))?;
        Some((copy.module?, &*copy.image, copy.range(*near).start))
    }
}

/// Where a copy of `size` bytes begins, by its distance below, that is stated at `svma`: behind those that reach to
/// `reach`, or in the place that is `free` between them; and what is free then. As the C library does it.
fn place(reach: u64, free: Range<u64>, svma: u64, size: u64, align: u64) -> (u64, Range<u64>) {
    let first = svma.wrapping_neg() & (align - 1);
    let above = |bytes: u64| bytes.saturating_sub(first).next_multiple_of(align) + first;
    if free.end - free.start >= size {
        let offset = above(free.start + size);
        if offset <= free.end {
            return (offset, offset..free.end);
        }
    }
    let offset = above(reach + size);
    let gap = offset - size - reach;
    let free = if gap > free.end - free.start { reach..offset - size } else { free };
    (offset, free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_as_the_loader_lays_them() {
        // The executable's 5 bytes at 8, a library's 0x90 at 16, one of 4 bytes that fits between.
        let (one, free) = place(0, 0..0, 0x1000, 5, 8);
        assert_eq!((one, free.clone()), (8, 0..3));
        let (two, free) = place(8, free, 0x1cf8d0, 0x88, 64);
        // Its address ends in 0x10 of 64, as stated.
        assert_eq!((two, two.wrapping_neg() % 64, free.clone()), (0xb0, 0x10, 8..0x28));
        assert_eq!(place(0xb0, free.clone(), 0x10, 4, 4), (12, 12..0x28));
        assert_eq!(place(0xb0, free, 0x10, 0x40, 4).0, 0xf0);
    }
}
