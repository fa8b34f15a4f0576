//! What the log of a process says, until it is taken in among all else that happened to its memory.

use crate::exact::map_changes::MapChange;
use crate::exact::word_counts::LoggedWordCounts;
use numalens_event::exact::{Extent, log};
use numalens_profile::ids::Page;
use std::ops::Range;

/// An access that an agent has logged.
pub struct LoggedAccess {
    pub time: u64,
    pub site: u32,
    pub thread: Extent,
    pub address: u64,
    /// How many from there on.
    pub count: u64,
    /// The page's number.
    pub page: u32,
}

/// What a log says of pages, of one process.
#[derive(Default)]
pub struct LoggedEvents {
    pub accesses: Vec<LoggedAccess>,
    /// Words that changed hands.
    pub word_counts: Vec<LoggedWordCounts>,
    /// Memory that has gone, with the times.
    pub gone: Vec<(u64, Range<Page>)>,
    /// Ranges in which a block has begun or ended, with the times.
    pub rests: Vec<(u64, Range<Page>)>,
    /// What was mapped and unmapped.
    pub map_changes: Vec<MapChange>,
}

impl LoggedEvents {
    /// Adds a record of the log, if it is about pages; `text` takes its text from a word on.
    pub fn add(&mut self, what: u32, time: u64, words: &[u64], text: impl Fn(usize) -> String) {
        self.map_changes.extend(MapChange::read(what, time, words, text));
        match (what, words) {
            (log::ACCESS, &[site, thread, address, count, page]) => {
                let (site, thread, page) = (site as u32, Extent(thread as u32), page as u32);
                self.accesses.push(LoggedAccess { time, site, thread, address, count, page });
            }
            (log::SHARE, &[thread, address, reads, writes, page]) => {
                let (thread, counts, page) = (Extent(thread as u32), [reads, writes], page as u32);
                self.word_counts.push(LoggedWordCounts { time, thread, address, counts, page });
            }
            // Parts of huge pages have no records of their own.
            (log::UNMAPPED | log::GONE, &[start, end, ..]) => {
                self.gone.push((time, Page::of(start)..Page(end.div_ceil(Page::BYTES))));
            }
            (log::NEXT_GENERATION, &[start, end, ..]) => self.rests.push((time, Page::of(start)..Page::of(end))),
            _ => {}
        }
    }

    /// Takes out what happened until then; what came later waits.
    pub fn take_until(&mut self, until: u64) -> LoggedEvents {
        LoggedEvents {
            accesses: take_until(&mut self.accesses, until, |access| access.time),
            word_counts: take_until(&mut self.word_counts, until, |counts| counts.time),
            gone: take_until(&mut self.gone, until, |(time, _)| *time),
            rests: take_until(&mut self.rests, until, |(time, _)| *time),
            map_changes: take_until(&mut self.map_changes, until, |change| change.time),
        }
    }

    /// How many sites had been given before the memory map changes the next time, when `next` is what changes before
    /// what waits; none where no change waits that moves code.
    pub fn sites_before_change(&self, next: &[MapChange]) -> Option<u32> {
        next.iter().chain(&self.map_changes).find_map(|change| change.sites)
    }
}

fn take_until<T>(waiting: &mut Vec<T>, until: u64, time: impl Fn(&T) -> u64) -> Vec<T> {
    let later = waiting.extract_if(.., |one| time(one) > until).collect();
    std::mem::replace(waiting, later)
}
