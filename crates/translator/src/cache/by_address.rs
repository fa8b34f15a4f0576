//! Values by addresses in the code cache.
//!
//! Code is put down in ascending order within each part of the cache, in several parts by turns, and is looked up by
//! any address within. So there is a sorted list for each 64 KiB of addresses: most additions go to the end of one. A
//! tree takes three times the memory.

use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;

/// Bytes of a list. No fragment is longer.
const SPAN: u64 = 1 << 16;

pub(crate) struct ByAddress<T> {
    /// By address / `SPAN`: the rest of the address, ascending.
    lists: HashMap<u64, Vec<(u16, T)>>,
}

impl<T: Copy> ByAddress<T> {
    pub fn new() -> Self {
        ByAddress { lists: HashMap::new() }
    }

    /// Adds one, in place of what may be there.
    pub fn insert(&mut self, address: u64, value: T) {
        let list = self.lists.entry(address / SPAN).or_default();
        let rest = (address % SPAN) as u16;
        match list.binary_search_by_key(&rest, |&(at, _)| at) {
            Ok(found) => list[found].1 = value,
            Err(place) => list.insert(place, (rest, value)),
        }
    }

    pub fn remove(&mut self, address: u64) {
        let Some(list) = self.lists.get_mut(&(address / SPAN)) else { return };
        list.retain(|&(at, _)| u64::from(at) != address % SPAN);
        if list.is_empty() {
            self.lists.remove(&(address / SPAN));
        }
    }

    /// The last one up to `address`, if it begins no farther before it than a fragment is long.
    pub fn last_up_to(&self, address: u64) -> Option<(u64, T)> {
        let number = address / SPAN;
        let within = |number: u64, most: u16| {
            let list = self.lists.get(&number)?;
            let &(at, value) = list[..list.partition_point(|&(at, _)| at <= most)].last()?;
            Some((number * SPAN + u64::from(at), value))
        };
        within(number, (address % SPAN) as u16).or_else(|| within(number.checked_sub(1)?, u16::MAX))
    }

    /// Those in `range`, in ascending order.
    pub fn range(&self, range: Range<u64>) -> impl Iterator<Item = (u64, T)> {
        let numbers = range.start / SPAN..range.end.div_ceil(SPAN);
        let mut lists: Vec<_> = self.lists.iter().filter(|(number, _)| numbers.contains(number)).collect();
        lists.sort_unstable_by_key(|(number, _)| **number);
        let whole = |number: u64, at: u16| number * SPAN + u64::from(at);
        let all = lists
            .into_iter()
            .flat_map(move |(&number, list)| list.iter().map(move |&(at, value)| (whole(number, at), value)));
        all.filter(move |(address, _)| range.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(u64),
    }

    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![0..40u64, SPAN - 20..SPAN + 20, 5 * SPAN - 9..5 * SPAN + 9, Just(u64::MAX), 0..9 * SPAN]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![3 => address().prop_map(Step::Insert), 1 => address().prop_map(Step::Remove)]
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec(step(), 0..80), asked in prop::collection::vec(address(), 1..20)) {
            let (mut map, mut tree) = (ByAddress::new(), BTreeMap::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(address) => {
                        map.insert(address, number);
                        tree.insert(address, number);
                    }
                    Step::Remove(address) => {
                        map.remove(address);
                        tree.remove(&address);
                    }
                }
            }
            for &address in &asked {
                let last = tree.range(..=address).next_back().map(|(&at, &value)| (at, value));
                let near = last.filter(|&(at, _)| at / SPAN + 1 >= address / SPAN);
                prop_assert_eq!(map.last_up_to(address), near);
                let range = asked[0].min(address)..asked[0].max(address);
                let expected: Vec<_> = tree.range(range.clone()).map(|(&at, &value)| (at, value)).collect();
                prop_assert_eq!(map.range(range).collect::<Vec<_>>(), expected);
            }
        }
    }
}
