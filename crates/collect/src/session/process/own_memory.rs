//! Memory of a process that is the recording's own.

use numalens_profile::ids::Page;
use rangemap::RangeSet;
use std::ops::Range;

/// What of a process is not the program's.
#[derive(Clone, Default)]
pub struct OwnMemory {
    /// Code of the interposer.
    pub code: Range<u64>,
    /// Pages of the interposer and of what it shares with the collector.
    pages: RangeSet<u64>,
}

impl OwnMemory {
    /// A file of the recording was mapped.
    pub fn mapped(&mut self, range: Range<u64>) {
        self.pages.insert(Page::of(range.start).0..Page::of(range.end - 1).0 + 1);
    }

    /// Whether a page is the recording's.
    pub fn has_page(&self, page: Page) -> bool {
        self.pages.contains(&page.0)
    }

    /// Whether an instruction is the interposer's.
    pub fn has_code(&self, address: u64) -> bool {
        self.code.contains(&address)
    }
}
