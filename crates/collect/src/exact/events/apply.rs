//! What happened is taken in, one by one.

use super::blocks::take_in_blocks;
use super::owners::{begins, ends, owners_change};
use super::{Collected, Event, Reader};
use crate::exact::attribution::SampledAccess;
use crate::exact::known_pages::KnownPage;
use crate::exact::map_changes::MapChange;
use crate::exact::page_records::PageRecords;
use crate::exact::process::LoggedAccess;
use crate::exact::word_tables::WordReader;
use crate::session::SeenAccess;
use numalens_event::exact::{PageRecord, site, touch};
use numalens_profile::ids::Page;
use numalens_profile::words::Access;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

impl Reader<'_> {
    /// Reads what is new in the records of the process, of the first `given` places, in order with what its log and the
    /// preloaded library report.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read(mut self, given: u32) -> io::Result<()> {
        let first = self.process.pages.first();
        let end = given.min(self.process.header().pages.in_use()).max(first);
        let records = PageRecords::map(self.file, self.extent, first..end)?;
        let collected = self.collect(&records, given)?;
        self.apply(&records, collected)
    }

    /// Takes in what was collected, each among what the library reports of blocks.
    pub(super) fn apply(&mut self, records: &PageRecords, collected: Collected) -> io::Result<()> {
        let Collected { until, events, logged, ended, homes } = collected;
        for (time, event) in events {
            self.blocks_until(time);
            match event {
                Event::Begin(own) => self.page_begins(own, &records.all()[own as usize], &homes, time)?,
                Event::End(own) => self.page_ends(own, time)?,
                Event::Huge(own) => self.page_is_huge(own),
                Event::Gone(index) => {
                    let time_ns = self.session.advance(time);
                    self.session.pages_gone(self.process.identity.pid, logged.gone[index].1.clone(), time_ns);
                }
                Event::Map(index) => {
                    let pages = logged.map_changes[index].apply(self.session, self.process.identity.pid);
                    owners_change(self.session, self.process, pages, time);
                    self.read_sites(&logged.map_changes[index + 1..])?;
                }
                Event::Access(index) => self.access_logged(&logged.accesses[index]),
                Event::Words(index) => self.words().changed_hands(&logged.word_counts[index]),
                Event::Rest(index) => self.process.pages.rest(logged.rests[index].1.clone()),
                Event::Ended(index) => self.words().of_thread(ended[index].1, time)?,
            }
        }
        self.blocks_until(until);
        self.leave_regions(records);
        self.resolve_homes(records, &homes);
        Ok(())
    }

    /// Reads new sites as long as they lie where memory is mapped now; `next` is what is mapped and unmapped next.
    pub(super) fn read_sites(&mut self, next: &[MapChange]) -> io::Result<()> {
        let change = self.process.logged.sites_before_change(next);
        let pid = self.process.identity.pid;
        self.process.sites.read(self.file, self.session, self.extent, pid, change)
    }

    fn blocks_until(&mut self, time: u64) {
        take_in_blocks(self.queue, self.session, self.process, time, self.until);
    }

    fn words(&mut self) -> WordReader<'_> {
        WordReader { directory: self.directory, file: self.file, session: self.session, process: self.process }
    }

    fn page_begins(
        &mut self,
        own: u32,
        record: &PageRecord,
        homes: &FxHashMap<Page, u16>,
        time: u64,
    ) -> io::Result<()> {
        let how = record.how.load(Relaxed);
        // One that was known under another number.
        if !matches!(how, touch::MIGRATED | touch::NEXT_GENERATION) {
            self.page_placed(own, record, homes);
            return Ok(());
        }
        let before = record.origin.load(Relaxed);
        if self.session.records_every_object() {
            let extent = self.extent;
            self.words().of_pages(extent, before..before + 1, time)?;
        }
        self.page_goes_on(own, before, how == touch::NEXT_GENERATION, time);
        Ok(())
    }

    /// A page was moved to another node, or begins a generation for another object: it goes on as `own`, as what it was
    /// under the number `before`.
    fn page_goes_on(&mut self, own: u32, before: u32, is_generation: bool, time: u64) {
        let time_ns = self.session.advance(time);
        let class = self.process.pages.known[own].class;
        let Some(known) = self.directory.known_page(self.process, before) else { return };
        // What an allocator has filled it has filled before.
        let mut known = KnownPage { class, ended: false, filled: Cell::default(), around: None, ..*known };
        if is_generation {
            known.begin_ns = time_ns;
        } else {
            if let Some(home) = class.0 {
                let pid = self.process.identity.pid;
                let touch = self.session.page_migrated(pid, known.page, home, class.1, time_ns);
                known.touch = touch.or(known.touch);
            }
            self.process.shared.goes_on(before, self.process.pages.number(own));
        }
        if let Some(before) = self.process.pages.own(before) {
            ends(self.session, self.process, before, time_ns);
        }
        self.process.pages.lives(known.page, own);
        self.process.pages.known[own] = known;
        if is_generation {
            begins(self.session, self.process, own, time_ns);
        }
    }

    fn page_ends(&mut self, own: u32, time: u64) -> io::Result<()> {
        if self.session.records_every_object() {
            let (extent, number) = (self.extent, self.process.pages.number(own));
            self.words().of_pages(extent, number..number + 1, time)?;
        }
        let time_ns = self.session.advance(time);
        let page = ends(self.session, self.process, own, time_ns);
        self.process.pages.gone(page, own);
        self.session.page_gone(self.process.identity.pid, page, time_ns);
        Ok(())
    }

    fn page_is_huge(&mut self, own: u32) {
        let known = &mut self.process.pages.known[own];
        known.huge = true;
        if let Some(touch) = known.touch {
            self.session.page_is_huge(self.process.identity.pid, known.page, touch);
        }
    }

    /// Takes in an access that was logged: it is a sample, and says whose part of its page was accessed.
    fn access_logged(&mut self, logged: &LoggedAccess) {
        let &LoggedAccess { time, site, thread, address, count, page } = logged;
        let Some((site, flags)) = self.directory.site(self.process, site) else { return };
        let Some(thread) = self.directory.thread(thread) else { return };
        let (thread, tid, node) = (thread.id, thread.tid as u32, thread.node);
        let time_ns = self.session.advance(time);
        if !self.session.counted_at(time_ns) {
            return;
        }
        let Some(object) = self.session.holder_of(self.process.identity.pid, address, time_ns) else { return };
        let Some(class) = self.process.pages.get(page).map(|known| known.class) else { return };
        if let Some(came) = self.sampler.came(self.extent, page, time) {
            let accesses = count.max(1);
            self.process.shared.add_sample(page, SampledAccess { time_ns, thread, class, object, accesses, came });
        }
        let access = match (flags & site::READ != 0, flags & site::WRITE != 0) {
            (true, true) => Access::ReadWrite,
            (false, _) => Access::Write,
            _ => Access::Read,
        };
        let (process, (home, pinned)) = (self.process.id, class);
        let site = self.session.line_near(tid, time_ns, site);
        let seen = SeenAccess { process, time_ns, thread, node, site, address, access, object, home, pinned };
        self.session.access_seen(&seen);
    }

    /// Has pages counted for themselves that may be another object's than their region is: under another number, as
    /// when a block begins there.
    fn leave_regions(&mut self, records: &PageRecords) {
        let mut pages = Vec::new();
        for own in self.process.regions.take_leaving() {
            let known = &self.process.pages.known[own];
            if !known.ended {
                records.all()[own as usize].begin_generation();
                pages.push(known.page);
            }
        }
        self.process.doubt(&pages);
        self.sampler.query_direct(self.file, self.extent, &pages);
    }

    /// Takes in where pages are by now that accesses have placed.
    fn resolve_homes(&mut self, records: &PageRecords, homes: &FxHashMap<Page, u16>) {
        let header = self.process.header.clone();
        let (pid, last) = (self.process.identity.pid, self.process.life.last);
        self.process.pending_homes.resolve(
            header.process(),
            |number| records.get(number),
            |page| homes.get(&page).copied(),
            last,
            |page, home| self.session.page_found(pid, page, home),
        );
    }
}
