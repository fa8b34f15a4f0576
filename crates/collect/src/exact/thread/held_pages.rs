//! What was counted of pages and left to later polls, as the thread might take it back.

use rustc_hash::FxHashMap;

/// What is held of pages, by their numbers.
#[derive(Default)]
pub struct HeldPages(FxHashMap<u32, Held>);

impl HeldPages {
    /// How much of what a page has grown by was counted in which poll before: see [`Held::carried`].
    pub fn carried(&self, number: u32, reported: [u64; 2], more: [u64; 2]) -> Vec<(Polled, [u64; 2])> {
        Held::carried(self.0.get(&number).copied(), reported, more)
    }

    /// Keeps what is counted of pages by `now` and not `reported` yet, to be reported by a later poll.
    pub fn hold(&mut self, now: FxHashMap<u64, [u64; 2]>, reported: &FxHashMap<u64, [u64; 2]>, poll: Polled) {
        for (at, now) in now {
            let (number, before) = (at as u32, reported.get(&at).copied().unwrap_or_default());
            match Held::left(self.0.get(&number).copied(), before, now, poll) {
                Some(held) => drop(self.0.insert(number, held)),
                None => drop(self.0.remove(&number)),
            }
        }
    }

    /// Of a page that has gone nothing more will be counted.
    pub fn forget(&mut self, number: u32) {
        self.0.remove(&number);
    }
}

/// Times that are told apart of what is held of a page; those before are one.
const WINDOWS: usize = 3;

/// What was counted of a page and left to later polls, as it might be taken back: up to some hundreds, which is all of
/// a page that is used little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    /// In order; those behind the last one are empty.
    windows: [Option<Window>; WINDOWS],
}

/// A poll that has counted some of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    polled: Polled,
    /// All that was counted by then.
    counted: [u64; 2],
}

/// A poll of a thread: when it was polled before, until when it was this time, and what the poll calls its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Polled {
    pub since_ns: u64,
    pub until_ns: u64,
    pub time_ns: u64,
}

impl Held {
    /// How much of what a page has grown by was counted in which window; the rest is new. `reported` is known of the
    /// page now.
    fn carried(held: Option<Held>, reported: [u64; 2], more: [u64; 2]) -> Vec<(Polled, [u64; 2])> {
        let mut done = [0, 1].map(|kind| reported[kind].saturating_sub(more[kind]));
        let windows = held.into_iter().flat_map(|held| held.windows).flatten();
        let parts = windows.map(|window| {
            let part = [0, 1].map(|kind| window.counted[kind].min(reported[kind]).saturating_sub(done[kind]));
            done = [done[0] + part[0], done[1] + part[1]];
            (window.polled, part)
        });
        parts.filter(|(_, part)| *part != [0, 0]).collect()
    }

    /// What is left to later polls, of a page of which `reported` is known.
    fn left(before: Option<Held>, reported: [u64; 2], counted: [u64; 2], poll: Polled) -> Option<Held> {
        let is_left = |of: [u64; 2]| (0..2).any(|kind| of[kind] <= i64::MAX as u64 && of[kind] > reported[kind]);
        let still = before.into_iter().flat_map(|held| held.windows).flatten().filter(|window| is_left(window.counted));
        let mut windows: Vec<Window> = still.collect();
        if is_left(counted) {
            // What was taken back was not counted. (It may be less for a moment only: then there is nothing to learn.)
            let less = |window: Window| [0, 1].map(|kind| window.counted[kind].min(counted[kind]));
            windows.iter_mut().for_each(|window| window.counted = less(*window));
            if windows.last().is_none_or(|last| last.counted != counted) {
                windows.push(Window { polled: poll, counted });
            }
            if windows.len() > WINDOWS {
                windows[1].polled.since_ns = windows[0].polled.since_ns;
                windows.remove(0);
            }
        }
        let mut windows = windows.into_iter();
        let held = Held { windows: [(); WINDOWS].map(|()| windows.next()) };
        held.windows[0].is_some().then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows of what is held, as times and counts of reads.
    fn windows(held: Option<Held>) -> Vec<(u64, u64, u64)> {
        let windows = held.into_iter().flat_map(|held| held.windows).flatten();
        windows.map(|window| (window.polled.since_ns, window.polled.until_ns, window.counted[0])).collect()
    }

    fn polled(since_ns: u64, until_ns: u64) -> Polled {
        Polled { since_ns, until_ns, time_ns: until_ns }
    }

    fn carried(held: Option<Held>, reported: u64, more: u64) -> Vec<(u64, u64)> {
        let parts = Held::carried(held, [reported, 0], [more, 0]);
        parts.into_iter().map(|(polled, part)| (polled.until_ns, part[0])).collect()
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
}
