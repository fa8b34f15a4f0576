//! Which exits jump to a fragment.
//!
//! Each exit jumps to one fragment at most, so those of a fragment are a chain through a table of all exits: an exit
//! says which one comes next, the last one names itself.

use crate::{ExitId, FragmentId};
use alloc::vec::Vec;
use core::ops::Range;

/// In no chain; also: an empty one.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The fragment whose exit it is.
    from: FragmentId,
    next: u32,
}

/// All exits.
#[derive(Default)]
pub(crate) struct Links {
    exits: Vec<Link>,
}

/// The exits that jump to a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
}

impl Chain {
    pub const EMPTY: Chain = Chain { first: NONE };
}

impl Links {
    /// How many exits there are: the number of the next.
    pub fn len(&self) -> usize {
        self.exits.len()
    }

    /// Adds the exits of a fragment.
    pub fn add(&mut self, from: FragmentId, count: usize) {
        self.exits.resize(self.exits.len() + count, Link { from, next: NONE });
    }

    /// The fragment that an exit belongs to.
    pub fn from(&self, exit: ExitId) -> Option<FragmentId> {
        self.exits.get(exit.0 as usize).map(|link| link.from)
    }

    /// Adds an exit that is in no chain yet; one that is stays where it is.
    pub fn push(&mut self, chain: &mut Chain, exit: ExitId) {
        let Some(link) = self.exits.get_mut(exit.0 as usize).filter(|link| link.next == NONE) else { return };
        link.next = if chain.first == NONE { exit.0 } else { chain.first };
        chain.first = exit.0;
    }

    /// Takes the exit away that was added last.
    pub fn pop(&mut self, chain: &mut Chain) -> Option<ExitId> {
        let exit = ExitId(chain.first);
        let link = self.exits.get_mut(exit.0 as usize)?;
        let next = core::mem::replace(&mut link.next, NONE);
        chain.first = if next == exit.0 { NONE } else { next };
        Some(exit)
    }

    /// Takes the exits in `range` out of a chain.
    pub fn remove(&mut self, chain: &mut Chain, range: Range<u32>) {
        let mut left = Chain::EMPTY;
        while let Some(exit) = self.pop(chain) {
            if !range.contains(&exit.0) {
                self.push(&mut left, exit);
            }
        }
        *chain = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(links: &mut Links, mut chain: Chain) -> Vec<u32> {
        core::iter::from_fn(|| links.pop(&mut chain)).map(|exit| exit.0).collect()
    }

    #[test]
    fn an_exit_is_in_one_chain_once() {
        let mut links = Links::default();
        links.add(FragmentId(7), 3);
        links.add(FragmentId(8), 2);
        assert_eq!(
            (links.len(), links.from(ExitId(2)), links.from(ExitId(4))),
            (5, Some(FragmentId(7)), Some(FragmentId(8)))
        );
        assert_eq!(links.from(ExitId(5)), None);
        let mut chain = Chain::EMPTY;
        let mut other = Chain::EMPTY;
        for exit in [3, 0, 3, 4, 9] {
            links.push(&mut chain, ExitId(exit));
        }
        links.push(&mut other, ExitId(4));
        assert_eq!(all(&mut links, other), []);
        assert_eq!(all(&mut links, chain), [4, 0, 3]);
        links.push(&mut other, ExitId(4));
        assert_eq!(all(&mut links, other), [4]);
    }

    #[test]
    fn exits_of_a_range_are_taken_out() {
        let mut links = Links::default();
        links.add(FragmentId(0), 6);
        let mut chain = Chain::EMPTY;
        (0..6).for_each(|exit| links.push(&mut chain, ExitId(exit)));
        links.remove(&mut chain, 2..4);
        let mut left = all(&mut links, chain);
        left.sort_unstable();
        assert_eq!(left, [0, 1, 4, 5]);
    }
}
