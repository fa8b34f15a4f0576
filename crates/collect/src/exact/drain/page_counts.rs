//! Counters of pages, since the look before.

use super::site_counts::Counting;
use super::{Drain, Look};
use crate::exact::pages::KnownPage;
use crate::exact::totals::grown;
use rustc_hash::FxHashMap;

/// A page, by its number, and reads and writes of a thread there.
pub(super) struct GrownPage {
    pub number: u32,
    pub more: [u64; 2],
}

/// All reads, and all writes.
pub(super) fn sum<'a>(pages: impl IntoIterator<Item = &'a GrownPage>) -> [u64; 2] {
    pages.into_iter().fold([0, 0], |sum, page| [sum[0] + page.more[0], sum[1] + page.more[1]])
}

impl Drain {
    /// The pages that a thread has accessed since the last look, when there were `before`, and whether some are not known yet: they wait for the next one.
    /// `in_flight`: accesses of a page that a pass may take back.
    pub(super) fn grown_pages(
        &self,
        counting: &Counting<'_>,
        before: &mut FxHashMap<u64, [u64; 2]>,
        now: FxHashMap<u64, [u64; 2]>,
        in_flight: u64,
    ) -> (Vec<GrownPage>, bool) {
        let mut wait = false;
        let mut pages = Vec::new();
        for (at, now) in now {
            let number = at as u32;
            let Some(&KnownPage { ended: gone, .. }) = self.known_page(counting.lookup.process, number) else {
                wait = true;
                continue;
            };
            let running = counting.look == Look::Running && !gone;
            let in_flight = if running { counting.in_flight * in_flight } else { 0 };
            let before = before.entry(at).or_default();
            let more = [0, 1].map(|kind| grown(&mut before[kind], now[kind], in_flight));
            if more != [0, 0] {
                pages.push(GrownPage { number, more });
            }
        }
        (pages, wait)
    }
}
