//! The records of pages and regions of a process, as its agent fills them.

use super::file::{SessionFile, Shared};
use numalens_event::exact::{self, Extent, PageRecord};
use numalens_event::page;
use std::io;
use std::ops::Range;

/// The records of some numbers.
pub struct PageRecords {
    map: Shared,
    /// Bytes of others before them.
    skipped: usize,
    numbers: Range<u32>,
}

impl PageRecords {
    /// Of a process.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn map(file: &SessionFile, extent: Extent, numbers: Range<u32>) -> io::Result<Self> {
        const SIZE: u64 = size_of::<PageRecord>() as u64;
        let start = u64::from(numbers.start) * SIZE;
        let offset = page::begin(start);
        let skipped = start - offset;
        // One at least is mapped, though there may be none yet.
        let bytes = skipped + numbers.len().max(1) as u64 * SIZE;
        let map = file.extent(extent, exact::process::PAGES + offset, bytes as usize)?;
        Ok(PageRecords { map, skipped: skipped as usize, numbers })
    }

    /// All, in order.
    pub fn all(&self) -> &[PageRecord] {
        self.map.words(self.skipped, self.numbers.len())
    }

    /// Those at some places in it.
    pub fn of(&self, places: &[u32]) -> Vec<&PageRecord> {
        places.iter().map(|&place| &self.all()[place as usize]).collect()
    }

    /// The record of a number, if it is one of them.
    pub fn get(&self, number: u32) -> Option<&PageRecord> {
        self.all().get(number.checked_sub(self.numbers.start)? as usize)
    }
}
