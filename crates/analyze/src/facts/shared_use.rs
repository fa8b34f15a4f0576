//! What is done to a target's memory from the bin on in which somebody uses it who did not make it.
//!
//! That bin is known when all facts are read, and they come in any order of time. But it can only become earlier: what
//! is not before it is one sum already, and bins are told apart before it alone.
//!
//! ```text
//!   bins      0   1   2   3 | 4   5   6 ...
//!   maker     8   0   5   1 | 2   7   1        before 4: each bin's sum; from 4 on: one for all
//!   others    -   -   -   - | 3   9   0        others in bin 2, found later: the sums of 2 and 3 go to the one
//! ```
//!
//! In that first bin nobody knows which of the maker's accesses came before the others' (2 of the picture): they are
//! kept apart, as *opening*.

use crate::facts::placement_targets::TargetId;
use crate::facts::sorted::Times;
use crate::model::tally::Tally;
use numalens_profile::ids::Bin;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A target's sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shared {
    /// By others.
    pub others: Tally,
    /// By its maker: before the bin in which others begin, in it, and since.
    pub before: Tally,
    pub opening: Tally,
    pub own: Tally,
}

/// By target. Merged by addition, in any order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SharedUse {
    /// In the order of [`TargetId`]s, as far as any was added.
    targets: Vec<Use>,
}

/// One target's.
#[derive(Clone, PartialEq, Debug, Default)]
struct Use {
    /// The first bin in which others use it; none: nobody else does.
    begin: Option<Bin>,
    /// All but what is before.
    sums: Shared,
    /// By its maker, before.
    before: BTreeMap<Bin, Tally>,
}

impl SharedUse {
    /// Adds accesses from one node, whose sum is known.
    #[inline]
    pub fn add(&mut self, target: TargetId, by_others: bool, times: Times<'_>, sum: Tally) {
        let at = target.0 as usize;
        if self.targets.len() <= at {
            self.targets.resize(at + 1, Use::default());
        }
        self.targets[at].add(by_others, times, sum);
    }

    /// Both together.
    pub fn merge(mut self, mut other: Self) -> Self {
        if self.targets.len() < other.targets.len() {
            std::mem::swap(&mut self, &mut other);
        }
        self.targets.iter_mut().zip(other.targets).for_each(|(one, other)| one.merge(other));
        self
    }

    /// The sum of each target, in the order of [`TargetId`]s, as far as any was added.
    pub fn finish(self) -> Vec<Shared> {
        self.targets.into_iter().map(Use::finish).collect()
    }
}

impl Use {
    #[inline]
    fn add(&mut self, by_others: bool, times: Times<'_>, sum: Tally) {
        let Some(first) = times.first() else { return };
        if by_others {
            self.begins(first);
        }
        if by_others {
            self.sums.others += sum;
            return;
        }
        if self.begin.is_some_and(|begin| begin < first) {
            self.sums.own += sum;
            return;
        }
        for (bin, tally) in times.iter() {
            self.add_own(bin, tally);
        }
    }

    /// Adds what its maker does in a bin.
    fn add_own(&mut self, bin: Bin, tally: Tally) {
        match self.begin.map(|begin| bin.cmp(&begin)) {
            None | Some(Ordering::Less) => *self.before.entry(bin).or_default() += tally,
            Some(Ordering::Equal) => self.sums.opening += tally,
            Some(Ordering::Greater) => self.sums.own += tally,
        }
    }

    /// The sums.
    fn finish(self) -> Shared {
        let before = self.before.into_values().fold(Tally::default(), |mut sum, tally| {
            sum += tally;
            sum
        });
        Shared { before, ..self.sums }
    }

    /// Others use it in a bin.
    #[inline]
    fn begins(&mut self, bin: Bin) {
        if self.begin.is_none_or(|begin| bin < begin) {
            self.begin = Some(bin);
            self.sums.own += std::mem::take(&mut self.sums.opening);
            let own = self.before.split_off(&bin);
            own.into_iter().for_each(|(bin, tally)| self.add_own(bin, tally));
        }
    }

    fn merge(&mut self, other: Use) {
        if let Some(bin) = other.begin {
            self.begins(bin);
        }
        self.sums.others += other.sums.others;
        self.sums.own += other.sums.own;
        if let Some(bin) = other.begin {
            self.add_own(bin, other.sums.opening);
        }
        other.before.into_iter().for_each(|(bin, tally)| self.add_own(bin, tally));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tally::Weight;

    /// Accesses of the maker and of others, a target, bins from one on, each with a count.
    const FACTS: [(u32, bool, u32, &[u64]); 8] = [
        (0, false, 3, &[1, 2, 4]),
        (1, false, 0, &[5, 5, 5, 5]),
        (0, true, 9, &[7]),
        (0, false, 0, &[100, 0, 20, 3, 6, 8, 11, 13, 17, 19, 23]),
        (0, true, 4, &[31, 37, 41]),
        (2, true, 2, &[1, 1]),
        (0, false, 4, &[43]),
        (0, true, 5, &[47, 53]),
    ];

    fn added<'a>(facts: impl Iterator<Item = &'a (u32, bool, u32, &'a [u64])>) -> SharedUse {
        facts.fold(SharedUse::default(), |mut shared, (target, by_others, from, counts)| {
            let bins: Vec<Bin> = (*from..).take(counts.len()).map(Bin).collect();
            let counts: Vec<_> = counts.iter().map(|n| Weight::One.weighed(*n, n / 2, 0, 0)).collect();
            let times = Times::new(&bins, &counts);
            shared.add(TargetId(*target), *by_others, times, times.sum());
            shared
        })
    }

    #[test]
    fn what_is_done_since_others_use_it_is_summed_in_any_order() {
        // Others begin in bin 4 with target 0, never with 1, in bin 2 with 2.
        let begins = [Some(4), None, Some(2)];
        let mut expected = [Shared::default(); 3];
        for (target, by_others, from, counts) in FACTS {
            let sums = &mut expected[target as usize];
            for (bin, n) in (from..).zip(counts) {
                let tally = Tally { reads: *n, writes: n / 2, ..Tally::default() };
                match begins[target as usize].map(|begin| bin.cmp(&begin)) {
                    _ if by_others => sums.others += tally,
                    Some(Ordering::Equal) => sums.opening += tally,
                    Some(Ordering::Greater) => sums.own += tally,
                    _ => sums.before += tally,
                }
            }
        }
        for turn in 0..FACTS.len() {
            let (behind, before) = FACTS.split_at(turn);
            let whole = added(before.iter().chain(behind));
            assert_eq!(whole.clone().finish(), expected, "from {turn} on");
            assert_eq!(added(before.iter().rev().chain(behind)), whole);
            assert_eq!(
                added(before.iter()).merge(added(behind.iter())).finish(),
                expected,
                "in two parts, cut at {turn}"
            );
        }
    }
}
