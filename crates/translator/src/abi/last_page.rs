//! The record of a last page in the context of a thread.

/// The last page of a group, as a thread has it: 32 bytes in its table of last pages. Offsets.
#[derive(Debug)]
pub struct LastPage;

impl LastPage {
    /// The address of the page; 0: the next execution must look.
    pub const PAGE: u32 = 0;
    /// The number of the last execution before those that the record stands for.
    pub const SINCE: u32 = 8;
    /// The [`crate::Config::word_of`] the page that the record stands for; 0: none.
    pub const ENTRY: u32 = 16;
    /// How often the page, or the class of a megamorphic group, changed (32 bits).
    pub const MISSES: u32 = 24;
    /// 0: by page; else megamorphic: the column of the record's class plus 1, so that no page without a class is taken
    /// for one, or one of the two below (32 bits).
    pub const CLASS: u32 = 28;
    /// Megamorphic, and the class changes too often.
    pub const ANY_CLASS: u32 = u32::MAX;
    /// Megamorphic, and the record holds no class now.
    pub const NO_CLASS: u32 = 0x7fff_ffff;
    /// In a record that is no group's: below which the induction variable of a loop may grow, as a signed number: see
    /// `counting/hoisted.rs`.
    pub const PAGE_LIMIT: u32 = 0;
    /// There as well, of a loop whose iterations follow from its induction variable: what is added to that to have the
    /// iterations.
    pub const BIAS: u32 = 8;
    /// What `CLASS` is there.
    pub const IS_PAGE_LIMIT: u32 = 0x7fff_fffe;
    /// Bytes of a record.
    pub const BYTES: u32 = 32;
}
