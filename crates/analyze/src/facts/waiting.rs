//! Accesses that wait for other threads: of loops that end when somebody else writes, and of the runtimes' own
//! barriers, locks and queues.
//!
//! A thread that waits reads one word over and over, from its own cache. Such accesses say nothing of where memory
//! should lie, and there may be more of them than of all others. So they are set apart: figures of what to change are
//! of the rest, and what was set apart is told beside them.
//!
//! Which instructions wait is known by their names and, of loops, by their code ([`WaitingSite`]). How often they
//! executed is counted; on which pages only single accesses tell, some of which are looked at. So a page's waits are
//! the instruction's count, divided as those that were looked at:
//!
//! ```text
//!   instruction   executed   looked at    page A   page B         page A: 900 of its 1,000 accesses wait,
//!   spin: cmp     900        9            9                               whoever has made them
//!   spin: test    100        4            1        3              page A: 25 more, page B: 75
//! ```
//!
//! Of an instruction that no single access was looked at of, the word may be alone on its page, as what is aligned is:
//! then a page has as many accesses as the instruction, and few more.
//!
//! [`WaitingSite`]: numalens_profile::tables::WaitingSite

use crate::facts::cache_lines::{LINE_SHIFT, LineFacts};
use crate::facts::code::Code;
use crate::facts::page_sums::OfPage;
use crate::facts::page_use::{PageUse, PageUseKey};
use crate::facts::sites::SiteFacts;
use crate::model::counts::Counts;
use crate::model::report::Value;
use crate::model::tally::{self, Tally};
use numalens_profile::ids::{Page, ProcessId, SiteId};
use rustc_hash::FxHashMap;

/// Accesses of a page, beyond those of a waiting instruction that was never looked at, are one in so many of these at
/// most: then the page is taken for that of the word.
const ALONE: u64 = 10;

/// What was set apart.
#[derive(Default)]
pub struct Waiting {
    /// All accesses, and those that wait.
    pub all: Counts,
    counts: Counts,
    /// Of each instruction.
    sites: FxHashMap<SiteId, u64>,
    /// The instruction with most of them.
    pub hottest: Option<SiteId>,
    /// The part of a page's accesses that waits; absent: none.
    pages: FxHashMap<(Page, ProcessId), f64>,
}

impl Waiting {
    /// Of accesses by site and the names of code, whatever the pages are: without them.
    pub fn of_code(by_site: &SiteFacts, code: &Code) -> Waiting {
        let mut waiting = Waiting::default();
        for ((site, class), tally) in by_site.by_site() {
            waiting.all.add(class, tally);
            if code.waits(site) {
                waiting.counts.add(class, tally);
                tally::add(waiting.sites.entry(site).or_default(), tally.accesses());
            }
        }
        waiting.hottest = waiting.sites.iter().max_by_key(|(site, n)| (**n, **site)).map(|(site, _)| *site);
        waiting
    }

    /// The same, with samples' lines and page use.
    pub fn of(by_site: &SiteFacts, code: &Code, lines: &LineFacts, page_use: &PageUse) -> Waiting {
        let mut waiting = Waiting::of_code(by_site, code);
        let sites = waiting.sites.clone();
        let looked_at = || lines.0.iter().filter(|(key, _)| sites.contains_key(&key.site));
        let mut samples: FxHashMap<SiteId, u64> = FxHashMap::default();
        looked_at().for_each(|(key, found)| *samples.entry(key.site).or_default() += found.samples);
        for (key, found) in looked_at() {
            let part = found.samples as f64 / samples[&key.site] as f64;
            let page = Page::of(key.line << LINE_SHIFT);
            *waiting.pages.entry((page, key.process)).or_default() += sites[&key.site] as f64 * part;
        }
        let not_seen: Vec<u64> =
            sites.iter().filter(|(site, _)| !samples.contains_key(site)).map(|(_, executed)| *executed).collect();
        if waiting.pages.is_empty() && not_seen.is_empty() {
            return waiting;
        }
        let mut alone: Vec<Option<((Page, ProcessId), u64)>> = vec![None; not_seen.len()];
        page_use.sums.each_page(|users| {
            let page = users[0].0.page();
            let all = || tally::total(users.iter().map(|(_, tally)| tally.accesses()));
            if let Some(waits) = waiting.pages.get_mut(&page) {
                *waits = (*waits / all().max(1) as f64).min(1.0);
                return;
            }
            if not_seen.is_empty() {
                return;
            }
            let all = all();
            for (executed, found) in not_seen.iter().zip(&mut alone) {
                if *executed > 0 && all >= *executed && (all - executed) * ALONE <= *executed {
                    let nearest = found.is_none_or(|(other, least)| (all, page) < (least, other));
                    *found = if nearest { Some((page, all)) } else { *found };
                }
            }
        });
        for (executed, (page, all)) in not_seen.iter().zip(alone).filter_map(|(n, found)| Some((n, found?))) {
            let waits = waiting.pages.entry(page).or_default();
            *waits = (*waits + *executed as f64 / all as f64).min(1.0);
        }
        waiting
    }

    /// The instructions that wait, in order, and how often they executed.
    pub fn sites(&self) -> Vec<(SiteId, u64)> {
        let mut sites: Vec<(SiteId, u64)> = self.sites.iter().map(|(site, n)| (*site, *n)).collect();
        sites.sort_unstable();
        sites
    }

    /// The part of all accesses that waits, in percent.
    pub fn share(&self) -> Value {
        self.all.percent(self.counts.accesses())
    }

    /// What of a page's accesses does not wait.
    pub fn without(&self, key: &PageUseKey, tally: Tally) -> Tally {
        match self.pages.get(&key.page()) {
            Some(waits) if !key.initial => {
                let rest = |n: u64| (n as f64 * (1.0 - waits)) as u64;
                Tally {
                    reads: rest(tally.reads),
                    writes: rest(tally.writes),
                    samples: rest(tally.samples),
                    estimated: rest(tally.estimated),
                    squares: (tally.squares as f64 * (1.0 - waits)) as u128,
                }
            }
            _ => tally,
        }
    }
}
