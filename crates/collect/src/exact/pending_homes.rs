//! Accesses that placed pages of a real machine: counted before anybody knew where the pages would be.
//!
//! The agent counts them for [`numalens_event::exact::PENDING_HOME`], by thread and site, and the records of pages tell
//! one by one what they stand for. Here the two meet: each such access is reported with the home that its page turned
//! out to have.

use super::page_class::{class_in, meaning};
use numalens_event::exact::{Extent, PageRecord, ProcessHeader};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Where a page was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placed {
    /// The index of its home.
    pub home: Option<u16>,
    /// By a pinned thread.
    pub pinned: bool,
}

/// The accesses with a pending home of a process.
#[derive(Default)]
pub struct PendingHomes {
    waiting: Vec<Waiting>,
    /// What is known, by thread and site, in the order in which it became known.
    resolved: FxHashMap<(Extent, u32), Vec<Placed>>,
}

/// Accesses that are reported by one record, or by a line of the log.
struct Waiting {
    /// The number of the page's record.
    number: u32,
    thread: Extent,
    site: u32,
    /// Sites that follow `site` and that have been taken over too.
    along: u32,
    /// No more will come.
    alone: bool,
    known: Option<Placed>,
}

impl PendingHomes {
    /// A new record of a page that an access has placed.
    pub fn placed(&mut self, number: u32, record: &PageRecord) {
        let (thread, site) = (Extent(record.thread.load(Relaxed)), record.site.load(Relaxed));
        self.waiting.push(Waiting { number, thread, site, along: 0, alone: false, known: None });
    }

    /// An access of `site` that came between the one that placed the page `number` and its being there.
    pub fn early(&mut self, number: u32, site: u32, thread: Extent) {
        self.waiting.push(Waiting { number, thread, site, along: 0, alone: true, known: None });
    }

    /// The pages that the kernel is to be asked for, in order.
    pub fn unresolved<'a>(&self, header: &ProcessHeader, record: impl Fn(u32) -> Option<&'a PageRecord>) -> Vec<Page> {
        let unknown = self.waiting.iter().filter(|one| one.known.is_none()).filter_map(|one| record(one.number));
        let open = unknown.filter(|record| {
            meaning(header, record.first_class.load(Acquire)).is_none() && record.end_ns.load(Relaxed) == 0
        });
        let mut pages: Vec<Page> = open.map(|record| Page(record.page.load(Relaxed))).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Takes in what the agent or the kernel says by now; `last`: nobody will say more. Calls `found` for pages whose
    /// home was not known before.
    pub fn resolve<'a>(
        &mut self,
        header: &ProcessHeader,
        record: impl Fn(u32) -> Option<&'a PageRecord>,
        home: impl Fn(Page) -> Option<u16>,
        last: bool,
        mut found: impl FnMut(Page, u16),
    ) {
        let resolved = &mut self.resolved;
        self.waiting.retain_mut(|one| {
            let Some(record) = record(one.number) else { return !last };
            let page = Page(record.page.load(Relaxed));
            let (expected, pinned) = class_in(header, &record.class);
            let by_agent = meaning(header, record.first_class.load(Acquire));
            let gone = record.end_ns.load(Relaxed) != 0;
            let by_kernel = if gone { None } else { home(page) };
            let was = one.known;
            one.known = was
                .or_else(|| by_agent.map(|(home, pinned)| Placed { home: home.or(expected), pinned }))
                .or_else(|| by_kernel.map(|home| Placed { home: Some(home), pinned }))
                .or_else(|| (last || gone).then_some(Placed { home: expected, pinned }));
            let Some(placed) = one.known else { return true };
            if let (None, Some(home), false) = (was, placed.home, gone) {
                found(page, home);
            }
            let along = if one.alone { 0 } else { record.origin.load(Acquire) };
            let from = if was.is_none() { 0 } else { one.along + 1 };
            for site in from..=along {
                resolved.entry((one.thread, one.site + site)).or_default().push(placed);
            }
            one.along = along;
            by_agent.is_none() && !gone && !last
        });
    }

    /// The accesses with a pending home of a thread at a site, as far as they are known.
    pub fn of(&self, thread: Extent, site: u32) -> &[Placed] {
        self.resolved.get(&(thread, site)).map_or(&[], Vec::as_slice)
    }
}
