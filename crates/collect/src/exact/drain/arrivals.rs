//! Entries of the session file's directory that are not taken in yet.

use crate::exact::file::{SessionFile, Shared};
use crate::exact::process::is_running;
use numalens_event::exact::{DirectoryEntry, Extent, kind};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// What entries of processes have as their index that did not begin with an exec.
const FORKED: u32 = 0;

/// Whether an entry of a process is that of one that was forked: it did not begin with an exec.
pub fn was_forked(entry: &DirectoryEntry) -> bool {
    entry.index.load(Relaxed) == FORKED
}

/// Whether an entry is that of a process that was forked, or is about to be.
fn is_fork(entry: &DirectoryEntry) -> bool {
    entry.kind.load(Acquire) == kind::PROCESS && was_forked(entry) && entry.start_ns.load(Relaxed) != u64::MAX
}

/// Whether a process has said what it has inherited, which it does first. One that was killed before has counted
/// nothing.
pub fn is_filled(header: &Shared, entry: &DirectoryEntry) -> bool {
    header.process().pages.given() != 0 || !is_running(entry.id.load(Relaxed) as i32)
}

/// A process that was forked and has not been taken in yet: it has not run, or not all is known that its parent had
/// then. Others do not wait for it.
pub struct Forked {
    pub extent: Extent,
    pub parent: Extent,
    found: Instant,
    /// Since its parent was found gone, while it had no id.
    orphaned: Option<Instant>,
}

impl Forked {
    /// One that is found in the directory.
    pub fn new(extent: Extent, entry: &DirectoryEntry) -> Self {
        Forked { extent, parent: Extent(entry.parent.load(Relaxed)), found: Instant::now(), orphaned: None }
    }

    /// How far its parent may be read, as it has what was there then. There is no bound by a fork that failed, nor by a
    /// child that is stopped, or that its parent, killed in the midst of the fork, may not have.
    pub fn start(&self, file: &SessionFile) -> u64 {
        let is_late = self.found.elapsed() > Duration::from_secs(10)
            || self.orphaned.is_some_and(|since| since.elapsed() > Duration::from_secs(1));
        match file.entry(self.extent) {
            Some(entry) if !is_late => entry.start_ns.load(Acquire),
            _ => u64::MAX,
        }
    }

    /// It has no id yet. `has_failed`: its parent may make the next one of it; `is_orphan`: nobody makes it any more.
    pub fn waits(&mut self, has_failed: bool, is_orphan: bool) {
        if has_failed {
            self.found = Instant::now();
        }
        if is_orphan {
            self.orphaned.get_or_insert_with(Instant::now);
        } else {
            self.orphaned = None;
        }
    }
}

/// What is new in the directory.
#[derive(Default)]
pub struct Arrivals {
    /// Entries seen so far.
    pub seen: u32,
    /// The next one, if it is given and not filled, and since when that is known.
    unfilled: Option<(Extent, Instant)>,
    /// Processes that were forked and are not known yet.
    pub forked: Vec<Forked>,
}

impl Arrivals {
    /// Takes out the forked processes, in the order in which they began.
    pub fn take_forked(&mut self, file: &SessionFile) -> Vec<Forked> {
        let mut forked = std::mem::take(&mut self.forked);
        forked.sort_by_key(|forked| forked.start(file));
        forked
    }

    /// Whether a forked process has to wait: its parent is itself not known yet, or would be read too far for an
    /// earlier child.
    pub fn has_earlier(&self, file: &SessionFile, forked: &Forked) -> bool {
        self.forked.iter().any(|other| other.extent == forked.parent)
            || self.forks_ahead(file, forked.parent) < forked.start(file)
    }

    /// Whether what begins in a process has to wait for one that was forked and is not known yet: of that, or of a
    /// program in its parent's place.
    pub fn is_awaited(&self, file: &SessionFile, what: u32, parent: Extent) -> bool {
        let is_program = what == kind::PROCESS;
        let is_so = |forked: &Forked| {
            forked.extent == parent || is_program && forked.parent == parent && forked.start(file) != u64::MAX
        };
        self.forked.iter().any(is_so)
    }

    /// Whether an entry will never be filled: that takes some instructions, in the midst of which a process can be
    /// killed. All that began later waits for it.
    pub fn was_given_up(&mut self, extent: Extent) -> bool {
        const PATIENCE: Duration = Duration::from_secs(10);
        let since = match self.unfilled {
            Some((waits, since)) if waits == extent => since,
            _ => self.unfilled.insert((extent, Instant::now())).1,
        };
        since.elapsed() > PATIENCE
    }

    /// Whether threads of a process that have run, or processes that it has forked or become, are not known yet.
    pub fn has_new(&self, file: &SessionFile, process: Extent) -> bool {
        let is_its = |entry: &DirectoryEntry| {
            matches!(entry.kind.load(Acquire), kind::THREAD | kind::SEAT | kind::PROCESS)
                && entry.parent.load(Relaxed) == process.0
                && (entry.id.load(Relaxed) != 0 || is_fork(entry))
        };
        self.forked_by(process).any(|forked| forked.start(file) != u64::MAX)
            || file.directory().skip(self.seen as usize).any(|(_, entry)| is_its(entry))
    }

    /// How far to read a process that has forked some that are not known yet.
    pub fn forks_ahead(&self, file: &SessionFile, process: Extent) -> u64 {
        let is_its = |entry: &DirectoryEntry| is_fork(entry) && entry.parent.load(Relaxed) == process.0;
        let new = file.directory().skip(self.seen as usize).filter(|(_, entry)| is_its(entry));
        let starts = new.map(|(_, entry)| entry.start_ns.load(Relaxed));
        self.forked_by(process).map(|forked| forked.start(file)).chain(starts).min().unwrap_or(u64::MAX)
    }

    fn forked_by(&self, process: Extent) -> impl Iterator<Item = &Forked> {
        self.forked.iter().filter(move |forked| forked.parent == process)
    }
}
