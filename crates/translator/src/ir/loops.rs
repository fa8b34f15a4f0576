//! Loops that are one fragment: what their operands advance by in an iteration, and the induction variable.

use super::decode::Decoded;
use super::plan::{Group, Plan};
use super::values::step;
use crate::abi::registers::RSP;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction};

/// Farthest that a group may advance in an iteration: one that is faster leaves its page soon.
const FASTEST: u64 = 256;
/// The way through a loop that is one fragment.
pub(crate) struct LoopBody {
    /// The instruction that jumps back to the start.
    back: usize,
    /// What each register grows by; `None` if it changes in another manner.
    by: [Option<i64>; 16],
    /// Registers that it also makes smaller.
    shrinks: u16,
}

impl LoopBody {
    /// The body of a fragment, if it is a loop.
    pub fn of(list: &[Decoded]) -> Option<LoopBody> {
        let start = list.first()?.instruction.ip();
        let goes_back = |one: &&Decoded| {
            let jumps = matches!(
                one.instruction.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            );
            jumps && one.obstacle.is_none() && one.instruction.near_branch64() == start
        };
        let back = list.iter().position(|one| goes_back(&one))?;
        if list[back + 1..].iter().any(|one| goes_back(&one)) {
            return None;
        }
        let (mut by, mut shrinks) = ([Some(0i64); 16], 0);
        for one in &list[..=back] {
            let grown = grows(&one.instruction);
            if let Some((register, ..=0)) = grown {
                shrinks |= 1 << register;
            }
            for register in (0..16u8).filter(|register| one.usage.writes >> register & 1 != 0) {
                let sum = &mut by[usize::from(register)];
                *sum = match (*sum, grown) {
                    (Some(sum), Some((same, more))) if same == register => sum.checked_add(more),
                    _ => None,
                };
            }
        }
        Some(LoopBody { back, by, shrinks })
    }

    /// Of an iteration, in bytes; `None`: not the same in each.
    fn advance(&self, group: &Group) -> Option<i64> {
        if group.address.fs {
            return None;
        }
        let of = |register: Option<u8>| register.map_or(Some(0), |register| self.by[usize::from(register & 15)]);
        let index = of(group.address.index)?.checked_mul(i64::from(group.address.scale.max(1)))?;
        of(group.address.base)?.checked_add(index).filter(|step| step.unsigned_abs() <= FASTEST)
    }
}

/// The register that an instruction adds a constant to, as a whole, and how much.
fn grows(instruction: &Instruction) -> Option<(u8, i64)> {
    step(instruction).filter(|step| step.register == step.from).map(|step| (step.register, step.by))
}

/// How far to shift bytes of a group to have them in steps of the induction variable: positive to the right. `None`: it
/// is no shift.
fn shift(advance: i64, induction: i64) -> Option<i8> {
    let (group, induction) = (advance.unsigned_abs(), induction.unsigned_abs());
    let power = |large: u64, small: u64| {
        let whole = small != 0 && large.is_multiple_of(small) && (large / small).is_power_of_two();
        whole.then(|| (large / small).trailing_zeros() as i8)
    };
    if group >= induction { power(group, induction) } else { power(induction, group).map(|bits| -bits) }
}

/// What a group does in an iteration: bytes, and the shift; not set if it does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advance {
    pub by: i64,
    pub shift: i8,
}

/// What the loop of a fragment has in common.
#[derive(Clone, Debug)]
pub(crate) struct Induction {
    pub register: u8,
    /// The segments that have a page limit, and how many groups each.
    pub segments: Vec<(u16, u32)>,
    /// What an iteration adds to it, as a power of two, if iterations follow from it: [`Induction::counts`].
    pub counts: Option<u8>,
    /// The instruction that jumps back to the start.
    pub back: usize,
}

