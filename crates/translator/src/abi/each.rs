//! What is kept of every access, besides counts of sites and pages.

use crate::context;
use numalens_isa::Kind;

/// Parts of which each hears of every access by itself, with its address ([`crate::count::Pages::counted`]). What they
/// look at first stands in the context of the thread, so that generated code can do the usual case itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// Counts by cache line, and who accessed it last: [`context::LINE_COUNTS`], [`context::LINE_TURNS`].
    pub lines: bool,
    /// A private cache that every access is looked up in: [`context::CACHE_SETS`].
    pub cache: Option<CacheSets>,
    /// Counts by words of 4 bytes: [`context::WORD_COUNTS`].
    pub words: bool,
}

impl Each {
    /// Pages that have records of lines and words: those with lower numbers.
    pub const MOST_PAGES: u32 = 1 << 23;
}

/// A private cache: for each set as many 64-bit words as it has ways, of lines (addresses without the lowest bits) plus
/// 1, the one used last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSets {
    /// A power of two.
    pub sets: u32,
    /// Lines of each.
    pub ways: u32,
    /// log2 of the bytes of a line.
    pub line_log2: u32,
}

/// log2 of the bytes of a page's record of 64 lines, of their turns, of its words.
pub(crate) const LINE_COUNTS_LOG2: u8 = 12;
pub(crate) const LINE_TURNS_LOG2: u8 = 10;
pub(crate) const WORD_COUNTS_LOG2: u8 = 13;
/// log2 of the bytes of a page's counters, reads and writes.
pub(crate) const PAGE_COUNTERS_LOG2: u8 = 4;
/// Of a line's record: reads, writes behind them, and which words were accessed.
pub(crate) const LINE_READS: i32 = 0;
pub(crate) const LINE_WORDS: i32 = 48;
/// Of a line's turn: the thread in 32 bits, and which words it has accessed.
pub(crate) const TURN_THREAD: i32 = 0;
pub(crate) const TURN_WORDS: i32 = 8;
/// log2 of the bytes of the accesses that have masks, at most: a line's.
const MOST_LOG2: u32 = 6;

/// Where the masks stand, for each first byte within a line, of accesses of so many bytes. `None`: there are none.
pub(crate) fn masks_of(kind: Kind, size: u32) -> Option<u32> {
    let log2 = size.checked_ilog2().filter(|&log2| size.is_power_of_two() && log2 <= MOST_LOG2)?;
    let table = log2 + if kind == Kind::Read { 0 } else { MOST_LOG2 + 1 };
    Some(context::LINE_MASKS + table * LINE * 4)
}

const LINE: u32 = 64;

/// What must stand at [`context::LINE_MASKS`] where lines are counted: the words of a line that an access covers, a bit
/// each, and those that it writes, 16 bits higher. What lies in the next line is left out.
pub fn line_masks() -> impl Iterator<Item = u32> {
    [false, true].into_iter().flat_map(|writes| {
        (0..=MOST_LOG2).flat_map(move |log2| {
            (0..LINE).map(move |first| {
                let last = (first + (1 << log2) - 1).min(LINE - 1);
                let words = (2 << (last >> 2)) - (1 << (first >> 2));
                if writes { words | words << 16 } else { words }
            })
        })
    })
}

/// Bytes of [`line_masks`].
pub const LINE_MASKS_BYTES: u32 = 2 * (MOST_LOG2 + 1) * LINE * 4;
