//! Facts in the order of what they are about, for whoever asks for one part of a recording after the other: rows that
//! differ in nothing but time stand together, so that a filter looks at each such group once, and at the time bins of
//! those alone that it lets through.

use crate::model::tally::{Tally, Weighed, Weight};
use numalens_profile::ids::Bin;
use numalens_profile::tables::{ObjectAccess, PageAccess, SiteAccess};
use numalens_profile::{Error, Profile, Row};
use rayon::prelude::*;
use std::hint;
use std::ops::Range;

/// A row of accesses: who and what, when, how many.
pub trait Fact: Row {
    /// When.
    fn bin(&self) -> Bin;
    /// How many.
    fn counts(&self, weight: Weight) -> Weighed;
    /// What tells it from others, time and counts left out. What folds sum by comes first.
    fn key(&self) -> impl Ord;
    /// Of this, all is given to one part of a fold: its sums are complete there.
    fn whole(&self) -> impl Eq;
}

macro_rules! facts {
    ($($row:ident by $($field:ident),+; whole $($of:ident),+;)*) => {$(
        impl Fact for $row {
            #[inline]
            fn bin(&self) -> Bin {
                self.bin
            }

            #[inline]
            fn counts(&self, weight: Weight) -> Weighed {
                weight.weighed(self.reads, self.writes, self.samples, self.period)
            }

            #[inline]
            fn key(&self) -> impl Ord {
                ($(self.$field,)+)
            }

            #[inline]
            fn whole(&self) -> impl Eq {
                ($(self.$of,)+)
            }
        }
    )*};
}

facts! {
    SiteAccess by site, class, thread, node, home, process; whole site, class, thread;
    ObjectAccess by object, node, home, class, thread, site, process; whole object, node, home, class, thread;
    PageAccess by process, page, thread, node, home; whole page, process;
}

/// Accesses of one key over time, in order.
#[derive(Clone, Copy, Default)]
pub struct Times<'a> {
    bins: &'a [Bin],
    counts: &'a [Weighed],
}

impl<'a> Times<'a> {
    /// As many bins, in order, as counts.
    #[cfg(test)]
    pub fn new(bins: &'a [Bin], counts: &'a [Weighed]) -> Self {
        Times { bins, counts }
    }

    /// Those of one row.
    #[inline]
    pub fn once(bin: &'a Bin, counts: &'a Weighed) -> Self {
        Times { bins: std::slice::from_ref(bin), counts: std::slice::from_ref(counts) }
    }

    /// All of them.
    #[inline]
    pub fn sum(&self) -> Tally {
        match self.counts {
            [only] => only.tally(),
            counts => counts.iter().fold(Tally::default(), |mut sum, counts| {
                sum += counts.tally();
                sum
            }),
        }
    }

    /// Each alone, with its time.
    pub fn single(self) -> impl Iterator<Item = (Bin, Self)> {
        self.bins.iter().zip(self.counts).map(|(bin, counts)| (*bin, Times::once(bin, counts)))
    }

    /// When the first one was.
    #[inline]
    pub fn first(&self) -> Option<Bin> {
        self.bins.first().copied()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Those before a bin, and those from it on.
    pub fn split(self, at: Bin) -> [Self; 2] {
        let end = self.bins.partition_point(|bin| *bin < at);
        let ((bins, later), (counts, more)) = (self.bins.split_at(end), self.counts.split_at(end));
        [Times { bins, counts }, Times { bins: later, counts: more }]
    }

    /// One after the other.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Bin, Tally)> + use<'a> {
        self.bins.iter().copied().zip(self.counts.iter().map(Weighed::tally))
    }

    /// Something of the first and of the last one: most have no more cache lines than these.
    #[inline]
    fn ends(&self) -> u64 {
        self.counts.first().map_or(0, Weighed::any) | self.counts.last().map_or(0, Weighed::any)
    }

    /// Those from one bin to another, both included.
    fn within(self, (from, to): (Bin, Bin)) -> Self {
        if from.0 == 0 && to.0 == u32::MAX {
            return self;
        }
        if let [only] = self.bins {
            return if (from..=to).contains(only) { self } else { Times::default() };
        }
        let start = self.bins.partition_point(|bin| *bin < from);
        let end = start + self.bins[start..].partition_point(|bin| *bin <= to);
        Times { bins: &self.bins[start..end], counts: &self.counts[start..end] }
    }
}

/// A table of accesses, by key and then by time.
pub struct Sorted<T> {
    /// Of each key a row, whose time and counts mean nothing.
    keys: Vec<T>,
    /// Where the accesses of each key begin; and where the last ones end.
    starts: Vec<usize>,
    bins: Vec<Bin>,
    counts: Vec<Weighed>,
}

/// Parts of a fold for each thread: keys that a filter lets through may stand together.
const PARTS_A_THREAD: usize = 8;
/// Keys whose counts are fetched at once: their lines are to stay in the nearest cache until they are summed.
const BLOCK: usize = 64;

