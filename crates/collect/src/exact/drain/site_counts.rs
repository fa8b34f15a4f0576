//! Counters of sites, of accesses and of misses alike, since the poll before.

use super::known::Known;
use super::{Drain, Poll};
use crate::exact::pages;
use crate::exact::pending_homes::is_pending;
use crate::exact::totals::{IN_FLIGHT_OF_SITE, grown};
use crate::session::CountedSite;
use numalens_event::exact::{Extent, ProcessHeader, site};
use numalens_profile::ids::*;
use rustc_hash::FxHashMap;

/// Accesses of a site in a thread, to pages of one class, from which on its code is worth to be translated with more
/// effort.
const MANY: u64 = 1 << 17;

/// What is looked at, and how.
pub(super) struct Counting<'a> {
    pub header: &'a ProcessHeader,
    pub lookup: &'a Known<'a>,
    pub classes_log2: u32,
    pub extent: Extent,
    pub thread: ThreadId,
    pub node: Option<u16>,
    pub time_ns: u64,
    pub poll: Poll,
    /// Executions that a running thread may take back.
    pub in_flight: u64,
    /// Pages are reported no more than sites are: parts are left out, or the thread counts no more.
    pub strict: bool,
}

impl Drain {
    /// Reports what a thread has counted at sites since the last poll, with the place of each in the table: `before` is
    /// what it had then.
    pub(super) fn count_sites(
        &self,
        counting: &Counting<'_>,
        before: &mut FxHashMap<u64, u64>,
        now: Vec<(u64, u64)>,
        mut counted: impl FnMut(u64, &CountedSite),
    ) {
        let &Counting { header, lookup, classes_log2, extent, thread, node, time_ns, poll, in_flight, .. } = counting;
        let process = lookup.process;
        for (at, count) in now {
            // One that is new since sites were read: the next poll knows it.
            let number = (at >> classes_log2) as u32;
            let Some((site, flags)) = self.site(process, number) else { continue };
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
                let process = process.id;
                counted(at, &CountedSite { process, thread, time_ns, node, site, home, pinned, reads, writes });
            };
            let class = (at & ((1 << classes_log2) - 1)) as u32;
            if !is_pending(header, class) {
                let (home, pinned) = pages::meaning(header, class).unwrap_or((None, false));
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
