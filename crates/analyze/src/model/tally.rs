//! Sums of accesses: reads, writes and the samples behind them, and what bounds them.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::ops::AddAssign;

/// No program makes as many accesses, but a forged profile may say so. Sums stop here instead of going round, and there
/// is room to add two of them or to multiply one by a small number.
pub const MOST: u64 = 1 << 56;

/// The sum of two counts.
pub fn sum(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MOST)
}

/// Adds to a count.
pub fn add(to: &mut u64, more: u64) {
    *to = sum(*to, more);
}

/// The sum of counts.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, sum)
}

/// Reads, writes and the samples behind them. Packed, for there are millions: the widest field would have all of them
/// stand 16 bytes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, packed(8))]
pub struct Tally {
    pub reads: u64,
    pub writes: u64,
    /// 0: exact counts.
    pub samples: u64,
    /// Those of the accesses that samples stand behind; the others are exact.
    pub estimated: u64,
    /// Sum of the squares of what samples stand for: how unequal they are.
    pub squares: u128,
}

impl Tally {
    /// Reads and writes.
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Samples, or exact accesses: what a share's certainty rests on.
    pub fn basis(&self) -> u64 {
        if self.samples > 0 { self.samples } else { self.accesses() }
    }

    /// The part with this number of so many that are as equal as whole numbers can be; all of them are the whole.
    pub fn part(&self, number: u64, of: u64) -> Tally {
        let part = |n: u128| {
            let until = |number: u64| {
                n / u128::from(of) * u128::from(number) + n % u128::from(of) * u128::from(number) / u128::from(of)
            };
            until(number + 1) - until(number)
        };
        let small = |n: u64| u64::try_from(part(u128::from(n))).unwrap_or(u64::MAX);
        Tally {
            reads: small(self.reads),
            writes: small(self.writes),
            samples: small(self.samples),
            estimated: small(self.estimated),
            squares: part(self.squares),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.reads = sum(self.reads, other.reads);
        self.writes = sum(self.writes, other.writes);
        self.samples = sum(self.samples, other.samples);
        self.estimated = sum(self.estimated, other.estimated);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// What one counted sample adds to a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Exact counts, and samples of a clock: the count itself.
    One,
    /// Samples of events: the period, so that the sum estimates the events.
    Period,
}

impl Weight {
    /// Counts of a row, each sample as what it stands for.
    pub fn weighed(self, reads: u64, writes: u64, samples: u32, period: u64) -> Weighed {
        let weight = match self {
            Weight::One => 1,
            Weight::Period => period.max(1),
        };
        let weighed = |count: u64| count.saturating_mul(weight).min(MOST);
        Weighed { reads: weighed(reads), writes: weighed(writes), samples }
    }

    /// The same as a sum takes them.
    pub fn tally(self, reads: u64, writes: u64, samples: u32, period: u64) -> Tally {
        self.weighed(reads, writes, samples, period).tally()
    }
}

/// Counts of one row: what its tally follows from, in less than half of the room. There are millions.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    reads: u64,
    writes: u64,
    samples: u32,
}

impl Weighed {
    /// Some of it, to have it at hand.
    #[inline]
    pub fn any(&self) -> u64 {
        self.reads
    }

    /// As a sum takes them.
    #[inline]
    pub fn tally(&self) -> Tally {
        let Weighed { reads, writes, samples } = *self;
        if samples == 0 {
            return Tally { reads, writes, ..Tally::default() };
        }
        let estimated = reads + writes;
        let squares = u128::from(estimated) * u128::from(estimated) / u128::from(samples);
        Tally { reads, writes, samples: u64::from(samples), estimated, squares }
    }
}

/// Sums by key.
pub type Sums<K> = FxHashMap<K, Tally>;

/// Both together.
pub fn merge<K: Eq + Hash>(mut into: Sums<K>, mut from: Sums<K>) -> Sums<K> {
    if into.len() < from.len() {
        std::mem::swap(&mut into, &mut from);
    }
    for (key, tally) in from {
        *into.entry(key).or_default() += tally;
    }
    into
}

/// One row of a projection after the other.
pub type Rows<'a, K> = Box<dyn Iterator<Item = (K, Tally)> + 'a>;

/// What is uncertain of accesses to objects of an exact recording: sums of [`ObjectBound`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bound {
    pub divided: u64,
    pub squares: f64,
    pub untold: u64,
    pub skewed: u64,
}

impl AddAssign for Bound {
    fn add_assign(&mut self, other: Self) {
        self.divided = self.divided.saturating_add(other.divided).min(MOST);
        self.squares += other.squares;
        self.untold = self.untold.saturating_add(other.untold).min(MOST);
        self.skewed = self.skewed.saturating_add(other.skewed).min(MOST);
    }
}
