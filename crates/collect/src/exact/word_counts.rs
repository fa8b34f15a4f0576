//! Every access and its object: what threads have counted by word becomes counts of objects.
//!
//! What was counted of words that changed hands is in the logs, with the time (see the agent's `words.rs`). The rest
//! stands in the threads' tables, and is read when it changes no more: when a page has gone, when a thread or the
//! process has ended. Each is taken in among what the preloaded library reports, in order of time, so the objects that
//! are known at that moment are those whose words they were.
//!
//! Where the counting begins or ends ([`super::drain::Drain::switch`]), all tables are emptied: what was counted in a
//! pause is nobody's, as it is in the counts of pages and sites.
//!
//! In the end each thread's count of a page is attributed by what is known here: with its times where all of it is one
//! object's, else as of the last time. What nobody can say (the tables have room for 32 GiB of pages, the log for 1
//! GiB) is reported as *objects that share a page, not told apart*: the sum is the page's in any case.

use super::clock::agents_now;
use super::drain::{Drain, Process, WaitingPage, execed};
use super::file::SessionFile;
use super::release_memory::discard_words;
use crate::session::{CountedObject, Session, Who};
use numalens_event::exact::{self, Extent, WORD_BITS, WORDS_OF_PAGE};
use numalens_profile::ids::{Bin, ObjectId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Times by which a thread's counts of a page are kept apart: more than a recording has bins, unless more are asked
/// for.
const MOST_TIMES: usize = 256;
/// Bytes of a page's counters.
const PAGE_BYTES: u64 = WORDS_OF_PAGE * 8;

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
    /// The same with this many counted, as the counter of a word has them.
    fn counting(self, counter: u64) -> Self {
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
    fn add(&mut self, thread: Extent, page: u32, object: ObjectId, counts: [u64; 2]) {
        let parts = self.parts.entry((thread, page)).or_default();
        match parts.iter_mut().find(|(known, _)| *known == object) {
            Some((_, sum)) => *sum = [sum[0] + counts[0], sum[1] + counts[1]],
            None => parts.push((object, counts)),
        }
    }

    /// Which objects have how much of a thread's counts of a page, of which there are so many.
    fn of(&self, thread: Extent, page: u32, mut left: [u64; 2]) -> Vec<Part> {
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

    fn all(&self) -> [u64; 2] {
        self.0.iter().fold([0; 2], |sum, (.., counts)| [sum[0] + counts[0], sum[1] + counts[1]])
    }

    fn latest(&self) -> u64 {
        self.0.last().map_or(0, |&(time, ..)| time)
    }
}

/// Takes in words that changed hands.
pub fn take_in(session: &mut Session, process: &mut Process, share: &LoggedWordCounts) {
    let time_ns = session.advance(share.time);
    attribute(session, process, share, time_ns);
}

/// Takes in all that an ended thread has counted.
pub fn of_thread(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    process: &mut Process,
    thread: Extent,
    time: u64,
) -> io::Result<()> {
    process.word_counts.read.insert(thread);
    let parts: Vec<Range<u64>> = file.written(thread, exact::thread::WORDS, exact::thread::WORDS_BYTES).collect();
    for part in parts {
        read(drain, file, session, process, thread, &part, time)?;
    }
    discard_words(file, thread);
    Ok(())
}

/// Takes in what threads have counted of pages that have gone, by their numbers.
pub fn of_pages(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    pages: Range<u32>,
    time: u64,
) -> io::Result<()> {
    if pages.end > exact::MOST_LINE_PAGES {
        return Ok(());
    }
    for (thread, _) in drain.threads_of(extent) {
        if process.word_counts.read.contains(&thread) {
            continue;
        }
        let at = |page: u32| exact::thread::WORDS + u64::from(page) * PAGE_BYTES;
        let part = at(pages.start)..at(pages.end);
        if read(drain, file, session, process, thread, &part, time)? {
            file.discard(thread, part);
        }
    }
    Ok(())
}

/// Takes in a part of a thread's table, which changes no more. Whether there was anything.
fn read(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    process: &mut Process,
    thread: Extent,
    part: &Range<u64>,
    time: u64,
) -> io::Result<bool> {
    /// Bytes that are read at once.
    const PIECE: usize = 1 << 20;
    let time_ns = session.advance(time);
    let mut any = false;
    for start in part.clone().step_by(PIECE) {
        let piece = start..part.end.min(start + PIECE as u64);
        let first = (piece.start - exact::thread::WORDS) / 8;
        for (number, count) in (first..).zip(file.read(thread, &piece)?).filter(|&(_, count)| count != 0) {
            any = true;
            if let Some(share) = share_of(drain, process, thread, number, time) {
                attribute(session, process, &share.counting(count), time_ns);
            }
        }
    }
    Ok(any)
}

/// Takes in a part of the table of a thread that may run on, and begins again there.
fn empty(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    process: &mut Process,
    thread: Extent,
    part: &Range<u64>,
    time: u64,
) -> io::Result<()> {
    let time_ns = session.advance(time);
    let map = file.extent(thread, part.start, (part.end - part.start) as usize)?;
    let first = (part.start - exact::thread::WORDS) / 8;
    for (number, counter) in (first..).zip(map.words::<AtomicU64>(0, map.len() / 8)) {
        if counter.load(Relaxed) == 0 {
            continue;
        }
        // What is counted of a page that is not known yet waits with it, as the page's counts do.
        if let Some(share) = share_of(drain, process, thread, number, time) {
            attribute(session, process, &share.counting(counter.swap(0, Relaxed)), time_ns);
        }
    }
    Ok(())
}

/// Of a word, by its place in the tables, with nothing counted; none if its page is not known.
fn share_of(drain: &Drain, process: &Process, thread: Extent, number: u64, time: u64) -> Option<LoggedWordCounts> {
    let page = (number / WORDS_OF_PAGE) as u32;
    let start = drain.known_page(process, page)?.page.address();
    Some(LoggedWordCounts {
        time,
        thread,
        address: start + ((number % WORDS_OF_PAGE) << WORD_BITS),
        counts: [0; 2],
        page,
    })
}

/// Adds what was counted of a word, unless that was in a pause.
fn attribute(session: &mut Session, process: &mut Process, share: &LoggedWordCounts, time_ns: u64) {
    if !session.counted_at(time_ns) {
        return;
    }
    if let Some(object) = session.any_holder_of(process.pid, share.address, time_ns) {
        process.word_counts.add(share.thread, share.page, object, share.counts);
    }
}

impl Drain {
    /// The threads of a process that ended until `until`, with the time of their end, if they have not been found
    /// before.
    pub(super) fn ended_threads(
        &self,
        file: &SessionFile,
        extent: Extent,
        process: &Process,
        until: u64,
    ) -> Vec<(u64, Extent)> {
        // It may fail, and its threads go on.
        if execed(file, extent) {
            return Vec::new();
        }
        let ends = self.threads_of(extent).into_iter().filter(|(thread, _)| !process.word_counts.read.contains(thread));
        let ends = ends.filter_map(|(thread, _)| Some((file.last_count_of(thread)?, thread)));
        ends.filter(|&(time, _)| time <= until).collect()
    }

    /// Attributes what threads have counted of pages to objects.
    pub(super) fn share_out(&mut self, session: &mut Session) {
        for waiting in self.take_waiting() {
            let WaitingPage { extent, of, thread, node, page, counts } = waiting;
            let Some(known) = self.processes.get(&of) else { continue };
            let Some(class) = self.known_page(known, page).map(|page| page.class) else { continue };
            let all = counts.all();
            let parts = known.word_counts.of(extent, page, all);
            let (process, who) = (known.id, Who { thread, node, class });
            let report = |session: &mut Session, time_ns, object, counts| {
                session.count_object(&CountedObject { process, who, time_ns, object, counts, samples: 0 });
            };
            if let &[(object, part)] = parts.as_slice()
                && part == all
            {
                for &(time_ns, counts) in &counts.0 {
                    report(session, time_ns, object, counts);
                }
                continue;
            }
            let mut left = all;
            for (object, part) in parts {
                left = [left[0] - part[0], left[1] - part[1]];
                report(session, counts.latest(), object, part);
            }
            if left != [0, 0] {
                let object = session.objects_that_share(process);
                report(session, counts.latest(), object, left);
            }
        }
    }

    /// Takes in what is left of a process's counts by word: nobody counts there any more.
    pub(super) fn share_all(&mut self, file: &SessionFile, session: &mut Session, extent: Extent) -> io::Result<()> {
        if !session.records_every_object() {
            return Ok(());
        }
        let Some(mut process) = self.processes.remove(&extent) else { return Ok(()) };
        let threads = self.threads_of(extent).into_iter().map(|(thread, _)| thread);
        let threads: Vec<Extent> = threads.filter(|thread| !process.word_counts.read.contains(thread)).collect();
        let now = agents_now(file.header());
        let done = threads.into_iter().try_for_each(|thread| of_thread(self, file, session, &mut process, thread, now));
        self.processes.insert(extent, process);
        done
    }

    /// The counting begins or ends: takes in what all threads have counted by word until now, for whoever has the
    /// words, or leaves it out.
    pub(super) fn share_until_now(&mut self, file: &SessionFile, session: &mut Session) -> io::Result<()> {
        if !session.records_every_object() {
            return Ok(());
        }
        let now = agents_now(file.header());
        let live = self.processes.iter().filter(|(_, process)| !process.ended);
        for extent in live.map(|(&extent, _)| extent).collect::<Vec<_>>() {
            let Some(mut process) = self.processes.remove(&extent) else { continue };
            let threads = self.threads_of(extent).into_iter().map(|(thread, _)| thread);
            let threads: Vec<Extent> = threads.filter(|thread| !process.word_counts.read.contains(thread)).collect();
            let done = threads.into_iter().try_for_each(|thread| {
                let mut parts = file.written(thread, exact::thread::WORDS, exact::thread::WORDS_BYTES);
                parts.try_for_each(|part| empty(self, file, session, &mut process, thread, &part, now))
            });
            self.processes.insert(extent, process);
            done?;
        }
        Ok(())
    }
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
