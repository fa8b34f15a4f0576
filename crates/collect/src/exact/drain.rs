//! From counters to facts: what has been counted since the last poll is added to the profile.
//!
//! Counters only grow, so a poll is a comparison with the one before. Nothing is asked of the programs: they may run,
//! be stopped, or have been killed. Sites and pages are looked up in the records of their process; a forked process has
//! those of its parent below the numbers that it inherited.
//!
//! ```text
//!   poll    what the library reports -> new processes and threads -> ends
//!           -> each process: log, then events   -> each thread: counters   -> what nobody needs is given back
//! ```

mod arrivals;
mod begins;
mod ends;
mod findings;
mod heap_feed;
mod notes;
mod polls;
mod shared_counts;

use super::access_sampler::AccessSampler;
use super::clock;
use super::counting::{Polling, poll_thread, report_code};
use super::directory::Directory;
use super::events::Reader;
use super::file::SessionFile;
use super::heap::Heap;
use super::lines::LineReports;
use super::log_records::LogReader;
use super::persisted::CodeNews;
use super::poll::Poll;
use super::process::Process;
use super::release_memory::discard_pages;
use super::sharing::Sharing;
use super::thread::Thread;
use super::word_tables;
use crate::perf::monotonic_ns;
use crate::session::{Session, name_of};
use arrivals::Arrivals;
pub use findings::Findings;
use heap_feed::{HeapFeed, RECORDS_FILLED};
pub use notes::Notes;
use numalens_event::exact::{DirectoryEntry, Extent, end};
use polls::{Arrived, Polls};
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// The agents' clock may step back by so much when it is set.
const CLOCK_JUMPS_NS: u64 = 100_000;
/// Events of processes that are not observed are dropped after so long.
const STRANGERS_NS: u64 = 10_000_000_000;

/// All that is polled of a recording.
#[derive(Default)]
pub struct Drain {
    directory: Directory,
    arrivals: Arrivals,
    heap: HeapFeed,
    sampler: AccessSampler,
    polls: Polls,
    findings: Findings,
    lines: LineReports,
    sharing: Sharing,
}

impl Drain {
    /// Of what the agents count and the preloaded library reports.
    pub fn new(heap: Option<Heap>) -> Self {
        Drain { heap: HeapFeed::new(heap), ..Drain::default() }
    }

