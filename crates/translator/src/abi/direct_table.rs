//! The records of direct page counters in the context of a thread.

/// What a thread knows of a direct table: 64 bytes. Offsets.
#[derive(Debug)]
pub struct DirectTable;

impl DirectTable {
    /// The address of the first page that has a counter; [`DirectTable::NOWHERE`]: the next access must ask.
    pub const BASE: u32 = 0;
    /// Offsets from GS of the counters (32 bits each), and of the [`crate::Config::word_of`] the page that each counts
    /// for. 0: it has never begun.
    pub const COUNTERS: u32 = 8;
    pub const WORDS: u32 = 16;
    /// Counters that have begun are in this range, both ends included (32 bits each).
    pub const LOW: u32 = 24;
    pub const HIGH: u32 = 28;
    /// How often an access found no counter, where there should be one (32 bits).
    pub const MISSED: u32 = 32;
    /// The number of the row that stands for the group's sites (32 bits).
    pub const ROW: u32 = 36;
    /// How many of the group's members read, and write (32 bits each).
    pub const READS: u32 = 40;
    pub const WRITES: u32 = 44;
    /// Executions that have been settled.
    pub const COUNTED: u32 = 48;
    /// Too far from all addresses of programs for a counter.
    pub const NOWHERE: u64 = 1 << 63;
    /// Bytes of a header.
    pub const BYTES: u32 = 64;
    /// A direct table is looked at whenever so many accesses have found no counter.
    pub(crate) const MANY: u32 = 1024;
    /// Direct tables of a thread.
    pub const MOST: u32 = 256;
    /// Bytes of the headers.
    pub const HEADERS: u32 = Self::MOST * Self::BYTES;
    /// In a counter: it has begun; it is to be asked about.
    pub const BEGUN: u32 = 1 << 31;
    pub const ASKED: u32 = 1 << 30;

    /// Bytes of the direct tables of a thread.
    pub const fn bytes(pages: u32) -> u64 {
        Self::words(Self::MOST, pages)
    }

    /// Where the counters of a direct table begin, of so many pages each.
    pub const fn counters(direct: u32, pages: u32) -> u64 {
        Self::HEADERS as u64 + direct as u64 * pages as u64 * 4
    }

    /// Where stands what the counters of a direct table count for.
    pub const fn words(direct: u32, pages: u32) -> u64 {
        Self::counters(Self::MOST, pages) + direct as u64 * pages as u64 * 8
    }

    /// What a counter has counted.
    pub const fn count_of(counter: u32) -> u32 {
        match counter {
            _ if counter & Self::BEGUN != 0 => counter & !Self::BEGUN,
            _ if counter & Self::ASKED != 0 => counter & !Self::ASKED,
            _ => 0,
        }
    }
}
