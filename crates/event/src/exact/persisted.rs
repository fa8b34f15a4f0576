//! Persisted code: translations that processes need not make, as others have made them before.
//!
//! The collector writes them, while processes run as well, and never changes one that is there: an image of some
//! fragments of a file of code stands for ever, and what is new of the file is another image.
//!
//! ```text
//!   CodeDirectory        how many images there are, and which
//!   image                slots, as many as a power of two; behind them the fragments
//! ```
//! What a fragment consists of is the translator's affair (`numalens_translator::persist`).

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Where it stands in the session file.
pub const CODE_OFFSET: u64 = 1 << 36;
/// Most bytes of all of it.
pub const CODE_BYTES: u64 = 1 << 30;
/// Most images.
pub const MOST_IMAGES: usize = 4096;

/// Stand for the code of files in memory, in the place of a key: the preloaded library's, which is not counted, and the
/// kernel's.
pub const PRELOADED_CODE: u64 = 2;
/// See [`PRELOADED_CODE`].
pub const KERNEL_CODE: u64 = 4;

/// Which images there are.
#[repr(C)]
#[derive(Debug)]
pub struct CodeDirectory {
    /// For which configuration of the translator they are; 0: the collector wants none, and hears of none.
    pub config: AtomicU64,
    /// How many of the places are filled.
    pub images: AtomicU32,
    /// Fills the word.
    pub reserved: AtomicU32,
    /// Each with its place.
    pub places: [ImagePlace; MOST_IMAGES],
}

/// Fragments of a file of code.
#[repr(C)]
#[derive(Debug)]
pub struct ImagePlace {
    /// Which file: its key, as the agents make it.
    pub file: AtomicU64,
    /// From [`CODE_OFFSET`] on, a multiple of 8.
    pub offset: AtomicU64,
    /// Bytes of the image.
    pub bytes: AtomicU64,
    /// log2 of its slots.
    pub slots_log2: AtomicU64,
}

/// A fragment in an image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentSlot {
    /// Where in the file its code begins, plus 1; 0: the slot is free, and nobody looks farther.
    pub place: u64,
    /// Where in the image it stands.
    pub at: u32,
    /// Bytes of it.
    pub bytes: u32,
}

/// The slot from which on a fragment is looked for, one after the other, and from the first again.
pub fn first_slot(place: u64, slots_log2: u32) -> usize {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - slots_log2.clamp(1, 32))) as usize
}
