//! Processes and threads that are new in the directory.

use super::Drain;
use super::arrivals::{Forked, is_filled, was_forked};
use super::name_in;
use crate::exact::file::{SessionFile, Shared};
use crate::exact::namespaces::{self, Identity};
use crate::exact::process::{Process, is_running};
use crate::exact::thread::Thread;
use crate::session::{BegunThread, Session, command_line, name_of};
use numalens_event::exact::{DirectoryEntry, Extent, ProcessHeader, kind};
use numalens_profile::ids::ProcessId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What is noted where something never began.
const GIVEN_UP: &str =
    "a process or thread was killed, or stood still, when it was about to begin: it is not in the recording";

/// A process whose header has been filled.
struct BegunProcess<'a> {
    extent: Extent,
    entry: &'a DirectoryEntry,
    header: Arc<Shared>,
}

fn header_of(file: &SessionFile, extent: Extent) -> io::Result<Arc<Shared>> {
    Ok(Arc::new(file.extent(extent, 0, size_of::<ProcessHeader>())?))
}

fn parent_of(entry: &DirectoryEntry) -> Extent {
    Extent(entry.parent.load(Relaxed))
}

impl Drain {
    /// Takes in what is new, in the order in which it began. `is_last`: nobody comes again.
    pub(super) fn find_new(&mut self, file: &SessionFile, session: &mut Session, is_last: bool) -> io::Result<()> {
        for forked in self.arrivals.take_forked(file) {
            self.forked_begins(file, session, forked, is_last)?;
        }
        let entries: Vec<(Extent, &DirectoryEntry)> = file.directory().skip(self.arrivals.seen as usize).collect();
        for (extent, entry) in entries {
            // What is not filled yet is looked at the next time, and all behind it, so that parents come first.
            let what = entry.kind.load(Acquire);
            let parent = parent_of(entry);
            match what {
                kind::PROCESS if was_forked(entry) => {
                    self.forked_begins(file, session, Forked::new(extent, entry), is_last)?;
                }
                // A thread of a forked process; a program that is executed in one, or in its parent.
                kind::PROCESS | kind::THREAD | kind::SEAT
                    if !is_last && self.arrivals.is_awaited(file, what, parent) =>
                {
                    return Ok(());
                }
                kind::PROCESS => {
                    let header = header_of(file, extent)?;
                    if !is_filled(&header, entry) || !self.reads_parent(file, session, entry, is_last)? {
                        return Ok(());
                    }
                    self.process_begins(file, session, BegunProcess { extent, entry, header })?;
                }
                // A thread gets its id when it runs.
                kind::THREAD if entry.id.load(Relaxed) != 0 || entry.end_ns.load(Relaxed) != 0 => {
                    self.thread_begins(file, session, extent, entry);
                }
                kind::SEAT => self.seat_begins(extent, entry),
                // Nor does it get one when its process was killed before, or is not observed.
                kind::THREAD if self.directory.process(parent).is_none_or(|process| process.life.ended) => {}
                0 if self.arrivals.was_given_up(extent) => self.findings.notes.push(GIVEN_UP.to_owned()),
                _ => return Ok(()),
            }
            self.arrivals.seen = extent.0 + 1;
        }
        Ok(())
    }

    /// Takes in a forked process, or keeps it for the next poll.
    fn forked_begins(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        mut forked: Forked,
        is_last: bool,
    ) -> io::Result<()> {
        let Some(entry) = file.entry(forked.extent) else { return Ok(()) };
        let waits = self.arrivals.has_earlier(file, &forked);
        if entry.id.load(Acquire) == 0 {
            let has_failed = entry.start_ns.load(Relaxed) == u64::MAX;
            let parent = self.directory.process(forked.parent);
            if is_last || has_failed && parent.is_some_and(|parent| parent.life.ended) {
                return Ok(());
            }
            let is_orphan = !waits && parent.is_none_or(|parent| !is_running(parent.identity.pid));
            forked.waits(has_failed, is_orphan);
            self.arrivals.forked.push(forked);
            return Ok(());
        }
        let header = header_of(file, forked.extent)?;
        if !is_last && (waits || !is_filled(&header, entry)) || !self.reads_parent(file, session, entry, is_last)? {
            self.arrivals.forked.push(forked);
            return Ok(());
        }
        self.process_begins(file, session, BegunProcess { extent: forked.extent, entry, header })
    }

    /// What a process's parent had until it began, the child has: takes that in. Whether that is all: not while a
    /// thread is kept from reporting a block, or from writing down a page, as on a busy host.
    fn reads_parent(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        entry: &DirectoryEntry,
        is_last: bool,
    ) -> io::Result<bool> {
        let (parent, start) = (parent_of(entry), entry.start_ns.load(Relaxed));
        let known = self.directory.process(parent).filter(|parent| !parent.life.ended);
        let Some(pid) = known.map(|parent| parent.identity.pid) else { return Ok(true) };
        if self.is_left_out(session, entry) {
            return Ok(true);
        }
        if !self.heap.read_whole() && !is_last {
            return Ok(false);
        }
        self.read_process(file, session, parent, start)?;
        let life = &self.directory.processes[&parent].life;
        // One that has gone, or executes another program, says no more.
        Ok(is_last || self.goes_on(entry) || life.known_until >= start || life.is_over || !is_running(pid))
    }

