//! What the preloaded library reports while the agents count: allocations and releases, in order with what the agents
//! say.
//!
//! Both take their times from one clock, so what happened at one address is reported in the order in which it happened.
//! An event waits until all that the agents have said before it has been read, and until its thread is known.

use crate::heap_channel::{Bell, HeapChannel, HeapOptions};
use crate::runtimes::RuntimeLog;
use crate::session::{HeapNote, HeapNotes};
use numalens_event::exact::SessionHeader;
use numalens_event::layout::Shape;
use numalens_event::page::PAGE;
use numalens_profile::Meta;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Blocks of at least so many bytes are recorded each: those that a page can lie in whole.
const LARGE: u64 = PAGE;
/// So many of them at once, and so many more every second.
const LARGE_BURST: u32 = 1 << 16;
const LARGE_PER_SECOND: u32 = 20_000;
/// How long a program waits for room. Its pace is the agents' anyway, so a reader that a busy machine keeps from its
/// processor should cost no record: a program fills a ring in 20 ms.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same where nothing may be lost.
const PATIENCE_FOR_EVERY: Duration = Duration::from_secs(10);
/// Bytes of call stacks among which it is worth to look for those that are still needed.
const MANY_BYTES: usize = 16 << 20;

/// Room for what programs report between two polls, where they report every block: 36 MB for each lane that has been
/// round once.
const EVERY_BLOCK: Shape = Shape { lanes_log2: 4, note_slots_log2: 16, wide_slots_log2: 14 };

/// The thread looks so often at least whether it is still wanted.
const SLEEP: Duration = Duration::from_secs(1);
/// What it reads ahead of polls at most: then programs wait, or lose what is counted as lost.
const MOST_AHEAD: usize = 64 << 20;

/// The channel, and a thread that empties its rings as they fill: polls are seldom where they are dear, and writing a
/// checkpoint takes its time. What would not fit meanwhile would be lost, or be waited with.
pub struct Heap {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    stop: AtomicBool,
}

struct State {
    channel: HeapChannel,
    /// Read and not yet taken in.
    fresh: HeapNotes,
    lost: u64,
}

impl State {
    /// Empties the rings; whether not all was read that had been reported by then.
    fn read(&mut self) -> bool {
        let fresh = &mut self.fresh;
        let summary = self.channel.drain(&mut |event| fresh.push(event));
        self.lost += summary.lost;
        summary.waits
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn empty_rings(&self, mut bell: Bell) {
        while !self.stop.load(Acquire) {
            if bell.wait(SLEEP) {
                let mut state = self.state();
                if state.fresh.memory() < MOST_AHEAD {
                    state.read();
                }
            }
        }
    }
}

/// Events that wait for what the agents have to say first.
#[derive(Default)]
pub struct HeapEventQueue {
    /// By process and time.
    queues: FxHashMap<i32, VecDeque<HeapNote>>,
    /// Processes that call themselves something else, in namespaces of their own: by that.
    names: FxHashMap<i32, i32>,
    stacks: HeapNotes,
    /// Not all was read that had been reported by then.
    pub waits: bool,
    /// Bytes of stacks that waited when those that nobody waited for were dropped.
    kept: usize,
}

impl Heap {
    /// Opens the channel, in which `every` block is reported if all of them have to be known.
    ///
    /// # Errors
    /// Those of [`HeapChannel::create`].
    pub fn create(every: bool) -> std::io::Result<Self> {
        // Nobody waits at the end: the agents look at pages themselves, and what was reported stays in the channel.
        let options = HeapOptions {
            shape: if every { EVERY_BLOCK } else { Shape::default() },
            large: if every { 1 } else { LARGE },
            every,
            patience: if every { PATIENCE_FOR_EVERY } else { PATIENCE },
            large_burst: LARGE_BURST,
            large_per_second: LARGE_PER_SECOND,
            handshake: None,
            ..HeapOptions::default()
        };
        let channel = HeapChannel::create(&options)?;
        let bell = channel.bell();
        let state = Mutex::new(State { channel, fresh: HeapNotes::default(), lost: 0 });
        let shared = Arc::new(Shared { state, stop: AtomicBool::new(false) });
        let of_thread = shared.clone();
        // Without the thread the polls empty the rings.
        let reader = Builder::new().name("heap".to_owned()).spawn(move || of_thread.empty_rings(bell)).ok();
        Ok(Heap { shared, reader })
    }

    /// The log in which runtimes tell of their code, once.
    pub fn take_runtime_log(&self) -> Option<RuntimeLog> {
        self.shared.state().channel.take_runtime_log()
    }

    /// Variables to set for the program.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.shared.state().channel.environment(std::env::var_os("LD_PRELOAD").as_deref())
    }

