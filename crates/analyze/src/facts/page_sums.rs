//! Sums by keys that name a page. There are millions, and whoever reads the sums has those of one page side by side.
//!
//! ```text
//!   facts in the order of pages      page 17 | page 18 | page 19 ...    summed a page at a time, where they stand
//!   (those that are kept; a table
//!   that was written so)
//!   facts in any order               neighbourhoods of pages, sorted apart from each other, so that what is sorted
//!   (older tables)                   fits in a cache
//! ```
//!
//! What begins as the first becomes the second with the first fact that is late. Either way sums stand packed
//! ([`Packed`]), and are rows a page at a time, while somebody looks at them.

use crate::facts::packed::{Packable, Packed};
use crate::facts::sorted_sums::{Entries, add_equals};
use crate::model::tally::Tally;
use numalens_profile::ids::{Page, ProcessId};
use rayon::prelude::*;
use std::cmp::Ordering;

/// A key whose order begins with process and page.
pub trait OfPage: Packable + Ord + Send + Sync {
    /// The page, and whose address space it is of.
    fn page(&self) -> (Page, ProcessId);
}

fn place<K: OfPage>(key: &K) -> (ProcessId, Page) {
    let (page, process) = key.page();
    (process, page)
}

/// The sums: each key once, those of one page side by side and in order. So are those of a neighbourhood, page after
/// page.
#[derive(Clone, PartialEq, Debug)]
pub struct PageSums<K> {
    parts: Vec<Packed<K>>,
}

/// Sums in the making.
pub struct Adding<K>(Way<K>);

enum Way<K> {
    InOrder(Stretches<K>),
    Scattered(Vec<Part<K>>),
}

/// Neighbourhoods of 2^9 pages go to 2^8 parts: few enough that the ends of all parts stay in the cache, as many that
/// one is sorted in it. None is larger than what analyses take together.
pub const NEIGHBOURS: u32 = 9;
const PARTS: u32 = 8;

impl<K> Default for PageSums<K> {
    fn default() -> Self {
        PageSums { parts: Vec::new() }
    }
}

impl<K: OfPage> PageSums<K> {
    /// Every key and its sum.
    pub fn iter(&self) -> impl Iterator<Item = (K, Tally)> {
        self.parts.iter().flat_map(Packed::iter)
    }

    /// Gives the sums of one page after the other to `each`.
    pub fn each_page(&self, mut each: impl FnMut(&[(K, Tally)])) {
        let mut of_page = Vec::new();
        self.parts.iter().for_each(|part| pages_of(part, &mut of_page, &mut each));
    }

    /// The same on all processors: `step` adds those of a page to an accumulator that `init` makes, `merge` joins two.
    pub fn fold_pages<A: Send>(
        &self,
        init: impl Fn() -> A + Sync,
        step: impl Fn(&mut A, &[(K, Tally)]) + Sync,
        merge: impl Fn(A, A) -> A,
    ) -> A {
        let several = self.parts.len().div_ceil(2 * rayon::current_num_threads()).max(1);
        let each = |parts: &[Packed<K>]| {
            let (mut accumulator, mut of_page) = (init(), Vec::new());
            parts.iter().for_each(|part| pages_of(part, &mut of_page, |page| step(&mut accumulator, page)));
            accumulator
        };
        // Merged in order, so that equal profiles give equal answers.
        let folded: Vec<A> = self.parts.par_chunks(several).map(each).collect();
        folded.into_iter().reduce(merge).unwrap_or_else(init)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Packed::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Packed::is_empty)
    }

    /// With keys that tell less apart, but nothing of another page.
    pub fn by<L: OfPage>(&self, key: impl Fn(&K) -> L + Sync) -> PageSums<L> {
        let part = |entries: &Packed<K>| {
            let (mut sums, mut of_page) = (Packed::default(), Entries::new());
            pages_of(entries, &mut Vec::new(), |page| {
                of_page.clear();
                of_page.extend(page.iter().map(|(of, tally)| (key(of), *tally)));
                settle(&mut of_page);
                push_all(&mut sums, &of_page);
            });
            sums
        };
        PageSums { parts: self.parts.par_iter().map(part).collect() }
    }
}

