//! Instructions whose executions are counted together.

use crate::SiteId;

/// Instructions of one page of code that are executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first of them.
    pub ip: u64,
    /// How many, one after the other.
    pub instructions: u32,
    /// What tells how often.
    pub counter: FetchCounter,
}

/// What counts the runs of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchCounter {
    /// An execution counter.
    Executions(u32),
    /// The accesses of a site, to pages of all classes.
    Site(SiteId),
    /// An execution counter that is no counter of runs: instructions of the page that are to be added, modulo 2^64.
    Correction(u32),
}
