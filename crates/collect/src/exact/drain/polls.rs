//! When it was polled, and whether counts of polls before wait.

use crate::exact::thread::Thread;
use numalens_event::exact::Extent;
use numalens_profile::MOST_LOOKS;

/// What has ever come, whether it is still there or not.
#[derive(Clone, Copy, Default)]
pub struct Arrived {
    /// Places of threads and processes.
    pub extents: u32,
    /// Pages of the processes that have not ended.
    pub pages: u64,
}

/// The polls so far.
#[derive(Default)]
pub struct Polls {
    count: u64,
    /// When, since the start.
    times: Vec<u64>,
    /// When the latest three began.
    began_ns: [u64; 3],
    /// What had come by then.
    arrived: Arrived,
    /// Counts of polls before wait for what is reported of blocks: nothing may be forgotten that they are attributed
    /// by.
    has_older_counts: bool,
}

impl Polls {
    /// One begins, when so much has come. Returns the time before which no counts will come any more, unless counts of
    /// polls before wait.
    pub fn begin(&mut self, now_ns: u64, arrived: Arrived) -> Option<u64> {
        self.count += 1;
        self.arrived = arrived;
        if self.times.len() < MOST_LOOKS {
            self.times.push(now_ns);
        }
        let [_, before, last] = self.began_ns;
        self.began_ns = [before, last, now_ns];
        (!self.has_older_counts).then_some(before)
    }

    /// What has come since the latest one, of so much in all.
    pub fn since(&self, arrived: Arrived) -> Arrived {
        Arrived {
            extents: arrived.extents.saturating_sub(self.arrived.extents),
            pages: arrived.pages.saturating_sub(self.arrived.pages),
        }
    }

    /// Which one this is.
    pub fn number(&self) -> u64 {
        self.count
    }

    /// When they were.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// Threads have been polled.
    pub fn see_what_waits(&mut self, threads: &[(Extent, Thread)]) {
        self.has_older_counts = threads.iter().any(|(_, thread)| thread.unattributed.has_older(self.count));
    }

    /// Whether counts of polls before wait.
    pub fn has_older_counts(&self) -> bool {
        self.has_older_counts
    }
}
