//! A thread of the collector that looks at the threads of interpreters, again and again. The collector's own loop may
//! be at work for half a second where a program touches much memory, and threads may have come and gone meanwhile.

use super::lines::Lines;
use super::python::{At, Python};
use crate::perf::{executed_ns, monotonic_ns};
use numalens_profile::python;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Threads are looked at so often, unless it takes more than one part in so many of the time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
const SHARE_OF_LOOKS: u32 = 10;
/// An interpreter of which no thread is found any more so often has ended.
const MOST_FRUITLESS: u32 = 1000;
/// Lines that wait to be taken, at most.
const MOST_LINES: usize = 1 << 20;

/// A thread of a process was at a line then: the address of the line's site.
pub struct ExecutedLine {
    pub pid: u32,
    pub tid: u32,
    /// On the clock of the records.
    pub time: u64,
    pub address: u64,
}

/// A function that was seen for the first time.
pub struct Function {
    pub pid: u32,
    pub method: u64,
    pub name: String,
    pub file: String,
    pub lines: Lines,
}

/// What was seen.
#[derive(Default)]
pub struct Seen {
    pub lines: Vec<ExecutedLine>,
    pub functions: Vec<Function>,
}

/// An interpreter, and how often none of its threads was found since one was.
struct Watched {
    pid: u32,
    python: Python,
    fruitless: u32,
}

#[derive(Default)]
struct Looks {
    watched: Vec<Watched>,
    /// Processes that were watched, and those that they have begun.
    met: FxHashSet<u32>,
    /// Functions that were read, and whether they are the program's own.
    known: FxHashMap<(u32, u64), bool>,
    seen: Seen,
}

#[derive(Default)]
struct Shared {
    looks: Mutex<Looks>,
    is_over: AtomicBool,
}

/// The thread.
pub struct Looker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Looker {
    /// Begins to look, at nothing yet. Where no thread can be had nothing will be seen.
    pub fn begin() -> Self {
        let shared = Arc::<Shared>::default();
        let looking = shared.clone();
        let thread = Builder::new().name("lines".to_owned()).spawn(move || looking.work()).ok();
        Looker { shared, thread }
    }

    /// Looks at an interpreter as well, in place of one that the process had before.
    pub fn add(&self, pid: u32, python: Python) {
        let mut looks = self.shared.lock();
        looks.watched.retain(|watched| watched.pid != pid);
        looks.watched.push(Watched { pid, python, fruitless: 0 });
    }

    /// What was seen since it was asked last.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut self.shared.lock().seen)
    }

    /// Whether there are interpreters.
    pub fn is_busy(&self) -> bool {
        !self.shared.lock().watched.is_empty()
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // It has nothing that anybody waits for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut before = Duration::ZERO;
        while !self.is_over.load(Relaxed) {
            // Not as time went by: a busy machine lets this thread wait, too.
            let begun = executed_ns();
            self.lock().look();
            // The lesser of two: a look that finds new functions takes longer.
            let took = Duration::from_nanos(executed_ns().saturating_sub(begun));
            let usual = took.min(std::mem::replace(&mut before, took));
            std::thread::sleep(BETWEEN_LOOKS.max(usual * SHARE_OF_LOOKS));
        }
    }
}

impl Looks {
    /// Looks at the children that interpreters have forked from their first thread: they tell of themselves as well,
    /// but a worker may be at its end before the collector has read that.
    fn meet_children(&mut self) {
        let Looks { watched, met, .. } = self;
        let mut children = Vec::new();
        for Watched { pid, python, .. } in watched.iter() {
            met.insert(*pid);
            // Kernels without this list have none (CONFIG_PROC_CHILDREN).
            let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let new = list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| met.insert(*pid));
            children.extend(new.map(|pid| Watched { pid, python: python.forked(pid), fruitless: 0 }));
        }
        watched.extend(children);
    }

    fn look(&mut self) {
        self.meet_children();
        let Looks { watched, known, seen, .. } = self;
        for Watched { pid, python, fruitless } in watched.iter_mut() {
            let (pid, before) = (*pid, seen.lines.len());
            let functions = &mut seen.functions;
            let is_own = |python: &Python, at: At| {
                *known.entry((pid, at.method)).or_insert_with(|| {
                    let Some((name, file, lines)) = python.function(at) else { return false };
                    let is_own = !python::is_library_source(&file);
                    functions.push(Function { pid, method: at.method, name, file, lines });
                    is_own
                })
            };
            let lines = &mut seen.lines;
            python.each(is_own, |tid, at| {
                if lines.len() < MOST_LINES {
                    let address = super::frame_address(at.method, at.instruction);
                    lines.push(ExecutedLine { pid, tid, time: monotonic_ns(), address });
                }
            });
            *fruitless = if seen.lines.len() == before { *fruitless + 1 } else { 0 };
        }
        watched.retain(|watched| watched.fruitless < MOST_FRUITLESS);
    }
}
