//! The segments of a fragment (what is between two conditional jumps), and where those count their executions that need
//! a counter of their own.

use super::decode::Decoded;
use super::liveness::Live;
use super::plan::Plan;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::FlowControl;
use numalens_isa::{Access, Shape, leaves_the_program};

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
    pub from: usize,
    pub to: usize,
    /// Where it needs a counter of its own.
    pub own: Option<Own>,
}

/// Where the executions of a segment without any other counter are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
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

/// Whether an access is counted once whenever its instruction is executed.
pub(crate) fn happens_once(access: &Access) -> bool {
    matches!(access.shape, Shape::Plain | Shape::Bits)
}
