//! Every access and its object: what threads have counted by word becomes counts of objects.
//!
//! What was counted of words that changed hands is in the logs, with the time (see the agent's `words.rs`). The rest
//! stands in the threads' tables, and is read when it changes no more: when a page has gone, when a thread or the
//! process has ended. Each is taken in among what the preloaded library reports, in order of time, so the objects that
//! are known at that moment are those whose words they were.
//!
//! Where the counting begins or ends ([`Drain::switch`](super::drain::Drain::switch)), all tables are emptied: what was
//! counted in a pause is nobody's, as it is in the counts of pages and sites.
//!
//! In the end each thread's count of a page is attributed by what is known here: with its times where all of it is one
//! object's, else as of the last time. What nobody can say (the tables have room for 32 GiB of pages, the log for 1
//! GiB) is reported as *objects that share a page, not told apart*: the sum is the page's in any case.

use super::clock::agents_now;
use super::directory::Directory;
use super::file::SessionFile;
use super::process::Process;
use super::release_memory::discard_words;
use super::word_counts::{LoggedWordCounts, WaitingPage};
use crate::session::{CountedObject, Session, Who};
use numalens_event::exact::{self, Extent, WORD_BITS, WORDS_OF_PAGE};
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a page's counters.
const PAGE_BYTES: u64 = WORDS_OF_PAGE * 8;

/// Reads what the threads of a process have counted by word.
pub struct WordReader<'a> {
    pub directory: &'a Directory,
    pub file: &'a SessionFile,
    pub session: &'a mut Session,
    pub process: &'a mut Process,
}

impl WordReader<'_> {
    /// Takes in words that changed hands.
    pub fn changed_hands(&mut self, logged: &LoggedWordCounts) {
        let time_ns = self.session.advance(logged.time);
        self.attribute(logged, time_ns);
    }

    /// Takes in all that an ended thread has counted.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn of_thread(&mut self, thread: Extent, time: u64) -> io::Result<()> {
        self.process.words.reads(thread);
        for part in self.written(thread) {
            self.read(thread, &part, time)?;
        }
        discard_words(self.file, thread);
        Ok(())
    }

    /// Takes in what threads of the process at `extent` have counted of pages that have gone, by their numbers.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn of_pages(&mut self, extent: Extent, pages: Range<u32>, time: u64) -> io::Result<()> {
        if pages.end > exact::MOST_LINE_PAGES {
            return Ok(());
        }
        for thread in self.directory.unread_threads(extent, self.process) {
            let at = |page: u32| exact::thread::WORDS + u64::from(page) * PAGE_BYTES;
            let part = at(pages.start)..at(pages.end);
            if self.read(thread, &part, time)? {
                self.file.discard(thread, part);
            }
        }
        Ok(())
    }

    /// Takes in what a thread that may run on has counted until now, and has it begin again.
    fn until_now(&mut self, thread: Extent, now: u64) -> io::Result<()> {
        self.written(thread).into_iter().try_for_each(|part| self.empty(thread, &part, now))
    }

    fn written(&self, thread: Extent) -> Vec<Range<u64>> {
        self.file.written(thread, exact::thread::WORDS, exact::thread::WORDS_BYTES).collect()
    }

    /// Takes in a part of a thread's table, which changes no more. Whether there was anything.
    fn read(&mut self, thread: Extent, part: &Range<u64>, time: u64) -> io::Result<bool> {
        /// Bytes that are read at once.
        const PIECE: usize = 1 << 20;
        let time_ns = self.session.advance(time);
        let mut any = false;
        for start in part.clone().step_by(PIECE) {
            let piece = start..part.end.min(start + PIECE as u64);
            let first = (piece.start - exact::thread::WORDS) / 8;
            for (number, count) in (first..).zip(self.file.read(thread, &piece)?).filter(|&(_, count)| count != 0) {
                any = true;
                if let Some(word) = self.word(thread, number, time) {
                    self.attribute(&word.counting(count), time_ns);
                }
            }
        }
        Ok(any)
    }

    /// Takes in a part of the table of a thread that may run on, and begins again there.
    fn empty(&mut self, thread: Extent, part: &Range<u64>, time: u64) -> io::Result<()> {
        let time_ns = self.session.advance(time);
        let map = self.file.extent(thread, part.start, (part.end - part.start) as usize)?;
        let first = (part.start - exact::thread::WORDS) / 8;
        for (number, counter) in (first..).zip(map.words::<AtomicU64>(0, map.len() / 8)) {
            if counter.load(Relaxed) == 0 {
                continue;
            }
            // What is counted of a page that is not known yet waits with it, as the page's counts do.
            if let Some(word) = self.word(thread, number, time) {
                self.attribute(&word.counting(counter.swap(0, Relaxed)), time_ns);
            }
        }
        Ok(())
    }

    /// A word, by its place in the tables, with nothing counted; none if its page is not known.
    fn word(&self, thread: Extent, number: u64, time: u64) -> Option<LoggedWordCounts> {
        let page = (number / WORDS_OF_PAGE) as u32;
        let start = self.directory.known_page(self.process, page)?.page.address();
        let address = start + ((number % WORDS_OF_PAGE) << WORD_BITS);
        Some(LoggedWordCounts { time, thread, address, counts: [0; 2], page })
    }

    /// Adds what was counted of a word, unless that was in a pause.
    fn attribute(&mut self, word: &LoggedWordCounts, time_ns: u64) {
        if !self.session.counted_at(time_ns) {
            return;
        }
        if let Some(object) = self.session.any_holder_of(self.process.identity.pid, word.address, time_ns) {
            self.process.words.add(word.thread, word.page, object, word.counts);
        }
    }
}

