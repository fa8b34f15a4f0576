//! Numbers that are taken and given back.

use std::collections::BTreeSet;

/// Gives the lowest number, from 0 on, that nobody has: taken are those below `given` that are not free.
#[derive(Clone, Debug, Default)]
pub struct LowestFree {
    free: BTreeSet<usize>,
    given: usize,
}

impl LowestFree {
    /// Takes it.
    pub fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        })
    }

    /// Whoever had a number has it no more.
    pub fn give_back(&mut self, number: usize) {
        self.free.insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::LowestFree;

    #[test]
    fn what_was_given_back_is_taken_first() {
        let mut numbers = LowestFree::default();
        assert_eq!([(); 4].map(|()| numbers.take()), [0, 1, 2, 3]);
        numbers.give_back(2);
        numbers.give_back(1);
        assert_eq!([(); 3].map(|()| numbers.take()), [1, 2, 4]);
    }
}
