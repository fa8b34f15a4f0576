//! Processes and threads that are new in the directory.

use super::ends::is_running;
use super::*;
use crate::exact::namespaces::{self, Identity};

/// What entries of processes have as their index that did not begin with an exec.
const FORKED: u32 = 0;

/// Whether an entry is that of a process that was forked, or is about to be.
fn is_forked(entry: &DirectoryEntry) -> bool {
    entry.kind.load(Acquire) == kind::PROCESS
        && entry.index.load(Relaxed) == FORKED
        && entry.start_ns.load(Relaxed) != u64::MAX
}

/// Whether a process has said what it has inherited, which it does first. One that was killed before has counted
/// nothing.
fn is_filled(header: &Shared, entry: &DirectoryEntry) -> bool {
    header.words::<ProcessHeader>(0, 1)[0].pages.load(Acquire) != 0 || !is_running(entry.id.load(Relaxed) as i32)
}

/// A process that was forked and has not been taken in yet: it has not run, or not all is known that its parent had
/// then. Others do not wait for it.
pub(super) struct Forked {
    extent: Extent,
    parent: Extent,
    found: Instant,
    /// Since its parent was found gone, while it had no id.
    orphaned: Option<Instant>,
}

impl Forked {
    fn new(extent: Extent, entry: &DirectoryEntry) -> Self {
        Forked { extent, parent: Extent(entry.parent.load(Relaxed)), found: Instant::now(), orphaned: None }
    }

    /// How far its parent may be read, as it has what was there then. There is no bound by a fork that failed, nor by a
    /// child that is stopped, or that its parent, killed in the midst of the fork, may not have.
    fn start(&self, file: &SessionFile) -> u64 {
        let is_late = self.found.elapsed() > Duration::from_secs(10)
            || self.orphaned.is_some_and(|since| since.elapsed() > Duration::from_secs(1));
        match file.entry(self.extent) {
            Some(entry) if !is_late => entry.start_ns.load(Acquire),
            _ => u64::MAX,
        }
    }
}

