//! Which allocations are published: as the preloaded library chooses them (`crates/interpose/c/heap.c`).
//!
//! Those of at least [`Header::large`] bytes each, as long as there is credit; the others by their bytes, as a Poisson
//! process: the distance to the next one that is published is drawn from an exponential distribution. When the credit
//! is spent, large ones are sampled the same way.

use core::sync::atomic::Ordering::Relaxed;
use numalens_event::layout::Header;

/// A thread's, which begins with zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    random: u64,
    /// Bytes until the next one.
    left: i64,
    left_of_large: i64,
    mean: u64,
}

const MOST_MEAN: u64 = 1 << 40;
/// Live allocations that are tracked for which the mean is doubled, as a power of two.
const MANY_TRACKED_LOG2: u32 = 14;

impl Choice {
    /// Whether an allocation is published, and if so the mean bytes between two such; 0: all of its size are.
    /// `tracked`: how many live.
    pub fn of(&mut self, header: &Header, bytes: u64, tracked: usize, seed: u64) -> Option<u64> {
        if self.random == 0 {
            self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            self.mean = next_mean(header, tracked);
            self.left = self.draw(self.mean);
            self.left_of_large = self.draw(header.large_mean.load(Relaxed).clamp(1, MOST_MEAN));
        }
        let counted = i64::try_from(bytes.min(MOST_MEAN)).unwrap_or(i64::MAX);
        if bytes >= header.large.load(Relaxed) {
            if header.every.load(Relaxed) != 0 || take_credit(header) {
                return Some(0);
            }
            self.left_of_large -= counted;
            if bytes < MOST_MEAN && self.left_of_large >= 0 {
                return None;
            }
            let mean = header.large_mean.load(Relaxed).clamp(1, MOST_MEAN);
            self.left_of_large = self.draw(mean);
            return Some(mean);
        }
        self.left -= counted;
        if self.left >= 0 {
            return None;
        }
        let mean = self.mean;
        self.mean = next_mean(header, tracked);
        self.left = self.draw(self.mean);
        Some(mean)
    }

    /// -ln(u) * mean for a random u in (0, 1]. log2 in 16 bits of fixed point, one bit for each squaring.
    fn draw(&mut self, mean: u64) -> i64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let u = (self.random >> 32) + 1;
        let whole = u64::from(u.ilog2());
        if whole == 32 {
            return 0;
        }
        let mut mantissa = u << (31 - whole);
        let mut logarithm = whole;
        for _ in 0..16 {
            mantissa = (mantissa * mantissa) >> 31;
            logarithm <<= 1;
            if mantissa >> 32 != 0 {
                logarithm |= 1;
                mantissa >>= 1;
            }
        }
        // ln 2 = 45426 / 65536.
        let bits = (32 << 16) - logarithm;
        ((((bits * mean) >> 16) * 45426) >> 16) as i64
    }
}

fn next_mean(header: &Header, tracked: usize) -> u64 {
    let doublings = (tracked >> MANY_TRACKED_LOG2).min(16);
    (header.mean.load(Relaxed).clamp(1, MOST_MEAN) << doublings).min(MOST_MEAN)
}

/// The credit belongs to all threads of all processes.
fn take_credit(header: &Header) -> bool {
    let credit = &header.large_credit;
    if credit.load(Relaxed) <= 0 {
        return false;
    }
    if credit.fetch_sub(1, Relaxed) > 0 {
        return true;
    }
    credit.fetch_add(1, Relaxed);
    false
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn header(large: u64, mean: u64) -> Box<Header> {
        // SAFETY: atomics: zeros are valid.
        let header: Box<Header> = unsafe { Box::new(core::mem::zeroed()) };
        header.large.store(large, Relaxed);
        header.mean.store(mean, Relaxed);
        header.large_mean.store(1 << 20, Relaxed);
        header
    }

    #[test]
    fn small_ones_are_published_by_their_bytes() {
        let header = header(4096, 10_000);
        let mut choice = Choice::default();
        let told = (0..400_000).filter(|_| choice.of(&header, 100, 0, 77).is_some()).count();
        // 40 MB, one in 10 kB: 4000, give or take 63.
        assert!((3700..4300).contains(&told), "{told}");
    }

    #[test]
    fn large_ones_are_published_each_while_there_is_credit() {
        let header = header(4096, 10_000);
        header.large_credit.store(3, Relaxed);
        let mut choice = Choice::default();
        let told: Vec<Option<u64>> = (0..6).map(|_| choice.of(&header, 4096, 0, 5)).collect();
        assert_eq!(told[..3], [Some(0); 3]);
        assert!(told[3..].iter().all(|one| one.is_none_or(|mean| mean == 1 << 20)), "{told:?}");
        assert_eq!(header.large_credit.load(Relaxed), 0);
    }

    #[test]
    fn every_one_is_published_where_that_is_wanted() {
        let header = header(1, 10_000);
        header.every.store(1, Relaxed);
        let mut choice = Choice::default();
        assert!((1..100).all(|bytes| choice.of(&header, bytes, 1 << 20, 5) == Some(0)));
    }
}
