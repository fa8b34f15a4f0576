//! Reading the rings.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numalens_event::layout::{ACKNOWLEDGEMENTS, PAYLOAD_WORD, RingKind, Shape, WIDE_WORDS};
use numalens_event::ring::{self, Found, Position};

use super::channel::{Bell, HeapChannel};
use super::event::{HeapEvent, Slot};
use crate::futex::{sleep_on, wake};

/// How long the reader waits for a writer that is alive. It writes in a microsecond; one that takes longer was stopped,
/// or jumped out of a signal handler for ever, or its thread id has gone to somebody else. Should it come back, its
/// record counts as late.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one [`HeapChannel::drain`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrainSummary {
    /// Events given to the sink.
    pub events: u64,
    /// Records lost since the last drain, for whatever reason.
    pub lost: u64,
    /// A writer was at work in a ring, and what stands behind its record was not read.
    pub waits: bool,
}

/// What was lost since the channel was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapLosses {
    /// Dropped because a ring was full.
    pub full: u64,
    /// Slots whose writer died.
    pub abandoned: u64,
    /// Slots that held no record: the target wrote over them.
    pub damaged: u64,
    /// Records that came after their slot had been given up.
    pub late: u64,
    /// Sampled allocations not reported because the target's table of live ones was full.
    pub untracked: u64,
    /// Children started without the library: another user's, or their environment was too large.
    pub unpassed: u64,
    /// Threads whose stack bounds are not known: their allocations have shorter stacks.
    pub unwrapped: u64,
}

/// The reader's place in one ring.
pub(super) struct RingState {
    lane: usize,
    kind: RingKind,
    position: Position,
    /// The writer that kept an earlier drain waiting here, and since when.
    waited_for: Option<(u32, Instant)>,
    full: u64,
    abandoned: u64,
    damaged: u64,
}

impl RingState {
    pub(super) fn all(shape: Shape) -> Vec<Self> {
        let state = |lane, kind| RingState {
            lane,
            kind,
            position: Position::default(),
            waited_for: None,
            full: 0,
            abandoned: 0,
            damaged: 0,
        };
        (0..shape.lanes()).flat_map(|lane| [state(lane, RingKind::Notes), state(lane, RingKind::Wides)]).collect()
    }
}

impl Bell {
    /// As [`HeapChannel::wait`].
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let header = self.header();
        header.reader_waiting.store(1, Ordering::SeqCst);
        let bell = header.doorbell.load(Ordering::SeqCst);
        if bell == self.seen {
            sleep_on(&header.doorbell, bell, timeout);
        }
        header.reader_waiting.store(0, Ordering::SeqCst);
        let now = header.doorbell.load(Ordering::SeqCst);
        let rang = now != self.seen;
        self.seen = now;
        rang
    }

    /// Wakes whoever waits.
    pub fn ring(&self) {
        let header = self.header();
        header.doorbell.fetch_add(1, Ordering::SeqCst);
        wake(&header.doorbell);
    }
}

