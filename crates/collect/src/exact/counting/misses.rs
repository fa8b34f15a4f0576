//! Accesses that missed the private caches of threads.
//!
//! They are reported as accesses are, by site and by page. In a recording that is paused, a miss belongs to the part
//! that its access belongs to. The two are counted one after the other, and a thread that runs on may be read in
//! between: so of a site that has reported *n* accesses no more than *n* misses are reported, and pages follow sites
//! ([`Balance`](crate::exact::thread::Balance)).

use super::Counting;
use super::page_counts::{GrownPage, fill_up, sum};
use crate::exact::by_number::ByNumber;
use crate::exact::known_pages::KnownPage;
use crate::exact::thread::Thread;
use crate::exact::totals::IN_FLIGHT_OF_SITE;
use crate::session::{CountedSite, Of, Session, UsedPage};
use rustc_hash::FxHashMap;

impl Counting<'_> {
    /// Reports those accesses of a thread that missed its cache. Its accesses have been reported.
    pub fn report_misses(
        &self,
        session: &mut Session,
        thread: &mut Thread,
        mut sites: Vec<(u64, u64)>,
        pages: &ByNumber<[u64; 2]>,
    ) {
        let reported = session.is_counting();
        let misses = &mut thread.misses;
        if reported && session.was_ever_paused() {
            for (at, count) in &mut sites {
                let of = |map: &FxHashMap<u64, u64>| map.get(at).copied().unwrap_or(0);
                *count =
                    (*count).min(of(&thread.accesses.sites) - of(&thread.accesses.left_out) + of(&misses.left_out));
            }
        }
        let (mut grown_pages, _) = self.grown_pages(&mut misses.pages, pages, IN_FLIGHT_OF_SITE);
        let mut missed = Vec::new();
        self.count_sites(&mut misses.sites, sites, |at, counted| {
            // The read of a read-modify-write fetches the line.
            let writes = if counted.reads != 0 { 0 } else { counted.writes };
            missed.push((at, CountedSite { writes, ..*counted }));
        });
        if reported && self.poll.balances(thread.waits) {
            let missing = misses.balance.end(self.poll, &mut missed, sum(&grown_pages), |_| u64::MAX);
            fill_up(&mut grown_pages, missing, &misses.pages);
        }
        for (at, missed) in missed {
            misses.balance.site(reported, [missed.reads, missed.writes]);
            if reported {
                session.count_site(Of::Misses, &missed);
            } else {
                *misses.left_out.entry(at).or_default() += missed.reads + missed.writes;
            }
        }
        for GrownPage { number, more } in grown_pages {
            let Some(&KnownPage { page, class: (home, _), .. }) = self.lookup.page(number) else {
                continue;
            };
            let before = misses.pages.at(number);
            let [reads, writes] = [0, 1].map(|kind| {
                let (reported, too_early) = misses.balance.page(self.strict, kind, more[kind]);
                before[kind] -= too_early;
                reported
            });
            if (reads, writes) != (0, 0) {
                let (process, node, time_ns) = (self.lookup.process.id, self.node, self.time_ns);
                let missed = UsedPage { process, thread: thread.id, time_ns, node, home, page, reads, writes };
                session.count_page(Of::Misses, &missed);
            }
        }
    }
}
