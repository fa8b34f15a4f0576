//! Counters of pages, since the poll before.

use super::site_counts::Counting;
use super::{Drain, Poll, Thread};
use crate::exact::known_pages::KnownPage;
use crate::exact::totals::grown;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A page, by its number, and reads and writes of a thread there.
pub(super) struct GrownPage {
    pub number: u32,
    pub more: [u64; 2],
}

/// Times that are told apart of what is held of a page; those before are one.
const WINDOWS: usize = 3;

/// What was counted of a page and left to later polls, as it might be taken back: up to some hundreds, which is all of
/// a page that is used little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    /// In order; those behind the last one are empty.
    windows: [Option<Window>; WINDOWS],
}

/// A time in which some of it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// After this, and until the poll was over that has found it.
    pub since_ns: u64,
    pub until_ns: u64,
    /// What that poll calls its time.
    pub time_ns: u64,
    /// All that was counted by then.
    counted: [u64; 2],
}

/// A poll of a thread: when it was polled before, until when it was this time, and what the poll calls its time.
#[derive(Clone, Copy)]
pub(super) struct Polled {
    pub since_ns: u64,
    pub until_ns: u64,
    pub time_ns: u64,
}

impl Held {
    /// How much of what a page has grown by was counted in which window; the rest is new. `reported` is known of the
    /// page now.
    pub fn carried(held: Option<Held>, reported: [u64; 2], more: [u64; 2]) -> Vec<(Window, [u64; 2])> {
        let mut done = [0, 1].map(|kind| reported[kind].saturating_sub(more[kind]));
        let windows = held.into_iter().flat_map(|held| held.windows).flatten();
        let parts = windows.map(|window| {
            let part = [0, 1].map(|kind| window.counted[kind].min(reported[kind]).saturating_sub(done[kind]));
            done = [done[0] + part[0], done[1] + part[1]];
            (window, part)
        });
        parts.filter(|(_, part)| *part != [0, 0]).collect()
    }

    /// What is left to later polls, of a page of which `reported` is known.
    pub fn left(before: Option<Held>, reported: [u64; 2], counted: [u64; 2], poll: Polled) -> Option<Held> {
        let is_left = |of: [u64; 2]| (0..2).any(|kind| of[kind] <= i64::MAX as u64 && of[kind] > reported[kind]);
        let still = before.into_iter().flat_map(|held| held.windows).flatten().filter(|window| is_left(window.counted));
        let mut windows: Vec<Window> = still.collect();
        if is_left(counted) {
            // What was taken back was not counted. (It may be less for a moment only: then there is nothing to learn.)
            let less = |window: Window| [0, 1].map(|kind| window.counted[kind].min(counted[kind]));
            windows.iter_mut().for_each(|window| window.counted = less(*window));
            if windows.last().is_none_or(|last| last.counted != counted) {
                let Polled { since_ns, until_ns, time_ns } = poll;
                windows.push(Window { since_ns, until_ns, time_ns, counted });
            }
            if windows.len() > WINDOWS {
                windows[1].since_ns = windows[0].since_ns;
                windows.remove(0);
            }
        }
        let mut windows = windows.into_iter();
        let held = Held { windows: [(); WINDOWS].map(|()| windows.next()) };
        held.windows[0].is_some().then_some(held)
    }
}

/// All reads, and all writes.
pub(super) fn sum<'a>(pages: impl IntoIterator<Item = &'a GrownPage>) -> [u64; 2] {
    pages.into_iter().fold([0, 0], |sum, page| [sum[0] + page.more[0], sum[1] + page.more[1]])
}

/// Gives pages what they lack of reads and writes ([`super::pauses::Balance::end`]): the one that has grown most, or
/// else the one that has most of all that are known.
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

    /// Of pages that have gone nothing more will be counted.
    pub(super) fn forget_pages(&mut self, pages: Range<u32>) {
        for number in pages {
            self.pages.remove(&number.into());
            self.held.remove(&number);
            self.misses.forget(number);
        }
    }

    /// Keeps what is counted of pages by `now` and not reported yet, to be reported by a later poll.
    pub(super) fn hold(&mut self, now: FxHashMap<u64, [u64; 2]>, poll: Polled) {
        for (at, now) in now {
            let (number, before) = (at as u32, self.pages.get(&at).copied().unwrap_or_default());
            match Held::left(self.held.get(&number).copied(), before, now, poll) {
                Some(held) => drop(self.held.insert(number, held)),
                None => drop(self.held.remove(&number)),
            }
        }
    }
}

impl Drain {
    /// The pages that a thread has accessed since the last poll, when there were `before`, and whether some are not
    /// known yet: they wait for the next one. `in_flight`: accesses of a page that an execution may take back.
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
            let running = counting.poll == Poll::Running && !gone;
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

    /// The windows of what is held, as times and counts of reads.
    fn windows(held: Option<Held>) -> Vec<(u64, u64, u64)> {
        let windows = held.into_iter().flat_map(|held| held.windows).flatten();
        windows.map(|window| (window.since_ns, window.until_ns, window.counted[0])).collect()
    }

    fn polled(since_ns: u64, until_ns: u64) -> Polled {
        Polled { since_ns, until_ns, time_ns: until_ns }
    }

    fn carried(held: Option<Held>, reported: u64, more: u64) -> Vec<(u64, u64)> {
        let parts = Held::carried(held, [reported, 0], [more, 0]);
        parts.into_iter().map(|(window, part)| (window.until_ns, part[0])).collect()
    }

    #[test]
    fn what_was_left_to_the_next_look_was_counted_before() {
        // 100 of 600 are reported at the first poll, all of these and more at the second, which was after 7.
        let first = Held::left(None, [100, 0], [600, 0], polled(3, 5));
        assert_eq!(windows(first), [(3, 5, 600)]);
        assert_eq!(carried(first, 900, 800), [(5, 500)]);
        assert_eq!(windows(Held::left(first, [900, 0], [1400, 0], polled(7, 9))), [(7, 9, 1400)]);
        assert_eq!(carried(first, 300, 200), [(5, 200)]);
        assert!(Held::left(first, [600, 0], [600, 0], polled(7, 9)).is_none());
        // A third poll finds the same, or 200 more.
        assert_eq!(windows(Held::left(first, [300, 0], [600, 0], polled(7, 9))), [(3, 5, 600)]);
        let more = Held::left(first, [300, 0], [800, 0], polled(7, 9));
        assert_eq!(windows(more), [(3, 5, 600), (7, 9, 800)]);
        assert_eq!(carried(more, 1000, 700), [(5, 300), (9, 200)]);
        assert_eq!(carried(None, 5, 5), []);
        // More than it has, as killed threads have: see `fill_up`.
        assert_eq!(carried(first, 600, 603), [(5, 600)]);
    }

    #[test]
    fn what_is_used_little_is_held_by_a_few_times() {
        let polls = (1..=6)
            .fold(None, |held, poll| Held::left(held, [0, 0], [10 * poll, 0], polled(10 * poll - 10, 10 * poll)));
        assert_eq!(windows(polls), [(0, 40, 40), (40, 50, 50), (50, 60, 60)]);
        assert_eq!(carried(polls, 60, 60), [(40, 40), (50, 10), (60, 10)]);
    }

    #[test]
    fn what_an_execution_takes_back_may_be_missing_for_a_moment_or_for_good() {
        let first = Held::left(None, [100, 0], [600, 0], polled(3, 5));
        assert_eq!(Held::left(first, [300, 0], [290, 0], polled(7, 9)), first);
        assert_eq!(windows(Held::left(first, [300, 0], [590, 0], polled(7, 9))), [(3, 5, 590)]);
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
