//! What waits for the kernel's word on its pages, until the end of a batch.

use super::touches::Touch;
use numalens_profile::ids::*;
use numalens_profile::words::{Access, Found, Source};
use numalens_topology::NodeId;
use std::ops::Range;

/// What waits.
#[derive(Default)]
pub struct Pending {
    pub faults: Vec<PendingFault>,
    pub accesses: Vec<PendingAccess>,
    pub fetches: Vec<PendingFetch>,
    /// Batches settled so far.
    pub batch: u32,
}

impl Pending {
    /// Takes out what waits for a batch to be settled; none: nothing waits.
    pub fn take(&mut self) -> Option<Pending> {
        if self.faults.is_empty() && self.accesses.is_empty() && self.fetches.is_empty() {
            return None;
        }
        let batch = self.batch + 1;
        Some(std::mem::replace(self, Pending { batch, ..Pending::default() }))
    }

    /// The memory of a batch that is settled is for the next one.
    pub fn reuse(&mut self, mut settled: Pending) {
        settled.faults.clear();
        settled.accesses.clear();
        settled.fetches.clear();
        *self = Pending { batch: self.batch, ..settled };
    }
}

/// A fault waiting for the kernel's word on its page.
pub struct PendingFault {
    pub pid: i32,
    pub time_ns: u64,
    pub page: Page,
    pub cpu: u32,
    /// Its bin is set when it is settled: bins may have become wider until then.
    pub touch: Touch,
    pub node: Option<NodeId>,
    pub policy: String,
    /// The faulting instruction only read.
    pub read_only: bool,
    pub may_be_huge: bool,
    /// Numbers of the pages that the kernel may have mapped along with it.
    pub around: Range<u64>,
}

/// An access waiting for the home of its page.
pub struct PendingAccess {
    pub pid: i32,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub time_ns: u64,
    pub cpu: u32,
    pub node: Option<NodeId>,
    pub site: SiteId,
    pub stack: Option<StackId>,
    pub object: ObjectId,
    pub address: u64,
    pub found: Found,
    pub access: Access,
    pub latency: Option<u32>,
    pub source: Option<Source>,
    pub period: u64,
}

/// A sample of the instruction pointer waiting for the home of its code page.
pub struct PendingFetch {
    pub pid: i32,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub time_ns: u64,
    pub node: Option<NodeId>,
    pub page: Page,
    pub module: Option<ModuleId>,
}