    /// What the preloaded library reports.
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.heap()
    }

    /// Has preloaded libraries report nothing any more.
    pub fn close_heap(&mut self) {
        self.heap.close();
    }

    /// Draws pages of which a few accesses are logged.
    pub fn sampler(&mut self) -> &mut AccessSampler {
        &mut self.sampler
    }

    /// What is to be said of the recording.
    pub fn notes(&self) -> Notes<'_> {
        Notes { directory: &self.directory, findings: &self.findings, poll_times: self.polls.times() }
    }

    /// Adds to the session what has been counted since the last poll.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn poll(&mut self, file: &SessionFile, session: &mut Session) -> io::Result<()> {
        self.poll_until(file, session, Poll::Running)
    }

    /// Counts for the profile from here on, or does not: what has been counted since the last poll goes to the part
    /// that ends here. To be called while whoever asked for it waits.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn switch(&mut self, file: &SessionFile, session: &mut Session, counting: bool) -> io::Result<()> {
        let asked = clock::agents_now(file.header());
        // Records that others are still filling: they take microseconds, or their threads have been stopped.
        for patience in 0..RECORDS_FILLED {
            self.poll_until(file, session, Poll::Settled)?;
            let is_behind = session.records_every_object() && self.heap.is_before(asked);
            if !is_behind && !self.directory.threads.iter().any(|(_, thread)| thread.waits && !thread.ended) {
                break;
            }
            std::thread::sleep(Duration::from_micros(50 << patience));
        }
        word_tables::read_until_now(&mut self.directory, file, session)?;
        // By the clock of agents and libraries: what they have reported by now belongs to the part that ends.
        session.count_from(clock::agents_now(file.header()), counting);
        Ok(())
    }

    /// Has a few accesses logged, of pages that the latest poll found in use.
    pub fn draw(&mut self, file: &SessionFile) {
        self.sampler.draw(file, &self.directory);
    }

    /// Divides the counts of pages that several objects share among these, as far as sampled accesses say.
    pub fn divide(&mut self, session: &mut Session) {
        shared_counts::divide_all(&mut self.directory, session);
    }

    /// Looks where the pages of all processes live by now; those that have moved are asked for by their agents as well,
    /// when they are used again.
    pub fn reread_homes(&self, file: &SessionFile, session: &mut Session) {
        for (pid, moved) in session.reread_homes() {
            if let Some((extent, process)) = self.directory.live().find(|(_, process)| process.identity.pid == pid) {
                process.doubt(&moved);
                self.sampler.query_direct(file, extent, &moved);
            }
        }
    }

    /// Between polls: keeps up with programs that take memory fast, and has pages share counters as soon as the session
    /// file outgrows its budget.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn keep_up(&mut self, file: &SessionFile, session: &mut Session) -> io::Result<()> {
        /// New pages that are worth a look, and which part of those that are known.
        const MANY: u32 = 1 << 14;
        const PART: u32 = 8;
        let is_behind = |process: &Process| {
            let new = process.header().pages.given().saturating_sub(process.pages.read());
            new > MANY.max(process.pages.read() / PART)
        };
        if self.sharing.is_due(file) {
            self.sharing.keep(file, session, &mut self.directory)?;
        }
        if self.directory.live().any(|(_, process)| is_behind(process)) {
            session.advance(monotonic_ns());
            self.read_programs(file, session, Poll::Running)?;
        }
        Ok(())
    }

    /// What agents have said of the code that is executed, since the last call.
    pub fn take_code_news(&mut self) -> Vec<CodeNews> {
        std::mem::take(&mut self.findings.code)
    }

    /// All threads have ended, as far as anybody knows: takes in what their programs say, before what they have
    /// counted.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read_code(&mut self, file: &SessionFile, session: &mut Session) -> io::Result<()> {
        session.advance(monotonic_ns());
        self.read_programs(file, session, Poll::Running).map(drop)
    }

    /// Whether so many threads or pages have come since the latest poll that these are most of the next one. That is no
    /// dearer sooner, and until then what has gone meanwhile keeps its place in the session file and in memory, and its
    /// numbers, of which a process may have few left.
    pub fn is_behind(&self, file: &SessionFile) -> bool {
        const MANY_THREADS: u32 = 256;
        const MANY_PAGES: u64 = 1 << 17;
        let new = self.polls.since(self.arrived(file));
        // As long as there is something to gain.
        let has_few = |process: &Process| {
            u64::from(process.header().pages.left()) < MANY_PAGES
                && (new.pages != 0 || process.pages.waits_for_numbers())
        };
        self.directory.live().any(|(_, process)| has_few(process))
            || new.extents >= MANY_THREADS && new.extents as usize >= self.directory.running_threads()
            || new.pages >= MANY_PAGES && new.pages >= self.directory.living_pages()
    }

    /// What has ever come.
    fn arrived(&self, file: &SessionFile) -> Arrived {
        let pages = self.directory.live().map(|(_, process)| u64::from(process.header().pages.given())).sum();
        Arrived { extents: file.arrived(), pages }
    }

    fn poll_until(&mut self, file: &SessionFile, session: &mut Session, poll: Poll) -> io::Result<()> {
        let now = session.advance(monotonic_ns());
        if let Some(undivided_ns) = self.polls.begin(now, self.arrived(file)) {
            self.directory.processes.values_mut().for_each(|process| process.shared.poll_begins(undivided_ns));
        }
        let (ends, horizon) = self.read_programs(file, session, poll)?;
        // Before counters are read, which takes the longer the more there are: pages are counted as what they are
        // assigned to, even if their program has ended.
        self.sharing.keep(file, session, &mut self.directory)?;
        for (number, &end) in ends.iter().enumerate() {
            if self.waits_for_its_end(self.directory.threads[number].1.process, poll) {
                continue;
            }
            self.read_thread(file, session, number, now, end, poll)?;
            // That takes its time, and longer still beside many threads: the file grows meanwhile.
            if self.sharing.is_due(file) {
                self.sharing.keep(file, session, &mut self.directory)?;
            }
        }
        self.polls.see_what_waits(&self.directory.threads);
        for extent in self.directory.extents() {
            if !self.waits_for_its_end(extent, poll) {
                self.give_back(file, session, extent)?;
            }
            self.end_process(file, session, extent, horizon, poll.is_last());
        }
        shared_counts::divide_full(&mut self.directory, session);
        self.sampler.polled(clock::agents_now(file.header()));
        // After the last poll there is no more to come.
        if poll != Poll::Last {
            session.keep_within_limits();
        }
        Ok(())
    }

    /// Whether counters of a process are left alone until it is gone, as it has said that it ends: then they are read
    /// anyway, for the last time. What a pause divides is read before.
    fn waits_for_its_end(&self, extent: Extent, poll: Poll) -> bool {
        poll != Poll::Settled && self.directory.process(extent).is_some_and(|process| process.life.exits)
    }

    /// Takes in what all programs say, but for their counters. Returns when threads have ended, as [`Drain::see_ends`],
    /// and until when all is known.
    fn read_programs(&mut self, file: &SessionFile, session: &mut Session, poll: Poll) -> io::Result<(Vec<u64>, u64)> {
        // Where each word's owner must be known: all blocks and threads that were there by then are found below,
        // whatever comes meanwhile.
        let known_until = clock::agents_now(file.header());
        self.heap.poll_begins();
        self.find_new(file, session, poll.is_last())?;
        // Ends are looked for first: what a thread counted before its end is in what is read below, and so are its
        // sites.
        let ends = self.see_ends(file, session);
        // What happened until here is in order. Pages of threads that have ended are among it, though the clock was set
        // again meanwhile.
        let horizon = clock::agents_now(file.header()) + CLOCK_JUMPS_NS;
        self.heap.read_until(known_until);
        let horizon = match poll {
            Poll::Last => u64::MAX,
            // Whose pages and words are depends on each block before.
            _ => self.heap.horizon().unwrap_or(horizon),
        };
        let extents = self.directory.extents();
        for &extent in &extents {
            let until = if poll.is_last() { horizon } else { self.arrivals.forks_ahead(file, extent).min(horizon) };
            self.read_process(file, session, extent, file.of_its_program(extent, until))?;
        }
        let observed = |pid| self.directory.live().any(|(_, process)| process.identity.pid == pid);
        self.heap.queue.drop_strangers(observed, horizon.saturating_sub(STRANGERS_NS));
        Ok((ends, horizon))
    }

    /// Sees which processes and threads have ended. Returns when, by the threads' places in the directory; 0: they have
    /// not.
    fn see_ends(&mut self, file: &SessionFile, session: &mut Session) -> Vec<u64> {
        let entries: Vec<&DirectoryEntry> = file.directory().map(|(_, entry)| entry).collect();
        let ended = |extent: Extent| entries.get(extent.0 as usize).map_or(0, |entry| entry.end_ns.load(Acquire));
        for (&extent, process) in &mut self.directory.processes {
            process.life.is_over = ended(extent) != 0;
            let how = entries.get(extent.0 as usize).map_or(end::NONE, |entry| entry.end.load(Acquire));
            process.life.exits = how & 0xff == end::EXIT;
        }
        let ends: Vec<u64> = self.directory.threads.iter().map(|&(extent, _)| ended(extent)).collect();
        for ((_, thread), &end) in self.directory.threads.iter().zip(&ends) {
            if !thread.ended && end != 0 {
                session.thread_will_end(thread.tid, thread.id, end);
            }
        }
        ends
    }

    /// Takes in what a process says: its log until `until` (on the clock of the records), new sites, new pages, pages
    /// that have gone.
    fn read_process(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        until: u64,
    ) -> io::Result<()> {
        let Drain { directory, sampler, heap, findings, arrivals, .. } = self;
        let read = directory.with(extent, |directory, process| {
            if process.life.ended {
                return Ok(());
            }
            let shared = process.header.clone();
            let header = shared.process();
            // Before the log: what that says later to have gone has gone after these came.
            let pages = header.pages.given();
            // And that says where these lie.
            process.sites.give(header.sites.load(Acquire));
            LogReader { directory, file, session, findings, seen: arrivals.seen }.read(extent, process, until)?;
            let queue = &mut heap.queue;
            let sampler = &*sampler;
            let events = Reader { directory, sampler, queue, file, session, extent, process, until };
            let read = events.read(pages).and_then(|()| {
                let pid = process.identity.pid;
                process.fetches.read(file, session, extent, header, pid, &process.pages.known)
            });
            process.log.give_back(file, extent, header, process.pages.read());
            read
        });
        read.unwrap_or(Ok(()))
    }

    fn read_thread(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        number: usize,
        now_ns: u64,
        ended: u64,
        poll: Poll,
    ) -> io::Result<()> {
        let (extent, thread) = &self.directory.threads[number];
        if thread.ended {
            return Ok(());
        }
        // An exec may fail. When it does not, the thread is polled for the last time with its process. One that has
        // failed since the end was read was no end either.
        let is_end =
            !file.has_execed(thread.process) && file.end_of(*extent) == Some(ended) && self.is_over(file, *extent);
        // At the end of all, those that still run are taken as they are afterwards.
        let poll = match poll {
            _ if is_end => Poll::Last,
            Poll::Last => Poll::Running,
            poll => poll,
        };
        self.count_thread(file, session, number, now_ns, poll)?;
        // Records are read in order, and another thread may take its time to fill one: then there is one more poll of
        // this one.
        if is_end && !self.directory.threads[number].1.waits {
            self.end_thread(file, session, number, ended);
        }
        Ok(())
    }

    /// Adds what a thread has counted.
    fn count_thread(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        number: usize,
        now_ns: u64,
        poll: Poll,
    ) -> io::Result<()> {
        let (extent, slot) = &mut self.directory.threads[number];
        let (extent, mut thread) = (*extent, std::mem::replace(slot, Thread::nobody()));
        if let Some(name) = file.entry(extent).map(name_in).filter(|name| *name != thread.name) {
            session.thread_named(thread.tid, thread.id, &name_of(&name));
            thread.name = name;
        }
        let (directory, sampler) = (&self.directory, &mut self.sampler);
        let polled = match directory.process(thread.process) {
            Some(process) => {
                let number = self.polls.number();
                let mut polling = Polling { directory, sampler, file, session: &mut *session, now_ns, number, poll };
                poll_thread(&mut polling, extent, process, &mut thread)
            }
            None => Ok(FxHashMap::default()),
        };
        let process = self.directory.processes.get_mut(&thread.process);
        let polled = polled.map(|executed| {
            if let Some(process) = process {
                report_code(session, process, &mut thread, executed, now_ns, poll.is_settled());
            }
        });
        self.directory.threads[number].1 = thread;
        shared_counts::gather(&mut self.directory, &self.sampler, number);
        polled
    }

    /// Gives back what is kept of pages of a process that have gone, and reports what waits for that.
    fn give_back(&mut self, file: &SessionFile, session: &mut Session, extent: Extent) -> io::Result<()> {
        self.vacate(file, extent)?;
        let process = self.directory.processes.get_mut(&extent);
        for pages in process.map(|process| process.pages.take_due()).unwrap_or_default() {
            if file.header().lines.load(Relaxed) != 0 {
                self.lines.report(file, session, &self.directory, extent, pages.clone())?;
            }
            let threads = self.directory.threads_of(extent).filter(|(_, thread)| !thread.ended);
            discard_pages(file, extent, threads.map(|(thread, _)| thread), &pages);
            if let Some(process) = self.directory.processes.get_mut(&extent) {
                // What this poll has found is attributed by the next one.
                process.pages.given_back(self.polls.number() + 2, pages);
            }
        }
        if !session.records_every_object() && !self.polls.has_older_counts() {
            self.directory.forget_pages(extent, self.polls.number());
        }
        // By line and word, numbers have room for more than is counted.
        if file.header().lines.load(Relaxed) == 0
            && let Some(process) = self.directory.processes.get_mut(&extent)
        {
            let header = process.header.clone();
            process.pages.reuse(header.process(), self.polls.number());
        }
        Ok(())
    }

    /// Gives back the counters of pages that are counted in regions by now, or have gone: before anything else is given
    /// back of these, as what stands there is their regions'.
    fn vacate(&mut self, file: &SessionFile, extent: Extent) -> io::Result<()> {
        let Some(process) = self.directory.processes.get_mut(&extent) else { return Ok(()) };
        let vacated = process.pages.take_vacated();
        if process.regions.assignments() == 0 {
            return Ok(());
        }
        for pages in vacated {
            let threads = self.directory.threads.iter_mut().filter(|(_, thread)| thread.process == extent);
            for (at, thread) in threads.filter(|(_, thread)| !thread.ended) {
                thread.vacated.vacate(file, *at, process, &pages)?;
            }
        }
        Ok(())
    }
}

fn name_in(entry: &DirectoryEntry) -> [u8; 16] {
    entry.name.each_ref().map(|byte| byte.load(Relaxed))
}
