//! The processes and threads of a recording, and what numbers in their tables refer to.
//!
//! A forked process has the sites and pages of its parent below the numbers that it inherited, so each is looked up
//! along the line of parents.

use super::fetches::Segment;
use super::file::SessionFile;
use super::known_pages::KnownPage;
use super::page_owners::Had;
use super::process::{Process, is_region};
use super::thread::Thread;
use super::totals::{LastPageSlot, Row};
use super::word_counts::{Waiting, WaitingPage};
use numalens_event::exact::Extent;
use numalens_profile::ids::*;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// All processes and threads that were met.
#[derive(Default)]
pub struct Directory {
    pub processes: FxHashMap<Extent, Process>,
    /// In the order of their extents.
    pub threads: Vec<(Extent, Thread)>,
}

impl Directory {
    /// The process of an extent.
    pub fn process(&self, extent: Extent) -> Option<&Process> {
        self.processes.get(&extent)
    }

    /// The extents of all processes, in order.
    pub fn extents(&self) -> Vec<Extent> {
        let mut all: Vec<Extent> = self.processes.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The processes that have not ended, in no order.
    pub fn live(&self) -> impl Iterator<Item = (Extent, &Process)> {
        self.processes.iter().filter(|(_, process)| !process.life.ended).map(|(&extent, process)| (extent, process))
    }

    /// How many pages the processes that have not ended have, each its own.
    pub fn living_pages(&self) -> u64 {
        self.live().map(|(_, process)| process.pages.living() as u64).sum()
    }

    /// How many threads have not ended, each in one of its places.
    pub fn running_threads(&self) -> usize {
        self.threads.iter().filter(|(_, thread)| !thread.ended).count()
    }

    /// Calls `f` with a process, which the directory does not have meanwhile.
    pub fn with<R>(&mut self, extent: Extent, f: impl FnOnce(&Directory, &mut Process) -> R) -> Option<R> {
        let mut process = self.processes.remove(&extent)?;
        let result = f(self, &mut process);
        self.processes.insert(extent, process);
        Some(result)
    }

    /// The thread of an extent.
    pub fn thread(&self, extent: Extent) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&extent, |(extent, _)| *extent).ok()?;
        Some(&self.threads[at].1)
    }

    /// The extents of a process's threads, ended ones too, and which threads these are. One that went on in another
    /// place has several.
    pub fn threads_of(&self, process: Extent) -> impl Iterator<Item = (Extent, &Thread)> {
        let of = self.threads.iter().filter(move |(_, thread)| thread.process == process);
        of.map(|(extent, thread)| (*extent, thread))
    }

    /// The threads of a process by their places in the order of creation.
    pub fn thread_indices(&self, process: Extent) -> FxHashMap<u32, ThreadId> {
        self.threads_of(process).map(|(_, thread)| (thread.index, thread.id)).collect()
    }

    /// The threads of a process that ended until `until`, with the time of their end, if they have not been found
    /// before.
    pub fn ended_threads(
        &self,
        file: &SessionFile,
        extent: Extent,
        process: &Process,
        until: u64,
    ) -> Vec<(u64, Extent)> {
        // It may fail, and its threads go on.
        if file.has_execed(extent) {
            return Vec::new();
        }
        let ends = self.unread_threads(extent, process).into_iter();
        let ends = ends.filter_map(|thread| Some((file.last_count_of(thread)?, thread)));
        ends.filter(|&(time, _)| time <= until).collect()
    }

    /// The threads of a process whose counts by word have not been read to the end.
    pub fn unread_threads(&self, extent: Extent, process: &Process) -> Vec<Extent> {
        self.threads_of(extent).map(|(thread, _)| thread).filter(|thread| !process.words.is_read(*thread)).collect()
    }

    /// What threads have counted of pages and is not attributed to objects yet.
    pub fn take_waiting(&mut self) -> Vec<WaitingPage> {
        let mut all = Vec::new();
        for (extent, thread) in &mut self.threads {
            let (extent, of, id, node) = (*extent, thread.process, thread.id, thread.node);
            let page = |(page, counts): (u32, Waiting)| WaitingPage { extent, of, thread: id, node, page, counts };
            all.extend(std::mem::take(&mut thread.unattributed.waiting).into_iter().map(page));
        }
        all
    }

    /// What is known of a page of a process, its own or inherited.
    pub fn known_page<'a>(&'a self, process: &'a Process, number: u32) -> Option<&'a KnownPage> {
        if process.regions.is_inherited(number) {
            return self.known_page(self.process(process.parent?)?, number);
        }
        match process.pages.own(number) {
            Some(_) if is_region(number) => process.regions.get(number),
            Some(own) => process.pages.known.get(own),
            None => self.known_page(self.process(process.parent?)?, number),
        }
    }

    /// A site of a process, its own or inherited.
    pub fn site(&self, process: &Process, number: u32) -> Option<(SiteId, u32)> {
        match self.row(process, number)? {
            &Row::Site(site, flags) => Some((site, flags)),
            Row::Several(_) => None,
        }
    }

    /// What a row of site counters counts, of a process or inherited.
    pub fn row<'a>(&'a self, process: &'a Process, number: u32) -> Option<&'a Row> {
        match process.sites.own(number) {
            Some(own) => process.sites.row(own),
            None => self.row(self.process(process.parent?)?, number),
        }
    }

    /// A last page of a process, its own or inherited.
    pub fn last_page(&self, process: &Process, number: u32) -> Option<LastPageSlot> {
        let own = process.sites.last_page(number);
        own.or_else(|| self.last_page(self.process(process.parent?)?, number))
    }

    /// Who has had a page from one time to another, as far as that was written down.
    pub fn had(&self, process: &Process, number: u32, since_ns: u64, until_ns: u64) -> Option<Had> {
        if process.pages.own(number).is_some() {
            return process.shared.had(number, since_ns, until_ns);
        }
        // What a forked process does with its blocks says nothing of its parent's, and the other way round.
        match self.had(self.process(process.parent?)?, number, 0, until_ns)? {
            Had::By(object) => Some(Had::Between(vec![object])),
            had => Some(had),
        }
    }

    /// All segments of a process: its own, its parent's until it was forked, and so on.
    pub fn segments<'a>(&'a self, process: &'a Process) -> Vec<&'a [Segment]> {
        let (mut all, mut of, mut end) = (Vec::new(), Some(process), u32::MAX);
        while let Some(process) = of {
            all.push(process.fetches.below(end));
            end = process.fetches.inherited();
            of = process.parent.filter(|_| end > 0).and_then(|parent| self.process(parent));
        }
        all
    }

    /// Whether a process that goes on has been forked from one, or from one that was, and so on.
    fn has_living_descendants(&self, extent: Extent) -> bool {
        let parent = |of: Extent| self.process(of).and_then(|process| process.parent);
        self.live().any(|(child, _)| std::iter::successors(parent(child), |&of| parent(of)).any(|of| of == extent))
    }

    /// Forgets what is known of pages that have gone by a poll (who counts by word asks for these in the end), and what
    /// threads had counted of them.
    pub fn forget_pages(&mut self, extent: Extent, poll: u64) {
        if !self.process(extent).is_some_and(|process| process.pages.is_forgotten_by(poll)) {
            return;
        }
        let has_children = self.has_living_descendants(extent);
        let Some(process) = self.processes.get_mut(&extent) else { return };
        // Children ask for pages of their parents that have gone long ago, and what is uncertain is reported in the
        // end.
        let (uncertain, regions) = (&process.shared.bounds.pages, &process.regions);
        let keeps = |mut group: Range<u32>| has_children || group.any(|number| uncertain.contains_key(&number));
        for pages in process.pages.forget(poll, keeps, regions) {
            for (_, thread) in self.threads.iter_mut().filter(|(_, thread)| thread.process == extent) {
                thread.forget_pages(pages.clone());
            }
        }
    }
}
