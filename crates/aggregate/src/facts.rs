//! A fact table under construction: counts by key.

use alloc::vec::Vec;

/// What a fact counts. Adds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    /// Samples behind them; 0 for exact counts.
    pub samples: u32,
}

impl Counts {
    /// The sum of both.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            samples: self.samples.saturating_add(other.samples),
        }
    }
}

/// Puts sums into the order of their keys, each once. What is in order already, the stable sort takes as it is.
pub fn settle<K: Ord + Copy, S: Copy>(sums: &mut Vec<(K, S)>, plus: impl Fn(S, S) -> S) {
    sums.sort_by_key(|&(key, _)| key);
    sums.dedup_by(|(key, more), (kept, sum)| {
        let same = key == kept;
        if same {
            *sum = plus(*sum, *more);
        }
        same
    });
}

/// Counts by key, sorted rather than hashed: a hash table of hundreds of thousands of keys costs a miss of the caches
/// for each fact that is added, and again for each whenever bins become wider. Here a fact is appended, and what has
/// been appended is sorted when it is as much as was there before; the counters of an engine come in order for a while,
/// and what is in order already is not sorted again.
///
/// ```text
///   | in order, each key once          | as they came     |
///   0                                  sorted             len
/// ```
#[derive(Clone, Debug)]
pub struct Facts<K> {
    all: Vec<(K, Counts)>,
    sorted: usize,
}

/// Facts that are sorted at a time, at least.
const BATCH: usize = 4096;

impl<K> Default for Facts<K> {
    fn default() -> Self {
        Facts { all: Vec::new(), sorted: 0 }
    }
}

impl<K: Ord + Copy> Facts<K> {
    /// Adds `counts` to the fact of `key`.
    pub fn add(&mut self, key: K, counts: Counts) {
        match self.all.last_mut() {
            Some((last, sum)) if *last == key => *sum = sum.plus(counts),
            _ => {
                if self.all.len() - self.sorted >= self.sorted.max(BATCH) {
                    self.settle();
                }
                self.all.push((key, counts));
            }
        }
    }

    /// Gives every fact a new key; those that then have the same merge.
    pub fn rekey(&mut self, new_key: impl Fn(K) -> K) {
        self.all.iter_mut().for_each(|(key, _)| *key = new_key(*key));
        self.sorted = 0;
        self.settle();
    }

    /// All facts in the order of their keys, each once.
    pub fn settled(&mut self) -> &[(K, Counts)] {
        if self.sorted < self.all.len() {
            self.settle();
        }
        &self.all
    }

    fn settle(&mut self) {
        settle(&mut self.all, Counts::plus);
        self.sorted = self.all.len();
    }

    /// Number of facts at most: some of the latest may be the same.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All facts, in no order; some may come in parts.
    pub fn iter(&self) -> impl Iterator<Item = (K, Counts)> {
        self.all.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    extern crate std;
    use std::collections::BTreeMap;

    fn table(rows: &[(u8, u16, u16)]) -> Facts<u32> {
        let mut facts = Facts::default();
        for &(key, reads, writes) in rows {
            facts.add(key.into(), Counts { reads: reads.into(), writes: writes.into(), samples: 1 });
        }
        facts
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut rows: Vec<(u8, u16, u16)>) {
            let mut forward = table(&rows);
            rows.reverse();
            let mut backward = table(&rows);
            prop_assert_eq!(forward.settled(), backward.settled());
        }

        /// Many more than are sorted at a time.
        #[test]
        fn keys_are_once_and_in_order(keys: Vec<u8>, spread in 1u32..20_000) {
            let (mut facts, mut wanted) = (Facts::default(), BTreeMap::<u32, u64>::new());
            for (number, key) in (0..).zip(keys.iter().cycle().take(30_000 * keys.len().min(1))) {
                let key = ((u32::from(*key) << 8) ^ (number * 31)) % spread;
                facts.add(key, Counts { reads: 1, writes: 0, samples: 0 });
                *wanted.entry(key).or_default() += 1;
                prop_assert!(facts.len() <= 2 * (spread as usize).max(BATCH));
            }
            let found: BTreeMap<u32, u64> = facts.settled().iter().map(|(key, counts)| (*key, counts.reads)).collect();
            prop_assert!(facts.settled().is_sorted_by(|(one, _), (other, _)| one < other));
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn coarsening_keeps_the_sum(rows: Vec<(u8, u16, u16)>) {
            let sum = |facts: &Facts<u32>| facts.iter().fold(Counts::default(), |sum, (_, one)| sum.plus(one));
            let mut facts = table(&rows);
            let before = sum(&facts);
            facts.rekey(|key| key >> 1);
            prop_assert_eq!(before, sum(&facts));
        }
    }
}