/// Gives the sums of one page after the other to `each`; `of_page` has them for so long.
fn pages_of<K: OfPage>(part: &Packed<K>, of_page: &mut Entries<K>, mut each: impl FnMut(&[(K, Tally)])) {
    of_page.clear();
    for entry in part.iter() {
        if of_page.first().is_some_and(|(first, _)| first.page() != entry.0.page()) {
            each(of_page);
            of_page.clear();
        }
        of_page.push(entry);
    }
    if !of_page.is_empty() {
        each(of_page);
    }
}

fn push_all<K: OfPage>(to: &mut Packed<K>, entries: &Entries<K>) {
    entries.iter().for_each(|(key, tally)| to.push(key, tally));
}

/// Brings entries in order, each key once.
fn settle<K: OfPage>(entries: &mut Entries<K>) {
    if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
        // The stable sort takes what is in order as it is.
        entries.sort_by_key(|(key, _)| *key);
        add_equals(entries);
    }
}

/// Most pages have no more users, which take turns over time: their sums are looked for among so many before they are
/// sorted.
const USERS: usize = 4;

/// Facts in the order of pages.
struct Stretches<K> {
    done: Vec<Stretch<K>>,
    latest: Stretch<K>,
}

/// Pages in order. The first and the last one may be of the neighbours as well: what was read side by side was cut
/// anywhere.
struct Stretch<K> {
    first: Entries<K>,
    between: Packed<K>,
    /// As they came.
    last: Entries<K>,
}

impl<K> Default for Stretches<K> {
    fn default() -> Self {
        Stretches { done: Vec::new(), latest: Stretch::default() }
    }
}

impl<K> Default for Stretch<K> {
    fn default() -> Self {
        Stretch { first: Vec::new(), between: Packed::default(), last: Vec::new() }
    }
}

impl<K: OfPage> Stretch<K> {
    /// Adds to the sum of a key. Not, where there are later pages.
    #[inline]
    fn add(&mut self, key: K, tally: Tally) -> bool {
        if let Some((last, _)) = self.last.last() {
            match place(&key).cmp(&place(last)) {
                Ordering::Greater => self.end_page(),
                Ordering::Less => return false,
                Ordering::Equal => {
                    if let Some((_, sum)) = self.last.iter_mut().rev().take(USERS).find(|(of, _)| *of == key) {
                        *sum += tally;
                        return true;
                    }
                }
            }
        }
        self.last.push((key, tally));
        true
    }

    #[inline]
    fn end_page(&mut self) {
        settle(&mut self.last);
        if self.first.is_empty() {
            self.first = std::mem::take(&mut self.last);
        } else {
            push_all(&mut self.between, &self.last);
            self.last.clear();
        }
    }

    /// With a first page, unless it is empty.
    fn ended(mut self) -> Self {
        settle(&mut self.last);
        if self.first.is_empty() {
            self.first = std::mem::take(&mut self.last);
        }
        self
    }

    /// The first page and the last one.
    fn ends(&self) -> Option<((ProcessId, Page), (ProcessId, Page))> {
        let first = place(&self.first.first()?.0);
        Some((first, self.last.first().map_or(first, |(key, _)| place(key))))
    }

    fn entries(self) -> impl Iterator<Item = (K, Tally)> {
        let between: Vec<_> = vec![self.between];
        let between = between.into_iter().flat_map(|packed| packed.iter().collect::<Vec<_>>());
        self.first.into_iter().chain(between).chain(self.last)
    }
}

impl<K: OfPage> Stretches<K> {
    fn merge(mut self, other: Self) -> Self {
        self.done.push(self.latest);
        self.done.extend(other.done);
        Stretches { done: self.done, latest: other.latest }
    }

    /// All of them, by their first pages.
    fn finish(mut self) -> Vec<Stretch<K>> {
        self.done.push(self.latest);
        let mut all: Vec<Stretch<K>> =
            self.done.into_iter().map(Stretch::ended).filter(|stretch| !stretch.first.is_empty()).collect();
        all.sort_by_key(Stretch::ends);
        all
    }
}

