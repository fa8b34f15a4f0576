//! Code fetches: how often each instruction is executed, by what is counted anyway.
//!
//! Problem: a counter for every piece of code would be one more memory access in each, and most pieces have a counter
//! already.
//!
//! Mechanism: a *segment* (the instructions of a fragment between two conditional jumps, see [`crate::plan`]) is run to
//! its end or not begun, so whatever counts once in each of its runs counts its instructions:
//!
//! ```text
//!   its groups have last pages            their execution counter          nothing to add
//!   an operand accessed once in a run     the site, over all classes       nothing to add
//!   none of these                         an execution counter of its own   inc qword gs:[executions]
//! ```
//! The increment changes the flags: it stands before an instruction where nobody needs them. Flags are taken to be
//! needed after a return: Go returns from its preemption with flags that it restored two instructions before. Where
//! there is no such place, a register takes the detour (`mov`, `lea`, `mov`), one of those that a way out saves if
//! there is one.
//!
//! A run that breaks off, at a fault or for a signal, goes on through another fragment or not at all.
//! [`crate::Position::unexecuted`] says what it has counted too much, or not yet; that is added to the *correction* of
//! the code's page ([`crate::Cache::correction`]), a counter of executions that counts single instructions. What was
//! counted by a site follows that site: an access that did not happen is taken back there.

use crate::decode::Decoded;
use crate::emit::{Code, Memory, RCX};
use crate::fragment::State;
use crate::liveness::Live;
use crate::plan::Plan;
use crate::translate::{Builder, push_entry};
use crate::translation_map::MapEntry;
use crate::{Env, Error, Shape, SiteId};
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::FlowControl;
use numalens_isa::{Access, leaves_the_program};

const PAGE: u64 = 4096;

/// Instructions of one page of code that are executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first of them.
    pub ip: u64,
    /// How many, one after the other.
    pub instructions: u32,
    /// What tells how often.
    pub counter: FetchCounter,
}

/// What counts the runs of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchCounter {
    /// An execution counter.
    Executions(u32),
    /// The accesses of a site, to pages of all classes.
    Site(SiteId),
    /// An execution counter that is no counter of runs: instructions of the page that are to be added, modulo 2^64.
    Correction(u32),
}

/// A segment of a fragment: what its [`crate::Position`]s need. Offsets from the start of the fragment, which is
/// shorter than 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub from: u16,
    pub to: u16,
    /// [`Piece::BY_EXECUTION`], or the instruction whose access counts the run.
    pub counted_at: u16,
}

impl Piece {
    /// Counted once its execution is.
    pub const BY_EXECUTION: u16 = u16::MAX;

    /// The instructions, as offsets, whose count is wrong for a thread that is stopped before the one at `at` and does
    /// not go on here; and whether they are counted too often. `begun`: its execution is counted.
    pub fn unmade(&self, at: u32, begun: bool) -> (Range<u32>, bool) {
        let [from, to, counted_at] = [self.from, self.to, self.counted_at].map(u32::from);
        let is_counted = if self.counted_at == Self::BY_EXECUTION { begun } else { at > counted_at };
        if is_counted { (at..to, true) } else { (from..at, false) }
    }
}

/// A segment before its code is written: numbers of instructions.
pub(crate) struct Planned {
    from: usize,
    to: usize,
    /// Where it needs a counter of its own.
    own: Option<Own>,
}

/// Where the executions of a segment without any other counter are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    /// Before this instruction.
    Before(usize),
    /// Before this one, with the flags left alone.
    Quietly(usize),
    /// On the way out, with rcx saved.
    OnTheWay,
}

/// Adds the segments of a fragment to `planned`, in order: one more than it has conditional jumps; the last may be
/// empty.
pub(crate) fn segments(list: &[Decoded], accesses: &[Access], plan: &Plan, planned: &mut Vec<Planned>) {
    let mut from = 0;
    for to in 1..=list.len() {
        let ends = list[to - 1].instruction.flow_control() == FlowControl::ConditionalBranch;
        if !ends && to < list.len() {
            continue;
        }
        let segment = planned.len() as u16;
        let mut all = list[from..to].iter().flat_map(|one| one.accesses_in(accesses));
        let has_counter = plan.groups.iter().any(|group| group.segment == segment) || all.any(happens_once);
        planned.push(Planned { from, to, own: (!has_counter).then(|| own_place(list, from..to)) });
        from = to;
    }
}

fn own_place(list: &[Decoded], range: Range<usize>) -> Own {
    let last = &list[range.end - 1];
    let goes_by_lookup = !leaves_the_program(&last.instruction)
        && matches!(
            last.instruction.flow_control(),
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::IndirectCall
        );
    let mut live = if goes_by_lookup { Live::ALL } else { last.before };
    let mut quiet = None;
    for at in range.clone().rev() {
        live = if goes_by_lookup { live.before(&list[at].usage) } else { list[at].before };
        quiet = if live.flags == 0 { Some(at) } else { quiet };
    }
    match quiet {
        Some(at) => Own::Before(at),
        None if goes_by_lookup && last.obstacle.is_none() => Own::OnTheWay,
        None => Own::Quietly(range.start),
    }
}

