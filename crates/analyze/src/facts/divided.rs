//! Exact counts divided by accesses that were looked at.
//!
//! Exact counts know the instruction or the object. Which instructions an object's accesses are, and which objects
//! a line's, only the few accesses tell that were looked at one by one. They divide the counts of their class; of a
//! class that has none of them nothing is known. Parts sum to what was divided.

use crate::model::tally::Tally;
use numalens_profile::words::Class;
use std::collections::BTreeMap;

/// What divides counts: the accesses that were looked at, by part.
pub struct Division<K> {
    classes: BTreeMap<Class, BTreeMap<K, Tally>>,
}

impl<K> Default for Division<K> {
    fn default() -> Self {
        Division { classes: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Division<K> {
    /// Adds accesses of a part that were looked at.
    pub fn add(&mut self, part: K, class: Class, seen: Tally) {
        *self.classes.entry(class).or_default().entry(part).or_default() += seen;
    }

    /// Accesses that were looked at.
    pub fn seen(&self) -> u64 {
        self.classes.values().flat_map(BTreeMap::values).map(|seen| seen.samples).sum()
    }

    /// The parts of exact counts of one class. Where none of it was looked at, all are of `unknown`.
    pub fn divide(&self, class: Class, counts: Tally, unknown: K) -> Vec<(K, Tally)> {
        let Some(parts) = self.classes.get(&class) else { return vec![(unknown, counts)] };
        let mut reads = Shares::new(counts.reads, parts.values(), |seen| seen.reads);
        let mut writes = Shares::new(counts.writes, parts.values(), |seen| seen.writes);
        let part = |(part, seen): (&K, &Tally)| {
            let (reads, writes) = (reads.next(seen), writes.next(seen));
            let estimated = reads + writes;
            let squares = u128::from(estimated) * u128::from(estimated) / u128::from(seen.samples.max(1));
            (*part, Tally { reads, writes, samples: seen.samples, estimated, squares })
        };
        parts.iter().map(part).collect()
    }
}

/// Gives each part its share of a count, as whole numbers that sum to it.
struct Shares {
    count: u64,
    /// What a part weighs, and what all do.
    weight: fn(&Tally) -> u64,
    all: u64,
    /// The weight of the parts before, and what they have.
    before: u64,
    given: u64,
}

impl Shares {
    /// Where no access of the kind was looked at, those of the other kind divide it.
    fn new<'a>(count: u64, parts: impl Iterator<Item = &'a Tally> + Clone, weight: fn(&Tally) -> u64) -> Self {
        let total = |weight: fn(&Tally) -> u64| parts.clone().map(weight).sum::<u64>();
        let (weight, all) = match total(weight) {
            0 => ((|seen| seen.samples) as fn(&Tally) -> u64, total(|seen| seen.samples)),
            all => (weight, all),
        };
        Shares { count, weight, all, before: 0, given: 0 }
    }

    fn next(&mut self, part: &Tally) -> u64 {
        self.before += (self.weight)(part);
        let until = u128::from(self.count) * u128::from(self.before) / u128::from(self.all.max(1));
        let share = until as u64 - self.given;
        self.given += share;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(reads: u64, writes: u64, samples: u64) -> Tally {
        Tally { reads, writes, samples, ..Tally::default() }
    }

    fn parts(division: &Division<char>, class: Class, of: Tally) -> Vec<(char, u64, u64)> {
        let parts = division.divide(class, of, '?').into_iter();
        parts.map(|(part, tally)| (part, { tally.reads }, { tally.writes })).collect()
    }

    #[test]
    fn parts_sum_to_what_was_divided() {
        let mut division = Division::default();
        division.add('a', Class::Remote, counts(2, 0, 2));
        division.add('b', Class::Remote, counts(1, 3, 3));
        let all = parts(&division, Class::Remote, counts(100, 7, 0));
        assert_eq!(all, [('a', 66, 0), ('b', 34, 7)]);
        assert_eq!(division.seen(), 5);
    }

    #[test]
    fn reads_of_which_none_was_looked_at_are_divided_by_writes() {
        let mut division = Division::default();
        division.add('a', Class::Remote, counts(0, 1, 1));
        division.add('b', Class::Remote, counts(0, 3, 3));
        assert_eq!(parts(&division, Class::Remote, counts(8, 4, 0)), [('a', 2, 1), ('b', 6, 3)]);
    }

    #[test]
    fn of_a_class_that_was_not_looked_at_nothing_is_known() {
        let mut division = Division::default();
        division.add('a', Class::Remote, counts(1, 0, 1));
        assert_eq!(parts(&division, Class::Local, counts(8, 4, 0)), [('?', 8, 4)]);
    }
}
