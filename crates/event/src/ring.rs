//! A ring with many writers, one reader, and writers that may die between any two instructions.
//!
//! # The problem
//! Writers are threads of several processes that share nothing but this memory. They may not block, so they may not
//! lock; any of them may be killed (or stopped) at any point, so a slot may be reserved and never filled; and the
//! reader must neither wait for such a slot for ever nor take a half-written record for a whole one. The usual ring
//! (advance `head`, then fill) has a gap: a writer that dies right after advancing leaves a slot of which nobody
//! knows whose it is.
//!
//! # The mechanism
//! Here the *slot* is what is reserved; `head` only tells where to try first. Each slot has one claim word
//! ```text
//!   63            33  32          31        0
//!  +----------------+-----------+------------+
//!  | lap            | published | owner tid  |
//!  +----------------+-----------+------------+
//! ```
//! and position `p` (counted from 0 for ever) stands in slot `p mod n` on lap `p div n`. The word goes through
//! ```text
//!                  writer            writer                    reader
//!   free(lap) ---------------> owned(lap, tid) -> published(lap, tid) -> free(lap + 1)
//!                                    |   reader, the owner being gone        ^
//!                                    '---------------------------------------'
//! ```
//! by compare-and-swap, except for the reader's release of a published slot, which nobody else touches then.
//!
//! - A writer at position `p` finds `free(lap of p)`: it takes the slot and helps `head` on to `p + 1`. It finds the
//!   slot taken on this lap (or already on a later one): `head` is behind, it helps and tries the next. It finds an
//!   earlier lap: the reader has not come here yet, the ring is full; the record is dropped and counted. `head` thus
//!   never passes a slot without an owner, whoever dies.
//! - The reader looks at its own position only: free means nothing new; published means read, then release; owned means
//!   wait, or, when the owner's thread no longer exists, take the slot back and count it. A writer that was only
//!   believed dead (a thread id of another pid namespace) finds its claim gone when it publishes, and counts its record
//!   as late.
//! - A slot's first lap is 0 and untouched memory is zero, so a fresh ring needs no initialisation and stays sparse.
//!
//! Publishing releases the payload, the reader's load acquires it; the reader's release and the writer's claim order
//! the next lap the same way. `tests/ring_model.rs` runs the protocol through every interleaving with loom.
//!
//! The C twin of the writer is `numalens_claim` / `numalens_publish` in `crates/interpose/c/ring.h`.

use core::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit word in shared memory. A trait so that the model checker can put its own words under the same protocol.
pub trait Word {
    /// Reads with acquire ordering.
    fn load(&self) -> u64;
    /// Writes with release ordering.
    fn store(&self, value: u64);
    /// Replaces `current` by `new` (acquire and release), or tells what stood there instead.
    fn swap_if(&self, current: u64, new: u64) -> Result<(), u64>;
}

impl Word for AtomicU64 {
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Ordering::Release);
    }

    fn swap_if(&self, current: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

const PUBLISHED: u64 = 1 << 32;
const LAP_SHIFT: u32 = 33;
const LAPS: u64 = 1 << 31;

/// How often a writer tries before it drops its record: each failure is another writer's success, so this is only
/// reached under a storm (or in memory that somebody scribbled over).
pub const ATTEMPTS: usize = 64;

/// A place in the ring's endless sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position(pub u64);

impl Position {
    /// Index of the slot it stands in.
    pub fn slot(self, slots_log2: u32) -> usize {
        (self.0 & ((1 << slots_log2) - 1)) as usize
    }

    /// The position after it.
    pub fn next(self) -> Position {
        Position(self.0.wrapping_add(1))
    }

    fn free(self, slots_log2: u32) -> u64 {
        ((self.0 >> slots_log2) % LAPS) << LAP_SHIFT
    }
}

/// Reserves a slot for thread `tid` (not 0); `None` when the ring is full (or contended beyond [`ATTEMPTS`]).
/// `claim_of` finds the claim word of a slot by its index.
pub fn reserve<'a, W: Word + 'a>(
    slots_log2: u32,
    head: &W,
    claim_of: impl Fn(usize) -> &'a W,
    tid: u32,
) -> Option<Position> {
    for _ in 0..ATTEMPTS {
        let position = Position(head.load());
        let claim = claim_of(position.slot(slots_log2));
        let free = position.free(slots_log2);
        // The word that refused is the one to judge by: read again, it could have become free in between, and
        // helping `head` over a free slot would leave the reader waiting there for ever.
        let Err(word) = claim.swap_if(free, free | u64::from(tid)) else {
            let _ = head.swap_if(position.0, position.next().0);
            return Some(position);
        };
        let lap_ahead = (word >> LAP_SHIFT).wrapping_sub(free >> LAP_SHIFT) % LAPS;
        if lap_ahead >= LAPS / 2 {
            return None;
        }
        let _ = head.swap_if(position.0, position.next().0);
    }
    None
}

/// Hands the filled slot to the reader; `false` when the reader had taken it back: the record is lost.
pub fn publish<W: Word>(slots_log2: u32, position: Position, claim: &W, tid: u32) -> bool {
    let owned = position.free(slots_log2) | u64::from(tid);
    claim.swap_if(owned, owned | PUBLISHED).is_ok()
}

/// What the reader finds at its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing yet.
    Empty,
    /// A whole record.
    Published,
    /// A record that thread `tid` is writing, or died writing.
    Owned {
        /// The writer's thread id, in its pid namespace.
        tid: u32,
    },
    /// A word that the protocol cannot have produced: somebody scribbled over the ring.
    Damaged,
}