    /// Whether a process is its parent, with another program.
    fn goes_on(&self, entry: &DirectoryEntry) -> bool {
        let parent = self.directory.process(parent_of(entry));
        parent.is_some_and(|parent| parent.identity.said == entry.id.load(Relaxed) as i32)
    }

    /// Whether it is somebody's child, and children are not followed.
    fn is_left_out(&self, session: &Session, entry: &DirectoryEntry) -> bool {
        !session.follows_children() && parent_of(entry) != Extent::NONE && !self.goes_on(entry)
    }

    /// Which process an entry is of.
    fn identity(&self, entry: &DirectoryEntry) -> Identity {
        let parent = self.directory.process(parent_of(entry)).map(|parent| parent.identity);
        match parent {
            Some(same) if self.goes_on(entry) => same,
            _ => {
                let is_taken = |pid: i32| self.directory.live().any(|(_, other)| other.identity.pid == pid);
                namespaces::identify(entry.id.load(Relaxed) as i32, parent, is_taken)
            }
        }
    }

    fn process_begins(&mut self, file: &SessionFile, session: &mut Session, begun: BegunProcess<'_>) -> io::Result<()> {
        let BegunProcess { extent, entry, header } = begun;
        let identity = self.identity(entry);
        if identity.is_inner {
            self.heap.queue.rename(identity.said, identity.pid);
        }
        let time_ns = session.advance(entry.start_ns.load(Relaxed));
        if self.is_left_out(session, entry) {
            session.left_out(identity.pid, command_line(identity.pid).unwrap_or_default());
            return Ok(());
        }
        let parent = Some(parent_of(entry)).filter(|&parent| self.directory.process(parent).is_some());
        let id = self.enter_process(file, session, entry, identity, time_ns)?;
        if let Some(rank) = header.process().rank.load(Relaxed).checked_sub(1) {
            session.process_ranked(id, rank);
        }
        let parent = parent.filter(|_| was_forked(entry));
        self.directory.processes.insert(extent, Process::new(id, identity, parent, header));
        Ok(())
    }

    /// Enters a process, or that its parent has become another program.
    fn enter_process(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        entry: &DirectoryEntry,
        identity: Identity,
        time_ns: u64,
    ) -> io::Result<ProcessId> {
        let (pid, parent) = (identity.pid, parent_of(entry));
        let before = self.directory.process(parent).map(|parent| parent.id);
        match before {
            Some(id) if self.goes_on(entry) => {
                // All that the program before has counted belongs to it.
                self.finish(file, session, parent, entry.start_ns.load(Relaxed))?;
                session.process_execs(pid, command_line(pid), time_ns);
                Ok(id)
            }
            _ => {
                let command = command_line(pid).unwrap_or_default();
                let id = session.process_begins(pid, before, command, time_ns);
                if !was_forked(entry) && before.is_some() {
                    session.process_execs(pid, None, time_ns);
                }
                Ok(id)
            }
        }
    }

    fn thread_begins(&mut self, file: &SessionFile, session: &mut Session, extent: Extent, entry: &DirectoryEntry) {
        let process = parent_of(entry);
        let tid = entry.id.load(Relaxed) as i32;
        let Some(known) = self.directory.process(process) else { return };
        let (pid, id) = (known.identity.pid, known.id);
        // One that was never started: its creation failed.
        if tid == 0 {
            return;
        }
        let time_ns = session.advance(entry.start_ns.load(Relaxed));
        let (node, index) = (u16::try_from(entry.node.load(Relaxed)).ok(), entry.index.load(Relaxed));
        let place = file.thread_place(extent).map(|place| (place.cpus(), place.policy()));
        let sp = entry.stack.load(Relaxed);
        let goes_on = self.directory.threads.iter().any(|(_, thread)| thread.index == index);
        let name = name_of(&name_in(entry));
        let begun = BegunThread { process: id, pid, tid, node, place, goes_on, sp, name };
        let id = session.thread_begins(&begun, time_ns);
        self.directory.threads.push((extent, Thread::new(process, id, index, tid, node)));
    }

    /// A thread that is known counts on another node as well.
    fn seat_begins(&mut self, extent: Extent, entry: &DirectoryEntry) {
        let process = parent_of(entry);
        let (node, index) = (u16::try_from(entry.node.load(Relaxed)).ok(), entry.index.load(Relaxed));
        let its = |thread: &&Thread| thread.index == index && thread.process == process;
        let threads = &mut self.directory.threads;
        if let Some(&Thread { id, tid, .. }) = threads.iter().rev().map(|(_, thread)| thread).find(its) {
            threads.push((extent, Thread::new(process, id, index, tid, node)));
        }
    }
}
