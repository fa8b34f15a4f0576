//! What is kept of pages by their numbers, side by side: numbers are given one after the other, and what is counted of
//! one page is mostly counted of its neighbours. As much as a hash table for one page in four, a quarter for all.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers side by side.
const BLOCK: u32 = 64;

/// Something of each number, or nothing: what is as by default is not there.
pub struct ByNumber<T>(BTreeMap<u32, Box<[T; BLOCK as usize]>>);

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        ByNumber(BTreeMap::new())
    }
}

fn place(number: u32) -> (u32, usize) {
    (number / BLOCK, (number % BLOCK) as usize)
}

impl<T: Copy + Default + PartialEq> ByNumber<T> {
    /// What a number has.
    pub fn get(&self, number: u32) -> T {
        let (block, at) = place(number);
        self.0.get(&block).map_or_else(T::default, |block| block[at])
    }

    /// The same, to be changed.
    pub fn at(&mut self, number: u32) -> &mut T {
        let (block, at) = place(number);
        &mut self.0.entry(block).or_insert_with(|| Box::new([T::default(); BLOCK as usize]))[at]
    }

    /// Takes out what a number has.
    pub fn take(&mut self, number: u32) -> T {
        let (block, at) = place(number);
        self.0.get_mut(&block).map(|block| std::mem::take(&mut block[at])).unwrap_or_default()
    }

    /// Takes out what those numbers have, and keeps no room for blocks none of which has something.
    pub fn take_where(&mut self, is_taken: impl Fn(u32) -> bool) -> Vec<(u32, T)> {
        let taken: Vec<(u32, T)> = self.iter().filter(|&(number, _)| is_taken(number)).collect();
        for &(number, _) in &taken {
            self.take(number);
        }
        self.prune();
        taken
    }

    /// All that have something, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, T)> {
        let blocks = self.0.iter().flat_map(|(&block, all)| (block * BLOCK..).zip(all.iter().copied()));
        blocks.filter(|(_, one)| *one != T::default())
    }

    /// Those of a whole number of blocks have nothing any more.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        let blocks = numbers.start.div_ceil(BLOCK)..numbers.end / BLOCK;
        let gone: Vec<u32> = self.0.range(blocks).map(|(&block, _)| block).collect();
        for block in gone {
            self.0.remove(&block);
        }
    }

    /// Keeps no room for blocks none of which has something.
    pub fn prune(&mut self) {
        self.0.retain(|_, block| block.iter().any(|one| *one != T::default()));
    }

    /// Calls `both` for each number that has something here, with what it has there, which may change.
    pub fn each_with<U: Copy + Default + PartialEq>(
        &self,
        other: &mut ByNumber<U>,
        mut both: impl FnMut(u32, T, &mut U),
    ) {
        for (&block, all) in &self.0 {
            let others = other.0.entry(block).or_insert_with(|| Box::new([U::default(); BLOCK as usize]));
            for (at, (one, other)) in all.iter().zip(others.iter_mut()).enumerate() {
                if *one != T::default() {
                    both(block * BLOCK + at as u32, *one, other);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_what_was_given_to_them() {
        let mut all = ByNumber::<u64>::default();
        for number in [700, 3, 64, 63, 1 << 27] {
            *all.at(number) += u64::from(number) + 1;
        }
        assert_eq!(all.iter().collect::<Vec<_>>(), [3, 63, 64, 700, 1 << 27].map(|at| (at, u64::from(at) + 1)));
        assert_eq!((all.get(63), all.get(62), all.get(9999)), (64, 0, 0));
        assert_eq!((all.take(64), all.take(64)), (65, 0));
        *all.at(90) = 1;
        assert_eq!(all.take_where(|number| number % 10 == 0), [(90, 1), (700, 701)]);
        *all.at(700) = 701;
        all.forget(&(0..512));
        all.prune();
        assert_eq!(all.iter().map(|(number, _)| number).collect::<Vec<_>>(), [700, 1 << 27]);
        assert_eq!(all.0.len(), 2);
    }

    #[test]
    fn two_are_gone_through_together() {
        let (mut one, mut other) = (ByNumber::<u64>::default(), ByNumber::<u32>::default());
        (*one.at(5), *one.at(100), *other.at(5), *other.at(6)) = (50, 1000, 1, 2);
        one.each_with(&mut other, |_, one, other| *other += one as u32);
        assert_eq!(other.iter().collect::<Vec<_>>(), [(5, 51), (6, 2), (100, 1000)]);
    }
}