impl<T: Fact> Sorted<T> {
    /// Of rows in any order.
    pub fn new(mut rows: Vec<T>, weight: Weight) -> Self {
        rows.par_sort_unstable_by(|a, b| a.key().cmp(&b.key()).then_with(|| a.bin().cmp(&b.bin())));
        let bins = rows.par_iter().map(Fact::bin).collect();
        let counts = rows.par_iter().map(|row| row.counts(weight)).collect();
        let mut starts = Vec::new();
        let mut at = 0;
        for group in rows.chunk_by(|a, b| a.key() == b.key()) {
            starts.push(at);
            at += group.len();
        }
        let mut keys: Vec<T> = rows;
        keys.dedup_by(|a, b| a.key() == b.key());
        keys.shrink_to_fit();
        starts.push(at);
        Sorted { keys, starts, bins, counts }
    }

    fn times(&self, range: Range<usize>) -> Times<'_> {
        Times { bins: &self.bins[range.clone()], counts: &self.counts[range] }
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        let keys = size_of_val(&*self.keys) + size_of_val(&*self.starts);
        keys + size_of_val(&*self.bins) + size_of_val(&*self.counts)
    }

    /// Folds over the keys that are `wanted`, each with its accesses in a span of bins. As [`Profile::fold`] otherwise.
    pub fn fold<A: Send>(
        &self,
        span: (Bin, Bin),
        wanted: impl Fn(&T) -> bool + Sync,
        init: impl Fn() -> A + Sync,
        step: impl Fn(&mut A, &T, Times<'_>) + Sync,
        merge: impl Fn(A, A) -> A + Sync,
    ) -> A {
        let part = self.keys.len().div_ceil(PARTS_A_THREAD * rayon::current_num_threads()).max(1 << 12);
        let end_of = |at: usize| match self.keys.get(at) {
            Some(next) => at + self.keys[at..].iter().take_while(|key| key.whole() == next.whole()).count(),
            None => self.keys.len(),
        };
        let ends = std::iter::successors(Some(0), |from| (*from < self.keys.len()).then(|| end_of(from + part)));
        let ends: Vec<usize> = ends.collect();
        let parts: Vec<Range<usize>> = ends.windows(2).map(|ends| ends[0]..ends[1]).collect();
        let each = |mut accumulator: A, keys: Range<usize>| {
            let mut found: Vec<(&T, Times<'_>)> = Vec::with_capacity(BLOCK);
            for from in keys.clone().step_by(BLOCK) {
                let block = from..keys.end.min(from + BLOCK);
                let ends = self.starts[block.start..=block.end].windows(2);
                found.clear();
                found.extend(self.keys[block].iter().zip(ends).filter_map(|(key, ends)| {
                    // Times first: they are small, and a short span has few keys whose row need be read.
                    let times = self.times(ends[0]..ends[1]).within(span);
                    (!times.is_empty() && wanted(key)).then_some((key, times))
                }));
                // Counts are far apart. Asked for one behind the other they come at once; else each would be waited for
                // when it is summed.
                hint::black_box(found.iter().fold(0, |all, (_, times)| all | times.ends()));
                for (key, times) in &found {
                    step(&mut accumulator, key, *times);
                }
            }
            accumulator
        };
        match parts.len() {
            0 | 1 => parts.into_iter().fold(init(), each),
            // An accumulator for each thread and not for each part, as far as may be: merging costs too.
            _ => parts.into_par_iter().fold(&init, each).reduce_with(&merge).unwrap_or_else(&init),
        }
    }
}

/// The tables of accesses that are kept.
#[derive(Default)]
pub struct Kept {
    pub sites: Option<Sorted<SiteAccess>>,
    pub objects: Option<Sorted<ObjectAccess>>,
    pub pages: Option<Sorted<PageAccess>>,
}

/// Where a table stands in [`Kept`].
pub trait Keep: Fact {
    /// Its place; none: it is not kept.
    fn kept(kept: &Kept) -> Option<&Sorted<Self>>;
}

macro_rules! keep {
    ($($row:ident in $place:ident;)*) => {$(
        impl Keep for $row {
            fn kept(kept: &Kept) -> Option<&Sorted<Self>> {
                kept.$place.as_ref()
            }
        }
    )*};
}

keep! {
    SiteAccess in sites;
    ObjectAccess in objects;
    PageAccess in pages;
}

impl Kept {
    /// Reads the tables that take no more than `most` bytes together, those first that most filters walk over. The
    /// answer has what they take.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn read(profile: &Profile, weight: Weight, most: usize) -> Result<(Kept, usize), Error> {
        let mut taken = 0;
        let kept = Kept {
            sites: sorted(profile, weight, most, &mut taken)?,
            pages: sorted(profile, weight, most, &mut taken)?,
            objects: sorted(profile, weight, most, &mut taken)?,
        };
        Ok((kept, taken))
    }
}

fn sorted<T: Fact>(
    profile: &Profile,
    weight: Weight,
    most: usize,
    taken: &mut usize,
) -> Result<Option<Sorted<T>>, Error> {
    let rows = usize::try_from(profile.count::<T>()?).unwrap_or(usize::MAX);
    // Rows beside what is made of them are there for a moment only; how many keys they have shows when they are sorted.
    if rows.saturating_mul(size_of::<T>()) > most - *taken {
        return Ok(None);
    }
    let sorted = Sorted::new(profile.rows::<T>()?, weight);
    let fits = sorted.bytes() <= most - *taken;
    *taken += if fits { sorted.bytes() } else { 0 };
    Ok(fits.then_some(sorted))
}
