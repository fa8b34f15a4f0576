//! Parts of a recording that are left out: the program, or the user, has paused the counting.
//!
//! The counters themselves know nothing of it. When counting begins or ends, all threads' counters are read, and what
//! they have grown by since the poll before goes to the part that ends there. Who asked for it waits meanwhile, so what
//! that thread counts is divided exactly; so is what other threads count that stand still, as threads do that wait for
//! it. A thread that runs on is read at some moment of these, between two of its instructions or within the counting of
//! one: then the counter of a site has grown and that of its page has not yet.
//!
//! Sums by sites and by pages of a thread must stay equal all the same, also where a thread was killed within its
//! counting. So pages follow sites:
//!
//! ```text
//!   sites grow by n     counting: reported         paused: left out
//!                          |                      |
//!                       to_report += n           to_leave += n
//!                          |                      |
//!   pages grow by m     m are taken from to_report first, then from to_leave; the rest waits for the next poll
//! ```

use crate::exact::poll::Poll;
use crate::session::CountedSite;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What the pages of a thread have still to follow: reads and writes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Balance {
    to_report: [i64; 2],
    to_leave: [i64; 2],
}

impl Balance {
    /// So many accesses of a site were counted: reported, or left out.
    pub fn site(&mut self, reported: bool, counts: [u64; 2]) {
        let to = if reported { &mut self.to_report } else { &mut self.to_leave };
        to.iter_mut().zip(counts).for_each(|(to, count)| *to += count as i64);
    }

    /// Of a thread that nobody polls again: takes from sites what no page has. `sites` are about to be reported, and
    /// `pages` is what pages have grown by.
    ///
    /// Where it may have been killed within its counting, one access of each site at most: an execution that was
    /// counted and not made, or one that was between its two counters. Which sites these are is not known; those that
    /// are executed most are the likeliest. Returns what is more than that: the executions of a last page that was
    /// being settled, which were made, and belong to pages. Where it goes on ([`Poll::Cut`]), all that was counted
    /// since its pages were read. `spare`: how many accesses of a site may be taken back; those that missed a cache
    /// were made, as misses are counted behind.
    #[must_use]
    pub fn end(
        &self,
        poll: Poll,
        sites: &mut [(u64, CountedSite)],
        pages: [u64; 2],
        spare: impl Fn(u64) -> u64,
    ) -> [u64; 2] {
        let most = if poll == Poll::Cut { u64::MAX } else { 1 };
        let mut surplus = self.surplus(sites, pages).map(|surplus| surplus.max(0) as u64);
        if surplus == [0; 2] {
            return surplus;
        }
        sites.sort_unstable_by_key(|(at, site)| (Reverse(site.reads.max(site.writes)), *at));
        // Accesses of one place may be of several homes.
        let mut taken: FxHashMap<u64, u64> = FxHashMap::default();
        for (at, site) in sites {
            let taken = taken.entry(*at).or_default();
            let most = most.min(spare(*at).saturating_sub(*taken));
            let counts = [&mut site.reads, &mut site.writes];
            // Both, where each access is both.
            let kinds = (0..2).filter(|&kind| *counts[kind] != 0);
            let less = kinds.map(|kind| surplus[kind].min(*counts[kind])).min().unwrap_or(0).min(most);
            for (count, surplus) in counts.into_iter().zip(&mut surplus).filter(|(count, _)| **count != 0) {
                *count -= less;
                *surplus -= less;
            }
            *taken += less;
        }
        surplus
    }

    /// What sites have, with those that are about to be reported, and pages have not: reads and writes.
    fn surplus(&self, sites: &[(u64, CountedSite)], pages: [u64; 2]) -> [i64; 2] {
        [0, 1].map(|kind| {
            let counted: u64 = sites.iter().map(|(_, site)| [site.reads, site.writes][kind]).sum();
            self.to_report[kind] + self.to_leave[kind] + counted as i64 - pages[kind] as i64
        })
    }

