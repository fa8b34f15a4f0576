//! How nodes share a target's pages, summed page by page: of pages that are used twice nothing need be kept.
//!
//! Where too few are, neighbouring pages stand for one ([`sharing::of_neighbours`]). That takes all of them: they are
//! kept until enough are used twice.

use crate::model::sharing::{self, Sharing, Use};
use rustc_hash::FxHashMap;

/// Accesses that make a share certain to some percent.
const ENOUGH: f64 = 400.0;
/// Parts of an access that are told apart: sums of whole numbers are the same in any order.
const FINE: f64 = (1u64 << 40) as f64;

/// Small pages.
#[derive(Clone, Default)]
pub struct SharedPages {
    /// Of all pages, and of those that were used twice.
    pub n: u64,
    pub basis: u64,
    /// What [`Sharing::same`] is of the latter, times their accesses; in parts.
    pub same: u128,
    /// Every page and user, while the latter are few.
    pub few: Vec<Use>,
}

impl SharedPages {
    /// Adds the uses of one page, in order.
    pub fn add(&mut self, uses: &[Use]) {
        self.n = uses.iter().fold(self.n, |n, one| n.saturating_add(one.n));
        if let Some((same, basis)) = sharing::of_part(uses) {
            self.same = self.same.saturating_add((same * FINE) as u128);
            self.basis = self.basis.saturating_add(basis as u64);
        }
        self.few.extend_from_slice(uses);
        self.forget();
    }

    /// Both together.
    pub fn merge(&mut self, other: SharedPages) {
        self.n = self.n.saturating_add(other.n);
        self.basis = self.basis.saturating_add(other.basis);
        self.same = self.same.saturating_add(other.same);
        self.few.extend(other.few);
        self.forget();
    }

    fn forget(&mut self) {
        if self.basis as f64 >= ENOUGH {
            self.few = Vec::new();
        }
    }

    /// How they are shared; where few were used twice, neighbourhoods of them, of which at least so many `parts` are
    /// told apart.
    pub fn sharing(&self, parts: u64) -> Option<Sharing> {
        let enough = (self.n as f64 / 2.0).min(ENOUGH);
        let found = Sharing::new(self.same as f64 / FINE, self.basis as f64).filter(|found| found.basis >= enough);
        found.or_else(|| sharing::of_neighbours(&self.few, enough, parts))
    }
}

/// Huge pages, by user.
#[derive(Clone, Default)]
pub struct SharedHugePages(FxHashMap<(u64, u32), u64>);

impl SharedHugePages {
    /// Adds a use.
    pub fn add(&mut self, one: Use) {
        let n = self.0.entry((one.part, one.user)).or_default();
        *n = n.saturating_add(one.n);
    }

    /// Both together.
    pub fn merge(&mut self, other: SharedHugePages) {
        other.0.into_iter().for_each(|((part, user), n)| self.add(Use { part, user, n }));
    }

    /// All of them, in order.
    pub fn uses(&self) -> Vec<Use> {
        let mut uses: Vec<Use> =
            self.0.iter().map(|((part, user), n)| Use { part: *part, user: *user, n: *n }).collect();
        uses.sort_unstable();
        uses
    }

    /// Accesses of all of them.
    pub fn n(&self) -> u64 {
        self.0.values().fold(0, |all, n| all.saturating_add(*n))
    }

    /// How they are shared.
    pub fn sharing(&self) -> Option<Sharing> {
        sharing::of(&mut self.uses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uses() -> impl Strategy<Value = Vec<Use>> {
        let n = prop_oneof![Just(1u64), Just(1), 0u64..40];
        prop::collection::vec((0u64..300, 0u32..4, n).prop_map(|(part, user, n)| Use { part, user, n }), 0..400)
    }

    proptest! {
        #[test]
        fn sums_of_pages_tell_what_all_pages_do(mut uses in uses(), parts in 0u64..20, cut in 0usize..400) {
            uses.sort_unstable();
            let n: f64 = uses.iter().map(|one| one.n as f64).sum();
            let expected = sharing::of_neighbours(&uses, (n / 2.0).min(ENOUGH), parts);
            let mut sums = [SharedPages::default(), SharedPages::default()];
            for page in uses.chunk_by(|a, b| a.part == b.part) {
                sums[usize::from(page[0].part > cut as u64)].add(page);
            }
            let [mut one, other] = sums;
            one.merge(other);
            match (one.sharing(parts), expected) {
                (Some(found), Some(expected)) => {
                    prop_assert!((found.same - expected.same).abs() < 1e-9, "{found:?} {expected:?}");
                    prop_assert_eq!(found.basis, expected.basis);
                }
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }
    }
}
