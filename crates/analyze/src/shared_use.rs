//! What is done to a subject's memory from the bin on in which somebody uses it who did not make it.
//!
//! That bin is known when all facts are read, and they come in any order of time. But it can only become earlier: what is not before it is one sum
//! already, and bins are told apart before it alone.
//!
//! ```text
//!   bins      0   1   2   3 | 4   5   6 ...
//!   maker     8   0   5   1 | 2   7   1        before 4: each bin's sum; from 4 on: one for all
//!   others    -   -   -   - | 3   9   0        others in bin 2, found later: the sums of 2 and 3 go to the one
//! ```

use crate::counts::Tally;
use crate::sorted::Times;
use crate::subjects::SubjectId;
use numalens_profile::ids::Bin;
use std::collections::BTreeMap;

/// By subject. Merged by addition, in any order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SharedUse {
    /// In the order of [`SubjectId`]s, as far as any was added.
    subjects: Vec<Use>,
}

/// One subject's.
#[derive(Clone, PartialEq, Debug, Default)]
struct Use {
    /// The first bin in which others use it; none: nobody else does.
    begin: Option<Bin>,
    /// From that on.
    since: Tally,
    /// By its maker, before.
    before: BTreeMap<Bin, Tally>,
}

impl SharedUse {
    /// Adds accesses from one node, whose sum is known.
    #[inline]
    pub fn add(&mut self, subject: SubjectId, by_others: bool, times: Times<'_>, sum: Tally) {
        let at = subject.0 as usize;
        if self.subjects.len() <= at {
            self.subjects.resize(at + 1, Use::default());
        }
        self.subjects[at].add(by_others, times, sum);
    }

    /// Both together.
    pub fn merge(mut self, mut other: Self) -> Self {
        if self.subjects.len() < other.subjects.len() {
            std::mem::swap(&mut self, &mut other);
        }
        self.subjects.iter_mut().zip(other.subjects).for_each(|(one, other)| one.merge(other));
        self
    }

    /// The sum of each subject, in the order of [`SubjectId`]s, as far as any was added.
    pub fn finish(self) -> Vec<Tally> {
        self.subjects.into_iter().map(|one| one.since).collect()
    }
}

impl Use {
    #[inline]
    fn add(&mut self, by_others: bool, times: Times<'_>, sum: Tally) {
        let Some(first) = times.first() else { return };
        if by_others {
            self.begins(first);
        }
        if self.begin.is_some_and(|begin| begin <= first) {
            self.since += sum;
            return;
        }
        let [before, since] = self.begin.map_or([times, Times::default()], |begin| times.split(begin));
        for (bin, tally) in before.iter() {
            *self.before.entry(bin).or_default() += tally;
        }
        self.since += since.sum();
    }

    /// Others use it in a bin.
    #[inline]
    fn begins(&mut self, bin: Bin) {
        if self.begin.is_none_or(|begin| bin < begin) {
            self.begin = Some(bin);
            self.before.split_off(&bin).into_values().for_each(|tally| self.since += tally);
        }
    }

    fn merge(&mut self, other: Use) {
        if let Some(bin) = other.begin {
            self.begins(bin);
        }
        self.since += other.since;
        for (bin, tally) in other.before {
            match self.begin {
                Some(begin) if begin <= bin => self.since += tally,
                _ => *self.before.entry(bin).or_default() += tally,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Weight;

    /// Accesses of the maker and of others, a subject, bins from one on, each with a count.
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
        facts.fold(SharedUse::default(), |mut shared, (subject, by_others, from, counts)| {
            let bins: Vec<Bin> = (*from..).take(counts.len()).map(Bin).collect();
            let counts: Vec<_> = counts.iter().map(|n| Weight::One.weighed(*n, n / 2, 0, 0)).collect();
            let times = Times::new(&bins, &counts);
            shared.add(SubjectId(*subject), *by_others, times, times.sum());
            shared
        })
    }

    #[test]
    fn what_is_done_since_others_use_it_is_summed_in_any_order() {
        // Others begin in bin 4 with subject 0, never with 1, in bin 2 with 2.
        let begins = [Some(4), None, Some(2)];
        let mut expected = [Tally::default(); 3];
        for (subject, _, from, counts) in FACTS {
            for (bin, n) in (from..).zip(counts) {
                if begins[subject as usize].is_some_and(|begin| begin <= bin) {
                    expected[subject as usize] += Tally { reads: *n, writes: n / 2, ..Tally::default() };
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
