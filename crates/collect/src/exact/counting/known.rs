//! What the numbers in a thread's tables refer to.

use crate::exact::access_sampler::AccessSampler;
use crate::exact::direct::Place;
use crate::exact::directory::Directory;
use crate::exact::process::Process;
use crate::exact::totals::{LastPageSlot, Lookup, Row};
use numalens_event::exact::Extent;
use std::cell::RefCell;

/// What a thread's tables refer to; the sampler hears where its counters are.
pub struct Known<'a> {
    pub directory: &'a Directory,
    pub sampler: &'a RefCell<&'a mut AccessSampler>,
    pub process: &'a Process,
    pub of: Extent,
    pub thread: Extent,
}

impl Lookup for Known<'_> {
    fn row(&self, number: u32) -> Option<Row> {
        self.directory.row(self.process, number).cloned()
    }

    fn last_page(&self, number: u32) -> Option<LastPageSlot> {
        self.directory.last_page(self.process, number)
    }

    fn is_on(&self, address: u64, offset: u64) {
        self.sampler.borrow_mut().last_pages(self.of, address, self.thread, offset);
    }

    fn direct(&self, place: Place) {
        self.sampler.borrow_mut().direct(self.of, place);
    }
}
