//! Which places on a virtual machine are taken.
//!
//! Threads are placed by numbers: thread 5 of four nodes is on the second. By the order in which threads were created, programs would be
//! spread otherwise than they work: whoever starts three children and then four threads would find those on nodes 4, 5,
//! 6 and 7, modulo four, beside what has long ended. So a thread has the lowest number that nobody has when it begins, and gives
//! it back when it ends.
//!
//! ```text
//!   main   0 ============================
//!   child  1 ===                            ended
//!   child  1     ===                        ended
//!   thread 1         ====================
//!   thread 2         ====================
//! ```
//!
//! 1. A slot holds its process, plus 1, or 0: whoever ends a process can free all that its threads held, however they ended.
//! 2. A thread's slot is that of its directory entry for all its life; an exec hands it on to the program that follows.
//! 3. Where all slots are taken, a thread has its place in the order of creation, which is no slot.

use super::directory::Extent;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Threads that have slots at most.
pub const MOST_SLOTS: usize = 4096;

/// The slots, each with its process.
#[repr(C)]
#[derive(Debug)]
pub struct Slots([AtomicU32; MOST_SLOTS]);

impl Slots {
    /// The lowest free one, for a thread of `process` that is the `index`-th of the recording.
    pub fn claim(&self, process: Extent, index: u32) -> u32 {
        let free = |slot: &AtomicU32| {
            slot.load(Relaxed) == 0 && slot.compare_exchange(0, process.0 + 1, AcqRel, Relaxed).is_ok()
        };
        self.0.iter().position(free).map_or(index.max(MOST_SLOTS as u32), |slot| slot as u32)
    }

    /// A thread of `process` has ended.
    pub fn free(&self, slot: u32, process: Extent) {
        self.change(slot, process, 0);
    }

    /// A thread of `process` goes on in the program `next`.
    pub fn hand_on(&self, slot: u32, process: Extent, next: Extent) {
        self.change(slot, process, next.0 + 1);
    }

    /// All threads of `process` have ended.
    pub fn free_all(&self, process: Extent) {
        (0..MOST_SLOTS as u32).for_each(|slot| self.free(slot, process));
    }

    fn change(&self, slot: u32, process: Extent, to: u32) {
        if let Some(slot) = self.0.get(slot as usize)
            && slot.load(Acquire) == process.0 + 1
        {
            let _ = slot.compare_exchange(process.0 + 1, to, AcqRel, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_the_next() {
        let slots = Slots([const { AtomicU32::new(0) }; MOST_SLOTS]);
        let (one, other) = (Extent(0), Extent(5));
        assert_eq!([0, 1, 2].map(|index| slots.claim(one, index)), [0, 1, 2]);
        slots.free(1, other);
        assert_eq!(slots.claim(other, 3), 3, "somebody else's slot is nobody's to free");
        slots.free(1, one);
        assert_eq!(slots.claim(other, 4), 1);
        slots.hand_on(1, other, Extent(6));
        slots.free_all(other);
        assert_eq!([slots.claim(one, 5), slots.claim(one, 6)], [3, 4], "what an exec handed on stays");
        slots.free_all(one);
        assert_eq!(slots.claim(one, 7), 0);
    }

    #[test]
    fn where_all_are_taken_the_order_of_creation_decides() {
        let slots = Slots([const { AtomicU32::new(0) }; MOST_SLOTS]);
        (0..MOST_SLOTS as u32).for_each(|index| assert_eq!(slots.claim(Extent(1), index), index));
        assert_eq!(slots.claim(Extent(1), 5000), 5000);
        slots.free(5000, Extent(1));
        assert_eq!(slots.claim(Extent(1), 5001), 5001);
    }
}
