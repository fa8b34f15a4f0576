//! Sums by key, sorted rather than hashed: a hash table of millions of keys costs a miss of cache and TLB for every
//! fact. Facts come in order, for a while; what of them lies near stays near here, and what is in order already is not
//! sorted again.

use crate::model::tally::Tally;
use std::cmp::Ordering;

/// Keys with their sums.
pub type Entries<K> = Vec<(K, Tally)>;

/// Facts that are sorted at a time, at least.
const BATCH: usize = 1024;

/// Sums in the making.
#[derive(Clone, PartialEq, Debug)]
pub struct SortedSums<K> {
    /// In order, each key once.
    sums: Entries<K>,
    /// As they came.
    recent: Entries<K>,
}

impl<K> Default for SortedSums<K> {
    fn default() -> Self {
        SortedSums { sums: Vec::new(), recent: Vec::new() }
    }
}

impl<K: Copy + Ord> SortedSums<K> {
    /// Adds to the sum of a key.
    #[inline]
    pub fn add(&mut self, key: K, tally: Tally) {
        match self.recent.last_mut() {
            Some((last, sum)) if *last == key => *sum += tally,
            _ => {
                // As many as there are sums: so sums are moved as often as facts come, and no more.
                if self.recent.len() >= BATCH.max(self.sums.len()) {
                    self.settle();
                }
                self.recent.push((key, tally));
            }
        }
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        SortedSums { sums: merged(self.finish(), other.finish()), recent: Vec::new() }
    }

    /// The sums in the order of keys, each key once.
    pub fn finish(mut self) -> Entries<K> {
        self.settle();
        self.sums
    }

    fn settle(&mut self) {
        // The stable sort takes what is in order as it is.
        self.recent.sort_by_key(|(key, _)| *key);
        add_equals(&mut self.recent);
        self.sums = merged(std::mem::take(&mut self.sums), std::mem::take(&mut self.recent));
    }
}

/// Makes one of neighbours with the same key.
pub fn add_equals<K: Eq>(entries: &mut Entries<K>) {
    entries.dedup_by(|(key, tally), (kept, sum)| {
        let same = key == kept;
        if same {
            *sum += *tally;
        }
        same
    });
}

/// Both together, in order.
pub fn merged<K: Ord>(mut one: Entries<K>, other: Entries<K>) -> Entries<K> {
    if other.is_empty() {
        return one;
    }
    if one.is_empty() {
        return other;
    }
    if one.last().zip(other.first()).is_some_and(|((a, _), (b, _))| a < b) {
        one.extend(other);
        return one;
    }
    let mut both = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (one.peek(), other.peek()) {
        match a.cmp(b) {
            Ordering::Less => both.extend(one.next()),
            Ordering::Greater => both.extend(other.next()),
            Ordering::Equal => {
                if let (Some((key, mut sum)), Some((_, tally))) = (one.next(), other.next()) {
                    sum += tally;
                    both.push((key, sum));
                }
            }
        }
    }
    both.extend(one);
    both.extend(other);
    // Where most keys were in both.
    both.shrink_to_fit();
    both
}
