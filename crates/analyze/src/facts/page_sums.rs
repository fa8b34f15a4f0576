//! Sums by keys that name a page. There are millions, and whoever reads the sums has those of one page side by side.
//!
//! ```text
//!   facts in the order of pages      page 17 | page 18 | page 19 ...    summed a page at a time, where they stand
//!   (those that are kept)
//!   facts in any order               neighbourhoods of pages, sorted apart from each other, so that what is sorted
//!   (a table on the disk)            fits in a cache
//! ```
//!
//! What begins as the first becomes the second with the first fact that is late.

use crate::facts::sorted_sums::{Entries, SortedSums, add_equals};
use crate::model::tally::Tally;
use numalens_profile::ids::{Page, ProcessId};
use rayon::prelude::*;
use std::cmp::Ordering;

/// A key whose order begins with page and process.
pub trait OfPage: Copy + Ord + Send + Sync {
    /// The page, and whose address space it is of.
    fn page(&self) -> (Page, ProcessId);
}

/// The sums: each key once, those of one page side by side and in order.
#[derive(Clone, PartialEq, Debug)]
pub struct PageSums<K> {
    parts: Vec<Entries<K>>,
}

/// Sums in the making.
pub struct Adding<K>(Way<K>);

enum Way<K> {
    InOrder(Stretches<K>),
    Scattered(Vec<SortedSums<K>>),
}

/// Stretches of pages.
struct Stretches<K> {
    /// Each in order, every key once.
    done: Vec<Entries<K>>,
    /// In order up to the entries of its last page, which are as they came.
    latest: Entries<K>,
    last_page: usize,
}

/// Neighbourhoods of 2^6 pages go to 2^8 parts: few enough that the ends of all parts stay in the cache, as many that
/// one is sorted in it.
const NEIGHBOURS: u32 = 6;
const PARTS: u32 = 8;

impl<K> Default for PageSums<K> {
    fn default() -> Self {
        PageSums { parts: Vec::new() }
    }
}

impl<K: OfPage + Sync> PageSums<K> {
    /// Every key and its sum.
    pub fn iter(&self) -> impl Iterator<Item = &(K, Tally)> {
        self.parts.iter().flatten()
    }

    /// The sums of one page after the other.
    pub fn pages(&self) -> impl Iterator<Item = &[(K, Tally)]> {
        self.chunks_by(|a, b| a.page() == b.page())
    }

    /// The same on all processors, in the same order.
    pub fn par_pages(&self) -> impl ParallelIterator<Item = &[(K, Tally)]> {
        self.parts.par_iter().flat_map_iter(|part| part.chunk_by(|(a, _), (b, _)| a.page() == b.page()))
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

impl<K> Default for Stretches<K> {
    fn default() -> Self {
        Stretches { done: Vec::new(), latest: Vec::new(), last_page: 0 }
    }
}

impl<K: OfPage> Stretches<K> {
    /// Adds to the sum of a key. Not, where there are later pages.
    #[inline]
    fn add(&mut self, key: K, tally: Tally) -> bool {
        if let Some((last, sum)) = self.latest.last_mut() {
            if *last == key {
                *sum += tally;
                return true;
            }
            match key.page().cmp(&last.page()) {
                Ordering::Greater => self.end_page(),
                Ordering::Equal => {}
                Ordering::Less => return false,
            }
        }
        self.latest.push((key, tally));
        true
    }

    #[inline]
    fn end_page(&mut self) {
        if !self.latest[self.last_page..].is_sorted_by(|(a, _), (b, _)| a < b) {
            let mut of_page = self.latest.split_off(self.last_page);
            of_page.sort_by_key(|(key, _)| *key);
            add_equals(&mut of_page);
            self.latest.extend(of_page);
        }
        self.last_page = self.latest.len();
    }

    fn merge(mut self, other: Self) -> Self {
        self.done.extend(other.finish());
        self
    }

    /// All stretches, by their first keys.
    fn finish(mut self) -> Vec<Entries<K>> {
        self.end_page();
        let mut all = self.done;
        all.push(self.latest);
        all.retain(|stretch| !stretch.is_empty());
        all.sort_by_key(|stretch| stretch[0].0);
        all
    }
}

/// Whether no stretch has pages of another.
fn are_apart<K: OfPage>(stretches: &[Entries<K>]) -> bool {
    let last = |stretch: &Entries<K>| stretch.last().map(|(key, _)| key.page());
    let first = |stretch: &Entries<K>| stretch.first().map(|(key, _)| key.page());
    stretches.windows(2).all(|pair| last(&pair[0]) < first(&pair[1]))
}

fn scattered<K: OfPage>(stretches: Vec<Entries<K>>) -> Vec<SortedSums<K>> {
    let mut parts = Vec::from_iter(std::iter::repeat_with(SortedSums::default).take(1 << PARTS));
    for (key, tally) in stretches.into_iter().flatten() {
        scatter(&mut parts, key, tally);
    }
    parts
}

#[inline]
fn scatter<K: OfPage>(parts: &mut [SortedSums<K>], key: K, tally: Tally) {
    let (page, process) = key.page();
    let neighbourhood = (page.0 >> NEIGHBOURS) ^ u64::from(process.0) << 46;
    // Scattered, so that programs that use every n-th page have no part that is larger than the others.
    let part = neighbourhood.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS);
    parts[part as usize].add(key, tally);
}

impl<K> Default for Adding<K> {
    fn default() -> Self {
        Adding(Way::InOrder(Stretches::default()))
    }
}

impl<K: OfPage> Adding<K> {
    /// Adds to the sum of a key.
    #[inline]
    pub fn add(&mut self, key: K, tally: Tally) {
        match &mut self.0 {
            Way::InOrder(stretches) => {
                if !stretches.add(key, tally) {
                    let mut parts = scattered(std::mem::take(stretches).finish());
                    scatter(&mut parts, key, tally);
                    self.0 = Way::Scattered(parts);
                }
            }
            Way::Scattered(parts) => scatter(parts, key, tally),
        }
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        Adding(match (self.0, other.0) {
            (Way::InOrder(one), Way::InOrder(other)) => Way::InOrder(one.merge(other)),
            (one, other) => {
                let both = one.scattered().into_par_iter().zip(other.scattered());
                Way::Scattered(both.map(|(one, other)| one.merge(other)).collect())
            }
        })
    }

