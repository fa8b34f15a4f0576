//! Which access has placed a huge page, so that its other parts are known to have come with it.
//!
//! ```text
//! a chunk of 2 MiB    X  .  .  .  .     X, the leader, was accessed first: the kernel may have placed all of it
//!                     X  .  Y  .  .     Y is there at its first access: it came with X, whatever is mapped how by now
//!                     -  -  Y  .  .     X and others go. What is left came with X all the same
//!                     Z  -  Y  .  .     Z is placed alone: a huge page takes a chunk of which nothing is left
//! ```

use super::{CHUNK, Chunk, PAGE_BITS, Shadow, ask};
use crate::shared::ProcessMemory;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use hashbrown::HashMap;
use numalens_event::exact::fault;
use rustc_hash::FxBuildHasher;

/// The leader of a chunk, or of a part of it.
pub(super) struct Led {
    /// The part, in addresses.
    range: Range<u64>,
    /// The leader's number.
    pub leader: u32,
}

/// The addresses of a chunk, by its number.
pub(super) fn addresses(chunk: u64) -> Range<u64> {
    let bytes = CHUNK << PAGE_BITS;
    chunk * bytes..(chunk + 1) * bytes
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.max(other.start)..one.end.min(other.end)
}

impl Chunk {
    /// A page of the chunk is placed, under this number, by an access that may place all of it.
    pub(super) fn led_by(&mut self, page: u64, number: u32) {
        let is_left = self.leader != 0 && (!self.is_unsure || ask::any_of_chunk(page));
        self.is_unsure = false;
        if !is_left {
            self.leader = number;
        }
    }
}

impl Shadow {
    /// The pages of a range have gone, or may go: whoever placed the chunks that they leave behind is known as long as anything is left.
    pub(super) fn left_by(&self, used: &mut HashMap<u64, Chunk, FxBuildHasher>, range: &Range<u64>, surely: bool) {
        used.retain(|&number, chunk| {
            let of_chunk = addresses(number);
            let goes = overlap(range, &of_chunk);
            let all = surely && goes == of_chunk;
            chunk.is_unsure |= !goes.is_empty();
            if all {
                chunk.leader = 0;
            }
            chunk.used > 0 || chunk.leader != 0
        });
    }

    /// The leaders of chunks in a range.
    pub(super) fn leaders(&self, range: &Range<u64>) -> Vec<Led> {
        let used = self.used.lock();
        let led =
            |(&number, chunk): (&u64, &Chunk)| Led { range: overlap(range, &addresses(number)), leader: chunk.leader };
        used.iter().filter(|(_, chunk)| chunk.leader != 0).map(led).filter(|led| !led.range.is_empty()).collect()
    }

    /// What they have placed is so many bytes higher now (modulo 2^64).
    pub(super) fn led_elsewhere(&self, all: Vec<Led>, by: u64) {
        let mut used = self.used.lock();
        for Led { range, leader } in all {
            let (start, end) = (range.start.wrapping_add(by) >> PAGE_BITS, range.end.wrapping_add(by) >> PAGE_BITS);
            for number in start / CHUNK..end.div_ceil(CHUNK) {
                let chunk = used.entry(number).or_default();
                if chunk.leader == 0 {
                    (chunk.leader, chunk.is_unsure) = (leader, true);
                }
            }
        }
    }

    /// Whether it is open of a chunk in a range whether all of it was placed at once.
    pub(super) fn has_unsized(&self, memory: &ProcessMemory, range: &Range<u64>) -> bool {
        let is_open = |led: Led| memory.page(led.leader).fault.load(Relaxed) & fault::IS_HUGE == 0;
        self.leaders(range).into_iter().any(is_open)
    }
}
