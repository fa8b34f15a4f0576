//! Pages of other processes of the recording: what their agents have written down of them.
//!
//! Nobody else may change the table of pages of a process. So who moves a page of another one writes into the page's
//! record where it is to be counted, and tells that process, which takes notice before it next says anything of homes,
//! and as `pages/migrate.rs` has it.

use crate::pages::class_in;
use crate::state::runtime::{Runtime, runtime};
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use hashbrown::HashMap;
use numalens_event::exact::{self, Extent, PageRecord, ProcessHeader, touch};
use rustc_hash::FxBuildHasher;

/// How often a page is looked for that goes on under another number whenever it is found.
const MOST_LOOKS: u32 = 64;

/// Another process of the recording.
pub struct Other {
    process: Extent,
    header: (u64, u64),
    records: (u64, u64),
    given: usize,
    /// The numbers of the pages that it has touched and that are there, by their addresses' numbers.
    pages: HashMap<u64, u32, FxBuildHasher>,
}

impl Other {
    /// The process of a thread that is recorded and runs.
    pub fn process_of(runtime: &Runtime, tid: u32) -> Option<Extent> {
        let thread = runtime.session.thread_of(tid)?;
        Some(Extent(runtime.session.entry(thread).parent.load(Relaxed)))
    }

    /// Looks at its records; none: they cannot be mapped.
    pub fn open(runtime: &Runtime, process: Extent) -> Option<Self> {
        let map = |bytes: usize, at: u64| {
            let bytes = bytes.next_multiple_of(sys::PAGE as usize) as u64;
            Some((sys::map_shared(bytes, runtime.session.descriptor, process.offset() + at).ok()?, bytes))
        };
        let header = map(size_of::<ProcessHeader>(), 0)?;
        let mut other =
            Other { process, header, records: (0, 0), given: 0, pages: HashMap::with_hasher(FxBuildHasher) };
        let given = other.header().pages.in_use() as usize;
        other.records = map(given.max(1) * size_of::<PageRecord>(), exact::process::PAGES)?;
        other.given = given;
        // Which has each page: the latest, as numbers are given again.
        let mut latest: HashMap<u64, (u64, u32, bool), FxBuildHasher> = HashMap::with_hasher(FxBuildHasher);
        let filled = |record: &PageRecord| record.how.load(Acquire) != touch::NONE && record.page.load(Relaxed) != 0;
        for (record, number) in other.records().iter().zip(0..).filter(|(record, _)| filled(record)) {
            // A page that goes on under another number has no end under the one of before.
            let (begin, is_there) = (record.begin_ns.load(Relaxed), record.end_ns.load(Relaxed) == 0);
            let known = latest.entry(record.page.load(Relaxed)).or_default();
            if begin >= known.0 {
                *known = (begin, number, is_there);
            }
        }
        let there = latest.into_iter().filter(|(_, (.., is_there))| *is_there);
        other.pages.extend(there.map(|(page, (_, number, _))| (page, number)));
        Some(other)
    }

    fn header(&self) -> &ProcessHeader {
        // SAFETY: mapped as long as this is, made of atomics.
        unsafe { &*(self.header.0 as *const ProcessHeader) }
    }

    fn records(&self) -> &[PageRecord] {
        // SAFETY: as above; so many have been given.
        unsafe { core::slice::from_raw_parts(self.records.0 as *const PageRecord, self.given) }
    }

    /// What `ask` finds of a page, by its record; if that has gone on under another number meanwhile, it is looked for
    /// again. None: there is no such page.
    fn find<T>(&mut self, page: u64, ask: impl Fn(&Self, &PageRecord) -> T) -> Option<T> {
        for _ in 0..MOST_LOOKS {
            let record = self.records().get(*self.pages.get(&page)? as usize)?;
            let found = ask(self, record);
            if !record.has_gone_on() {
                return Some(found);
            }
            *self = Other::open(runtime(), self.process)?;
        }
        None
    }

    /// The index of the node that has a page (by the number of its address), if it has touched it and it has a home.
    pub fn home(&mut self, page: u64) -> Option<u16> {
        self.find(page, |other, record| {
            let class = record.moved_to().unwrap_or_else(|| record.class.load(Relaxed));
            exact::class_meaning(other.header().classes.get(class as usize)?.load(Relaxed))?.0
        })?
    }

    /// Calls `found` for the pages that it has touched and that are there and have homes: with their numbers and the
    /// indices of their nodes.
    pub fn each_home(&mut self, mut found: impl FnMut(u64, u16)) {
        let pages: Vec<u64> = self.pages.keys().copied().collect();
        for page in pages {
            if let Some(home) = self.home(page) {
                found(page, home);
            }
        }
    }

    /// A page is on the node of this index from now on.
    pub fn move_page(&mut self, page: u64, node: u16) {
        // One that has gone on is not moved, and looked for again.
        self.find(page, |other, record| record.move_to(class_in(other.header(), exact::class_word(Some(node), true))));
    }

    /// Moves the pages that `to` names new nodes for (page, index of its node; index of the new one).
    pub fn migrate(&mut self, mut to: impl FnMut(u64, u16) -> Option<u16>) {
        let mut moves = Vec::new();
        self.each_home(|page, home| moves.extend(to(page, home).filter(|&new| new != home).map(|new| (page, new))));
        moves.into_iter().for_each(|(page, new)| self.move_page(page, new));
    }

    /// Tells it that pages of it have moved.
    pub fn publish_move(&self, runtime: &Runtime) {
        self.header().moved.fetch_add(1, AcqRel);
        runtime.session.commons().publish_move();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        for (at, bytes) in [self.header, self.records] {
            if bytes != 0 {
                sys::unmap(at, bytes);
            }
        }
    }
}
