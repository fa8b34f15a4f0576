//! The counters of a thread as they were read last, of accesses or of those of them that missed.

use super::Balance;
use crate::exact::by_number::ByNumber;
use rustc_hash::FxHashMap;

/// What was counted by the latest poll.
#[derive(Default)]
pub struct Counters {
    /// At `site << classes_log2 | class`.
    pub sites: FxHashMap<u64, u64>,
    /// Reads and writes, by the page's number.
    pub pages: ByNumber<[u64; 2]>,
    /// Those of sites that were left out of the profile, where there is a private cache.
    pub left_out: FxHashMap<u64, u64>,
    /// What pages have still to follow of what sites have reported.
    pub balance: Balance,
}
