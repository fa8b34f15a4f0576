//! What the shadow table has of pages, and where it is.

/// How generated code finds the shadow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    /// At this address, a multiple of 8 below 2 GiB: nothing to load.
    At(u32),
    /// Anywhere; it is found through `context::SHADOW_BASE`. One addition more per access.
    FromContext,
}

/// What the shadow table has of a page: one word per 4 KiB page, at index `address >> 12` (address below 2^47 for all
/// that can be mapped), see [`Config::word_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageEntry {
    /// The class of the page for the site counters, from [`PageEntry::READ_ONLY`]; 0: ask.
    pub class: u32,
    /// Index of the page's counter of reads in the thread's `pages` table, in units of 8 bytes; that of writes follows.
    /// Even; 0: there is none.
    pub slot: u32,
}

impl PageEntry {
    /// The class of pages that have not been written: reads are counted in it like in any other, a write asks, as it
    /// makes the page another one (the zero page). The least of all, so that one comparison tells what a write may be
    /// counted in. No record has such a page for its last: whoever writes it need not look for records.
    pub const READ_ONLY: u32 = 1;
}
