//! Which places on a virtual machine are taken.
//!
//! Threads are placed by numbers: number 5 of four nodes is on the second. By the order in which all threads of a
//! recording were created, programs would be spread otherwise than they work: whoever starts three children and then
//! three threads would have these on nodes 0, 1 and 2, beside what has long ended. So each process has the lowest
//! number that no other one has when it begins, and gives it back when it ends. Its threads have the numbers from there
//! on, as they are created.
//!
//! ```text
//!   main   0 ============================      threads 1, 2, 3
//!   child  1 ===                               ended
//!   child  1     ===                           ended
//! ```
//!
//! Threads that have ended keep theirs: many programs start threads while those that have done their work are about to
//! end, and who of them is gone by then differs from run to run.
//!
//! 1. A slot holds its owner, plus 1, or 0. The owner is a process, or a thread that borrows its parent's memory
//!    (vfork).
//! 2. An exec hands it on to the program that follows.
//! 3. Where all slots are taken, a process has its place in the order of creation, which is no slot.

use super::directory::Extent;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Processes that have slots at most.
pub const MOST_SLOTS: usize = 4096;

/// The slots, each with its owner.
#[repr(C)]
#[derive(Debug)]
pub struct Slots([AtomicU32; MOST_SLOTS]);

impl Slots {
    /// The lowest free one, for whoever begins as the `index`-th of the recording.
    pub fn claim(&self, owner: Extent, index: u32) -> u32 {
        let free = |slot: &AtomicU32| {
            slot.load(Relaxed) == 0 && slot.compare_exchange(0, owner.0 + 1, AcqRel, Relaxed).is_ok()
        };
        self.0.iter().position(free).map_or(index.max(MOST_SLOTS as u32), |slot| slot as u32)
    }

    /// Its owner has ended.
    pub fn free(&self, slot: u32, owner: Extent) {
        self.change(slot, owner, 0);
    }

    /// Its owner goes on as another one.
    pub fn hand_on(&self, slot: u32, owner: Extent, next: Extent) {
        self.change(slot, owner, next.0 + 1);
    }

    fn change(&self, slot: u32, owner: Extent, to: u32) {
        if let Some(slot) = self.0.get(slot as usize) {
            let _ = slot.compare_exchange(owner.0 + 1, to, AcqRel, Relaxed);
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
        slots.free(1, other);
        assert_eq!(slots.claim(one, 5), 4, "what an exec handed on stays");
        slots.free(1, Extent(6));
        assert_eq!(slots.claim(one, 6), 1);
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
