//! A thread in one of its places: its counters as they were read last, and what was counted and is not yet where it
//! belongs.

mod balance;
mod counters;
mod executed_code;
mod held_pages;
mod unattributed;
mod vacated;

use super::process::Process;
pub use balance::Balance;
pub use counters::Counters;
pub use executed_code::ExecutedCode;
pub use held_pages::{HeldPages, Polled};
use numalens_event::exact::Extent;
use numalens_profile::ids::ThreadId;
use std::ops::Range;
pub use unattributed::{CountedPage, Unattributed};
pub use vacated::Vacated;

/// A thread, in one of its places.
pub struct Thread {
    pub process: Extent,
    pub id: ThreadId,
    /// Its place in the order of creation.
    pub index: u32,
    pub tid: i32,
    /// What the session knows that it is called since it went on in this extent.
    pub name: [u8; 16],
    /// Index of the node that it was bound to.
    pub node: Option<u16>,
    pub accesses: Counters,
    /// What missed its private cache.
    pub misses: Counters,
    /// What was counted of pages and not reported at the latest poll.
    pub held: HeldPages,
    pub vacated: Vacated,
    pub unattributed: Unattributed,
    pub code: ExecutedCode,
    /// Before its counters were read for the last time, since the start of the recording.
    pub read_ns: u64,
    /// It has counted accesses to pages whose records have not been read yet.
    pub waits: bool,
    pub ended: bool,
}

impl Thread {
    /// One that counts from now on.
    pub fn new(process: Extent, id: ThreadId, index: u32, tid: i32, node: Option<u16>) -> Self {
        Thread { process, id, index, tid, node, ended: false, ..Thread::nobody() }
    }

    /// In the place of one that is being polled.
    pub fn nobody() -> Self {
        Thread {
            process: Extent::NONE,
            id: ThreadId(0),
            index: u32::MAX,
            tid: 0,
            name: [0; 16],
            node: None,
            accesses: Counters::default(),
            misses: Counters::default(),
            held: HeldPages::default(),
            vacated: Vacated::default(),
            unattributed: Unattributed::default(),
            code: ExecutedCode::default(),
            read_ns: 0,
            waits: false,
            ended: true,
        }
    }

    /// It has been polled for the last time.
    pub fn end(&mut self) {
        self.ended = true;
        (self.accesses, self.misses) = Default::default();
        (self.held, self.code, self.vacated) = Default::default();
    }

    /// Takes notice of pages of its process that are counted in regions by now.
    pub fn follow_assignments(&mut self, process: &Process) {
        if !self.vacated.are_behind(process) {
            return;
        }
        let is_assigned = |number| process.counted_in(number) != number;
        for (page, counts) in self.accesses.pages.take_where(is_assigned) {
            let region = process.counted_in(page);
            let all = self.accesses.pages.at(region);
            *all = [0, 1].map(|kind| all[kind] + counts[kind]);
            self.held.forget(region);
        }
        // What is held of them is found anew, by the next poll.
        self.held.forget_where(is_assigned);
    }

    /// Of pages that have gone nothing more will be counted.
    pub fn forget_pages(&mut self, pages: Range<u32>) {
        self.accesses.pages.forget(&pages);
        self.misses.pages.forget(&pages);
        self.held.forget_all(&pages);
    }
}