/// Adds one and leaves the flags alone.
fn count_quietly(code: &mut Code, register: u8, counter: Memory) {
    code.load(register, counter);
    code.lea(register, Memory::base(register, 1));
    code.store(register, counter);
}

/// Whether an access is counted once whenever its instruction is executed.
pub(crate) fn happens_once(access: &Access) -> bool {
    matches!(access.shape, Shape::Plain | Shape::Bits)
}

impl<E: Env> Builder<'_, E> {
    /// Counts an execution before instruction `number`, if that is where a segment without any other counter counts its
    /// own.
    pub(crate) fn count_execution(&mut self, planned: &[Planned], number: usize, one: &Decoded) -> Result<(), Error> {
        let here = |planned: &Planned| match planned.own {
            Some(Own::Before(at) | Own::Quietly(at)) => at == number,
            Some(Own::OnTheWay) => planned.to == number + 1,
            None => false,
        };
        let Some((segment, planned)) = planned.iter().enumerate().find(|(_, planned)| here(planned)) else {
            return Ok(());
        };
        let segment = segment as u16;
        let executions = self.new_execution_counter(segment)?;
        let counter = Memory::context(executions);
        self.map_hot(State::Before);
        match planned.own {
            Some(Own::Before(_)) => self.hot.increment(counter),
            Some(Own::Quietly(_)) => {
                let register = self.scratch.pick(&mut self.hot, one.before.registers, 0);
                self.map_spilled();
                count_quietly(&mut self.hot, register, counter);
            }
            _ => {
                self.count_on_the_way = Some((segment, executions));
                return Ok(());
            }
        }
        self.begun = segment + 1;
        self.map_hot(State::Before);
        Ok(())
    }

    /// Counts the execution that ends with a lookup, if nothing else has; rcx is saved by now, and not in use.
    pub(crate) fn count_execution_on_the_way(&mut self) {
        if let Some((segment, executions)) = self.count_on_the_way.take() {
            count_quietly(&mut self.hot, RCX, Memory::context(executions));
            self.begun = segment + 1;
            if let Some(entry) = self.hot_map.last().copied() {
                push_entry(&mut self.hot_map, MapEntry { offset: self.hot.offset(), begun: self.begun, ..entry });
            }
        }
    }

    /// An execution counter for a segment: its offset from GS.
    pub(crate) fn new_execution_counter(&mut self, segment: u16) -> Result<u32, Error> {
        let number = self.numbers.executions;
        let offset = self.config.execution_counter(number).ok_or(Error::TooMany)?;
        self.numbers.executions += 1;
        self.counted_segments.push((segment, number));
        Ok(offset)
    }

    /// Registers what counts the executions of each segment, now that all code is written.
    pub(crate) fn register_segments(&mut self, list: &[Decoded], planned: &[Planned]) {
        let offset = |number: usize| list.get(number).map_or(u64::MAX, |one| one.instruction.ip()) - self.start;
        let mut told: Option<Segment> = None;
        for (segment, part) in (0u16..).zip(planned).filter(|(_, part)| part.from < part.to) {
            let last = &list[part.to - 1];
            let (from, to) = (offset(part.from) as u32, (offset(part.to - 1) + last.length as u64) as u32);
            let within = |at: u32| (from..to).contains(&at);
            let executions = self.counted_segments.iter().find(|(number, _)| *number == segment);
            let member = || self.ahead.iter().filter(|one| one.segment == segment).min_by_key(|one| one.instruction);
            let (counter, counted_at) = if let Some(&(_, executions)) = executions {
                (FetchCounter::Executions(executions), Piece::BY_EXECUTION)
            } else if let Some(member) = member() {
                (FetchCounter::Site(member.site), member.instruction as u16)
            } else if let Some(&(at, site)) = self.once.iter().find(|(at, _)| within(*at)) {
                (FetchCounter::Site(site), at as u16)
            } else {
                continue;
            };
            self.pieces.push(Piece { from: from as u16, to: to as u16, counted_at });
            for one in &list[part.from..part.to] {
                let ip = one.instruction.ip();
                match &mut told {
                    Some(told) if told.counter == counter && told.ip / PAGE == ip / PAGE => told.instructions += 1,
                    _ => {
                        let before = told.replace(Segment { ip, instructions: 1, counter });
                        before.iter().for_each(|segment| self.env.new_segment(segment));
                    }
                }
            }
        }
        told.iter().for_each(|segment| self.env.new_segment(segment));
    }
}