/// Whether no stretch has pages of another, but for the one at which they were cut.
fn are_apart<K: OfPage>(stretches: &[Stretch<K>]) -> bool {
    stretches.windows(2).all(|pair| match (pair[0].ends(), pair[1].ends()) {
        (Some((_, last)), Some((first, _))) => last <= first,
        _ => true,
    })
}

/// Puts together what was cut. The stretches are apart.
fn joined<K: OfPage>(stretches: Vec<Stretch<K>>) -> PageSums<K> {
    let mut parts: Vec<Packed<K>> = Vec::new();
    let mut cut: Entries<K> = Vec::new();
    for Stretch { first, between, last } in stretches {
        let is_same_page =
            cut.first().is_none_or(|(key, _)| first.first().is_some_and(|(of, _)| key.page() == of.page()));
        if !is_same_page {
            end_part(&mut parts, &mut cut);
        }
        cut.extend(first);
        settle(&mut cut);
        if last.is_empty() {
            continue;
        }
        end_part(&mut parts, &mut cut);
        parts.push(between);
        cut = last;
    }
    end_part(&mut parts, &mut cut);
    PageSums { parts }
}

/// Adds a whole page behind the last part.
fn end_part<K: OfPage>(parts: &mut Vec<Packed<K>>, page: &mut Entries<K>) {
    match parts.last_mut() {
        Some(part) => push_all(part, page),
        None => parts.push(Packed::new(page)),
    }
    page.clear();
}

/// Facts of some neighbourhoods.
struct Part<K> {
    /// As they came.
    recent: Entries<K>,
    /// Those before, in order: of each level less than [`TOGETHER`], each about as many times as large as those of the
    /// level before.
    levels: Vec<Vec<Packed<K>>>,
}

/// Facts that are sorted at a time.
const RECENT: usize = 512;
/// Of what is in order so much is sorted together. All that is there is sorted as often as that fits into it, so to
/// say: three times for a hundred million facts.
const TOGETHER: usize = 8;

impl<K> Default for Part<K> {
    fn default() -> Self {
        Part { recent: Vec::new(), levels: Vec::new() }
    }
}

impl<K: OfPage> Part<K> {
    #[inline]
    fn add(&mut self, key: K, tally: Tally) {
        match self.recent.last_mut() {
            Some((last, sum)) if *last == key => *sum += tally,
            _ => {
                if self.recent.len() >= RECENT {
                    self.settle();
                }
                self.recent.push((key, tally));
            }
        }
    }

    fn settle(&mut self) {
        settle(&mut self.recent);
        let mut packed = Packed::new(&self.recent);
        self.recent.clear();
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(packed);
            if self.levels[level].len() < TOGETHER {
                break;
            }
            packed = sorted(std::mem::take(&mut self.levels[level]));
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.levels.extend(other.levels);
        self.levels.push(vec![Packed::new(&{
            let mut recent = other.recent;
            settle(&mut recent);
            recent
        })]);
        self
    }

    fn finish(mut self) -> Packed<K> {
        settle(&mut self.recent);
        self.levels.push(vec![Packed::new(&self.recent)]);
        sorted(self.levels.into_iter().flatten().collect())
    }
}

/// All of them in order, each key once.
fn sorted<K: OfPage>(runs: Vec<Packed<K>>) -> Packed<K> {
    let mut entries = Entries::with_capacity(runs.iter().map(Packed::len).sum());
    for run in runs {
        entries.extend(run.iter());
    }
    settle(&mut entries);
    Packed::new(&entries)
}

fn scattered<K: OfPage>(stretches: Vec<Stretch<K>>) -> Vec<Part<K>> {
    let mut parts = Vec::from_iter(std::iter::repeat_with(Part::default).take(1 << PARTS));
    for (key, tally) in stretches.into_iter().flat_map(Stretch::entries) {
        scatter(&mut parts, key, tally);
    }
    parts
}