    /// Of so many accesses to a page: how many to report, and how many to take as not seen yet. `strict`: no more than
    /// sites have reported, or left out. `kind`: reads or writes.
    pub fn page(&mut self, strict: bool, kind: usize, count: u64) -> (u64, u64) {
        let (to_report, to_leave) = (&mut self.to_report[kind], &mut self.to_leave[kind]);
        if !strict {
            *to_report -= count as i64;
            return (count, 0);
        }
        let reported = count.min((*to_report).max(0) as u64);
        let left = (count - reported).min((*to_leave).max(0) as u64);
        *to_report -= reported as i64;
        *to_leave -= left as i64;
        (reported, count - reported - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::{ProcessId, SiteId, ThreadId};

    fn site(number: u32, reads: u64, writes: u64) -> (u64, CountedSite) {
        let (process, thread, site) = (ProcessId(0), ThreadId(0), SiteId(number));
        let counted = CountedSite {
            process,
            thread,
            time_ns: 0,
            node: None,
            site,
            home: None,
            pinned: false,
            way: 0,
            reads,
            writes,
        };
        (number.into(), counted)
    }

    #[test]
    fn what_no_page_has_is_taken_back() {
        let mut balance = Balance::default();
        // Of an earlier poll, a page had a read before its site.
        balance.page(false, 0, 1);
        let mut sites = [site(0, 3, 0), site(1, 50, 50), site(2, 0, 9), site(3, 40, 0)];
        // An execution through the hot loop is missing, and another write.
        assert_eq!(balance.end(Poll::Last, &mut sites, [3 + 49 + 39 - 1, 49 + 8], |_| u64::MAX), [0, 0]);
        let mut left: Vec<_> = sites.iter().map(|(at, site)| (*at, site.reads, site.writes)).collect();
        left.sort_unstable();
        assert_eq!(left, [(0, 3, 0), (1, 49, 49), (2, 0, 8), (3, 39, 0)]);
        // Nothing is missing, or pages have more: that is theirs.
        let before = left;
        assert_eq!(balance.end(Poll::Last, &mut sites, [3 + 49 + 39 - 1, 49 + 8 + 5], |_| u64::MAX), [0, 0]);
        let mut left: Vec<_> = sites.iter().map(|(at, site)| (*at, site.reads, site.writes)).collect();
        left.sort_unstable();
        assert_eq!(left, before);
        // More than one access of a site: pages lack them.
        let missing = balance.end(Poll::Last, &mut sites, [10, 20], |_| u64::MAX);
        let left = sites.iter().fold([0, 0], |sum, (_, site)| [sum[0] + site.reads, sum[1] + site.writes]);
        assert_eq!(left, [3 + 49 + 39 - 3, 49 + 8 - 2]);
        assert_eq!(missing, [left[0] - 1 - 10, left[1] - 20]);
    }

    #[test]
    fn what_is_counted_after_its_pages_were_read_is_left_out() {
        let balance = Balance::default();
        let mut sites = [site(0, 300, 0), site(1, 5000, 5000), site(2, 0, 900), site(3, 4000, 0)];
        // A thousand reads and writes of these have no page yet, and 3500 more reads.
        assert_eq!(balance.end(Poll::Cut, &mut sites, [9300 - 4500, 5900 - 1000], |_| u64::MAX), [0, 0]);
        let sums = sites.iter().fold([0, 0], |sum, (_, site)| [sum[0] + site.reads, sum[1] + site.writes]);
        assert_eq!(sums, [9300 - 4500, 5900 - 1000]);
        let (_, both) = sites.iter().find(|(at, _)| *at == 1).unwrap();
        assert_eq!(both.reads, both.writes, "a read-modify-write stays one");
        // Reads are missing that only such sites have.
        let mut sites = [site(1, 50, 50)];
        assert_eq!(balance.end(Poll::Cut, &mut sites, [40, 50], |_| u64::MAX), [10, 0]);
    }

    #[test]
    fn what_missed_a_cache_was_made() {
        let balance = Balance::default();
        let mut sites = [site(0, 3, 0), site(1, 50, 0)];
        let missed = |at| if at == 1 { 0 } else { u64::MAX };
        assert_eq!(balance.end(Poll::Last, &mut sites, [52, 0], missed), [0, 0]);
        sites.sort_unstable_by_key(|(at, _)| *at);
        assert_eq!(sites.map(|(_, site)| site.reads), [2, 50]);
    }

    #[test]
    fn pages_follow_sites() {
        let mut balance = Balance::default();
        // Before the first pause pages are reported as they come, also before their sites.
        assert_eq!(balance.page(false, 0, 5), (5, 0));
        balance.site(true, [7, 1]);
        // The pause begins while two reads have not reached their pages.
        balance.site(false, [10, 0]);
        assert_eq!(balance.page(true, 0, 8), (2, 0));
        assert_eq!(balance.page(true, 0, 5), (0, 1));
        assert_eq!(balance.page(true, 1, 1), (1, 0));
        // It ends, and what was seen too early is reported.
        balance.site(true, [1, 0]);
        assert_eq!(balance.page(true, 0, 1), (1, 0));
        assert_eq!((balance.to_report, balance.to_leave), ([0, 0], [0, 0]));
    }
}
