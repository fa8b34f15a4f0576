//! What engines that count every access hand over: totals of sites, pages and objects, and what is uncertain of them.

use numalens_profile::ids::*;

/// What is counted of pages and sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    Accesses,
    /// Those that missed the thread's private cache.
    Misses,
}

/// Counts of one thread at one site, for pages of one class.
#[derive(Clone, Copy, Debug)]
pub struct CountedSite {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub time_ns: u64,
    /// Index of the node that the thread was bound to.
    pub node: Option<u16>,
    pub site: SiteId,
    /// Index of the pages' home.
    pub home: Option<u16>,
    /// The pages were placed by a pinned thread.
    pub pinned: bool,
    /// How they are counted: an index of `exact::site::WAYS`.
    pub way: u8,
    pub reads: u64,
    pub writes: u64,
}

/// Counts of one thread on one page.
#[derive(Clone, Copy, Debug)]
pub struct UsedPage {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub time_ns: u64,
    /// Index of the node that the thread was bound to.
    pub node: Option<u16>,
    /// Index of the page's home.
    pub home: Option<u16>,
    pub page: Page,
    pub reads: u64,
    pub writes: u64,
}

/// What counts of a page say of it: the index of its home, and whether it was placed by a pinned thread.
pub type PageClass = (Option<u16>, bool);

/// Whose counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who {
    pub thread: ThreadId,
    /// Index of the node that the thread was bound to.
    pub node: Option<u16>,
    /// Of the pages.
    pub class: PageClass,
}

/// Counts of one thread for one object, on pages of one class. Which instructions they were is not known: whole pages
/// are counted.
#[derive(Clone, Copy, Debug)]
pub struct CountedObject {
    pub process: ProcessId,
    pub who: Who,
    pub time_ns: u64,
    pub object: ObjectId,
    /// Reads and writes.
    pub counts: [u64; 2],
    /// Samples that the counts are estimated from; 0: they are exact.
    pub samples: u32,
}

/// What is uncertain of an object.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Bound {
    /// Accesses to pages that it has shared, which were divided.
    pub divided: u64,
    /// Sum over these of the accesses that the sample stands for by which they were.
    pub squares: f64,
    /// Those that were not told apart.
    pub untold: u64,
    /// Those that were divided by samples that may have come first after a pause, and not at random.
    pub skewed: u64,
}

impl Bound {
    /// Adds another one's.
    pub fn add(&mut self, other: Bound) {
        self.divided = self.divided.saturating_add(other.divided);
        self.squares += other.squares;
        self.untold = self.untold.saturating_add(other.untold);
        self.skewed = self.skewed.saturating_add(other.skewed);
    }
}
