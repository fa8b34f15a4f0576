//! Counters of pages, since the look before.

use super::site_counts::Counting;
use super::{Drain, Look, Thread};
use crate::exact::pages::KnownPage;
use crate::exact::totals::{IN_FLIGHT_OF_PAGE, grown};
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
    /// The pages that a thread has accessed since the last look. Those that are not known yet wait for the next one, and so does the thread.
    pub(super) fn grown_pages(
        &self,
        counting: &Counting<'_>,
        thread: &mut Thread,
        now: FxHashMap<u64, [u64; 2]>,
    ) -> Vec<GrownPage> {
        thread.waits = false;
        let mut pages = Vec::new();
        for (at, now) in now {
            let number = at as u32;
            let Some(&KnownPage { ended: gone, .. }) = self.known_page(counting.lookup.process, number) else {
                thread.waits = true;
                continue;
            };
            let running = counting.look == Look::Running && !gone;
            let in_flight = if running { counting.in_flight * IN_FLIGHT_OF_PAGE } else { 0 };
            let before = thread.pages.entry(at).or_default();
            let more = [0, 1].map(|kind| grown(&mut before[kind], now[kind], in_flight));
            if more != [0, 0] {
                pages.push(GrownPage { number, more });
            }
        }
        pages
    }
}
