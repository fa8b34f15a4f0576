//! A private cache for each thread, as one of the processor's would be: which accesses a memory beyond it would have
//! seen.
//!
//! Set associative; the line that was not used for longest makes room; what is written is fetched first
//! (write-allocate). There is no other thread in it, nothing is invalidated, nothing is fetched ahead. An access across
//! the end of a line looks for both, and is one miss if either is not there.

use alloc::boxed::Box;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::Geometry;
use numalens_translator::count::Run;

/// Accesses that may still be taken back: those of one instruction.
const RECENT: usize = 4;

/// The cache of a thread.
pub struct PrivateCache {
    geometry: Geometry,
    /// By set: lines, plus 1, the one used last first; 0: none. Generated code changes them too.
    lines: Box<[AtomicU64]>,
    /// The latest accesses: their sites, and whether they missed.
    recent: [(u32, bool); RECENT],
    next: usize,
}

impl PrivateCache {
    /// An empty one.
    pub fn new(geometry: Geometry) -> Self {
        let lines = (0..geometry.sets * geometry.ways).map(|_| AtomicU64::new(0)).collect();
        PrivateCache { geometry, lines, recent: [(u32::MAX, false); RECENT], next: 0 }
    }

    /// Where the sets are.
    pub fn sets_at(&self) -> u64 {
        self.lines.as_ptr() as u64
    }

    fn set(&self, line: u64) -> &[AtomicU64] {
        let ways = self.geometry.ways as usize;
        let first = (line & u64::from(self.geometry.sets - 1)) as usize * ways;
        &self.lines[first..first + ways]
    }

    /// Looks for a line, which is there afterwards.
    fn look_up(&mut self, line: u64) -> bool {
        // Each moves to where the one before it was, up to where the line was.
        let mut moved = line + 1;
        self.set(line).iter().any(|known| {
            let was = known.load(Relaxed);
            known.store(moved, Relaxed);
            moved = was;
            was == line + 1
        })
    }

    fn lines_of(&self, address: u64, bytes: u64) -> core::ops::RangeInclusive<u64> {
        let shift = self.geometry.line_log2;
        address >> shift..=address.saturating_add(bytes.max(1) - 1) >> shift
    }

    /// Whether an access misses.
    pub fn access(&mut self, address: u64, bytes: u64) -> bool {
        // Not `all`: each of them is used.
        self.lines_of(address, bytes).fold(false, |missed, line| missed | !self.look_up(line))
    }

    /// How many accesses of a run miss (modulo 2^64: what is taken back has missed less).
    pub fn misses(&mut self, run: &Run) -> u64 {
        if run.is_taken_back() {
            return u64::from(self.forget(run.site.0, run.address)).wrapping_neg();
        }
        let size = u64::from(run.size);
        let misses = (0..run.count).filter(|number| self.access(run.address + number * size, size)).count() as u64;
        (self.recent[self.next], self.next) = ((run.site.0, misses > 0), (self.next + 1) % RECENT);
        misses
    }

    /// The access did not happen: what it fetched goes. Whether it had missed.
    fn forget(&mut self, site: u32, address: u64) -> bool {
        let newest_first = (1..=RECENT).map(|back| (self.next + RECENT - back) % RECENT);
        let Some(at) = newest_first.into_iter().find(|&at| self.recent[at].0 == site) else { return false };
        let (_, missed) = core::mem::replace(&mut self.recent[at], (u32::MAX, false));
        self.forget_in_place(address, missed) != 0
    }

    /// The same of an access that was looked up in place: how many misses it was, taken back.
    pub fn forget_in_place(&mut self, address: u64, missed: bool) -> u64 {
        if missed {
            let line = address >> self.geometry.line_log2;
            let set = self.set(line);
            if let Some(at) = set.iter().position(|known| known.load(Relaxed) == line + 1) {
                for newer in at..set.len() - 1 {
                    set[newer].store(set[newer + 1].load(Relaxed), Relaxed);
                }
                set[set.len() - 1].store(0, Relaxed);
            }
        }
        u64::from(missed).wrapping_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(sets: u32, ways: u32) -> PrivateCache {
        PrivateCache::new(Geometry { sets, ways, line_log2: 6 })
    }

    #[test]
    fn the_line_used_longest_ago_makes_room() {
        let mut cache = cache(1, 2);
        let misses: alloc::vec::Vec<bool> = [0, 64, 8, 128, 0, 64].into_iter().map(|at| cache.access(at, 8)).collect();
        // 128 takes the place of 64, as 8 is in the line of 0; so 64 is not there at the end.
        assert_eq!(misses, [true, true, false, true, false, true]);
    }

    #[test]
    fn sets_are_apart() {
        let mut cache = cache(4, 1);
        assert!((0..4).all(|line| cache.access(line * 64, 4)));
        assert!((0..4).all(|line| !cache.access(line * 64 + 60, 4)));
        assert!(cache.access(4 * 64, 1) && cache.access(0, 1) && !cache.access(64, 1));
    }

    #[test]
    fn an_access_across_lines_needs_both() {
        let mut cache = cache(4, 2);
        assert!(cache.access(60, 8));
        assert!(!cache.access(64, 4) && !cache.access(0, 4));
        assert!(cache.access(120, 16) && !cache.access(128, 1));
    }

    #[test]
    fn what_did_not_happen_has_fetched_nothing() {
        let mut cache = cache(4, 2);
        assert!(cache.access(0, 4));
        (cache.recent[0], cache.next) = ((7, true), 1);
        assert!(!cache.forget(8, 0));
        assert!(cache.forget(7, 0) && !cache.forget(7, 0));
        assert!(cache.access(0, 4));
    }
}
