//! What the numbers in a thread's tables refer to.

use crate::exact::access_sampler::AccessSampler;
use crate::exact::direct::Place;
use crate::exact::directory::Directory;
use crate::exact::known_pages::KnownPage;
use crate::exact::page_owners::Had;
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

impl<'a> Known<'a> {
    /// What is known of a page of the process, its own or inherited.
    pub fn page(&self, number: u32) -> Option<&'a KnownPage> {
        self.directory.known_page(self.process, number)
    }

    /// Whether a page of the process's own has gone so long ago that nothing is known of it any more.
    pub fn has_gone(&self, number: u32) -> bool {
        self.process.pages.has_gone(number)
    }

    /// Who has had a page from one time to another, as far as that was written down.
    pub fn had(&self, number: u32, since_ns: u64, until_ns: u64) -> Option<Had> {
        self.directory.had(self.process, number, since_ns, until_ns)
    }
}

impl Lookup for Known<'_> {
    fn row(&self, number: u32) -> Option<Row> {
        self.directory.row(self.process, number).cloned()
    }

    fn last_page(&self, number: u32) -> Option<LastPageSlot> {
        self.directory.last_page(self.process, number)
    }

    fn counted_in(&self, page: u32) -> u32 {
        self.process.counted_in(page)
    }

    fn is_on(&self, address: u64, offset: u64) {
        self.sampler.borrow_mut().last_pages(self.of, address, self.thread, offset);
    }

    fn direct(&self, place: Place) {
        self.sampler.borrow_mut().direct(self.of, place);
    }
}
