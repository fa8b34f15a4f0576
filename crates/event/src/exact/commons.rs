//! Memory that processes have in common, on a virtual machine: the policies that somebody has given it, and how often
//! pages of it have moved.
//!
//! In Linux a policy of shared memory belongs to the memory, not to a mapping: whoever maps it, also later, has it. So
//! these stand where all processes of a recording see them. Nobody waits for anybody, and whoever is killed leaves
//! nothing half done: a range is written, then put before all others of its list, and the first one of the list that
//! has a page counts.
//!
//! ```text
//!   heads   by what the memory is      -->  the latest range  -->  an older one  -->  ...
//!   kinds   policies, each one once   <--  of each range
//! ```

use super::placement::NODE_WORDS;
use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Words of a policy, as the agent has them: what it is, and two sets of nodes.
pub type PolicyWords = [u64; POLICY_WORDS];
/// How many.
pub const POLICY_WORDS: usize = 1 + 2 * NODE_WORDS;

/// Lists of ranges. A power of two.
const HEADS: usize = 1 << 12;
/// Policies at most.
const MOST_KINDS: usize = 1 << 10;
/// Ranges at most, in a recording.
const MOST_RANGES: usize = 1 << 16;

/// Moves that may be told at the same time, and twice as many.
const NEWS: usize = 1 << 12;

/// What processes tell each other of such memory.
#[repr(C)]
#[derive(Debug)]
pub struct Commons {
    moved: AtomicU64,
    /// For who has heard of so many moves, modulo their number: whether there was another one.
    news: [AtomicU64; NEWS],
    kinds_used: AtomicU32,
    ranges_used: AtomicU32,
    heads: [AtomicU32; HEADS],
    kinds: [Kind; MOST_KINDS],
    ranges: [PolicyRange; MOST_RANGES],
}

#[repr(C)]
#[derive(Debug)]
struct Kind {
    words: [AtomicU64; POLICY_WORDS],
    is_filled: AtomicU64,
}

#[repr(C)]
#[derive(Debug)]
struct PolicyRange {
    /// Which memory.
    key: AtomicU64,
    /// Pages of it.
    first: AtomicU64,
    end: AtomicU64,
    /// The place of its policy.
    kind: AtomicU32,
    /// The next one of the list, plus 1; 0: there is none.
    older: AtomicU32,
}

impl PolicyRange {
    fn pages(&self) -> Range<u64> {
        self.first.load(Relaxed)..self.end.load(Relaxed)
    }
}

impl Commons {
    /// How often somebody has moved pages that others may have to hear of.
    pub fn moved(&self) -> u64 {
        self.moved.load(Acquire)
    }

    /// Pages have moved, and wherever that is to be found has been written.
    pub fn publish_move(&self) {
        let before = self.moved.fetch_add(1, AcqRel);
        self.news_since(before.wrapping_add(NEWS as u64 / 2)).store(0, Relaxed);
        self.news_since(before).store(1, Release);
    }

    /// The word that is not 0 after more than `moved` moves, as long as there are not thousands more.
    pub fn news_since(&self, moved: u64) -> &AtomicU64 {
        &self.news[moved as usize % NEWS]
    }

    fn head(&self, key: u64) -> &AtomicU32 {
        // The lowest bit is set in every key.
        &self.heads[(key >> 1) as usize % HEADS]
    }

    /// The ranges of a piece of memory, the latest first.
    fn ranges(&self, key: u64) -> impl Iterator<Item = &PolicyRange> {
        let mut at = self.head(key).load(Acquire);
        let next = move || {
            let range = self.ranges.get((at as usize).checked_sub(1)?)?;
            at = range.older.load(Relaxed);
            Some(range)
        };
        core::iter::from_fn(next).filter(move |range| range.key.load(Relaxed) == key)
    }

    /// The policy of a page of the memory `key`. None: nobody has ever said anything about it.
    pub fn policy(&self, key: u64, page: u64) -> Option<PolicyWords> {
        let range = self.ranges(key).find(|range| range.pages().contains(&page))?;
        let kind = self.kinds.get(range.kind.load(Acquire) as usize)?;
        Some(kind.words.each_ref().map(|word| word.load(Relaxed)))
    }

    /// Gives pages of the memory `key` a policy; false: there is no room, and nothing has changed.
    pub fn set_policy(&self, key: u64, pages: Range<u64>, policy: PolicyWords) -> bool {
        let Some(kind) = self.kind_of(policy) else { return false };
        let overlaps = |range: &&PolicyRange| range.pages().start < pages.end && pages.start < range.pages().end;
        if let Some(latest) = self.ranges(key).find(overlaps) {
            let has = latest.pages();
            if has == pages {
                latest.kind.store(kind, Release);
                return true;
            }
            if has.start <= pages.start && pages.end <= has.end && latest.kind.load(Acquire) == kind {
                return true;
            }
        }
        let Some((place, range)) = take(&self.ranges_used, &self.ranges) else { return false };
        range.key.store(key, Relaxed);
        range.first.store(pages.start, Relaxed);
        range.end.store(pages.end, Relaxed);
        range.kind.store(kind, Relaxed);
        let head = self.head(key);
        let mut older = head.load(Acquire);
        loop {
            range.older.store(older, Relaxed);
            match head.compare_exchange(older, place + 1, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => older = now,
            }
        }
    }

