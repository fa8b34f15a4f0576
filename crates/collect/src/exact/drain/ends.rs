//! How recordings of processes end.

use super::{Drain, shared_counts};
use crate::exact::clock;
use crate::exact::file::SessionFile;
use crate::exact::poll::Poll;
use crate::exact::process::is_running;
use crate::exact::release_memory::{discard_process, discard_thread};
use crate::exact::word_tables;
use crate::session::Session;
use numalens_event::exact::{self, DirectoryEntry, Extent, end};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How often all that was reported is read in the end before something of it is given up: a second in all.
const LAST_PATIENCE: u32 = 80;

impl Drain {
    /// Takes in the last of a process that has ended, or whose program was replaced: what it said since this poll began
    /// as well.
    pub(super) fn finish(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        until: u64,
    ) -> io::Result<()> {
        if let Some(process) = self.directory.processes.get_mut(&extent) {
            (process.life.last, process.life.is_over) = (true, true);
        }
        self.heap.read_whole();
        // Some have begun since the poll did.
        for (thread, known) in self.directory.threads_of(extent) {
            if let Some(end) = file.end_of(thread) {
                session.thread_will_end(known.tid, known.id, end);
            }
        }
        self.read_process(file, session, extent, until)?;
        let now = session.now_ns();
        for number in 0..self.directory.threads.len() {
            let (_, thread) = &self.directory.threads[number];
            if thread.process == extent && !thread.ended {
                self.finish_thread(file, session, number, now)?;
            }
        }
        word_tables::read_all(&mut self.directory, file, session, extent)?;
        self.report_all_lines(file, session, extent)?;
        if let Some(process) = self.directory.processes.get_mut(&extent) {
            process.life.ended = true;
            discard_process(file, extent);
        }
        Ok(())
    }

    /// Takes in the last of a thread whose process is over.
    fn finish_thread(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        number: usize,
        now_ns: u64,
    ) -> io::Result<()> {
        let of = self.directory.threads[number].1.process;
        self.count_thread(file, session, number, now_ns, Poll::Last)?;
        // Pages that it has from processes before it, whose records were begun a moment later by the clock, which is
        // set again at times.
        if self.directory.threads[number].1.waits && self.read_ancestors(file, session, of)? {
            self.count_thread(file, session, number, now_ns, Poll::Last)?;
        }
        let (extent, thread) = &mut self.directory.threads[number];
        thread.end();
        discard_thread(file, *extent);
        Ok(())
    }

    /// A thread that ended at `ended`, on the clock of the records, has been polled for the last time.
    pub(super) fn end_thread(&mut self, file: &SessionFile, session: &mut Session, number: usize, ended: u64) {
        let (extent, thread) = &mut self.directory.threads[number];
        thread.end();
        discard_thread(file, *extent);
        let replaced = file.entry(*extent).map(|entry| entry.end.load(Relaxed));
        // In another place the thread goes on.
        if replaced != Some(end::REPLACED) {
            let time_ns = session.advance(ended);
            session.thread_ends(thread.tid, thread.id, time_ns);
        }
    }

    /// Whether a thread that has an end will not go on: a child that borrows its parent's memory has one while it calls
    /// exec, which may fail.
    pub(super) fn is_over(&self, file: &SessionFile, thread: Extent) -> bool {
        let Some(entry) = file.entry(thread).filter(|entry| entry.end.load(Relaxed) == end::EXEC) else { return true };
        let pid = entry.id.load(Relaxed) as i32;
        self.directory.processes.values().any(|process| process.identity.pid == pid) || !is_running(pid)
    }

    /// Takes in all that is there by now of the processes that one was forked from. Whether there are any.
    fn read_ancestors(&mut self, file: &SessionFile, session: &mut Session, of: Extent) -> io::Result<bool> {
        let parent = |of: Extent| self.directory.process(of).and_then(|process| process.parent);
        let ancestors: Vec<Extent> = std::iter::successors(parent(of), |&of| parent(of)).collect();
        let now = clock::agents_now(file.header());
        self.heap.read_whole();
        for &ancestor in ancestors.iter().rev() {
            self.read_process(file, session, ancestor, now)?;
        }
        Ok(!ancestors.is_empty())
    }

