//! The number of a page: of its record, and of its counters.

use numalens_event::exact::FIRST_REGION;
use numalens_translator::PageEntry;

/// The number of a page, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageId(pub u32);

impl PageId {
    /// None.
    pub const NONE: Self = PageId(0);

    /// That of an entry in the table of pages, which names the first of two counters: of reads and of writes.
    pub fn of(entry: PageEntry) -> Self {
        PageId(entry.slot / 2)
    }

    /// The entry of the page while it is in a class.
    pub fn entry(self, class: u32) -> PageEntry {
        PageEntry { class, slot: self.0 * 2 }
    }

    /// Whether it is a region's.
    pub fn is_region(self) -> bool {
        self.0 >= FIRST_REGION
    }

    /// Whether there is a number.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}
