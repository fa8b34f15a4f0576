//! Pages, as both sides count them and map what they share.

/// log2 of the bytes of a page.
pub const PAGE_BITS: u32 = 12;

/// Bytes of a page.
pub const PAGE: u64 = 1 << PAGE_BITS;

/// Where the page begins that holds `at`: an address, or an offset in a file.
pub const fn begin(at: u64) -> u64 {
    at & !(PAGE - 1)
}