    /// Notes that a process is over, when it is. All is known that happened until `until`.
    pub(super) fn end_process(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        until: u64,
        is_last: bool,
    ) {
        let Some(process) = self.directory.processes.get_mut(&extent).filter(|process| !process.life.ended) else {
            return;
        };
        let Some(entry) = file.entry(extent) else { return };
        let pid = process.identity.pid;
        let gone = !Path::new(&format!("/proc/{pid}")).exists();
        let Some(end) = end_of(entry, pid, gone) else { return };
        // One that was killed could not do it.
        file.slots().free(entry.slot.load(Relaxed), extent);
        // Whose words its threads have counted depends on the last blocks that it reported, which may have come after
        // this poll has read them.
        let time = entry.end_ns.load(Relaxed);
        if session.records_every_object() {
            let is_known = if time == 0 { process.life.was_gone || is_last } else { time <= until };
            process.life.was_gone |= gone;
            if !is_known {
                return;
            }
        }
        // Threads have begun, or gone on in another place, since this poll began: on a busy host all of a process
        // happens in one poll. Those behind an entry that is not filled yet are known the next time.
        let _ = self.find_new(file, session, is_last);
        // Its last records may stand behind one that another process's thread is filling.
        if !self.heap.read_whole() && !is_last || self.arrivals.has_new(file, extent) {
            return;
        }
        let _ = self.finish(file, session, extent, file.of_its_program(extent, u64::MAX));
        let time_ns = if time == 0 { session.now_ns() } else { session.advance(time) };
        session.process_ends(pid, time_ns, end);
    }

    /// The command has ended: `end` says how.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn first_ended(&mut self, file: &SessionFile, session: &mut Session, pid: i32, end: String) -> io::Result<()> {
        // Nobody comes again to see what threads of others are kept from filling.
        self.heap.read_patiently(LAST_PATIENCE);
        self.poll_until(file, session, Poll::Last)?;
        session.ended(pid, end.clone());
        let last = self.directory.live().filter(|(_, process)| process.identity.pid == pid);
        for extent in last.map(|(extent, _)| extent).collect::<Vec<_>>() {
            self.finish(file, session, extent, file.of_its_program(extent, u64::MAX))?;
            let now = session.now_ns();
            session.process_ends(pid, now, Some(end.clone()));
        }
        // Whatever still runs is not polled again.
        let now = session.now_ns();
        let threads = self.directory.threads.iter().enumerate().filter(|(_, (_, thread))| !thread.ended);
        for number in threads.map(|(number, _)| number).collect::<Vec<_>>() {
            self.count_thread(file, session, number, now, Poll::Cut)?;
        }
        for extent in self.directory.live().map(|(extent, _)| extent).collect::<Vec<_>>() {
            word_tables::read_all(&mut self.directory, file, session, extent)?;
            self.report_all_lines(file, session, extent)?;
        }
        word_tables::report(&mut self.directory, session);
        shared_counts::divide_all(&mut self.directory, session);
        Ok(())
    }

    /// Reports what is left of a process's cache lines.
    fn report_all_lines(&mut self, file: &SessionFile, session: &mut Session, extent: Extent) -> io::Result<()> {
        if file.header().lines.load(Relaxed) == 0 {
            return Ok(());
        }
        self.lines.report(file, session, &self.directory, extent, 0..exact::MOST_LINE_PAGES)?;
        self.lines.report_communication(file, session, &self.directory, extent)
    }
}

/// How a process ended, where that is known, by its entry; none: it goes on. An exec is known by the process that
/// follows; when none does, the process goes on unobserved until it is `gone`.
fn end_of(entry: &DirectoryEntry, pid: i32, gone: bool) -> Option<Option<String>> {
    let word = entry.end.load(Acquire);
    let is_exit = word & 0xff == end::EXIT;
    // Not before all threads have been polled once more, after their last instruction.
    let is_over = gone || is_exit && !is_running(pid);
    is_over.then(|| is_exit.then(|| format!("exited {}", word >> 8 & 0xff)))
}