    /// The place of a policy, new or known.
    fn kind_of(&self, policy: PolicyWords) -> Option<u32> {
        let is_it = |kind: &Kind| {
            kind.is_filled.load(Acquire) != 0 && kind.words.each_ref().map(|word| word.load(Relaxed)) == policy
        };
        if let Some(place) = self.kinds.iter().take(self.kinds_used.load(Acquire) as usize).position(is_it) {
            return u32::try_from(place).ok();
        }
        let (place, kind) = take(&self.kinds_used, &self.kinds)?;
        kind.words.iter().zip(policy).for_each(|(to, word)| to.store(word, Relaxed));
        kind.is_filled.store(1, Release);
        Some(place)
    }
}

/// The next of so many places.
fn take<'a, T>(used: &AtomicU32, places: &'a [T]) -> Option<(u32, &'a T)> {
    let next = |place: u32| ((place as usize) < places.len()).then_some(place + 1);
    let place = used.fetch_update(AcqRel, Acquire, next).ok()?;
    Some((place, places.get(place as usize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn word() -> AtomicU32 {
        AtomicU32::new(0)
    }

    const fn long() -> AtomicU64 {
        AtomicU64::new(0)
    }

    const fn empty() -> Commons {
        Commons {
            moved: long(),
            news: [const { long() }; NEWS],
            kinds_used: word(),
            ranges_used: word(),
            heads: [const { word() }; HEADS],
            kinds: [const { Kind { words: [const { long() }; POLICY_WORDS], is_filled: long() } }; MOST_KINDS],
            ranges: [const { PolicyRange { key: long(), first: long(), end: long(), kind: word(), older: word() } };
                MOST_RANGES],
        }
    }

    fn policy(words: [u64; 3]) -> PolicyWords {
        core::array::from_fn(|at| words.get(at).copied().unwrap_or(0))
    }

    #[test]
    fn there_is_news_until_somebody_looks() {
        static EMPTY: Commons = empty();
        for _ in 0..3 * NEWS {
            let seen = EMPTY.moved();
            assert_eq!(EMPTY.news_since(seen).load(Acquire), 0);
            EMPTY.publish_move();
            assert_ne!(EMPTY.news_since(seen).load(Acquire), 0);
        }
    }

    #[test]
    fn the_latest_policy_of_a_page_counts() {
        static EMPTY: Commons = empty();
        let commons = &EMPTY;
        // Both in one list.
        let (one, other) = (3, 3 + 2 * HEADS as u64);
        assert_eq!(commons.policy(one, 0), None);
        assert!(commons.set_policy(one, 0..100, policy([2, 1, 1])));
        assert!(commons.set_policy(other, 0..10, policy([3, 7, 7])));
        assert!(commons.set_policy(one, 10..20, policy([0, 0, 0])));
        let all = [0, 9, 10, 19, 20, 99].map(|page| commons.policy(one, page).map(|words| words[0]));
        assert_eq!(all, [Some(2), Some(2), Some(0), Some(0), Some(2), Some(2)]);
        assert_eq!((commons.policy(one, 100), commons.policy(other, 9)), (None, Some(policy([3, 7, 7]))));
    }

    #[test]
    fn what_is_said_again_takes_no_room() {
        static EMPTY: Commons = empty();
        let commons = &EMPTY;
        for turn in 0..4 * MOST_RANGES as u64 {
            assert!(commons.set_policy(1, 0..100, policy([turn % 3, 0, 0])));
            assert!(commons.set_policy(1, 5..6, policy([turn % 3, 0, 0])));
        }
        assert!(commons.ranges_used.load(Relaxed) <= 2 && commons.kinds_used.load(Relaxed) == 3);
    }

    #[test]
    fn there_is_an_end_of_room() {
        static EMPTY: Commons = empty();
        let commons = &EMPTY;
        let told = (0..MOST_RANGES as u64 + 5)
            .filter(|&page| commons.set_policy(page * 2 + 1, 0..1, policy([1, 1, 1])))
            .count();
        assert_eq!(told, MOST_RANGES);
        assert_eq!(commons.policy(2 * MOST_RANGES as u64 + 1, 0), None);
        let kinds =
            (0..MOST_KINDS as u64 + 5).filter(|&kind| commons.set_policy(1, 0..1, policy([1, 1, kind]))).count();
        assert_eq!(kinds, MOST_KINDS);
    }
}
