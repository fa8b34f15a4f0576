//! A fact table under construction: counts by key.

use core::hash::{BuildHasherDefault, Hash};
use hashbrown::HashMap;
use rustc_hash::FxHasher;

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

/// Counts by key.
#[derive(Clone, Debug)]
pub struct Facts<K> {
    counts: HashMap<K, Counts, BuildHasherDefault<FxHasher>>,
}

impl<K> Default for Facts<K> {
    fn default() -> Self {
        Facts { counts: HashMap::default() }
    }
}

impl<K: Hash + Eq + Copy> Facts<K> {
    /// Adds `counts` to the fact of `key`.
    pub fn add(&mut self, key: K, counts: Counts) {
        let sum = self.counts.entry(key).or_default();
        *sum = sum.plus(counts);
    }

    /// Gives every fact a new key; those that then have the same merge.
    pub fn rekey(&mut self, new_key: impl Fn(K) -> K) {
        let old = core::mem::take(&mut self.counts);
        for (key, counts) in old {
            self.add(new_key(key), counts);
        }
    }

    /// Number of facts.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// All facts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, Counts)> {
        self.counts.iter().map(|(&key, &counts)| (key, counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn sorted(facts: &Facts<u32>) -> Vec<(u32, Counts)> {
        let mut all: Vec<_> = facts.iter().collect();
        all.sort_unstable_by_key(|&(key, _)| key);
        all
    }

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
            let forward = sorted(&table(&rows));
            rows.reverse();
            prop_assert_eq!(forward, sorted(&table(&rows)));
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
