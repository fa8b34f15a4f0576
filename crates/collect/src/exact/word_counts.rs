//! What is known of accesses by word, where every access is attributed to its object.

use numalens_event::exact::{self, Extent};
use numalens_profile::ids::{Bin, ObjectId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Times by which a thread's counts of a page are kept apart: more than a recording has bins, unless more are asked
/// for.
const MOST_TIMES: usize = 256;

/// Accesses of a thread to words of a page that changed hands: see [`exact::log::SHARE`].
pub struct LoggedWordCounts {
    pub time: u64,
    pub thread: Extent,
    pub address: u64,
    /// Reads and writes.
    pub counts: [u64; 2],
    pub page: u32,
}

impl LoggedWordCounts {
    /// With this many counted, as the counter of a word has them.
    pub fn counting(self, counter: u64) -> Self {
        LoggedWordCounts { counts: exact::word_counts(counter), ..self }
    }
}

/// Reads and writes of an object.
type Part = (ObjectId, [u64; 2]);

/// What is known of the accesses to pages, by thread and the page's number.
#[derive(Default)]
pub struct WordCounts {
    parts: FxHashMap<(Extent, u32), Vec<Part>>,
    /// Threads that have ended, and whose tables have been read.
    read: FxHashSet<Extent>,
}

impl WordCounts {
    /// Whether the table of a thread has been read to its end.
    pub fn is_read(&self, thread: Extent) -> bool {
        self.read.contains(&thread)
    }

    /// The table of a thread is read to its end.
    pub fn reads(&mut self, thread: Extent) {
        self.read.insert(thread);
    }

    /// Adds what a thread has counted of an object's part of a page.
    pub fn add(&mut self, thread: Extent, page: u32, object: ObjectId, counts: [u64; 2]) {
        let parts = self.parts.entry((thread, page)).or_default();
        match parts.iter_mut().find(|(known, _)| *known == object) {
            Some((_, sum)) => *sum = [sum[0] + counts[0], sum[1] + counts[1]],
            None => parts.push((object, counts)),
        }
    }

    /// Which objects have how much of a thread's counts of a page, of which there are so many.
    pub fn of(&self, thread: Extent, page: u32, mut left: [u64; 2]) -> Vec<Part> {
        let parts = self.parts.get(&(thread, page)).map_or(&[][..], Vec::as_slice);
        let mut found = Vec::new();
        for &(object, counts) in parts {
            let part: [u64; 2] = std::array::from_fn(|kind| counts[kind].min(left[kind]));
            left = [left[0] - part[0], left[1] - part[1]];
            if part != [0, 0] {
                found.push((object, part));
            }
        }
        found
    }
}

/// A thread's counts of a page until they are attributed: when, and reads and writes, by time.
#[derive(Default)]
pub struct Waiting(Vec<(u64, [u64; 2])>);

impl Waiting {
    /// Adds counts of this time; those of one bin are one.
    pub fn add(&mut self, time_ns: u64, mut bin_of: impl FnMut(u64) -> Bin, counts: [u64; 2]) {
        if self.0.len() >= MOST_TIMES {
            self.unite(&mut bin_of);
        }
        let full = self.0.len() >= MOST_TIMES;
        match self.0.last_mut() {
            // The later one first: it may widen all bins.
            Some((time, sum)) if full || bin_of(time_ns) == bin_of(*time) => {
                *time = time_ns;
                *sum = [sum[0] + counts[0], sum[1] + counts[1]];
            }
            _ => self.0.push((time_ns, counts)),
        }
    }

    /// Bins have become wider: what is in one now is one.
    fn unite(&mut self, bin_of: &mut impl FnMut(u64) -> Bin) {
        self.0.dedup_by(|later, (time, sum)| {
            let is_one = bin_of(later.0) == bin_of(*time);
            if is_one {
                *time = later.0;
                *sum = [sum[0] + later.1[0], sum[1] + later.1[1]];
            }
            is_one
        });
    }

    /// All of it: reads and writes.
    pub fn all(&self) -> [u64; 2] {
        self.0.iter().fold([0; 2], |sum, (.., counts)| [sum[0] + counts[0], sum[1] + counts[1]])
    }

    /// When some of it was found last.
    pub fn latest(&self) -> u64 {
        self.0.last().map_or(0, |&(time, ..)| time)
    }

    /// Times, with what was found then.
    pub fn iter(&self) -> impl Iterator<Item = (u64, [u64; 2])> {
        self.0.iter().copied()
    }
}

/// A thread's counts of a page that are not attributed to objects yet.
pub struct WaitingPage {
    /// The thread's.
    pub extent: Extent,
    /// Its process's.
    pub of: Extent,
    pub thread: ThreadId,
    pub node: Option<u16>,
    pub page: u32,
    pub counts: Waiting,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_attributed_than_there_is() {
        let mut shares = WordCounts::default();
        let thread = Extent(3);
        shares.add(thread, 7, ObjectId(1), [10, 5]);
        shares.add(thread, 7, ObjectId(2), [1, 0]);
        shares.add(thread, 7, ObjectId(1), [2, 0]);
        assert_eq!(shares.of(thread, 7, [20, 20]), [(ObjectId(1), [12, 5]), (ObjectId(2), [1, 0])]);
        assert_eq!(shares.of(thread, 7, [12, 2]), [(ObjectId(1), [12, 2])]);
        assert!(shares.of(thread, 8, [8, 20]).is_empty());
    }

    #[test]
    fn times_are_few_and_counts_are_kept() {
        let mut waiting = Waiting::default();
        for time in 0..1000u64 {
            waiting.add(time, |time| Bin(time as u32 / 2), [1, 2]);
        }
        assert_eq!((waiting.0.len(), waiting.all(), waiting.latest()), (MOST_TIMES, [1000, 2000], 999));
        assert_eq!(waiting.0[3], (7, [2, 4]));
    }

    #[test]
    fn bins_that_become_wider_make_room() {
        let mut waiting = Waiting::default();
        for time in 0..1000u64 {
            // As many bins as a recording has: twice as wide whenever there would be more.
            let width = (time / 200 + 1).next_power_of_two();
            waiting.add(time, |time| Bin((time / width) as u32), [1, 2]);
        }
        assert_eq!((waiting.all(), waiting.latest()), ([1000, 2000], 999));
        let late: Vec<_> = waiting.0.iter().rev().take(20).map(|(_, counts)| counts[0]).collect();
        assert!(late[1..].iter().all(|&count| count == 8), "{late:?}");
    }
}