impl Induction {
    /// Whether iterations follow from the induction variable (`counting/derived.rs`): the way through the loop is one
    /// segment, whose groups all advance together and are checked at its start, where nobody needs the flags. Returns
    /// what an iteration adds to the induction variable, as a power of two.
    fn counts(&self, list: &[Decoded], groups: &[Group], by: i64) -> Option<u8> {
        let in_body = || groups.iter().filter(|group| group.segment == 0);
        let all_together = matches!(self.segments[..], [(0, count)] if count as usize == in_body().count());
        let at_start = in_body().all(|group| group.at == 0) && list[0].before.flags == 0;
        let first_jump = list.iter().position(|one| one.instruction.flow_control() == FlowControl::ConditionalBranch);
        let counts = all_together
            && at_start
            && first_jump == Some(self.back)
            && list[self.back].instruction.is_jcc_short_or_near()
            && by.unsigned_abs().is_power_of_two();
        counts.then(|| by.trailing_zeros() as u8)
    }
}

impl Plan {
    /// Finds the groups of a loop that advance, and an induction variable for them.
    pub fn advance(&mut self, list: &[Decoded], body: &LoopBody) {
        let Plan { groups, .. } = self;
        let in_body = |group: &Group| group.first <= body.back && !group.megamorphic;
        let steps: Vec<Option<i64>> =
            groups.iter().map(|group| body.advance(group).filter(|_| in_body(group))).collect();
        let taken = |induction: i64| {
            steps.iter().map(move |step| match *step {
                Some(0) => Some(Advance { by: 0, shift: 0 }),
                Some(by) => shift(by, induction).map(|shift| Advance { by, shift }),
                None => None,
            })
        };
        let growing = (0..16u8).filter(|&register| register != RSP && body.shrinks >> register & 1 == 0);
        let growing = growing.filter_map(|register| body.by[usize::from(register)].map(|by| (register, by)));
        // A page limit is compared as a signed number, and computed from offsets in a page.
        let growing = growing.filter(|&(_, by)| by > 0 && by <= FASTEST as i64);
        let Some((register, by)) = growing.max_by_key(|&(_, by)| taken(by).flatten().count()) else { return };
        let mut induction = Induction { register, segments: Vec::new(), counts: None, back: body.back };
        let taken: Vec<Option<Advance>> = taken(by).collect();
        let mut begin = 0;
        for segment in 0.. {
            let end = (begin..list.len())
                .find(|&at| list[at].instruction.flow_control() == FlowControl::ConditionalBranch)
                .unwrap_or(list.len() - 1);
            let at = (begin..=end).find(|&at| list[at].before.flags == 0);
            let together = |group: &Group| group.segment == segment && at.is_some_and(|at| at <= group.first);
            let all = || groups.iter().zip(&taken).filter(|(group, taken)| taken.is_some() && together(group));
            let count = all().count();
            // One alone is checked as fast by itself.
            if count > 1
                && let Some(at) = at
            {
                induction.segments.push((segment, count as u32));
                for (group, &advance) in groups.iter_mut().zip(&taken).filter(|(_, taken)| taken.is_some()) {
                    if together(group) {
                        group.advance = advance;
                        group.at = at;
                        let grown = |register: Option<u8>| {
                            register.map_or(0, |register| growth(list, at, group.first, register))
                        };
                        let index = grown(group.address.index) * i64::from(group.address.scale.max(1));
                        group.shift = grown(group.address.base) + index;
                    }
                }
            }
            begin = end + 1;
            if begin > body.back {
                break;
            }
        }
        if induction.segments.is_empty() {
            return;
        }
        induction.counts = induction.counts(list, groups, by);
        self.induction = Some(induction);
        self.needs_steps = true;
    }
}

/// What a register grows by from one instruction to another.
fn growth(list: &[Decoded], from: usize, to: usize, register: u8) -> i64 {
    let grown = list[from..to].iter().filter_map(|one| grows(&one.instruction));
    grown.filter(|&(same, _)| same == register).map(|(_, by)| by).sum()
}
