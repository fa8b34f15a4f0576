//! What was counted of pages and left to later polls, as the thread might take it back.

use crate::exact::by_number::ByNumber;
use std::ops::Range;

/// Times that are told apart of what is held of a page; those before are one.
const WINDOWS: usize = 3;
/// So many polls are kept before those are looked for that nothing is held of.
const FEW_POLLS: usize = 1024;

/// What is held of pages, by their numbers.
#[derive(Default)]
pub struct HeldPages {
    held: ByNumber<Held>,
    polls: Polls,
}

/// What was counted of a page and left to later polls, as it might be taken back: up to some hundreds, which is all of
/// a page that is used little.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Held {
    /// What was reported of the page by then: the lower halves.
    reported: [u32; 2],
    /// In order; those behind the last one are empty.
    windows: [Window; WINDOWS],
}

/// A poll that has counted some of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Window {
    /// See [`Polls`]; 0: there is none.
    poll: u32,
    /// What was counted by then and not reported.
    counted: [u32; 2],
}

/// A poll of a thread: when it was polled before, until when it was this time, and what the poll calls its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Polled {
    pub since_ns: u64,
    pub until_ns: u64,
    pub time_ns: u64,
}

/// Polls by their places, from 1.
#[derive(Default)]
struct Polls {
    all: Vec<Polled>,
    /// How many were left when unused ones were last looked for.
    used: usize,
}

impl Polls {
    fn get(&self, place: u32) -> Option<Polled> {
        self.all.get(place.checked_sub(1)? as usize).copied()
    }

    /// The place of a poll: mostly one of the latest.
    fn place(&mut self, polled: Polled) -> u32 {
        const LATEST: usize = 8;
        let latest = self.all.len().saturating_sub(LATEST);
        let known = self.all[latest..].iter().position(|known| *known == polled).map(|at| latest + at);
        let at = known.unwrap_or_else(|| {
            self.all.push(polled);
            self.all.len() - 1
        });
        at as u32 + 1
    }
}

impl HeldPages {
    /// How much of what a page has grown by was counted in which poll before; the rest is new.
    pub fn carried(&self, number: u32, more: [u64; 2]) -> impl Iterator<Item = (Polled, [u64; 2])> {
        let parts = self.held.get(number).carried(more);
        parts.into_iter().filter_map(|(poll, part)| Some((self.polls.get(poll)?, part)))
    }

    /// Keeps what is counted of pages by `now` and not `reported` yet, to be reported by a later poll.
    pub fn hold(&mut self, now: &ByNumber<[u64; 2]>, reported: &ByNumber<[u64; 2]>, polled: Polled) {
        let HeldPages { held, polls } = self;
        for (number, now) in now.iter() {
            let reported = reported.get(number);
            let before = held.get(number);
            if before != Held::default() || (0..2).any(|kind| now[kind] > reported[kind]) {
                *held.at(number) = before.left(reported, now, polled, polls);
            }
        }
        held.prune();
        self.forget_polls();
    }

    /// Of a page that has gone nothing more will be counted.
    pub fn forget(&mut self, number: u32) {
        self.held.take(number);
    }

    /// The same of many.
    pub fn forget_where(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.held.take_where(is_gone);
    }

    /// The same of many, of whole groups.
    pub fn forget_all(&mut self, numbers: &Range<u32>) {
        self.held.forget(numbers);
    }

    /// Forgets polls that nothing is held of, if there are many.
    fn forget_polls(&mut self) {
        if self.polls.all.len() < FEW_POLLS + 2 * self.polls.used {
            return;
        }
        let mut places = vec![0; self.polls.all.len() + 1];
        for (_, held) in self.held.iter() {
            held.windows.iter().for_each(|window| places[window.poll as usize] = 1);
        }
        let mut kept = Vec::new();
        for (place, polled) in (1..).zip(&self.polls.all) {
            if places[place] != 0 {
                kept.push(*polled);
                places[place] = kept.len() as u32;
            }
        }
        places[0] = 0;
        let numbers: Vec<u32> = self.held.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let held = self.held.at(number);
            held.windows.iter_mut().for_each(|window| window.poll = places[window.poll as usize]);
        }
        self.polls = Polls { used: kept.len(), all: kept };
    }
}

impl Held {
    fn windows(self) -> impl Iterator<Item = Window> {
        self.windows.into_iter().take_while(|window| window.poll != 0)
    }

    /// How much of `more` that is reported now was counted in which window.
    fn carried(self, more: [u64; 2]) -> impl Iterator<Item = (u32, [u64; 2])> {
        let mut done = [0; 2];
        let parts = self.windows().map(move |window| {
            let part = [0, 1].map(|kind| u64::from(window.counted[kind]).min(more[kind]).saturating_sub(done[kind]));
            done = [0, 1].map(|kind| done[kind] + part[kind]);
            (window.poll, part)
        });
        parts.filter(|(_, part)| *part != [0, 0])
    }

