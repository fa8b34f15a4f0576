//! What is kept of every access in tests.

use super::Mapping;
use super::expected::{Expected, PageCounts, by_page};
use numalens_translator::count::Run;
use numalens_translator::{Each, context, line_masks};

/// Pages that have records.
const PAGES: usize = 1 << 13;

/// Bytes of the rows of sites' misses.
const MISSES: usize = 4 << 20;

/// The tables of the only thread, which has had all lines, and each word of them, already.
pub struct Kept {
    each: Each,
    lines: Mapping,
    turns: Mapping,
    words: Mapping,
    sets: Mapping,
    misses: Mapping,
    /// What was counted out of line.
    apart: Vec<Expected>,
    /// How many accesses were counted in place, and how many runs out of line.
    pub in_place: u64,
    pub out_of_line: u64,
}

impl Kept {
    pub fn new(each: Each) -> Kept {
        let mut turns = Mapping::new(PAGES << 10, None, false);
        if each.lines {
            turns.bytes_mut().as_chunks_mut::<16>().0.iter_mut().for_each(|turn| turn[8..12].fill(0xff));
        }
        Kept {
            each,
            lines: Mapping::new(PAGES << 12, None, false),
            turns,
            words: Mapping::new(PAGES << 13, None, false),
            sets: Mapping::new(1 << 16, None, false),
            misses: Mapping::new(MISSES + (PAGES << 4), None, false),
            apart: Vec::new(),
            in_place: 0,
            out_of_line: 0,
        }
    }

    /// Tells generated code where they are, for page counters from `pages` on.
    pub fn note(&self, thread: &mut Mapping, pages: u32) {
        let table = |table: &Mapping, log2: u32| table.address().wrapping_sub(u64::from(pages) << (log2 - 4));
        thread.set(context::LINE_COUNTS as usize, table(&self.lines, 12));
        thread.set(context::LINE_TURNS as usize, table(&self.turns, 10));
        thread.set(context::WORD_COUNTS as usize, table(&self.words, 13));
        thread.set(context::CACHE_SETS as usize, self.sets.address());
        let misses = self.misses.address();
        thread.set(context::CACHE_MISSES as usize, misses);
        thread.set(context::CACHE_PAGE_MISSES as usize, misses + MISSES as u64 - u64::from(pages));
        for (number, mask) in line_masks().enumerate() {
            thread.set_half(context::LINE_MASKS as usize + 4 * number, mask);
        }
    }

    /// Accesses were counted out of line. `has_way`: there is a way to count them in place.
    pub fn counted(&mut self, run: &Run, has_way: bool) {
        self.out_of_line += u64::from(has_way);
        self.apart.push(Expected { kind: run.kind, address: run.address, count: run.count });
    }

    /// All accesses by page, of pages by their numbers, as each of the tables has them, since the last call.
    pub fn take(&mut self, slots: &[u64]) -> Vec<PageCounts> {
        let apart = by_page(&std::mem::take(&mut self.apart));
        let (mut all, mut in_place) = (Vec::new(), 0);
        let mut read = |table: &mut Mapping, log2: u32, counts: fn(&[u8]) -> (u64, u64)| {
            let mut pages = apart.clone();
            for (number, &page) in slots.iter().enumerate() {
                let record = &mut table.bytes_mut()[number << log2..(number + 1) << log2];
                let (reads, writes) = counts(record);
                if (reads, writes) != (0, 0) {
                    in_place += reads.max(writes);
                    let sum = pages.entry(page).or_default();
                    *sum = (sum.0 + reads, sum.1 + writes);
                    record.fill(0);
                }
            }
            all.push(pages);
        };
        if self.each.lines {
            read(&mut self.lines, 12, |page| {
                sum(page.as_chunks::<64>().0.iter().map(|line| (word(line, 0), word(line, 8))))
            });
        }
        if self.each.words {
            read(&mut self.words, 13, |page| {
                sum(page.as_chunks::<4>().0.as_chunks::<2>().0.iter().map(|word| {
                    let [reads, writes] = word.map(|half| u64::from(u32::from_le_bytes(half)));
                    (reads, writes)
                }))
            });
        }
        self.in_place += in_place;
        all
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn sum(counts: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    counts.fold((0, 0), |sum, (reads, writes)| (sum.0 + reads, sum.1 + writes))
}
