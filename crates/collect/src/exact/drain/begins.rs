//! Processes and threads that are new in the directory.

use super::ends::is_running;
use super::*;

impl Drain {
    /// Takes in what is new, in the order in which it began. `is_last`: nobody comes again.
    pub(super) fn find_new(&mut self, file: &SessionFile, session: &mut Session, is_last: bool) -> io::Result<()> {
        let entries: Vec<(Extent, &DirectoryEntry)> = file.directory().skip(self.seen as usize).collect();
        for (extent, entry) in entries {
            // What is not filled yet is looked at the next time, and all behind it, so that parents come first.
            let what = entry.kind.load(Acquire);
            match what {
                // A forked process gets its id when it runs, unless there is none.
                kind::PROCESS if entry.id.load(Acquire) == 0 => {
                    if entry.end_ns.load(Acquire) == 0 && !self.was_given_up(extent) {
                        return Ok(());
                    }
                }
                kind::PROCESS => {
                    let header = Arc::new(file.extent(extent, 0, size_of::<ProcessHeader>())?);
                    // A fork's child first says what it has inherited. One that was killed before has counted nothing.
                    let is_filled = header.words::<ProcessHeader>(0, 1)[0].pages.load(Acquire) != 0;
                    if !is_filled && is_running(entry.id.load(Relaxed) as i32) {
                        return Ok(());
                    }
                    if !self.reads_parent(file, session, entry, is_last)? {
                        return Ok(());
                    }
                    self.process_begins(file, session, extent, entry, header)?;
                }
                // A thread gets its id when it runs.
                kind::THREAD if entry.id.load(Relaxed) != 0 || entry.end_ns.load(Relaxed) != 0 => {
                    self.thread_begins(file, session, extent, entry);
                }
                // Nor does it get one when its process was killed before, or is not observed.
                kind::THREAD if self.has_ended(Extent(entry.parent.load(Relaxed))) => {}
                0 if self.was_given_up(extent) => {}
                _ => return Ok(()),
            }
            self.seen = extent.0 + 1;
        }
        Ok(())
    }

    /// Whether an entry will never be filled: that takes some instructions, in the midst of which a process can be killed. All that began later waits for it.
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

    /// Whether threads of a process that have run, or processes that it has begun, are not known yet.
    pub(super) fn has_new(&self, file: &SessionFile, process: Extent) -> bool {
        file.directory().skip(self.seen as usize).any(|(_, entry)| {
            matches!(entry.kind.load(Acquire), kind::THREAD | kind::PROCESS)
                && entry.parent.load(Relaxed) == process.0
                && entry.id.load(Relaxed) != 0
        })
    }

    /// How far to read processes that have forked some that are not known yet, as these have what was there then.
    pub(super) fn forks_ahead(&self, file: &SessionFile) -> FxHashMap<Extent, u64> {
        let mut ahead = FxHashMap::default();
        for (_, entry) in file.directory().skip(self.seen as usize) {
            let is_forked = entry.kind.load(Acquire) == kind::PROCESS && entry.index.load(Relaxed) == 0;
            if is_forked && (entry.id.load(Acquire) != 0 || entry.end_ns.load(Acquire) == 0) {
                let (parent, start) = (Extent(entry.parent.load(Relaxed)), entry.start_ns.load(Relaxed));
                ahead.entry(parent).and_modify(|earliest: &mut u64| *earliest = start.min(*earliest)).or_insert(start);
            }
        }
        ahead
    }

    /// What a process's parent had until it began, the child has: takes that in. Whether that is all: not while a thread is kept from telling of a block, or
    /// from writing down a page, as on a busy host.
    fn reads_parent(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        entry: &DirectoryEntry,
        is_last: bool,
    ) -> io::Result<bool> {
        let (parent, start) = (Extent(entry.parent.load(Relaxed)), entry.start_ns.load(Relaxed));
        if !self.processes.contains_key(&parent) {
            return Ok(true);
        }
        if !self.read_heap_whole() && !is_last {
            return Ok(false);
        }
        self.read_process(file, session, parent, start)?;
        let parent = &self.processes[&parent];
        // One that has gone, or executes another program, says no more.
        let says_more = !parent.is_over && parent.pid != entry.id.load(Relaxed) as i32 && is_running(parent.pid);
        Ok(is_last || parent.ended || parent.known_until >= start || !says_more)
    }

    fn process_begins(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        entry: &DirectoryEntry,
        header: Arc<Shared>,
    ) -> io::Result<()> {
        let pid = entry.id.load(Relaxed) as i32;
        let start = entry.start_ns.load(Relaxed);
        let time_ns = session.advance(start);
        let parent = Some(Extent(entry.parent.load(Relaxed))).filter(|parent| self.processes.contains_key(parent));
        let executed = entry.index.load(Relaxed) != 0;
        let goes_on = parent.and_then(|parent| self.processes.get(&parent)).is_some_and(|parent| parent.pid == pid);
        if !session.follows_children() && entry.parent.load(Relaxed) != Extent::NONE.0 && !goes_on {
            session.left_out(pid, command_line(pid).unwrap_or_default());
            return Ok(());
        }
        let before = parent.and_then(|parent| self.processes.get(&parent)).map(|parent| (parent.pid, parent.id));
        let id = match before {
            Some((parent_pid, id)) if parent_pid == pid => {
                // All that the program before has counted belongs to it.
                if let Some(parent) = parent {
                    self.finish(file, session, parent, start)?;
                }
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
        let [inherited_sites, inherited_pages, inherited_stretches] =
            [&words.inherited_sites, &words.inherited_pages, &words.inherited_stretches].map(|word| word.load(Relaxed));
        self.processes.insert(
            extent,
            Process {
                pid,
                id,
                parent: parent.filter(|_| !executed),
                header,
                inherited_sites,
                inherited_pages,
                inherited_stretches,
                sites: Vec::new(),
                stays: FxHashMap::default(),
                fetches: Fetches::default(),
                pages: KnownPages::from_number(inherited_pages.max(1)),
                forgotten: VecDeque::new(),
                live_pages: BTreeMap::new(),
                resting_pages: BTreeMap::new(),
                known_until: 0,
                told_accesses: Vec::new(),
                tenants: FxHashMap::default(),
                tenants_ended: Default::default(),
                released: None,
                claimed_ns: 0,
                is_over: false,
                undivided_ns: 0,
                window: Window::default(),
                bounds: Bounds::default(),
                used: FxHashMap::default(),
                told_shares: Vec::new(),
                shares: Shares::default(),
                gone: Vec::new(),
                rests: Vec::new(),
                unmapped: Vec::new(),
                spent: Spent::default(),
                undecided: Undecided::default(),
                stacks: FxHashMap::default(),
                looks: 0,
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
        let (node, index) = (u8::try_from(entry.node.load(Relaxed)).ok(), entry.index.load(Relaxed));
        let place = file.thread_place(extent).map(|place| (place.cpus(), place.policy()));
        let sp = entry.stack.load(Relaxed);
        let goes_on = self.threads.iter().any(|(_, thread)| thread.index == index);
        let name = name_of(&name_in(entry));
        let begun = BegunThread { process: id, pid, tid, node, place, goes_on, sp, name };
        let id = session.thread_begins(&begun, time_ns);
        let thread = Thread { process, id, index, tid, node, ended: false, ..Thread::nobody() };
        self.threads.push((extent, thread));
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
