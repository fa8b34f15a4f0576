//! In which order the pages of a process get their numbers.
//!
//! Problem: counters and records stand at the numbers of pages, and there is room for so many. A program that takes
//! memory and gives it back all its life goes on getting new pages.
//!
//! Mechanism: places in one sequence, given by a single counter. The first places are numbers themselves. Behind these
//! the sequence goes on with numbers of pages that have gone, a group at a time: the collector names groups once
//! everything of their pages is where it belongs and their records are empty.
//!
//! ```text
//!   place     1 2 ..   fresh-1 | fresh .. fresh+511 | fresh+512 ..
//!   number    the same         | group named first  | group named second
//! ```
//!
//! 1. A place is given only when its number is known: so no place is left without a record.
//! 2. The collector reads records by place. It names a group in the ring once it has read the place that had the
//!    ring's entry before.
//! 3. A group is whole: its counters fill whole pages of the session file.

use super::page::FIRST_REGION;
use super::session::{SessionHeader, debug};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Numbers of a group.
pub const GROUP: u32 = 512;
/// Groups that are named at a time: numbers for 32 GiB.
const NAMED: u32 = 1 << 14;

/// The numbers of a process's pages.
#[repr(C)]
#[derive(Debug)]
pub struct PageNumbers {
    /// Places given, plus one, as 0 is none; 0 until the process's header is filled.
    given: AtomicU32,
    /// The first place whose number is another; a multiple of [`GROUP`], written before any is given.
    fresh: AtomicU32,
    /// Groups named so far.
    named: AtomicU32,
    /// Which; the one named as number `n` is at `n % NAMED`.
    groups: [AtomicU32; NAMED as usize],
}

impl PageNumbers {
    /// For a process that begins, where places and numbers below `given` are given. The last of its header: the
    /// collector waits for it.
    pub fn begin(&self, session: &SessionHeader, given: u32) {
        /// For 1 GiB: some more than a program takes until those of pages that have gone are named.
        const FEW: u32 = 1 << 18;
        let has_few = session.debug.load(Relaxed) & debug::FEW_PAGE_NUMBERS != 0;
        self.fresh.store(if has_few { FEW } else { FIRST_REGION }, Relaxed);
        self.given.store(given, Release);
    }

    /// Places given are below.
    pub fn given(&self) -> u32 {
        self.given.load(Acquire)
    }

    /// Numbers in use are below.
    pub fn in_use(&self) -> u32 {
        self.given().min(self.fresh.load(Relaxed))
    }

    /// The number at a place; none: it is not known yet.
    pub fn at(&self, place: u32) -> Option<u32> {
        let Some(behind) = place.checked_sub(self.fresh.load(Relaxed)) else { return Some(place) };
        let group = behind / GROUP;
        let is_known = group < self.named.load(Acquire);
        is_known.then(|| self.groups[(group % NAMED) as usize].load(Relaxed) * GROUP + behind % GROUP)
    }

    /// How many numbers there are to be given by now.
    pub fn left(&self) -> u32 {
        let named = self.named.load(Acquire).saturating_mul(GROUP);
        self.fresh.load(Relaxed).saturating_add(named).saturating_sub(self.given())
    }

    /// Gives the next number; none: there is none. The agent's.
    pub fn give(&self) -> Option<u32> {
        let mut place = self.given();
        loop {
            let number = self.at(place)?;
            match self.given.compare_exchange_weak(place, place.checked_add(1)?, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(now) => place = now,
            }
        }
    }

    /// Has the numbers of a group be given again. `read`: the places before have been read. Whether there is room to
    /// say so. The collector's.
    pub fn name(&self, group: u32, read: u32) -> bool {
        let named = self.named.load(Relaxed);
        let used = read.saturating_sub(self.fresh.load(Relaxed)) / GROUP;
        let has_room = named - used < NAMED;
        if has_room {
            self.groups[(named % NAMED) as usize].store(group, Relaxed);
            self.named.store(named + 1, Release);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn few() -> PageNumbers {
        PageNumbers {
            given: AtomicU32::new(1),
            fresh: AtomicU32::new(2 * GROUP),
            named: AtomicU32::new(0),
            groups: [const { AtomicU32::new(0) }; NAMED as usize],
        }
    }

    #[test]
    fn numbers_are_given_again_group_by_group() {
        let numbers = few();
        for number in 1..1024 {
            assert_eq!(numbers.give(), Some(number));
        }
        assert_eq!((numbers.give(), numbers.given(), numbers.in_use()), (None, 1024, 1024), "no place is lost");
        assert!(numbers.name(1, 1024) && numbers.name(0, 1024));
        assert_eq!(numbers.left(), 1024);
        assert!(core::iter::from_fn(|| numbers.give()).eq((512..1024).chain(0..512)));
        assert_eq!(
            (numbers.at(700), numbers.at(1024), numbers.at(1536), numbers.at(2048)),
            (Some(700), Some(512), Some(0), None)
        );
    }

    #[test]
    fn the_ring_has_room_for_what_has_been_read() {
        let numbers = few();
        assert!((0..NAMED).all(|group| numbers.name(group, 1024)));
        assert!(!numbers.name(7, 1024) && !numbers.name(7, 1024 + GROUP - 1));
        assert!(numbers.name(7, 1024 + GROUP));
        assert_eq!(numbers.at(1024 + NAMED * GROUP), Some(7 * GROUP));
    }
}
