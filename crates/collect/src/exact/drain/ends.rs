//! How recordings of processes end.

use super::*;
use numalens_profile::{LINES_LEFT_OUT, LOOKS};

/// What was refused a program that wanted the place of the agent's memory for its own.
const REFUSED: &str = "calls that were refused, as memory of numalens is there";

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
        if let Some(process) = self.processes.get_mut(&extent) {
            (process.last, process.is_over) = (true, true);
        }
        self.read_heap_whole();
        // Some have begun since the poll did.
        for (thread, Thread { tid, id, .. }) in self.threads.iter().filter(|(_, thread)| thread.process == extent) {
            if let Some(end) = file.end_of(*thread) {
                session.thread_will_end(*tid, *id, end);
            }
        }
        self.read_process(file, session, extent, until)?;
        let now = session.now_ns();
        for number in 0..self.threads.len() {
            if self.threads[number].1.process == extent && !self.threads[number].1.ended {
                self.count_thread(file, session, number, now, Poll::Last)?;
                // Pages that it has from processes before it, whose records were begun a moment later by the clock,
                // which is set again at times.
                if self.threads[number].1.waits && self.read_ancestors(file, session, extent)? {
                    self.count_thread(file, session, number, now, Poll::Last)?;
                }
                let (_, thread) = &mut self.threads[number];
                thread.ended = true;
                thread.forget();
                discard_thread(file, self.threads[number].0);
            }
        }
        self.share_all(file, session, extent)?;
        self.report_all_lines(file, session, extent)?;
        if let Some(process) = self.processes.get_mut(&extent) {
            process.ended = true;
            discard_process(file, extent);
        }
        Ok(())
    }

    /// A thread that ended at `ended`, on the clock of the records, has been looked at for the last time.
    pub(super) fn end_thread(&mut self, file: &SessionFile, session: &mut Session, number: usize, ended: u64) {
        let (extent, thread) = &mut self.threads[number];
        thread.ended = true;
        thread.forget();
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
        self.processes.values().any(|process| process.pid == pid) || !is_running(pid)
    }

    /// Takes in all that is there by now of the processes that one was forked from. Whether there are any.
    fn read_ancestors(&mut self, file: &SessionFile, session: &mut Session, of: Extent) -> io::Result<bool> {
        let parent = |of: Extent| self.processes.get(&of).and_then(|process| process.parent);
        let ancestors: Vec<Extent> = std::iter::successors(parent(of), |&of| parent(of)).collect();
        let now = clock::agents_now(file.header());
        self.read_heap_whole();
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
        let Some(process) = self.processes.get_mut(&extent).filter(|process| !process.ended) else { return };
        let Some(entry) = file.entry(extent) else { return };
        let word = entry.end.load(Acquire);
        let gone = !std::path::Path::new(&format!("/proc/{}", process.pid)).exists();
        // An exec is known by the process that follows; when none does, the process goes on unobserved until it is
        // gone.
        if word & 0xff != end::EXIT && !gone {
            return;
        }
        // Not before all threads have been looked at once more, after their last instruction.
        let end = match word & 0xff {
            end::EXIT => Some(format!("exited {}", word >> 8 & 0xff)),
            _ => None,
        };
        let (pid, time) = (process.pid, entry.end_ns.load(Relaxed));
        if !gone && word & 0xff == end::EXIT && is_running(pid) {
            return;
        }
        // One that was killed could not do it.
        file.slots().free(entry.slot.load(Relaxed), extent);
        // Whose words its threads have counted depends on the last blocks that it reported, which may have come after
        // this poll has read them.
        if session.records_every_object() {
            let is_known = if time == 0 { process.was_gone || is_last } else { time <= until };
            process.was_gone |= gone;
            if !is_known {
                return;
            }
        }
        // Threads have begun, or gone on in another place, since this poll began: on a busy host all of a process
        // happens in one poll. Those behind an entry that is not filled yet are known the next time.
        let _ = self.find_new(file, session, is_last);
        // Its last records may stand behind one that another process's thread is filling.
        if !self.read_heap_whole() && !is_last || self.has_new(file, extent) {
            return;
        }
        let _ = self.finish(file, session, extent, of_its_program(file, extent, u64::MAX));
        let time_ns = if time == 0 { session.now_ns() } else { session.advance(time) };
        session.process_ends(pid, time_ns, end);
    }

    /// The command has ended: `end` says how.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn first_ended(&mut self, file: &SessionFile, session: &mut Session, pid: i32, end: String) -> io::Result<()> {
        // Nobody comes again to see what threads of others are kept from filling.
        self.read_heap_patiently(LAST_PATIENCE);
        self.poll_until(file, session, Poll::Last)?;
        session.ended(pid, end.clone());
        let last = self.processes.iter().filter(|(_, process)| process.pid == pid && !process.ended);
        let last: Vec<Extent> = last.map(|(&extent, _)| extent).collect();
        for extent in last {
            self.finish(file, session, extent, of_its_program(file, extent, u64::MAX))?;
            let now = session.now_ns();
            session.process_ends(pid, now, Some(end.clone()));
        }
        // Whatever still runs is not looked at again.
        let now = session.now_ns();
        for number in (0..self.threads.len()).filter(|&number| !self.threads[number].1.ended).collect::<Vec<_>>() {
            self.count_thread(file, session, number, now, Poll::Cut)?;
        }
        let running: Vec<Extent> =
            self.processes.iter().filter(|(_, process)| !process.ended).map(|(&extent, _)| extent).collect();
        for extent in running {
            self.share_all(file, session, extent)?;
            self.report_all_lines(file, session, extent)?;
        }
        self.share_out(session);
        self.divide(session);
        Ok(())
    }

    /// Reports what is left of a process's cache lines.
    fn report_all_lines(&mut self, file: &SessionFile, session: &mut Session, extent: Extent) -> io::Result<()> {
        if file.header().lines.load(Relaxed) == 0 {
            return Ok(());
        }
        self.report_lines(file, session, extent, 0..exact::MOST_LINE_PAGES)?;
        self.report_communication(file, session, extent)
    }

    /// Says in `meta` what was not seen.
    pub fn note(&self, file: &SessionFile, meta: &mut Meta) {
        let marks = file.header().marks.load(Relaxed);
        if marks > exact::MOST_MARKS {
            meta.losses.insert("marks of phases".to_owned(), u64::from(marks - exact::MOST_MARKS));
        }
        meta.extra.insert(LOOKS.to_owned(), self.poll_times.clone().into());
        meta.unobserved.clone_from(&self.unobserved);
        let lines_left_out = |process: &&Process| {
            let header = &process.header.words::<ProcessHeader>(0, 1)[0];
            header.lines_left_out.load(Relaxed) != 0
        };
        let processes = self.processes.values().filter(lines_left_out).count() as u64;
        if processes > 0 {
            meta.losses.insert(LINES_LEFT_OUT.to_owned(), processes);
        }
        let unsaid = |process: &Process| process.said().saturating_sub(exact::process::LOG_BYTES);
        let unsaid: u64 = self.processes.values().map(unsaid).sum();
        if unsaid > 0 {
            meta.losses.insert("bytes of events that processes had no room to tell".to_owned(), unsaid);
        }
        if !self.refused.is_empty() {
            meta.losses.insert(REFUSED.to_owned(), self.refused.len() as u64);
        }
        let known = self.unobserved.len() as u64;
        let all = u64::from(file.header().unobserved.load(Relaxed));
        if all > known {
            meta.unobserved.push(format!("{} programs that the agent could not be put into", all - known));
        }
    }

    /// Calls of programs that were refused, as memory of the agent's is there: each with its process.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// What the agents found worth a note, and what they said when they gave up.
    pub fn failures(&self) -> Vec<String> {
        let text = |process: &Process| {
            let header = &process.header.words::<ProcessHeader>(0, 1)[0];
            let bytes = header.failure.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0);
            String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
        };
        let failures = self.processes.values().map(text).filter(|text| !text.is_empty());
        self.notes.iter().cloned().chain(failures).collect()
    }
}

/// Whether a process still has threads that can run.
pub(super) fn is_running(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// Whether a process's program was replaced by another.
pub(in crate::exact) fn execed(file: &SessionFile, extent: Extent) -> bool {
    file.entry(extent).is_some_and(|entry| entry.end.load(Acquire) & 0xff == end::EXEC)
}

/// How far to read what is said of a process until `until`: when it has called exec, what comes later is of the next
/// program in it, whose beginning may not have been read yet. To be asked after all has been read that is to be sorted
/// by it.
pub(super) fn of_its_program(file: &SessionFile, extent: Extent, until: u64) -> u64 {
    if execed(file, extent) { file.end_of(extent).map_or(until, |end| end.min(until)) } else { until }
}