#[inline]
fn scatter<K: OfPage>(parts: &mut [Part<K>], key: K, tally: Tally) {
    let (page, process) = key.page();
    let neighbourhood = (page.0 >> NEIGHBOURS) ^ u64::from(process.0) << 43;
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
                if !stretches.latest.add(key, tally) {
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
                    return joined(stretches);
                }
                scattered(stretches)
            }
            Way::Scattered(parts) => parts,
        };
        PageSums { parts: parts.into_par_iter().map(Part::finish).collect() }
    }
}

impl<K: OfPage> Way<K> {
    fn scattered(self) -> Vec<Part<K>> {
        match self {
            Way::InOrder(stretches) => scattered(stretches.finish()),
            Way::Scattered(parts) => parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::packed::Parts;
    use numalens_profile::ids::ThreadId;
    use rustc_hash::FxHashMap;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    struct Key(ProcessId, Page, u32);

    impl Packable for Key {
        fn parts(&self) -> Parts {
            Parts { process: self.0, page: self.1, thread: ThreadId(self.2), ..Parts::default() }
        }

        fn of(parts: &Parts) -> Self {
            Key(parts.process, parts.page, parts.thread.0)
        }
    }

    impl OfPage for Key {
        fn page(&self) -> (Page, ProcessId) {
            (self.1, self.0)
        }
    }

    /// The pages in the order of the sums; those of each are in order.
    fn pages(sums: &PageSums<Key>) -> Vec<(Page, ProcessId)> {
        let mut pages = Vec::new();
        sums.each_page(|page| {
            assert!(page.is_sorted_by(|(a, _), (b, _)| a < b));
            pages.push(page[0].0.page());
        });
        let folded =
            sums.fold_pages(Vec::new, |all, page| all.push(page[0].0.page()), |one, other| [one, other].concat());
        assert_eq!(folded, pages);
        pages
    }

    fn scattered(n: u64) -> impl Iterator<Item = (Key, Tally)> {
        (0..n).map(|i| {
            let noise = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let key = Key(ProcessId((noise >> 30) as u32 % 2), Page(noise % 3000 / (1 + i % 2)), (i % 3) as u32);
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
        assert!(sums.iter().all(|(key, tally)| plain[&key] == tally));
        let mut pages = pages(&sums);
        let number = pages.len();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), number, "each page once");
    }

    #[test]
    fn what_comes_in_the_order_of_pages_stays_where_it_is() {
        let mut facts: Vec<_> = scattered(20_000).collect();
        // Of one page in any order, as the same thread is on several nodes.
        facts.sort_by_key(|(key, _)| place(key));
        let mut plain: BTreeMap<Key, Tally> = BTreeMap::new();
        facts.iter().for_each(|(key, tally)| *plain.entry(*key).or_default() += *tally);
        let ends = facts.partition_point(|(key, _)| place(key) < place(&facts[12_000].0));
        // Cut between pages or in the midst of one, all in order; with late ones, not.
        for (cut, late, in_order) in [(ends, 0, true), (ends + 1, 0, true), (1, 0, true), (ends, 3, false)] {
            let mut sums = [Adding::default(), Adding::default()];
            let (before, behind) = facts.split_at(cut);
            behind.iter().for_each(|(key, tally)| sums[0].add(*key, *tally));
            before[late..].iter().chain(&before[..late]).for_each(|(key, tally)| sums[1].add(*key, *tally));
            let [one, other] = sums;
            let sums = one.merge(other).finish();
            let mut all: Vec<_> = sums.iter().collect();
            assert_eq!(all.is_sorted_by(|(a, _), (b, _)| a < b), in_order, "{cut} {late}");
            all.sort_by_key(|(key, _)| *key);
            assert_eq!(all, plain.clone().into_iter().collect::<Vec<_>>());
            let mut pages = pages(&sums);
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
        let mut coarse: Vec<_> = sums.finish().by(|key| Key(key.0, key.1, 0)).iter().collect();
        coarse.sort_unstable_by_key(|(key, _)| *key);
        assert_eq!(coarse, plain.into_iter().collect::<Vec<_>>());
    }
}