    /// Has the library use the agents' clock, as it is set now.
    pub fn use_clock(&self, agents: &SessionHeader) {
        let state = self.shared.state();
        let (in_force, clock) = state.channel.clock();
        let next = agents.clock_in_force.load(Relaxed) & 1;
        let (from, to) = (&agents.clock[next as usize], &clock[next as usize]);
        to.ticks.store(from.ticks.load(Relaxed), Relaxed);
        to.ns.store(from.ns.load(Relaxed), Relaxed);
        to.ns_per_tick.store(from.ns_per_tick.load(Relaxed), Relaxed);
        in_force.store(next, Release);
    }

    /// Reads what was reported by now.
    pub fn read(&self, queue: &mut HeapEventQueue) {
        let mut state = self.shared.state();
        queue.waits = state.read();
        let fresh = std::mem::take(&mut state.fresh);
        drop(state);
        queue.take_in(fresh);
    }

    /// Says in `meta` what was lost, at the end.
    pub fn note(&self, meta: &mut Meta) {
        let state = self.shared.state();
        if state.lost > 0 {
            meta.losses.insert("heap records".to_owned(), state.lost);
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        self.shared.state().channel.bell().ring();
        if let Some(reader) = self.reader.take() {
            // A panic there has been reported already.
            let _ = reader.join();
        }
    }
}

impl HeapEventQueue {
    /// The process that calls itself `said` is `pid` from now on, and was.
    pub fn rename(&mut self, said: i32, pid: i32) {
        self.names.insert(said, pid);
        for mut note in self.queues.remove(&said).unwrap_or_default() {
            note.pid = pid;
            self.queues.entry(pid).or_default().push_back(note);
        }
    }

    /// Adds events of one drain behind those that wait.
    fn take_in(&mut self, fresh: HeapNotes) {
        self.queues.retain(|_, queue| !queue.is_empty());
        if self.queues.is_empty() {
            self.stacks.clear();
        } else if self.stacks.bytes() > 2 * self.kept + MANY_BYTES {
            // A program that allocates all the time leaves something to wait for always.
            self.stacks.keep(self.queues.values_mut().flatten());
            self.kept = self.stacks.bytes();
        }
        let mut waited: FxHashMap<i32, usize> = FxHashMap::default();
        for mut note in self.stacks.take_in(fresh) {
            note.pid = *self.names.get(&note.pid).unwrap_or(&note.pid);
            let queue = self.queues.entry(note.pid).or_default();
            waited.entry(note.pid).or_insert(queue.len());
            queue.push_back(note);
        }
        // Those that come late go before those that wait, as far as they must: a program that allocates all the time
        // has many of both.
        for (pid, waited) in waited {
            let Some(queue) = self.queues.get_mut(&pid).map(VecDeque::make_contiguous) else { continue };
            let (old, new) = queue.split_at(waited);
            let earliest = new.iter().map(|note| note.time).min().unwrap_or(u64::MAX);
            let from = old.partition_point(|note| note.time <= earliest);
            queue[from..].sort_by_key(|note| note.time);
        }
    }

    /// Takes out the next event of the process `pid`, if it happened until `until` and `ready` lets it pass, which is
    /// given whether it is open. All behind one that may not pass yet wait with it.
    pub fn next(&mut self, pid: i32, until: u64, ready: impl Fn(&HeapNote, bool) -> bool) -> Option<HeapNote> {
        let queue = self.queues.get_mut(&pid)?;
        let first = queue.front().filter(|note| note.time <= until)?;
        if ready(first, is_open(queue, 0)) { queue.pop_front() } else { None }
    }

    /// How far changes may be taken in before events that have to wait.
    pub fn ready_until(&self, pid: i32, until: u64, ready: impl Fn(&HeapNote, bool) -> bool) -> u64 {
        let Some(queue) = self.queues.get(&pid) else { return until };
        let mut notes = queue.iter().enumerate().take_while(|(_, note)| note.time <= until);
        let waits = notes.find(|&(at, note)| !ready(note, is_open(queue, at)));
        waits.map_or(until, |(_, note)| note.time.saturating_sub(1))
    }

    /// Whose call stacks the events have.
    pub fn stacks(&self) -> &HeapNotes {
        &self.stacks
    }

    /// Drops the events before `time` of processes that are not observed.
    pub fn drop_strangers(&mut self, observed: impl Fn(i32) -> bool, time: u64) {
        self.queues.retain(|&pid, queue| observed(pid) || queue.back().is_some_and(|note| note.time >= time));
    }
}

/// Whether an event leaves open what has become of a block or mapping: that is reported later, with the same time.
fn is_open(queue: &VecDeque<HeapNote>, at: usize) -> bool {
    let note = &queue[at];
    let same_time = || queue.range(at + 1..).take_while(|other| other.time == note.time);
    note.is_open() && !same_time().any(|other| note.is_decided_by(other))
}
