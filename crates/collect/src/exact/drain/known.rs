//! What the numbers in threads' tables refer to.

use super::super::tallies::Place;
use super::super::totals::Lookup;
use super::*;

/// What a thread's tables refer to.
pub(super) struct Known<'a> {
    pub drain: &'a Drain,
    pub process: &'a Process,
    pub of: Extent,
    pub thread: Extent,
}

impl Lookup for Known<'_> {
    fn row(&self, number: u32) -> Option<Row> {
        self.drain.row(self.process, number)
    }

    fn stay(&self, number: u32) -> Option<Stay> {
        self.drain.stay(self.process, number)
    }

    fn is_on(&self, address: u64, offset: u64) {
        self.drain.watch.borrow_mut().stays(self.of, address, self.thread, offset);
    }

    fn tallies(&self, place: Place) {
        self.drain.watch.borrow_mut().tallies(self.of, place);
    }
}
