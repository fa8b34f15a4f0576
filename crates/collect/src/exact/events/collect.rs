//! What is known to have happened, gathered and sorted.

use super::blocks::is_ready;
use super::{Collected, Event, Reader};
use crate::exact::known_pages::KnownPage;
use crate::exact::new_pages;
use crate::exact::page_class::class_in;
use crate::exact::page_records::PageRecords;
use crate::homes::{PageHome, query_homes};
use numalens_event::exact::{self, PageRecord, fault, touch};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

impl Reader<'_> {
    /// Gathers what happened until all is known, and enters new pages, of places below `given`.
    pub(super) fn collect(&mut self, records: &PageRecords, given: u32) -> io::Result<Collected> {
        let pid = self.process.identity.pid;
        self.session.ask_sizes(pid);
        // Whose pages and words are depends on each event before.
        let ready = |note: &_, is_open| is_ready(self.session, &self.process.life, note, is_open, self.until);
        let until = self.queue.ready_until(pid, self.until, ready);
        let mut new = self.process.pages.new_ones(self.process.header(), given);
        let (complete, until) = self.readable(&records.of(&new), until);
        new.truncate(complete);
        self.process.life.known_until = until;
        let mut events = Vec::new();
        self.collect_known(records, until, &mut events);
        if !self.session.is_virtual() {
            let records = new.iter().map(|&own| (own, &records.all()[own as usize]));
            for (own, record) in records.filter(|(_, record)| record.how.load(Relaxed) == touch::FIRST) {
                self.process.pending_homes.placed(self.process.pages.number(own), record);
            }
        }
        let homes = self.ask_homes(records);
        self.collect_new(records, &new, until, &mut events);
        let logged = self.process.logged.take_until(until);
        let ended = match self.session.records_every_object() {
            true => self.directory.ended_threads(self.file, self.extent, self.process, until),
            false => Vec::new(),
        };
        let mut add = |times: &mut dyn Iterator<Item = u64>, event: fn(usize) -> Event| {
            events.extend(times.zip(0..).map(|(time, index)| (time, event(index))));
        };
        add(&mut logged.accesses.iter().map(|access| access.time), Event::Access);
        add(&mut logged.word_counts.iter().map(|words| words.time), Event::Words);
        add(&mut logged.gone.iter().map(|(time, _)| *time), Event::Gone);
        add(&mut logged.map_changes.iter().map(|change| change.time), Event::Map);
        add(&mut logged.rests.iter().map(|(time, _)| *time), Event::Rest);
        add(&mut ended.iter().map(|(time, _)| *time), Event::Ended);
        self.read_sites(&logged.map_changes)?;
        events.sort_unstable();
        Ok(Collected { until, events, logged, ended, homes })
    }

    /// How many of the new records can be read, and until when all is known then.
    fn readable(&self, new: &[&PageRecord], until: u64) -> (usize, u64) {
        // After the last instruction there is nothing to wait for.
        if self.process.life.last {
            return (new.len(), until);
        }
        let is_known = |site| self.directory.site(self.process, site).is_some() || self.process.sites.will_know(site);
        new_pages::readable(new, until, |site, thread| {
            site.is_none_or(is_known) && self.directory.thread(thread).is_some()
        })
    }

    /// What happened to pages that are known: ends, and that they are huge. Takes in their classes.
    fn collect_known(&mut self, records: &PageRecords, until: u64, events: &mut Vec<(u64, Event)>) {
        let header = self.process.header.clone();
        let header = header.process();
        // The kernel may have placed pages where there were none.
        let in_doubt = self.process.pages.polled() && !self.process.life.last;
        let mut unwritten = Vec::new();
        for own in self.process.pages.present() {
            let record = &records.all()[own as usize];
            let word = || header.classes.get(record.class.load(Relaxed) as usize).map(|word| word.load(Relaxed));
            if in_doubt && word() == Some(exact::READ_ONLY) {
                unwritten.push(Page(record.page.load(Relaxed)));
            }
            let known = &mut self.process.pages.known[own];
            known.class = class_in(header, &record.class);
            let end = record.end_ns.load(Relaxed);
            if end != 0 && end <= until {
                events.push((end, Event::End(own)));
            }
            if is_huge(record) && !known.huge {
                events.push((record.begin_ns.load(Relaxed), Event::Huge(own)));
            }
            let regions = &mut self.process.regions;
            if regions.of(own).is_some() && !regions.has_joined(own) && record.joined().is_some() {
                regions.join(own);
                self.process.pages.counted_in_region(own);
            }
        }
        self.process.doubt(&unwritten);
    }

    /// What happened to pages that are new, which are known from now on.
    fn collect_new(&mut self, records: &PageRecords, new: &[u32], until: u64, events: &mut Vec<(u64, Event)>) {
        for &own in new {
            let record = &records.all()[own as usize];
            let (page, begin) = (Page(record.page.load(Relaxed)), record.begin_ns.load(Relaxed));
            // Killed while it was being filled.
            let filled = record.how.load(Relaxed) != touch::NONE;
            let class = class_in(self.process.header(), &record.class);
            self.process.pages.enter(own, KnownPage { ended: !filled, class, ..KnownPage::unfilled(page) });
            if filled {
                events.push((begin, Event::Begin(own)));
                if is_huge(record) {
                    events.push((begin + 1, Event::Huge(own)));
                }
                let end = record.end_ns.load(Relaxed);
                if end != 0 && end <= until {
                    events.push((end.max(begin + 1), Event::End(own)));
                }
            }
        }
    }

    /// Where new pages are, by the kernel's word: indices of nodes.
    fn ask_homes(&self, records: &PageRecords) -> FxHashMap<Page, u16> {
        let pages = self.process.pending_homes.unresolved(self.process.header(), |number| records.get(number));
        let mut homes = Vec::new();
        if pages.is_empty() || query_homes(self.process.identity.pid, &pages, &mut homes).is_err() {
            return FxHashMap::default();
        }
        let index = |(page, home)| match home {
            PageHome::Node(node) => self.session.node_index(node).map(|index| (page, index)),
            _ => None,
        };
        pages.into_iter().zip(homes).filter_map(index).collect()
    }
}

/// Whether an agent has seen that a huge page was placed by this access.
fn is_huge(record: &PageRecord) -> bool {
    record.fault.load(Relaxed) & fault::IS_HUGE != 0
}
