//! What the numbers in threads' tables refer to.

use super::super::direct::Place;
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

    fn last_page(&self, number: u32) -> Option<LastPageSlot> {
        self.drain.last_page(self.process, number)
    }

    fn is_on(&self, address: u64, offset: u64) {
        self.drain.sampler.borrow_mut().last_pages(self.of, address, self.thread, offset);
    }

    fn direct(&self, place: Place) {
        self.drain.sampler.borrow_mut().direct(self.of, place);
    }
}

impl Drain {
    /// The extents of a process's threads, ended ones too, and which threads these are. One that went on in another
    /// place has several.
    pub(in crate::exact) fn threads_of(&self, process: Extent) -> Vec<(Extent, ThreadId)> {
        let of = self.threads.iter().filter(|(_, thread)| thread.process == process);
        of.map(|(extent, thread)| (*extent, thread.id)).collect()
    }

    /// The threads of a process by their places in the order of creation.
    pub(in crate::exact) fn thread_indices(&self, process: Extent) -> FxHashMap<u32, ThreadId> {
        let of = self.threads.iter().filter(|(_, thread)| thread.process == process);
        of.map(|(_, thread)| (thread.index, thread.id)).collect()
    }

    /// What threads have counted of pages and is not attributed to objects yet.
    pub(in crate::exact) fn take_waiting(&mut self) -> Vec<WaitingPage> {
        let mut all = Vec::new();
        for (extent, thread) in &mut self.threads {
            let (extent, of, id, node) = (*extent, thread.process, thread.id, thread.node);
            let page = |(page, counts)| WaitingPage { extent, of, thread: id, node, page, counts };
            all.extend(std::mem::take(&mut thread.waiting).into_iter().map(page));
        }
        all
    }

    /// The thread of an extent.
    pub(in crate::exact) fn thread(&self, extent: Extent) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&extent, |(extent, _)| *extent).ok()?;
        Some(&self.threads[at].1)
    }

    /// What is known of a page of a process, its own or inherited.
    pub(in crate::exact) fn known_page<'a>(&'a self, process: &'a Process, number: u32) -> Option<&'a KnownPage> {
        match number.checked_sub(process.inherited_pages.max(1)) {
            Some(own) => process.pages.get(own),
            None => self.known_page(self.processes.get(&process.parent?)?, number),
        }
    }

    /// A site of a process, its own or inherited.
    pub(in crate::exact) fn site(&self, process: &Process, number: u32) -> Option<(SiteId, u32)> {
        match self.row(process, number)? {
            Row::Site(site, flags) => Some((site, flags)),
            Row::Several(_) => None,
        }
    }

    fn row(&self, process: &Process, number: u32) -> Option<Row> {
        match number.checked_sub(process.inherited_sites) {
            Some(own) => process.sites.get(own as usize).cloned(),
            None => self.row(self.processes.get(&process.parent?)?, number),
        }
    }

    fn last_page(&self, process: &Process, number: u32) -> Option<LastPageSlot> {
        match process.last_pages.get(&number) {
            Some(&last_page) => Some(last_page),
            None => self.last_page(self.processes.get(&process.parent?)?, number),
        }
    }
}
