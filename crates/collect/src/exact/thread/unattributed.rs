//! What a thread has counted of pages and is not attributed to objects yet.

use super::Polled;
use crate::exact::attribution::SharedCounts;
use crate::exact::word_counts::Waiting;
use crate::session::PageClass;
use numalens_profile::ids::ObjectId;
use rustc_hash::FxHashMap;

/// What a thread has counted of a page since the poll before.
#[derive(Clone, Copy, Debug)]
pub struct CountedPage {
    pub number: u32,
    /// Which poll has found it.
    pub poll: u64,
    /// It was counted after the one, and until the other.
    pub since_ns: u64,
    pub until_ns: u64,
    /// When it was found: bins may be wider when it is attributed.
    pub time_ns: u64,
    /// In which class it was counted.
    pub class: PageClass,
    pub reads: u64,
    pub writes: u64,
}

impl CountedPage {
    /// Of no class yet: counts that were found by a poll, or by one before that has left them to it.
    pub fn of(number: u32, poll: u64, polled: Polled, [reads, writes]: [u64; 2]) -> Self {
        let Polled { since_ns, until_ns, time_ns } = polled;
        CountedPage { number, poll, since_ns, until_ns, time_ns, class: PageClass::default(), reads, writes }
    }
}

/// What waits to be attributed.
#[derive(Default)]
pub struct Unattributed {
    /// What the latest poll found counted of pages, until the next one has read whose they were: in order of polls.
    pub counted: Vec<CountedPage>,
    /// Counts of pages that several objects share, until they are where they are divided.
    pub shared: Vec<SharedCounts>,
    /// Accesses that may be an object's or the allocator's, until then.
    pub untold: Vec<(ObjectId, u64)>,
    /// Counts of all pages, where every access is attributed to its object, until they are.
    pub waiting: FxHashMap<u32, Waiting>,
}

impl Unattributed {
    /// Takes out what was counted until a time, since when whose pages were is known.
    pub fn take_counted(&mut self, until_ns: u64) -> Vec<CountedPage> {
        let (known, waits): (Vec<_>, Vec<_>) = self.counted.drain(..).partition(|counted| counted.until_ns <= until_ns);
        self.counted = waits;
        known
    }

    /// Whether counts of polls before this one wait.
    pub fn has_older(&self, poll: u64) -> bool {
        self.counted.first().is_some_and(|counted| counted.poll < poll)
    }
}
