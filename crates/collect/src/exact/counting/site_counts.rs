//! Counters of sites, of accesses and of misses alike, since the poll before.

use super::Counting;
use super::page_counts::{GrownPage, fill_up, sum};
use crate::exact::page_class::{self, is_pending};
use crate::exact::poll::Poll;
use crate::exact::thread::Thread;
use crate::exact::totals::{IN_FLIGHT_OF_SITE, grown};
use crate::session::{CountedSite, Of, Session};
use numalens_event::exact::site;
use rustc_hash::FxHashMap;

/// Accesses of a site in a thread, to pages of one class, from which on its code is worth to be translated with more
/// effort.
const MANY: u64 = 1 << 17;

impl Counting<'_> {
    /// Reports what a thread has counted at sites, or notes that it is left out; of a thread that nobody polls again,
    /// as much as its pages have. `missed`: how many of them missed a cache.
    pub fn report_sites(
        &self,
        session: &mut Session,
        thread: &mut Thread,
        now: Vec<(u64, u64)>,
        missed: &[(u64, u64)],
        grown: &mut Vec<GrownPage>,
        times_ns: [u64; 2],
    ) {
        let reported = session.is_counting();
        let mut sites = Vec::new();
        self.count_sites(&mut thread.accesses.sites, now, |at, counted| sites.push((at, *counted)));
        if reported && self.poll.balances(thread.waits) {
            let missed: FxHashMap<u64, u64> = missed.iter().copied().collect();
            let counted = &thread.accesses.sites;
            let spare = |at| missed.get(&at).map_or(u64::MAX, |&missed| counted[&at].saturating_sub(missed));
            let missing = thread.accesses.balance.end(self.poll, &mut sites, sum(&*grown), spare);
            fill_up(grown, missing, &thread.accesses.pages);
        }
        session.give_to_lines(thread.tid as u32, times_ns, &mut sites);
        // In the order of facts, which counters of code that has been translated again are not: cheaper than sorting
        // facts later.
        sites.sort_unstable_by_key(|(_, counted)| (counted.site, counted.home, counted.pinned));
        for (at, counted) in sites {
            thread.accesses.balance.site(reported, [counted.reads, counted.writes]);
            if reported {
                session.count_site(Of::Accesses, &counted);
            } else if session.has_cache() {
                *thread.accesses.left_out.entry(at).or_default() += counted.reads.max(counted.writes);
            }
        }
    }

    /// Reports what a thread has counted at sites since the last poll, with the place of each in the table: `before` is
    /// what it had then.
    pub fn count_sites(
        &self,
        before: &mut FxHashMap<u64, u64>,
        now: Vec<(u64, u64)>,
        mut counted: impl FnMut(u64, &CountedSite),
    ) {
        let &Counting { header, lookup, classes_log2, extent, thread, node, time_ns, poll, in_flight, .. } = self;
        let process = lookup.process;
        for (at, count) in now {
            // One that is new since sites were read: the next poll knows it.
            let number = (at >> classes_log2) as u32;
            let Some((site, flags)) = lookup.directory.site(process, number) else { continue };
            let in_flight = if poll == Poll::Running { in_flight * IN_FLIGHT_OF_SITE } else { 0 };
            let all = before.entry(at).or_default();
            let more = grown(all, count, in_flight);
            let all = *all;
            if more == 0 {
                continue;
            }
            if all >= MANY && all - more < MANY {
                header.request_tier_up(number);
            }
            let mut report = |home, pinned, more| {
                let reads = if flags & site::READ != 0 { more } else { 0 };
                let writes = if flags & site::WRITE != 0 { more } else { 0 };
                let (process, way) = (process.id, (flags >> site::WAY_SHIFT) as u8);
                counted(at, &CountedSite { process, thread, time_ns, node, site, home, pinned, way, reads, writes });
            };
            let class = (at & ((1 << classes_log2) - 1)) as u32;
            if !is_pending(header, class) {
                let (home, pinned) = page_class::meaning(header, class).unwrap_or((None, false));
                report(home, pinned, more);
                continue;
            }
            // As many as are known of; the others wait.
            let reported = all - more;
            let known = process.pending_homes.of(extent, number).get(reported as usize..).unwrap_or(&[]);
            let known = &known[..known.len().min(more as usize)];
            known.iter().for_each(|placed| report(placed.home, placed.pinned, 1));
            let waiting = more - known.len() as u64;
            if poll.is_last() && waiting > 0 {
                report(None, false, waiting);
            } else if waiting > 0 {
                *before.entry(at).or_default() -= waiting;
            }
        }
    }
}