impl Drain {
    /// Takes in what is new, in the order in which it began. `is_last`: nobody comes again.
    pub(super) fn find_new(&mut self, file: &SessionFile, session: &mut Session, is_last: bool) -> io::Result<()> {
        let mut forked = std::mem::take(&mut self.forked);
        forked.sort_by_key(|forked| forked.start(file));
        for forked in forked {
            self.forked_begins(file, session, forked, is_last)?;
        }
        let entries: Vec<(Extent, &DirectoryEntry)> = file.directory().skip(self.seen as usize).collect();
        for (extent, entry) in entries {
            // What is not filled yet is looked at the next time, and all behind it, so that parents come first.
            let what = entry.kind.load(Acquire);
            let parent = Extent(entry.parent.load(Relaxed));
            match what {
                kind::PROCESS if entry.index.load(Relaxed) == FORKED => {
                    self.forked_begins(file, session, Forked::new(extent, entry), is_last)?;
                }
                // A thread of a forked process; a program that is executed in one, or in its parent.
                kind::PROCESS | kind::THREAD | kind::SEAT if !is_last && self.is_awaited(file, what, parent) => {
                    return Ok(());
                }
                kind::PROCESS => {
                    let header = Arc::new(file.extent(extent, 0, size_of::<ProcessHeader>())?);
                    if !is_filled(&header, entry) || !self.reads_parent(file, session, entry, is_last)? {
                        return Ok(());
                    }
                    self.process_begins(file, session, extent, entry, header)?;
                }
                // A thread gets its id when it runs.
                kind::THREAD if entry.id.load(Relaxed) != 0 || entry.end_ns.load(Relaxed) != 0 => {
                    self.thread_begins(file, session, extent, entry);
                }
                kind::SEAT => self.seat_begins(extent, entry),
                // Nor does it get one when its process was killed before, or is not observed.
                kind::THREAD if self.has_ended(parent) => {}
                0 if self.was_given_up(extent) => {}
                _ => return Ok(()),
            }
            self.seen = extent.0 + 1;
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
        let start = forked.start(file);
        // Its parent is itself not known yet, or would be read too far for an earlier child.
        let waits = self.forked.iter().any(|other| other.extent == forked.parent)
            || self.forks_ahead(file, forked.parent) < start;
        if entry.id.load(Acquire) == 0 {
            let has_failed = entry.start_ns.load(Relaxed) == u64::MAX;
            let parent = self.processes.get(&forked.parent);
            if is_last || has_failed && parent.is_some_and(|parent| parent.ended) {
                return Ok(());
            }
            // Its parent may make the next one of it.
            if has_failed {
                forked.found = Instant::now();
            }
            if waits || parent.is_some_and(|parent| is_running(parent.pid)) {
                forked.orphaned = None;
            } else {
                forked.orphaned.get_or_insert_with(Instant::now);
            }
            self.forked.push(forked);
            return Ok(());
        }
        let header = Arc::new(file.extent(forked.extent, 0, size_of::<ProcessHeader>())?);
        if !is_last && (waits || !is_filled(&header, entry)) || !self.reads_parent(file, session, entry, is_last)? {
            self.forked.push(forked);
            return Ok(());
        }
        self.process_begins(file, session, forked.extent, entry, header)
    }

    /// Whether what begins in a process has to wait for one that was forked and is not known yet: of that, or of a
    /// program in its parent's place.
    fn is_awaited(&self, file: &SessionFile, what: u32, parent: Extent) -> bool {
        let is_program = what == kind::PROCESS;
        let is_so = |forked: &Forked| {
            forked.extent == parent || is_program && forked.parent == parent && forked.start(file) != u64::MAX
        };
        self.forked.iter().any(is_so)
    }

    /// Whether an entry will never be filled: that takes some instructions, in the midst of which a process can be
    /// killed. All that began later waits for it.
    fn was_given_up(&mut self, extent: Extent) -> bool {
        const PATIENCE: Duration = Duration::from_secs(10);
        let since = match self.unfilled {
            Some((waits, since)) if waits == extent => since,
            _ => self.unfilled.insert((extent, Instant::now())).1,
        };
        let is_over = since.elapsed() > PATIENCE;
        if is_over {
            self.notes.push("a process or thread was killed, or stood still, when it was about to begin: it is not in the recording".to_owned());
        }
        is_over
    }

    fn has_ended(&self, process: Extent) -> bool {
        self.processes.get(&process).is_none_or(|process| process.ended)
    }

    /// Whether threads of a process that have run, or processes that it has forked or become, are not known yet.
    pub(super) fn has_new(&self, file: &SessionFile, process: Extent) -> bool {
        let is_its = |entry: &DirectoryEntry| {
            matches!(entry.kind.load(Acquire), kind::THREAD | kind::SEAT | kind::PROCESS)
                && entry.parent.load(Relaxed) == process.0
                && (entry.id.load(Relaxed) != 0 || is_forked(entry))
        };
        self.forked_by(process).any(|forked| forked.start(file) != u64::MAX)
            || file.directory().skip(self.seen as usize).any(|(_, entry)| is_its(entry))
    }

    /// How far to read a process that has forked some that are not known yet.
    pub(super) fn forks_ahead(&self, file: &SessionFile, process: Extent) -> u64 {
        let is_its = |entry: &DirectoryEntry| is_forked(entry) && entry.parent.load(Relaxed) == process.0;
        let new = file.directory().skip(self.seen as usize).filter(|(_, entry)| is_its(entry));
        let starts = new.map(|(_, entry)| entry.start_ns.load(Relaxed));
        self.forked_by(process).map(|forked| forked.start(file)).chain(starts).min().unwrap_or(u64::MAX)
    }

    fn forked_by(&self, process: Extent) -> impl Iterator<Item = &Forked> {
        self.forked.iter().filter(move |forked| forked.parent == process)
    }

    /// What a process's parent had until it began, the child has: takes that in. Whether that is all: not while a
    /// thread is kept from telling of a block, or from writing down a page, as on a busy host.
    fn reads_parent(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        entry: &DirectoryEntry,
        is_last: bool,
    ) -> io::Result<bool> {
        let (parent, start) = (Extent(entry.parent.load(Relaxed)), entry.start_ns.load(Relaxed));
        let Some(pid) = self.processes.get(&parent).filter(|parent| !parent.ended).map(|parent| parent.pid) else {
            return Ok(true);
        };
        if self.is_left_out(session, entry) {
            return Ok(true);
        }
        if !self.read_heap_whole() && !is_last {
            return Ok(false);
        }
        self.read_process(file, session, parent, start)?;
        let parent = &self.processes[&parent];
        // One that has gone, or executes another program, says no more.
        Ok(is_last || self.goes_on(entry) || parent.known_until >= start || parent.is_over || !is_running(pid))
    }

    /// Whether a process is its parent, with another program.
    fn goes_on(&self, entry: &DirectoryEntry) -> bool {
        let parent = self.processes.get(&Extent(entry.parent.load(Relaxed)));
        parent.is_some_and(|parent| parent.said == entry.id.load(Relaxed) as i32)
    }

    /// Whether it is somebody's child, and children are not followed.
    fn is_left_out(&self, session: &Session, entry: &DirectoryEntry) -> bool {
        !session.follows_children() && entry.parent.load(Relaxed) != Extent::NONE.0 && !self.goes_on(entry)
    }

    /// Which process an entry is of.
    fn identity(&self, entry: &DirectoryEntry) -> Identity {
        let parent = self.processes.get(&Extent(entry.parent.load(Relaxed)));
        let parent_is = parent.map(|parent| Identity { pid: parent.pid, is_inner: parent.is_inner });
        match parent_is {
            Some(same) if self.goes_on(entry) => same,
            _ => {
                let is_taken = |pid: i32| self.processes.values().any(|other| other.pid == pid && !other.ended);
                namespaces::identify(entry.id.load(Relaxed) as i32, parent_is, is_taken)
            }
        }
    }

    fn process_begins(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        entry: &DirectoryEntry,
        header: Arc<Shared>,
    ) -> io::Result<()> {
        let said = entry.id.load(Relaxed) as i32;
        let Identity { pid, is_inner } = self.identity(entry);
        if is_inner {
            self.heap_queue.rename(said, pid);
        }
        let start = entry.start_ns.load(Relaxed);
        let time_ns = session.advance(start);
        let parent = Some(Extent(entry.parent.load(Relaxed))).filter(|parent| self.processes.contains_key(parent));
        let executed = entry.index.load(Relaxed) != FORKED;
        if self.is_left_out(session, entry) {
            session.left_out(pid, command_line(pid).unwrap_or_default());
            return Ok(());
        }
        let before = parent.map(|parent| (parent, self.processes[&parent].id));
        let id = match before {
            Some((parent, id)) if self.goes_on(entry) => {
                // All that the program before has counted belongs to it.
                self.finish(file, session, parent, start)?;
                session.process_execs(pid, command_line(pid), time_ns);
                id
            }
            _ => {
                let command = command_line(pid).unwrap_or_default();
                let id = session.process_begins(pid, before.map(|(_, id)| id), command, time_ns);
                if executed && before.is_some() {
                    session.process_execs(pid, None, time_ns);
                }
                id
            }
        };
        let words = &header.words::<ProcessHeader>(0, 1)[0];
        if let Some(rank) = words.rank.load(Relaxed).checked_sub(1) {
            session.process_ranked(id, rank);
        }
        let [inherited_sites, inherited_pages, inherited_segments] =
            [&words.inherited_sites, &words.inherited_pages, &words.inherited_segments].map(|word| word.load(Relaxed));
        self.processes.insert(
            extent,
            Process {
                pid,
                said,
                is_inner,
                id,
                parent: parent.filter(|_| !executed),
                header,
                inherited_sites,
                inherited_pages,
                inherited_segments,
                sites: Vec::new(),
                last_pages: FxHashMap::default(),
                fetches: Fetches::default(),
                pages: KnownPages::from_number(inherited_pages.max(1)),
                forgotten: VecDeque::new(),
                live_pages: BTreeMap::new(),
                resting_pages: BTreeMap::new(),
                known_until: 0,
                logged_accesses: Vec::new(),
                page_owners: FxHashMap::default(),
                page_owners_ended: Default::default(),
                released: None,
                claimed_ns: 0,
                is_over: false,
                undivided_ns: 0,
                window: Window::default(),
                bounds: Bounds::default(),
                used: FxHashMap::default(),
                logged_word_counts: Vec::new(),
                word_counts: WordCounts::default(),
                gone: Vec::new(),
                rests: Vec::new(),
                map_changes: Vec::new(),
                sites_given: 0,
                releasable: Releasable::default(),
                pending_homes: PendingHomes::default(),
                stacks: FxHashMap::default(),
                call_sites: FxHashMap::default(),
                polls: 0,
                log_read: 0,
                log_given_back: 0,
                log_heard: None,
                last: false,
                was_gone: false,
                ended: false,
            },
        );
        Ok(())
    }

    fn thread_begins(&mut self, file: &SessionFile, session: &mut Session, extent: Extent, entry: &DirectoryEntry) {
        let process = Extent(entry.parent.load(Relaxed));
        let tid = entry.id.load(Relaxed) as i32;
        let Some((pid, id)) = self.processes.get(&process).map(|process| (process.pid, process.id)) else { return };
        // One that was never started: its creation failed.
        if tid == 0 {
            return;
        }
        let time_ns = session.advance(entry.start_ns.load(Relaxed));
        let (node, index) = (u16::try_from(entry.node.load(Relaxed)).ok(), entry.index.load(Relaxed));
        let place = file.thread_place(extent).map(|place| (place.cpus(), place.policy()));
        let sp = entry.stack.load(Relaxed);
        let goes_on = self.threads.iter().any(|(_, thread)| thread.index == index);
        let name = name_of(&name_in(entry));
        let begun = BegunThread { process: id, pid, tid, node, place, goes_on, sp, name };
        let id = session.thread_begins(&begun, time_ns);
        let thread = Thread { process, id, index, tid, node, ended: false, ..Thread::nobody() };
        self.threads.push((extent, thread));
    }

    /// A thread that is known counts on another node as well.
    fn seat_begins(&mut self, extent: Extent, entry: &DirectoryEntry) {
        let process = Extent(entry.parent.load(Relaxed));
        let (node, index) = (u16::try_from(entry.node.load(Relaxed)).ok(), entry.index.load(Relaxed));
        let its = |thread: &&Thread| thread.index == index && thread.process == process;
        let Some(&Thread { id, tid, .. }) = self.threads.iter().rev().map(|(_, thread)| thread).find(its) else {
            return;
        };
        self.threads.push((extent, Thread { process, id, index, tid, node, ended: false, ..Thread::nobody() }));
    }
}

impl Thread {
    /// In the place of one that is being looked at.
    pub(super) fn nobody() -> Self {
        Thread {
            process: Extent::NONE,
            id: ThreadId(0),
            index: u32::MAX,
            tid: 0,
            name: [0; 16],
            node: None,
            sites: FxHashMap::default(),
            pages: FxHashMap::default(),
            misses: Misses::default(),
            left_out: FxHashMap::default(),
            shared: Vec::new(),
            untold: Vec::new(),
            held: FxHashMap::default(),
            read_ns: 0,
            counted: Vec::new(),
            waiting: FxHashMap::default(),
            code: FxHashMap::default(),
            code_ns: 0,
            balance: Balance::default(),
            waits: false,
            ended: true,
        }
    }
}
