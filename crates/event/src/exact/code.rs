//! What instructions count: operands, and how often code is executed.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Most sites of a process.
pub const MOST_SITES: u32 = 1 << 23;
/// Most segments of a process: it may have as many execution counters as sites, and segments for both.
pub const MOST_SEGMENTS: u32 = 1 << 24;

/// An operand of an instruction.
#[repr(C)]
#[derive(Debug)]
pub struct SiteRecord {
    /// The instruction's address.
    pub address: AtomicU64,
    /// Bits of [`site`].
    pub flags: AtomicU32,
    /// Bytes of the log when it was made: which mappings were in force.
    pub log: AtomicU32,
    /// The number of its last page, plus 1; 0: it has none.
    pub last_page: AtomicU32,
    /// The number of the execution counter that goes with it.
    pub executions: AtomicU32,
    /// Not 0: no operand, but a row that stands for so many sites, the first of which is `address`.
    pub members: AtomicU32,
    /// Fills the record.
    pub padding: AtomicU32,
}

/// Bits of [`SiteRecord::flags`].
pub mod site {
    /// Reads.
    pub const READ: u32 = 1;
    /// Writes. With `READ`: a read-modify-write, one of each.
    pub const WRITE: u32 = 2;
    /// Relative to the stack pointer.
    pub const STACK: u32 = 4;
    /// From this bit on: how it is counted, a `numalens_translator::Way`.
    pub const WAY_SHIFT: u32 = 8;

    /// The words for these ways, by their numbers.
    pub const WAYS: [&str; 12] = [
        "unknown",
        "page limits",
        "last pages",
        "constant pages",
        "direct page counters",
        "groups looked up: their pages change",
        "groups looked up: executed seldom",
        "single: in no group",
        "single: flags are needed",
        "elements of vectors, strings",
        "out of line",
        "each by itself",
    ];
}

/// Counters of all sites and classes: 1 GiB, as what follows must stay within reach of a displacement.
pub const MOST_SITE_COUNTERS: u64 = 1 << 27;

/// How many sites have counters, for so many classes.
pub fn sites(classes_log2: u32) -> u32 {
    let most = MOST_SITE_COUNTERS >> classes_log2;
    most.min(MOST_SITES.into()) as u32
}

/// The site and the class of the counter at a place among the site counters: there is a column of [`sites`] counters
/// for each class.
pub fn site_and_class(place: u64, classes_log2: u32) -> (u32, u32) {
    let sites = u64::from(sites(classes_log2));
    ((place % sites) as u32, (place / sites) as u32)
}

/// Instructions of one page that are executed together.
#[repr(C)]
#[derive(Debug)]
pub struct SegmentRecord {
    /// The address of the first.
    pub address: AtomicU64,
    /// How many; and above [`segment::KIND_SHIFT`] what tells how often: one of [`segment`].
    pub instructions: AtomicU32,
    /// The number of the execution counter, or of the site.
    pub counter: AtomicU32,
}

/// What tells how often a segment is executed.
pub mod segment {
    /// An execution counter.
    pub const EXECUTIONS: u32 = 0;
    /// The accesses of a site, to pages of all classes.
    pub const SITE: u32 = 1;
    /// An execution counter that holds instructions to be added, modulo 2^64: what runs that broke off had counted.
    pub const CORRECTION: u32 = 2;
    /// Where the kind stands.
    pub const KIND_SHIFT: u32 = 16;
}
