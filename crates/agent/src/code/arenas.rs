//! The memory that translations lie in.
//!
//! Translations must reach what the program's code reaches with 32-bit displacements, so each *arena* serves the
//! modules around it. Arenas keep out of the way of what grows: they lie below modules (heaps grow above), except below
//! 2 GiB, where they lie as high as they can.
//!
//! An arena consists of *segments*, which are filled one after the other and evicted as a whole:
//!
//! ```text
//!   hot halves                    cold halves
//!   | segment 0 | segment 1 | ... | segment 0 | segment 1 | ...
//!
//!   empty --> open --(full)--> full --(mostly dead, or too much)--> closed --(no thread is inside)--> left
//!     ^                                                                                                |
//!     `-----------------------------------(the same again)--------------------------------------------'
//! ```
//! Which threads are inside of closed segments: [`super::Code::reclaim`].
//!
//! Processors recognise jumps by the low bits of their addresses before they decode anything: Intel's of 2023 by 24
//! (measured; [`ALIAS`]). Two pieces of code whose addresses differ by a multiple of that take each other's jumps for
//! their own, and run two to three times as long. Halves that began at such a distance and filled at about the same
//! pace did so by the thousand. So the halves of a segment lie half of that apart, arenas begin at different places in
//! it, and the agent itself lies at its end, where they come last ([`crate::inject`]).

use crate::call;
use crate::sys::{self, PAGE, raw};
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use numalens_translator::{Cache, Room};

/// Bytes of an arena: address space; memory as it fills. One half is hot, the other cold. Where there is no room for a
/// large one (runtimes reserve gigabytes around their code), a smaller one does.
const ARENA_SIZES: [u64; 3] = [128 << 20, 16 << 20, 2 << 20];
/// Bytes that a program reserves for code that it will make; more is a heap, less can be reached.
const MAY_BE_FOR_CODE: RangeInclusive<u64> = 128 << 20..=1 << 30;
/// Bytes of an arena for such code.
const BESIDE: u64 = ARENA_SIZES[1];
/// Bytes of a half of a segment, at most: where an arena's half is smaller, it is one segment.
const HALF: u64 = 4 << 20;
/// Least bytes of that, however little code is to be kept.
const LEAST_HALF: u64 = 256 << 10;
/// So much of a half is provided at a time, as it fills.
const STEP_OF_HALF: u64 = 64 << 10;
/// When less than this is left of it.
const MANY_BLOCKS: u64 = 8 << 10;
/// Segments that the code that is kept should fill at least: what is evicted at a time should be a small part.
const SEGMENTS: u64 = 16;
/// Farthest that an arena may be from code: its data must be within 2 GiB too.
const REACH: u64 = 0x5800_0000;
/// Arenas for code below 2 GiB end here at the latest: a multiple of huge pages.
const LOW_END: u64 = 0x7fe0_0000;
/// Bytes of a huge page. Arenas begin at multiples of it.
const HUGE: u64 = 2 << 20;
/// Addresses that differ by a multiple of it are the same to the predictor of jumps.
const ALIAS: u64 = 16 << 20;
/// Where arenas of the largest size begin in that, one after the other: multiples of huge pages.
const BEGINNINGS: [u64; 4] = [0, 4 << 20, 2 << 20, 6 << 20];
/// First distance that is tried, and the step.
const FIRST_DISTANCE: u64 = 0x2000_0000;
const STEP: u64 = 0x0200_0000;

/// Counts up whenever a segment is closed, or left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Has never been used, or not since it was emptied.
    Empty,
    /// Is being filled: one for each arena at most.
    Open,
    /// The number tells in which order segments became full.
    Full(u64),
    /// Nothing leads in since this epoch, but what threads do that are inside.
    Closed(Epoch),
    /// Nothing leads in since this epoch.
    Left(Epoch),
}

#[derive(Debug)]
struct Segment {
    /// Where its halves begin.
    hot: u64,
    cold: u64,
    /// Bytes of each half.
    half: u64,
    /// Bytes that are used of each, and where what the kernel has provided of them ends.
    hot_used: u64,
    cold_used: u64,
    hot_ready: u64,
    cold_ready: u64,
    /// Bytes of blocks that are not entered any more.
    dead: u64,
    state: State,
}

