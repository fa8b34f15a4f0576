//! Things by number. A profile numbers most of them from 0 without a gap: then the number says the place, and nothing
//! is hashed.

use rayon::prelude::*;

/// Things in the order of their numbers.
pub struct ById<T>(Vec<(u32, T)>);

impl<T> Default for ById<T> {
    fn default() -> Self {
        ById(Vec::new())
    }
}

impl<T: Send> ById<T> {
    /// Of things with the same number, the first.
    pub fn new(mut things: Vec<(u32, T)>) -> Self {
        if !things.is_sorted_by(|(one, _), (other, _)| one < other) {
            things.par_sort_by_key(|(id, _)| *id);
            things.dedup_by_key(|(id, _)| *id);
        }
        ById(things)
    }
}

impl<T> ById<T> {
    /// The thing of a number.
    pub fn get(&self, id: u32) -> Option<&T> {
        match self.0.get(id as usize) {
            Some((known, thing)) if *known == id => Some(thing),
            _ => self.0.binary_search_by_key(&id, |(known, _)| *known).ok().map(|at| &self.0[at].1),
        }
    }

    /// All things, with their numbers.
    pub fn all(&self) -> &[(u32, T)] {
        &self.0
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.0.iter_mut().map(|(id, thing)| (*id, thing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn whatever_the_numbers_are(ids: Vec<u32>, few in proptest::collection::vec(0u32..20, 0..30)) {
            for ids in [ids, few] {
                let mut wanted = BTreeMap::new();
                ids.iter().zip(0..).for_each(|(id, n)| { wanted.entry(*id).or_insert(n); });
                let found = ById::new(ids.iter().copied().zip(0..).collect());
                prop_assert_eq!(found.all(), wanted.clone().into_iter().collect::<Vec<_>>());
                for id in ids.iter().flat_map(|id| [*id, id.wrapping_add(1)]).chain(0..3) {
                    prop_assert_eq!(found.get(id), wanted.get(&id));
                }
            }
        }
    }
}
