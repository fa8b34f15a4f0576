//! How a recording is to be interpreted.

use numalens_event::exact::Geometry;
use numalens_topology::{Machine, PagePolicy, ThreadPlacement};

/// How a recording is to be interpreted.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub machine: Machine,
    pub placement: ThreadPlacement,
    pub policy: PagePolicy,
    pub time_bins: u32,
    /// Count accesses relative to the stack pointer too.
    pub stack: bool,
    /// Count where code is fetched from.
    pub code: bool,
    /// Count accesses by cache line.
    pub lines: bool,
    /// Attribute every access to its object, however many share a page.
    pub every_object: bool,
    /// Look accesses up in a private cache of each thread.
    pub cache: Option<Geometry>,
    /// Bytes that may be kept of single pages.
    pub memory_budget: u64,
    /// Nanoseconds (clock) or accesses (hardware) that one sample stands for.
    pub period: u64,
    /// Record the children of the first process too.
    pub follow: bool,
    /// Accesses are counted, not sampled.
    pub counted: bool,
    /// They are counted from when the program, or the user, says so.
    pub start_paused: bool,
}
