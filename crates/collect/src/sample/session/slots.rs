//! Places of threads on a virtual machine: each has the lowest number that nobody had when it began.
//! As the exact engine has it ([`numalens_event::exact::Slots`]).

use std::collections::BTreeSet;

/// Which numbers are taken: those below `given` that are not free.
#[derive(Default)]
pub struct Slots {
    free: BTreeSet<usize>,
    given: usize,
}

impl Slots {
    /// The one that is taken next.
    pub fn next(&self) -> usize {
        self.free.first().copied().unwrap_or(self.given)
    }

    /// Takes it.
    pub fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        })
    }

    /// Whoever had it has ended.
    pub fn give_back(&mut self, slot: usize) {
        self.free.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn the_lowest_free_slot_is_the_next() {
        let mut slots = Slots::default();
        assert_eq!([(); 4].map(|()| slots.take()), [0, 1, 2, 3]);
        slots.give_back(2);
        slots.give_back(1);
        assert_eq!((slots.next(), slots.take(), slots.take(), slots.next()), (1, 1, 2, 4));
    }
}
