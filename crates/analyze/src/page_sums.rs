//! Sums by keys that name a page. There are millions: neighbourhoods of pages are sorted apart from each other, so that what is sorted fits in a cache. Whoever reads the
//! sums has those of one page side by side.

use crate::counts::Tally;
use crate::sorted_sums::{Entries, SortedSums, add_equals};
use numalens_profile::ids::{Page, ProcessId};
use rayon::prelude::*;

/// A key whose order begins with page and process.
pub trait OfPage: Copy + Ord + Send + Sync {
    /// The page, and whose address space it is of.
    fn page(&self) -> (ProcessId, Page);
}

/// The sums: each key once, those of one page side by side and in order.
#[derive(Clone, PartialEq, Debug)]
pub struct PageSums<K> {
    parts: Vec<Entries<K>>,
}

/// Sums in the making.
pub struct Adding<K> {
    parts: Vec<SortedSums<K>>,
}

/// Neighbourhoods of 2^6 pages go to 2^8 parts: few enough that the ends of all parts stay in the cache, as many that one is sorted in it.
const NEIGHBOURS: u32 = 6;
const PARTS: u32 = 8;

impl<K> Default for PageSums<K> {
    fn default() -> Self {
        PageSums { parts: Vec::new() }
    }
}

impl<K: OfPage> PageSums<K> {
    /// Every key and its sum.
    pub fn iter(&self) -> impl Iterator<Item = &(K, Tally)> {
        self.parts.iter().flatten()
    }

    /// The sums of one page after the other.
    pub fn pages(&self) -> impl Iterator<Item = &[(K, Tally)]> {
        self.chunks_by(|a, b| a.page() == b.page())
    }

    /// Neighbours that have something in common. What is not of one page may come again.
    pub fn chunks_by(&self, alike: impl Fn(&K, &K) -> bool + Copy) -> impl Iterator<Item = &[(K, Tally)]> {
        self.parts.iter().flat_map(move |part| part.chunk_by(move |(a, _), (b, _)| alike(a, b)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Vec::is_empty)
    }

    /// With keys that tell less apart, but nothing of another page.
    pub fn by<L: OfPage>(&self, key: impl Fn(&K) -> L + Sync) -> PageSums<L> {
        let part = |entries: &Entries<K>| {
            let mut sums = Vec::with_capacity(entries.len());
            let mut of_page: Entries<L> = Vec::new();
            for page in entries.chunk_by(|(a, _), (b, _)| a.page() == b.page()) {
                of_page.clear();
                of_page.extend(page.iter().map(|(of, tally)| (key(of), *tally)));
                of_page.sort_by_key(|(key, _)| *key);
                add_equals(&mut of_page);
                sums.extend_from_slice(&of_page);
            }
            sums.shrink_to_fit();
            sums
        };
        PageSums { parts: self.parts.par_iter().map(part).collect() }
    }
}

impl<K> Default for Adding<K> {
    fn default() -> Self {
        Adding { parts: std::iter::repeat_with(SortedSums::default).take(1 << PARTS).collect() }
    }
}

impl<K: OfPage> Adding<K> {
    /// Adds to the sum of a key.
    #[inline]
    pub fn add(&mut self, key: K, tally: Tally) {
        let (process, page) = key.page();
        let neighbourhood = (page.0 >> NEIGHBOURS) ^ u64::from(process.0) << 46;
        // Scattered, so that programs that use every n-th page have no part that is larger than the others.
        let part = neighbourhood.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS);
        self.parts[part as usize].add(key, tally);
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        let both = self.parts.into_par_iter().zip(other.parts);
        Adding { parts: both.map(|(one, other)| one.merge(other)).collect() }
    }

    /// The sums.
    pub fn finish(self) -> PageSums<K> {
        PageSums { parts: self.parts.into_par_iter().map(SortedSums::finish).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_hash::FxHashMap;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    struct Key(Page, ProcessId, u32);

    impl OfPage for Key {
        fn page(&self) -> (ProcessId, Page) {
            (self.1, self.0)
        }
    }

    fn scattered(n: u64) -> impl Iterator<Item = (Key, Tally)> {
        (0..n).map(|i| {
            let noise = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let key = Key(Page(noise % 3000 / (1 + i % 2)), ProcessId((noise >> 30) as u32 % 2), (i % 3) as u32);
            (key, Tally { reads: noise % 100, writes: i % 7, ..Tally::default() })
        })
    }

    #[test]
    fn sums_are_those_of_a_map() {
        let mut plain: FxHashMap<Key, Tally> = FxHashMap::default();
        let mut sums = [Adding::default(), Adding::default()];
        for (i, (key, tally)) in scattered(60_000).enumerate() {
            *plain.entry(key).or_default() += tally;
            sums[usize::from(i > 9_000)].add(key, tally);
        }
        let [one, other] = sums;
        let sums = one.merge(other).finish();
        assert_eq!(sums.iter().count(), plain.len());
        assert!(sums.iter().all(|(key, tally)| plain[key] == *tally));
        let mut pages: Vec<_> = sums.pages().map(|page| page[0].0.page()).collect();
        assert!(sums.pages().all(|page| page.is_sorted_by(|(a, _), (b, _)| a < b)));
        let number = pages.len();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), number, "each page once");
    }

    #[test]
    fn what_is_told_apart_less_is_summed() {
        let mut sums = Adding::default();
        let mut plain: BTreeMap<Key, Tally> = BTreeMap::new();
        for (key, tally) in scattered(5_000) {
            sums.add(key, tally);
            *plain.entry(Key(key.0, key.1, 0)).or_default() += tally;
        }
        let mut coarse: Vec<_> = sums.finish().by(|key| Key(key.0, key.1, 0)).iter().copied().collect();
        coarse.sort_unstable_by_key(|(key, _)| *key);
        assert_eq!(coarse, plain.into_iter().collect::<Vec<_>>());
    }
}