/// Attributes what threads have counted of pages to objects.
pub fn report(directory: &mut Directory, session: &mut Session) {
    for waiting in directory.take_waiting() {
        let WaitingPage { extent, of, thread, node, page, counts } = waiting;
        let Some(known) = directory.process(of) else { continue };
        let Some(class) = directory.known_page(known, page).map(|page| page.class) else { continue };
        let all = counts.all();
        let parts = known.words.of(extent, page, all);
        let (process, who) = (known.id, Who { thread, node, class });
        let report = |session: &mut Session, time_ns, object, counts| {
            session.count_object(&CountedObject { process, who, time_ns, object, counts, samples: 0 });
        };
        if let &[(object, part)] = parts.as_slice()
            && part == all
        {
            for (time_ns, counts) in counts.iter() {
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
///
/// # Errors
/// The session file cannot be read.
pub fn read_all(
    directory: &mut Directory,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
) -> io::Result<()> {
    if !session.records_every_object() {
        return Ok(());
    }
    let now = agents_now(file.header());
    let done = directory.with(extent, |directory, process| {
        let mut reader = WordReader { directory, file, session, process };
        let threads = directory.unread_threads(extent, reader.process);
        threads.into_iter().try_for_each(|thread| reader.of_thread(thread, now))
    });
    done.unwrap_or(Ok(()))
}

/// The counting begins or ends: takes in what all threads have counted by word until now, for whoever has the words, or
/// leaves it out.
///
/// # Errors
/// The session file cannot be read.
pub fn read_until_now(directory: &mut Directory, file: &SessionFile, session: &mut Session) -> io::Result<()> {
    if !session.records_every_object() {
        return Ok(());
    }
    let now = agents_now(file.header());
    for extent in directory.live().map(|(extent, _)| extent).collect::<Vec<_>>() {
        let done = directory.with(extent, |directory, process| {
            let mut reader = WordReader { directory, file, session: &mut *session, process };
            let threads = directory.unread_threads(extent, reader.process);
            threads.into_iter().try_for_each(|thread| reader.until_now(thread, now))
        });
        done.unwrap_or(Ok(()))?;
    }
    Ok(())
}