impl HeapChannel {
    /// Gives every published record to `sink`, lane by lane. Bounded: at most one lap of each ring.
    pub fn drain(&mut self, sink: &mut impl FnMut(HeapEvent<'_>)) -> DrainSummary {
        self.drain_at(Instant::now(), sink)
    }

    pub(super) fn drain_at(&mut self, now: Instant, sink: &mut impl FnMut(HeapEvent<'_>)) -> DrainSummary {
        let before = self.losses();
        let mut rings = std::mem::take(&mut self.rings);
        let mut waits = false;
        let mut slot = Slot::new();
        let (mut events, mut small, mut large) = (0, 0, 0);
        for state in &mut rings {
            for _ in 0..1u64 << self.shape.slots_log2(state.kind) {
                let Some(words) = self.next(state, &mut slot, now) else { break };
                let Some((event, waiting)) = slot.event(words) else {
                    state.damaged += 1;
                    continue;
                };
                if let Some(waiting) = waiting {
                    self.tickets.insert(waiting.pid, waiting.ticket);
                }
                if let HeapEvent::Alloc { size, sampled: true, .. } = event {
                    *(if size < self.large { &mut small } else { &mut large }) += 1;
                }
                events += 1;
                sink(event);
            }
            waits |= state.waited_for.is_some();
            state.full = self.control(state.lane, state.kind).lost.load(Ordering::Relaxed);
        }
        self.rings = rings;
        if let Some(mean) = self.pace.after(small, now) {
            self.header().mean.store(mean, Ordering::Relaxed);
        }
        if let Some(mean) = self.large_pace.after(large, now) {
            self.header().large_mean.store(mean, Ordering::Relaxed);
        }
        let left = self.header().large_credit.load(Ordering::Relaxed);
        let earned = self.credit.more(left, now);
        self.header().large_credit.fetch_add(earned, Ordering::Relaxed);
        let after = self.losses();
        DrainSummary { events, lost: after.total().saturating_sub(before.total()), waits }
    }

    /// Copies the next record of a ring and releases its slot; returns its length in words.
    fn next(&self, state: &mut RingState, slot: &mut Slot, now: Instant) -> Option<usize> {
        let slots_log2 = self.shape.slots_log2(state.kind);
        let length = state.kind.slot_words();
        let slots = self.slots(state.lane, state.kind);
        loop {
            let start = state.position.slot(slots_log2) * length;
            let shared = &slots[start..start + length];
            match ring::look(slots_log2, state.position, &shared[0]) {
                Found::Empty => return None,
                Found::Published => {
                    let words = copy(shared, slot);
                    ring::release(slots_log2, state.position, &shared[0]);
                    state.position = state.position.next();
                    state.waited_for = None;
                    return Some(words);
                }
                Found::Damaged => {
                    state.damaged += 1;
                    ring::release(slots_log2, state.position, &shared[0]);
                    state.position = state.position.next();
                }
                Found::Owned { tid } => {
                    // Only a writer that was here the last time too is worth asking for.
                    let Some((_, since)) = state.waited_for.filter(|&(earlier, _)| earlier == tid) else {
                        state.waited_for = Some((tid, now));
                        return None;
                    };
                    if now.saturating_duration_since(since) < PATIENCE && !is_gone(tid) {
                        return None;
                    }
                    if ring::abandon(slots_log2, state.position, &shared[0], tid) {
                        state.abandoned += 1;
                        state.position = state.position.next();
                    }
                    state.waited_for = None;
                }
            }
        }
    }

    /// Sleeps until a writer asks for attention (a ring fills, a process waits for its acknowledgement) or the time is
    /// over; returns whether one did.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        self.bell.wait(timeout)
    }

    /// Lets process `pid` go on that said it waits before its exit or exec. Nothing happens when it does not wait.
    pub fn acknowledge(&mut self, pid: u32) {
        if let Some(ticket) = self.tickets.remove(&pid) {
            let answer = &self.header().acknowledged[ticket as usize % ACKNOWLEDGEMENTS];
            answer.store(ticket, Ordering::SeqCst);
            wake(answer);
        }
    }

    /// What was lost since the channel was made.
    pub fn losses(&self) -> HeapLosses {
        let header = self.header();
        let sum = |of: fn(&RingState) -> u64| self.rings.iter().map(of).fold(0, u64::saturating_add);
        HeapLosses {
            full: sum(|ring| ring.full),
            abandoned: sum(|ring| ring.abandoned),
            damaged: sum(|ring| ring.damaged),
            late: header.late.load(Ordering::Relaxed),
            untracked: header.untracked.load(Ordering::Relaxed),
            unpassed: header.unpassed.load(Ordering::Relaxed),
            unwrapped: header.unwrapped.load(Ordering::Relaxed),
        }
    }

    /// Mean bytes between two recorded small allocations at this moment.
    pub fn mean(&self) -> u64 {
        self.pace.mean()
    }
}

impl HeapLosses {
    /// Records lost. Children and threads that were not observed are not records.
    pub fn total(&self) -> u64 {
        [self.full, self.abandoned, self.damaged, self.late, self.untracked].into_iter().fold(0, u64::saturating_add)
    }
}

/// Copies what a slot says it holds. The words are atomics: a target that scribbles while we copy gives us wrong words,
/// nothing worse.
fn copy(shared: &[std::sync::atomic::AtomicU64], slot: &mut Slot) -> usize {
    let head = shared.len().min(PAYLOAD_WORD);
    let word = |index: usize| shared[index].load(Ordering::Relaxed);
    for index in 0..head {
        slot.words[index] = word(index);
    }
    let payload = ((slot.words[1] >> 32) as usize).div_ceil(8);
    let used = (head + payload).min(shared.len()).min(WIDE_WORDS);
    for index in head..used {
        slot.words[index] = word(index);
    }
    shared.len()
}

/// Whether a thread no longer runs: it left /proc, or only its entry is left for its parent to collect.
fn is_gone(tid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{tid}/stat")) {
        Ok(stat) => {
            matches!(stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()), Some('Z' | 'X'))
        }
        Err(_) => true,
    }
}