/// Looks at the reader's position.
pub fn look<W: Word>(slots_log2: u32, position: Position, claim: &W) -> Found {
    let word = claim.load();
    let free = position.free(slots_log2);
    let tid = word as u32;
    if word == free {
        Found::Empty
    } else if word >> LAP_SHIFT != free >> LAP_SHIFT || tid == 0 {
        Found::Damaged
    } else if word & PUBLISHED != 0 {
        Found::Published
    } else {
        Found::Owned { tid }
    }
}

/// Gives the slot of a record that was read (or found damaged) back to the writers.
pub fn release<W: Word>(slots_log2: u32, position: Position, claim: &W) {
    claim.store(Position(position.0.wrapping_add(1 << slots_log2)).free(slots_log2));
}

/// Takes back a slot whose owner is gone; `false` when it was published in the meantime.
pub fn abandon<W: Word>(slots_log2: u32, position: Position, claim: &W, tid: u32) -> bool {
    let owned = position.free(slots_log2) | u64::from(tid);
    let next_lap = Position(position.0.wrapping_add(1 << slots_log2));
    claim.swap_if(owned, next_lap.free(slots_log2)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring<const N: usize>() -> (AtomicU64, [AtomicU64; N]) {
        (AtomicU64::new(0), [const { AtomicU64::new(0) }; N])
    }

    #[test]
    fn a_full_ring_refuses_and_recovers() {
        let (head, slots) = ring::<2>();
        let claim_of = |slot: usize| &slots[slot];
        let first = reserve(1, &head, claim_of, 7).expect("empty ring");
        let second = reserve(1, &head, claim_of, 8).expect("one slot left");
        assert_eq!(reserve(1, &head, claim_of, 9), None);
        assert!(publish(1, second, &slots[1], 8));
        assert_eq!(look(1, Position(0), &slots[0]), Found::Owned { tid: 7 });
        assert!(publish(1, first, &slots[0], 7));
        assert_eq!(look(1, Position(0), &slots[0]), Found::Published);
        release(1, Position(0), &slots[0]);
        assert_eq!(reserve(1, &head, claim_of, 9), Some(Position(2)));
        assert_eq!(reserve(1, &head, claim_of, 9), None);
    }

    #[test]
    fn a_slot_taken_back_refuses_its_late_writer() {
        let (head, slots) = ring::<2>();
        let claim_of = |slot: usize| &slots[slot];
        let position = reserve(1, &head, claim_of, 7).expect("empty ring");
        assert!(abandon(1, position, &slots[0], 7));
        assert!(!publish(1, position, &slots[0], 7));
        assert_eq!(reserve(1, &head, claim_of, 8), Some(Position(1)));
        assert_eq!(reserve(1, &head, claim_of, 8), Some(Position(2)));
        assert_eq!(look(1, Position(2), &slots[0]), Found::Owned { tid: 8 });
    }

    #[test]
    fn a_writer_that_died_before_moving_head_stops_nobody() {
        let (head, slots) = ring::<4>();
        slots[0].store(7, Ordering::Relaxed);
        assert_eq!(reserve(2, &head, |slot| &slots[slot], 8), Some(Position(1)));
        assert_eq!(head.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn laps_wrap() {
        let last = Position(LAPS * 4 - 1);
        assert_eq!(last.next().free(2), 0);
        let (head, slots) = ring::<4>();
        head.store(last.0, Ordering::Relaxed);
        slots[3].store(last.free(2), Ordering::Relaxed);
        assert_eq!(reserve(2, &head, |slot| &slots[slot], 5), Some(last));
        assert!(publish(2, last, &slots[3], 5));
        release(2, last, &slots[3]);
        assert_eq!(slots[3].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn scribbled_words_are_damage() {
        let word = AtomicU64::new(0xdead_beef_dead_beef);
        assert_eq!(look(4, Position(3), &word), Found::Damaged);
        word.store(PUBLISHED, Ordering::Relaxed);
        assert_eq!(look(4, Position(3), &word), Found::Damaged);
        let head = AtomicU64::new(0);
        let _ = reserve(0, &head, |_| &word, 1);
    }
}
