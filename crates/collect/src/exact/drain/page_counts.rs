//! Counters of pages, since the look before.

use super::site_counts::Counting;
use super::{Drain, Look, Thread};
use crate::exact::pages::KnownPage;
use crate::exact::totals::grown;
use rustc_hash::FxHashMap;

/// A page, by its number, and reads and writes of a thread there.
pub(super) struct GrownPage {
    pub number: u32,
    pub more: [u64; 2],
}

/// What was counted of a page and left to the next look, as it might be taken back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// It was counted after this, and until the look was over that has found it.
    pub since_ns: u64,
    pub until_ns: u64,
    /// All that was counted by then.
    pub counted: [u64; 2],
    /// The same of the latest look that has found more.
    pub later: (u64, [u64; 2]),
}

impl Held {
    /// How much of what a page has grown by was counted before the latest look: at first, and later. `told` is known of it now.
    pub fn carried(before: Option<Held>, told: [u64; 2], more: [u64; 2]) -> [[u64; 2]; 2] {
        let Some(Held { counted, later: (_, all), .. }) = before else { return [[0; 2]; 2] };
        let by = |counted: [u64; 2]| {
            [0, 1].map(|kind| counted[kind].saturating_sub(told[kind].saturating_sub(more[kind])).min(more[kind]))
        };
        let (first, all) = (by(counted), by(all));
        [first, [0, 1].map(|kind| all[kind].saturating_sub(first[kind]))]
    }

    /// What is left to the next look, of a page of which `told` is known: the thread was looked at before at `since_ns`, and now until `until_ns`.
    pub fn left(before: Option<Held>, told: [u64; 2], counted: [u64; 2], since_ns: u64, until_ns: u64) -> Option<Held> {
        let is_left = (0..2).any(|kind| counted[kind] <= i64::MAX as u64 && counted[kind] > told[kind]);
        let still = before.filter(|held| (0..2).any(|kind| held.later.1[kind] > told[kind]));
        if !is_left {
            // It may be less for a moment only.
            return still;
        }
        let later = (until_ns, counted);
        Some(match still {
            Some(held) if held.later.1 == counted => held,
            Some(held) => Held { later, counted: [0, 1].map(|kind| held.counted[kind].min(counted[kind])), ..held },
            None => Held { since_ns, until_ns, counted, later },
        })
    }
}

/// All reads, and all writes.
pub(super) fn sum<'a>(pages: impl IntoIterator<Item = &'a GrownPage>) -> [u64; 2] {
    pages.into_iter().fold([0, 0], |sum, page| [sum[0] + page.more[0], sum[1] + page.more[1]])
}

/// Gives pages what they lack of reads and writes ([`super::pauses::Balance::trim`]): the one that has grown most, or else the one that has most of all that are known.
pub(super) fn fill_up(pages: &mut Vec<GrownPage>, missing: [u64; 2], known: &FxHashMap<u64, [u64; 2]>) {
    for kind in (0..2).filter(|&kind| missing[kind] != 0) {
        let grown = pages.iter_mut().filter(|page| page.more[kind] != 0);
        if let Some(page) = grown.max_by_key(|page| (page.more[kind], page.number)) {
            page.more[kind] += missing[kind];
        } else if let Some((&number, _)) = known.iter().max_by_key(|(number, counts)| (counts[kind], **number)) {
            let mut more = [0; 2];
            more[kind] = missing[kind];
            pages.push(GrownPage { number: number as u32, more });
        }
    }
}

impl Thread {
    /// It has been looked at for the last time.
    pub(super) fn forget(&mut self) {
        (self.sites, self.pages, self.code) = Default::default();
        (self.held, self.misses, self.left_out) = Default::default();
    }

    /// Keeps what is counted of pages by `now` and not told yet, to be told by a later look.
    pub(super) fn hold(&mut self, now: FxHashMap<u64, [u64; 2]>, since_ns: u64, until_ns: u64) {
        for (at, now) in now {
            let (number, before) = (at as u32, self.pages.get(&at).copied().unwrap_or_default());
            match Held::left(self.held.get(&number).copied(), before, now, since_ns, until_ns) {
                Some(held) => drop(self.held.insert(number, held)),
                None => drop(self.held.remove(&number)),
            }
        }
    }
}

impl Drain {
    /// The pages that a thread has accessed since the last look, when there were `before`, and whether some are not known yet: they wait for the next one.
    /// `in_flight`: accesses of a page that a pass may take back.
    pub(super) fn grown_pages(
        &self,
        counting: &Counting<'_>,
        before: &mut FxHashMap<u64, [u64; 2]>,
        now: &FxHashMap<u64, [u64; 2]>,
        in_flight: u64,
    ) -> (Vec<GrownPage>, bool) {
        let mut wait = false;
        let mut pages = Vec::new();
        for (&at, now) in now {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_to_the_next_look_was_counted_before() {
        // 100 of 600 are told at the first look, all of these and more at the second, which was after 7.
        let first = Held::left(None, [100, 0], [600, 0], 3, 5).unwrap();
        assert_eq!((first.since_ns, first.until_ns, first.counted), (3, 5, [600, 0]));
        assert_eq!(Held::carried(Some(first), [900, 0], [800, 0]), [[500, 0], [0, 0]]);
        assert_eq!(Held::left(Some(first), [900, 0], [1400, 0], 7, 9).unwrap().since_ns, 7);
        assert_eq!(Held::carried(Some(first), [300, 0], [200, 0]), [[200, 0], [0, 0]]);
        assert!(Held::left(Some(first), [600, 0], [600, 0], 7, 9).is_none());
        // A third look finds the same, or 200 more.
        let same = Held::left(Some(first), [300, 0], [600, 0], 7, 9).unwrap();
        assert_eq!((same.since_ns, same.until_ns, same.later), (3, 5, (5, [600, 0])));
        let more = Held::left(Some(first), [300, 0], [800, 0], 7, 9).unwrap();
        assert_eq!((more.since_ns, more.until_ns, more.counted, more.later), (3, 5, [600, 0], (9, [800, 0])));
        assert_eq!(Held::carried(Some(more), [1000, 0], [700, 0]), [[300, 0], [200, 0]]);
        assert_eq!(Held::carried(None, [5, 5], [5, 5]), [[0, 0], [0, 0]]);
        // What a pass takes back may be missing for a moment, or for good.
        assert_eq!(Held::left(Some(first), [300, 0], [290, 0], 7, 9).unwrap().counted, [600, 0]);
        assert_eq!(Held::left(Some(first), [300, 0], [590, 0], 7, 9).unwrap().counted, [590, 0]);
    }

    #[test]
    fn pages_get_what_they_lack() {
        let page = |number, reads, writes| GrownPage { number, more: [reads, writes] };
        let mut pages = vec![page(1, 7, 0), page(2, 9, 0), page(3, 0, 0)];
        let known = FxHashMap::from_iter([(4, [0, 50]), (5, [900, 60])]);
        fill_up(&mut pages, [10, 20], &known);
        let found: Vec<_> = pages.iter().map(|page| (page.number, page.more)).collect();
        assert_eq!(found, [(1, [7, 0]), (2, [19, 0]), (3, [0, 0]), (5, [0, 20])]);
        fill_up(&mut pages, [0, 0], &known);
        assert_eq!(sum(&pages), [26, 20]);
    }
}