impl Segment {
    fn room(&self) -> Room {
        Room {
            hot: self.hot + self.hot_used,
            hot_size: (self.half - self.hot_used) as usize,
            cold: self.cold + self.cold_used,
            cold_size: (self.half - self.cold_used) as usize,
        }
    }

    fn has_room(&self) -> bool {
        let room = self.room();
        room.hot_size >= Cache::ROOM && room.cold_size >= Cache::ROOM
    }

    fn used(&self) -> u64 {
        self.hot_used + self.cold_used
    }

    fn is_mostly_dead(&self) -> bool {
        self.dead * 2 >= self.used()
    }

    fn hot_range(&self) -> Range<u64> {
        self.hot..self.hot + self.half
    }

    fn holds(&self, address: u64) -> bool {
        self.hot_range().contains(&address) || (self.cold..self.cold + self.half).contains(&address)
    }

    /// Has memory provided for the next blocks.
    fn prepare(&mut self) {
        let halves =
            [(self.hot, self.hot_used, &mut self.hot_ready), (self.cold, self.cold_used, &mut self.cold_ready)];
        for (from, used, ready) in halves {
            sys::provide(ready, from + used + MANY_BLOCKS, from + self.half, STEP_OF_HALF);
        }
    }

    fn give_back(&mut self) {
        for (from, used) in [(self.hot, &mut self.hot_used), (self.cold, &mut self.cold_used)] {
            // SAFETY: a piece of an arena of ours that nobody executes or names any more.
            let _ = unsafe { call!(__NR_madvise, from, self.half, raw::MADV_DONTNEED) };
            *used = 0;
        }
        (self.hot_ready, self.cold_ready) = (self.hot, self.cold);
        self.dead = 0;
        self.state = State::Empty;
    }
}

struct Arena {
    range: Range<u64>,
    segments: Vec<Segment>,
    /// The segment that is being filled.
    open: usize,
}

impl Arena {
    fn new(start: u64, bytes: u64, half: u64) -> Self {
        let middle = start + bytes / 2;
        let half = half.min(bytes / 2);
        let turned = if (bytes / 2).is_multiple_of(ALIAS) { ALIAS / 2 } else { 0 };
        let segment = |number| {
            let hot = start + number * half;
            let cold = middle + (number * half + turned) % (bytes / 2);
            let state = if number == 0 { State::Open } else { State::Empty };
            Segment { hot, cold, half, hot_used: 0, cold_used: 0, hot_ready: hot, cold_ready: cold, dead: 0, state }
        };
        let arena =
            Arena { range: start..start + bytes, segments: (0..bytes / 2 / half).map(segment).collect(), open: 0 };
        arena.widen(start + HUGE, middle, raw::MADV_HUGEPAGE);
        arena
    }

    /// Much code is waited for when every 4 KiB of it need an entry in the processor's table of pages, so hot halves
    /// lie in huge pages, but for the beginning of an arena: there small ones do until it is full, as most programs
    /// have less code than that.
    fn widen(&self, from: u64, to: u64, how: u32) {
        if from < to {
            // SAFETY: a piece of the arena, whose content does not change. Where it is refused, small pages do.
            let _ = unsafe { call!(__NR_madvise, from, to - from, how) };
        }
    }

    /// The hot half of a segment of it has grown from `before` to `now`.
    fn grown(&self, before: u64, now: u64) {
        let first_ends = self.range.start + HUGE;
        if before < first_ends && now >= first_ends {
            self.widen(self.range.start, first_ends, raw::MADV_COLLAPSE);
        }
    }

    fn reaches(&self, ip: u64) -> bool {
        let reach = if ip < 1 << 31 { 1 << 31 } else { REACH };
        self.range.start.abs_diff(ip) < reach && self.range.end.abs_diff(ip) < reach
    }

    fn segment_of(&mut self, hot: u64) -> Option<&mut Segment> {
        let number = hot.checked_sub(self.range.start)? / self.segments.first()?.half;
        self.segments.get_mut(number as usize)
    }
}