    /// The sums.
    pub fn finish(self) -> PageSums<K> {
        let parts = match self.0 {
            Way::InOrder(stretches) => {
                let stretches = stretches.finish();
                if are_apart(&stretches) {
                    return PageSums { parts: stretches };
                }
                scattered(stretches)
            }
            Way::Scattered(parts) => parts,
        };
        PageSums { parts: parts.into_par_iter().map(SortedSums::finish).collect() }
    }
}

impl<K: OfPage> Way<K> {
    fn scattered(self) -> Vec<SortedSums<K>> {
        match self {
            Way::InOrder(stretches) => scattered(stretches.finish()),
            Way::Scattered(parts) => parts,
        }
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
        fn page(&self) -> (Page, ProcessId) {
            (self.0, self.1)
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
    fn what_comes_in_the_order_of_pages_stays_where_it_is() {
        let mut facts: Vec<_> = scattered(20_000).collect();
        // Of one page in any order, as the same thread is on several nodes.
        facts.sort_by_key(|(key, _)| key.page());
        let mut plain: BTreeMap<Key, Tally> = BTreeMap::new();
        facts.iter().for_each(|(key, tally)| *plain.entry(*key).or_default() += *tally);
        let ends = facts.partition_point(|(key, _)| key.page() < facts[12_000].0.page());
        // Cut between pages, all in order; in the midst of one, and with late ones, not.
        for (cut, late, in_order) in [(ends, 0, true), (ends + 1, 0, false), (ends, 3, false)] {
            let mut sums = [Adding::default(), Adding::default()];
            let (before, behind) = facts.split_at(cut);
            behind.iter().for_each(|(key, tally)| sums[0].add(*key, *tally));
            before[late..].iter().chain(&before[..late]).for_each(|(key, tally)| sums[1].add(*key, *tally));
            let [one, other] = sums;
            let sums = one.merge(other).finish();
            let mut all: Vec<_> = sums.iter().copied().collect();
            assert_eq!(all.is_sorted_by(|(a, _), (b, _)| a < b), in_order, "{cut} {late}");
            all.sort_by_key(|(key, _)| *key);
            assert_eq!(all, plain.clone().into_iter().collect::<Vec<_>>());
            let mut pages: Vec<_> = sums.pages().map(|page| page[0].0.page()).collect();
            pages.sort_unstable();
            assert!(pages.is_sorted_by(|a, b| a < b), "each page once");
        }
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
