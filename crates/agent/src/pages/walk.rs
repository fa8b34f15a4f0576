//! The pages of a range that have entries in the shadow table, however vast it is.

use super::table::{CHUNK, Chunk, Chunks, END, Shadow};
use crate::sys::PAGE_BITS;
use core::ops::Range;
use numalens_translator::PageEntry;

impl Shadow {
    /// Calls `gone` for each page of a range that has an entry, with that as its record has it; it says whether it took
    /// the entry away.
    pub(super) fn each(&self, range: Range<u64>, mut gone: impl FnMut(&Self, u64, PageEntry) -> bool) {
        let mut used = self.used.lock();
        self.walk(&mut used, range, |page, entry| gone(self, page, entry));
        used.retain(|_, chunk| chunk.used > 0 || chunk.leader.is_some());
    }

    /// Calls `found` for each page of a range that has an entry, by the one who holds the table.
    pub(super) fn each_held(&self, range: Range<u64>, mut found: impl FnMut(u64, PageEntry)) {
        // SAFETY: held by this thread.
        let used = unsafe { self.used.held() };
        self.walk(used, range, |page, entry| {
            found(page, entry);
            false
        });
    }

    /// As [`Shadow::each`], by the one who has locked or holds the table; chunks without entries stay.
    pub(super) fn walk(&self, used: &mut Chunks, range: Range<u64>, gone: impl FnMut(u64, PageEntry) -> bool) {
        self.walk_chunks(used, range, |_, _| true, gone);
    }

    /// The same, of the chunks that are `wanted`, by their numbers. They come in any order.
    pub(super) fn walk_chunks(
        &self,
        used: &mut Chunks,
        range: Range<u64>,
        mut wanted: impl FnMut(u64, &mut Chunk) -> bool,
        mut gone: impl FnMut(u64, PageEntry) -> bool,
    ) {
        let first = range.start >> PAGE_BITS;
        let end = range.end.div_ceil(1 << PAGE_BITS).min(END);
        if first >= end {
            return;
        }
        let mut look = |number: u64, chunk: &mut Chunk| {
            if !wanted(number, chunk) {
                return;
            }
            for page in (number * CHUNK).max(first)..(number * CHUNK + CHUNK).min(end) {
                let entry = self.load(page);
                if entry.slot != 0 && gone(page, chunk.own_entry(page, entry)) {
                    chunk.used = chunk.used.saturating_sub(1);
                    chunk.marked = 0;
                }
            }
        };
        let chunks = first / CHUNK..end.div_ceil(CHUNK);
        if chunks.end - chunks.start < used.len() as u64 {
            for number in chunks {
                if let Some(chunk) = used.get_mut(&number) {
                    look(number, chunk);
                }
            }
        } else {
            for (&number, chunk) in used.iter_mut().filter(|(number, _)| chunks.contains(number)) {
                look(number, chunk);
            }
        }
    }
}