/// All arenas of a process.
pub struct Arenas {
    list: Vec<Arena>,
    /// Bytes of a half of a segment.
    half: u64,
    /// Bytes of code that are kept, dead code included, before the oldest is evicted.
    limit: u64,
    /// Bytes that full segments hold.
    full: u64,
    /// Segments that became full so far.
    filled: u64,
    /// Segments that are closed now.
    closed: u32,
    /// There may be something to close.
    look: bool,
    /// The epoch in which threads were last made to come by.
    called: Epoch,
    epoch: Epoch,
}

impl Arenas {
    /// None yet; so many bytes of code are kept.
    pub fn new(limit: u64) -> Self {
        let half = ((limit / SEGMENTS / 2) & !(PAGE - 1)).clamp(LEAST_HALF, HALF);
        Arenas {
            list: Vec::new(),
            half,
            limit,
            full: 0,
            filled: 0,
            closed: 0,
            look: false,
            called: Epoch(0),
            epoch: Epoch(1),
        }
    }

    /// Whether an address is in an arena.
    pub fn contain(&self, address: u64) -> bool {
        self.list.iter().any(|arena| arena.range.contains(&address))
    }

    /// Where they are.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + use<'_> {
        self.list.iter().map(|arena| arena.range.clone())
    }

    /// Gives all of them back: nobody executes or names anything there, and all translations were forgotten.
    pub fn give_up(&mut self) {
        for arena in self.list.drain(..) {
            sys::unmap(arena.range.start, arena.range.end - arena.range.start);
        }
        (self.full, self.closed, self.look) = (0, 0, false);
        self.epoch.0 += 1;
    }

    /// The epoch: who goes on now goes to nothing that was closed in it or before.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The program has reserved addresses, perhaps for code: V8 takes 512 MiB for each isolate, one beside the other,
    /// so that there is no room in reach any more when the code comes. It is taken now where no arena reaches.
    pub fn prepare_for(&mut self, reserved: &Range<u64>) {
        let bytes = reserved.end - reserved.start;
        if !MAY_BE_FOR_CODE.contains(&bytes) || reserved.end < 1 << 31 {
            return;
        }
        if self.list.iter().any(|arena| arena.reaches(reserved.start) && arena.reaches(reserved.end)) {
            return;
        }
        let beside = |distance: u64| (reserved.start & !(HUGE - 1)).checked_sub(distance + BESIDE);
        let mut candidates = (0..FIRST_DISTANCE).step_by(STEP as usize).filter_map(beside);
        let protection = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
        if let Some(start) = candidates.find(|&at| sys::map_private_at(at, BESIDE, protection).is_ok()) {
            self.list.push(Arena::new(start, BESIDE, self.half));
        }
    }

    /// Free space near `ip`.
    pub fn room(&mut self, ip: u64) -> Option<Room> {
        for number in 0..self.list.len() {
            if self.list[number].reaches(ip)
                && let Some(room) = self.room_in(number)
            {
                return Some(room);
            }
        }
        let (start, bytes) = ARENA_SIZES.into_iter().find_map(|bytes| Some((self.free_range(ip, bytes)?, bytes)))?;
        self.list.push(Arena::new(start, bytes, self.half));
        self.room_in(self.list.len() - 1)
    }

    fn room_in(&mut self, number: usize) -> Option<Room> {
        let arena = &mut self.list[number];
        let open = &mut arena.segments[arena.open];
        if open.state == State::Open {
            if open.has_room() {
                return Some(open.room());
            }
            open.state = State::Full(self.filled);
            self.filled += 1;
            self.full += open.used();
            self.look = true;
        }
        arena.open = arena.segments.iter().position(|segment| segment.state == State::Empty)?;
        let open = &mut arena.segments[arena.open];
        open.state = State::Open;
        Some(open.room())
    }

    /// So many bytes of both halves of a room are filled.
    pub fn fill(&mut self, room: &Room, hot: u64, cold: u64) {
        let Some(arena) = self.list.iter_mut().find(|arena| arena.range.contains(&room.hot)) else { return };
        let Some(segment) = arena.segment_of(room.hot) else { return };
        let before = segment.hot + segment.hot_used;
        segment.hot_used += hot;
        segment.cold_used += cold;
        segment.prepare();
        arena.grown(before, before + hot);
    }

    /// So many bytes that begin at `hot` are not entered any more.
    pub fn died(&mut self, hot: u64, bytes: u64) {
        let Some(segment) = self.segment_of(hot) else { return };
        segment.dead += bytes;
        let look = matches!(segment.state, State::Full(_)) && segment.is_mostly_dead();
        self.look |= look;
    }

    fn segment_of(&mut self, hot: u64) -> Option<&mut Segment> {
        self.list.iter_mut().find(|arena| arena.range.contains(&hot))?.segment_of(hot)
    }

    /// The hot half of a segment that is worth evicting: mostly dead, or the oldest of too much. It counts as closed
    /// from now on.
    pub fn take_worst(&mut self) -> Option<Range<u64>> {
        if !core::mem::take(&mut self.look) {
            return None;
        }
        let too_much = self.full > self.limit;
        let full =
            self.list.iter_mut().flat_map(|arena| &mut arena.segments).filter_map(|segment| match segment.state {
                State::Full(order) if too_much || segment.is_mostly_dead() => {
                    Some((!segment.is_mostly_dead(), order, segment))
                }
                _ => None,
            });
        let (_, _, worst) = full.min_by_key(|&(is_alive, order, _)| (is_alive, order))?;
        self.epoch.0 += 1;
        worst.state = State::Closed(self.epoch);
        self.full -= worst.used();
        self.closed += 1;
        // There may be another one.
        self.look = true;
        Some(worst.hot_range())
    }

    /// Whether there are closed segments.
    pub fn has_closed(&self) -> bool {
        self.closed > 0
    }

    /// When so many segments or more are closed, and as many were since threads were last made to come by: the epoch
    /// since which they should have.
    pub fn waits_for_threads(&mut self, segments: u32) -> Option<Epoch> {
        let wait = self.closed >= segments && self.epoch.0 >= self.called.0 + u64::from(segments);
        wait.then(|| {
            self.called = self.epoch;
            self.epoch
        })
    }

    /// Empties the segments that `is_left` finds left by all threads for the second time, given since when they should
    /// have and whether they hold an address; `evict` is called for their hot halves before. Returns the hot halves of
    /// those that it finds left for the first time: before any thread goes on, nothing may lead into them.
    pub fn empty(
        &mut self,
        is_left: impl Fn(Epoch, &dyn Fn(u64) -> bool) -> bool,
        mut evict: impl FnMut(Range<u64>),
    ) -> Vec<Range<u64>> {
        let mut left_once = Vec::new();
        for segment in self.list.iter_mut().flat_map(|arena| &mut arena.segments) {
            let (State::Closed(since) | State::Left(since)) = segment.state else { continue };
            if !is_left(since, &|address| segment.holds(address)) {
                continue;
            }
            if let State::Closed(_) = segment.state {
                left_once.push(segment.hot_range());
                self.epoch.0 += 1;
                segment.state = State::Left(self.epoch);
            } else {
                evict(segment.hot_range());
                segment.give_back();
                self.closed -= 1;
            }
        }
        left_once
    }

    /// Maps an arena of so many bytes where it reaches `ip`.
    fn free_range(&self, ip: u64, bytes: u64) -> Option<u64> {
        let base = ip & !(STEP - 1);
        let step = STEP.min(bytes);
        let beginning = BEGINNINGS[self.list.len() % BEGINNINGS.len()];
        let begin = |at: u64| if bytes >= STEP { (at & !(ALIAS - 1)) + beginning } else { at & !(HUGE - 1) };
        let below = |distance: u64| base.checked_sub(distance + bytes).map(begin).filter(|&at| ip - at < REACH);
        let above = |distance: u64| Some(begin(base + distance)).filter(|&at| at + bytes - ip < REACH);
        let far = || (FIRST_DISTANCE..REACH).step_by(step as usize);
        let near = || (step..FIRST_DISTANCE).rev().step_by(step as usize);
        let low = (0..LOW_END / step).filter_map(|number| (LOW_END - bytes).checked_sub(number * step)).map(begin);
        let is_low = ip < 1 << 31;
        let candidates = low
            .filter(|&at| is_low && at > ip)
            .chain(far().filter_map(below))
            .chain(far().filter_map(above))
            .chain(near().filter_map(below))
            .chain(near().filter_map(above));
        let protection = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
        let mut candidates = candidates.filter(|&at| at >= HUGE);
        candidates.find(|&at| sys::map_private_at(at, bytes, protection).is_ok())
    }
}
