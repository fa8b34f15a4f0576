//! Which access has placed a huge page, so that its other parts are known to have come with it.
//!
//! ```text
//! a chunk of 2 MiB    X  .  .  .  .     X, the leader, was accessed first: the kernel may have placed all of it
//!                     X  .  Y  .  .     Y is there at its first access: it came with X, whatever is mapped how by now
//!                     -  -  Y  .  .     X and others go. What is left came with X all the same
//!                     Z  -  Y  .  .     Z is placed alone: a huge page takes a chunk of which nothing is left
//! ```

use super::query;
use super::record::{continuing, open};
use super::table::{CHUNK, Chunk, Chunks, END, Shadow};
use crate::state::page_id::PageId;
use crate::state::runtime::is_virtual;
use crate::state::session_file::ProcessMemory;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{fault, touch};

/// The leader of a chunk, or of a part of it.
pub(super) struct Led {
    /// The part, in addresses.
    range: Range<u64>,
    /// The leader's number.
    pub leader: PageId,
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
    pub(super) fn led_by(&mut self, page: u64, number: PageId) {
        let is_left = self.leader.is_some() && (!self.is_unsure || query::any_of_chunk(page));
        self.is_unsure = false;
        if !is_left {
            self.leader = number;
        }
    }
}

/// The pages of a range have gone, or may go: whoever placed the chunks that they leave behind is known as long as
/// anything is left.
pub(super) fn left_by(shadow: &Shadow, used: &mut Chunks, range: &Range<u64>, surely: bool) {
    let mut empty = Vec::new();
    let leave = |number, chunk: &mut Chunk| {
        chunk.is_unsure = true;
        if surely && overlap(range, &addresses(number)) == addresses(number) {
            chunk.leader = PageId::NONE;
        }
        if chunk.used == 0 && chunk.leader == PageId::NONE {
            empty.push(number);
        }
        false
    };
    shadow.walk_chunks(used, range.clone(), leave, |_, _| false);
    for number in empty {
        used.remove(&number);
    }
}

/// The leaders of chunks in a range.
pub(super) fn leaders(shadow: &Shadow, range: &Range<u64>) -> Vec<Led> {
    let mut all = Vec::new();
    let led = |number, chunk: &mut Chunk| {
        if chunk.leader.is_some() {
            all.push(Led { range: overlap(range, &addresses(number)), leader: chunk.leader });
        }
        false
    };
    shadow.walk_chunks(&mut shadow.used.lock(), range.clone(), led, |_, _| false);
    all
}

/// What they have placed is so many bytes higher now (modulo 2^64). Huge pages are as a whole; parts of them, and
/// what the kernel has to split, get numbers of their own.
pub(super) fn led_elsewhere(shadow: &Shadow, memory: &ProcessMemory, all: Vec<Led>, by: u64) {
    let mut used = shadow.used.lock();
    for Led { range, leader } in all {
        let range = range.start.wrapping_add(by)..range.end.wrapping_add(by);
        let chunk = (range.start >> PAGE_BITS) / CHUNK;
        if range == addresses(chunk) {
            let chunk = used.entry(chunk).or_default();
            (chunk.leader, chunk.is_unsure) = (leader, true);
            continue;
        }
        let Some(scan) = query::Scan::open() else { return };
        scan.each(range, |page, _| {
            if page < END && shadow.load(page).slot == 0 {
                used.entry(page / CHUNK).or_default().used += u32::from(moved_part(shadow, memory, page, leader));
            }
        });
    }
}

/// A page that has moved here came with a leader's. Whether there was a number for it.
fn moved_part(shadow: &Shadow, memory: &ProcessMemory, page: u64, leader: PageId) -> bool {
    let class = memory.page(leader).class.load(Relaxed);
    let Some((number, record)) = continuing(memory, leader, page, class, sys::now_ns()) else { return false };
    // On a real machine it is asked for at its next access.
    let (state, class) = if is_virtual() { (open::SETTLED, class) } else { (open::IN_DOUBT, 0) };
    record.set_state(state);
    record.how.store(touch::MOVED, Release);
    shadow.store(page, number.entry(class));
    true
}

/// Whether it is open of a chunk in a range whether all of it was placed at once.
pub(super) fn has_unsized(shadow: &Shadow, memory: &ProcessMemory, range: &Range<u64>) -> bool {
    let is_open = |led: Led| memory.page(led.leader).fault.load(Relaxed) & fault::IS_HUGE == 0;
    leaders(shadow, range).into_iter().any(is_open)
}