    /// What is left to later polls, of a page of which `reported` is known by now.
    fn left(self, reported: [u64; 2], counted: [u64; 2], polled: Polled, polls: &mut Polls) -> Held {
        let low = reported.map(|count| count as u32);
        let since = [0, 1].map(|kind| low[kind].wrapping_sub(self.reported[kind]));
        let still = self.windows().map(|window| Window {
            counted: [0, 1].map(|kind| window.counted[kind].saturating_sub(since[kind])),
            ..window
        });
        let mut windows = [Window::default(); WINDOWS + 1];
        let mut count = 0;
        for window in still.filter(|window| window.counted != [0, 0]) {
            windows[count] = window;
            count += 1;
        }
        // It may be less than was reported for a moment only.
        let left = [0, 1].map(|kind| match counted[kind] {
            count if count > i64::MAX as u64 => 0,
            count => u32::try_from(count.saturating_sub(reported[kind])).unwrap_or(u32::MAX),
        });
        if left != [0, 0] {
            // What was taken back was not counted. (It may be less for a moment only: then there is nothing to learn.)
            for window in &mut windows[..count] {
                window.counted = [0, 1].map(|kind| window.counted[kind].min(left[kind]));
            }
            if windows[..count].last().is_none_or(|last| last.counted != left) {
                windows[count] = Window { poll: polls.place(polled), counted: left };
                count += 1;
            }
            if count > WINDOWS {
                let [first, second] = [windows[0], windows[1]].map(|window| polls.get(window.poll));
                if let (Some(first), Some(second)) = (first, second) {
                    windows[1].poll = polls.place(Polled { since_ns: first.since_ns, ..second });
                }
                windows.rotate_left(1);
                count -= 1;
            }
        }
        if count == 0 {
            return Held::default();
        }
        let mut held = Held { reported: low, windows: [Window::default(); WINDOWS] };
        held.windows[..count].copy_from_slice(&windows[..count]);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(since_ns: u64, until_ns: u64) -> Polled {
        Polled { since_ns, until_ns, time_ns: until_ns }
    }

    /// What is held of one page, of which so much was reported.
    struct Page(Held, Polls, u64);

    impl Page {
        fn new() -> Self {
            Page(Held::default(), Polls::default(), 0)
        }

        fn left(&mut self, reported: u64, counted: u64, poll: Polled) {
            self.0 = self.0.left([reported, 0], [counted, 0], poll, &mut self.1);
            self.2 = reported;
        }

        /// The windows of what is held, as times and counts of reads.
        fn windows(&self) -> Vec<(u64, u64, u64)> {
            let time = |window: Window| (self.1.get(window.poll).unwrap(), self.2 + u64::from(window.counted[0]));
            self.0.windows().map(time).map(|(of, count)| (of.since_ns, of.until_ns, count)).collect()
        }

        fn carried(&self, more: u64) -> Vec<(u64, u64)> {
            let until = |poll| self.1.get(poll).unwrap().until_ns;
            self.0.carried([more, 0]).map(|(poll, part)| (until(poll), part[0])).collect()
        }
    }

    #[test]
    fn what_was_left_to_the_next_look_was_counted_before() {
        // 100 of 600 are reported at the first poll, all of these and more at the second, which was after 7.
        let mut page = Page::new();
        page.left(100, 600, polled(3, 5));
        assert_eq!(page.windows(), [(3, 5, 600)]);
        assert_eq!((page.carried(800), page.carried(200)), (vec![(5, 500)], vec![(5, 200)]));
        page.left(900, 1400, polled(7, 9));
        assert_eq!(page.windows(), [(7, 9, 1400)]);
        let first = || {
            let mut page = Page::new();
            page.left(100, 600, polled(3, 5));
            page
        };
        let mut page = first();
        page.left(600, 600, polled(7, 9));
        assert!(page.windows().is_empty());
        // A third poll finds the same, or 200 more.
        let mut page = first();
        page.left(300, 600, polled(7, 9));
        assert_eq!(page.windows(), [(3, 5, 600)]);
        let mut page = first();
        page.left(300, 800, polled(7, 9));
        assert_eq!(page.windows(), [(3, 5, 600), (7, 9, 800)]);
        assert_eq!(page.carried(700), [(5, 300), (9, 200)]);
        assert_eq!(Page::new().carried(5), []);
        // More than it has, as killed threads have: see `fill_up`.
        assert_eq!(first().carried(603), [(5, 500)]);
    }

    #[test]
    fn what_is_used_little_is_held_by_a_few_times() {
        let mut page = Page::new();
        for poll in 1..=6 {
            page.left(0, 10 * poll, polled(10 * poll - 10, 10 * poll));
        }
        assert_eq!(page.windows(), [(0, 40, 40), (40, 50, 50), (50, 60, 60)]);
        assert_eq!(page.carried(60), [(40, 40), (50, 10), (60, 10)]);
    }

    #[test]
    fn what_an_execution_takes_back_may_be_missing_for_a_moment_or_for_good() {
        let mut page = Page::new();
        page.left(100, 600, polled(3, 5));
        page.left(300, 290, polled(7, 9));
        assert_eq!(page.windows(), [(3, 5, 600)]);
        let mut page = Page::new();
        page.left(100, 600, polled(3, 5));
        page.left(300, 590, polled(7, 9));
        assert_eq!(page.windows(), [(3, 5, 590)]);
    }

    #[test]
    fn polls_that_nothing_is_held_of_are_forgotten() {
        let (mut held, mut reported) = (HeldPages::default(), ByNumber::default());
        for poll in 0..10_000 {
            let mut now = ByNumber::default();
            // One page waits from the beginning on, another one is reported a poll later each time.
            (*now.at(7), *now.at(9)) = ([5, 0], [poll + 2, 0]);
            held.hold(&now, &reported, polled(poll, poll + 1));
            *reported.at(9) = [poll + 2, 0];
        }
        assert!(held.polls.all.len() < 2 * FEW_POLLS, "{} are kept", held.polls.all.len());
        assert_eq!(held.carried(7, [5, 0]).collect::<Vec<_>>(), [(polled(0, 1), [5, 0])]);
    }
}
