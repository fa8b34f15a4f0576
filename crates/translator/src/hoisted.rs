//! Loops whose operands advance by constant steps: one check for all of them, hoisted out of the groups.
//!
//! Problem: an inner loop over ten arrays has ten groups ([`crate::plan`]), and a check for each takes longer than the
//! work. Yet each of their addresses grows by the same amount from iteration to iteration, so how many iterations all
//! of them stay in their pages can be computed.
//!
//! Mechanism: if a fragment is a loop, that is, jumps back to its own start in one place, then its *body* is the way
//! from its start to there. Registers that an iteration changes by adding constants make addresses that advance; one of
//! them, which grows, is the *induction variable* (`iv` below). The groups of a segment that advance have a *page
//! limit*: while the induction variable is below, all of them are in their last pages.
//!
//! ```text
//!   entry:  mov  gs:[page limit], iv   whoever comes from elsewhere has other registers
//!   loop:   inc  qword gs:[executions]
//!           cmp  iv, gs:[page limit]
//!           jge  look                  in the cold half: checks each group as [`crate::last_page`] does, then sets the limit
//!   back:   ...
//!           jb   loop                  so nobody else comes here
//! ```
//! From the offset in its page, each group can grow by so many bytes; in terms of the induction variable that is a
//! shift, because only groups are taken whose step is the variable's times a power of two. The least of them is the way
//! to the limit. A group that has no last page now (its page is not known, or ends within the group) sets the limit to
//! the induction variable: the next iteration looks again.
//!
//! In most such loops the iterations need no counter either, as they follow from the induction variable:
//! [`crate::derived`].
//!
//! A loop of few iterations is better off without: whenever it has found [`JUDGED`] limits, it is judged by its
//! iterations, and translated again with a check for each group if they are too few ([`crate::Cache::retranslate`]).
//!
//! The page limit stands in a [`LastPage`] of its own right before those of its groups, so that whoever has a group
//! look at its page again finds it: see `numalens_event::exact::LastPageRecord::look_again`.

use crate::count::{Operation, RetranslateReason, What};
use crate::decode::Decoded;
use crate::derived::{DerivedCount, MOST_UNCOUNTED};
use crate::emit::{Memory, RSP};
use crate::fragment::State;
use crate::instrument::call_out;
use crate::last_page::{LastPage, Place, operand};
use crate::plan::{Group, Plan};
use crate::translate::Builder;
use crate::values::step;
use crate::{Env, Error, LastPageId, LastPageSlot, Shape, SiteId};
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction};
use numalens_isa::Kind;

/// Farthest that a group may advance in an iteration: one that is faster leaves its page soon.
const FASTEST: u64 = 256;
/// How many page limits a loop finds between two judgements. A power of two.
const JUDGED: u32 = 256;
/// log2 of the iterations for each look below which a page limit does not pay.
const FEW: u8 = 2;
/// Records in a page of the table: a page limit and its groups lie in one.
const IN_A_PAGE: u32 = 4096 / LastPage::BYTES;
/// Farthest that a page limit lies ahead: for groups that do not advance.
const FARTHEST: u64 = 0x7fff_ffff;

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
    by: i64,
    shift: i8,
}

/// What the loop of a fragment has in common.
#[derive(Clone, Debug)]
pub(crate) struct Induction {
    register: u8,
    /// The segments that have a page limit, and how many groups each.
    segments: Vec<(u16, u32)>,
    /// See [`Lead::counts`].
    counts: Option<u8>,
    /// The instruction that jumps back to the start.
    pub back: usize,
}

impl Induction {
    /// Whether iterations follow from the induction variable ([`crate::derived`]): the way through the loop is one
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

impl<E: Env> Builder<'_, E> {
    /// Writes what whoever enters the loop from elsewhere goes through.
    pub(crate) fn begin_loop(&mut self, live: u16) -> Result<(), Error> {
        let plan = self.plan;
        let Some(induction) = &plan.induction else { return Ok(()) };
        for &(segment, groups) in &induction.segments {
            let left = IN_A_PAGE - self.numbers.last_pages % IN_A_PAGE;
            if left < groups + 1 {
                self.numbers.last_pages += left;
            }
            let first = self.numbers.last_pages;
            self.numbers.last_pages += groups + 1;
            self.page_limits.push((segment, LastPageId(first)));
            let limit = self.config.last_page_record(LastPageId(first)).ok_or(Error::TooMany)?;
            self.hot.store(induction.register, Memory::context(limit + LastPage::PAGE_LIMIT));
        }
        if let (Some(shift), Some(&(segment, limit))) = (induction.counts, self.page_limits.first()) {
            let executions = self.begin_segment(segment)?;
            let bias = self.config.last_page_record(limit).ok_or(Error::TooMany)? + LastPage::BIAS;
            self.begin_derived(DerivedCount { register: induction.register, shift, grown: 0, bias, executions }, live);
        }
        self.loop_start = Some(self.hot.here());
        Ok(())
    }

    /// Writes the check of the groups of a segment that advance together, of which the next one to check is the first.
    pub(crate) fn check_hoisted(&mut self, live: u16) -> Result<(), Error> {
        let (plan, first) = (self.plan, usize::from(self.checked));
        let segment = plan.groups[first].segment;
        let together =
            plan.groups[first..].iter().take_while(|group| group.advance.is_some() && group.segment == segment);
        let groups: &[Group] = &plan.groups[first..first + together.count()];
        let number = |(_, limit): &(u16, LastPageId)| *limit;
        let limit = self.page_limits.iter().find(|(of, _)| *of == segment).map(number).ok_or(Error::TooMany)?;
        let induction = plan.induction.as_ref().map_or(0, |induction| induction.register);
        let record = self.config.last_page_record(limit).ok_or(Error::TooMany)?;
        self.scratch.restore(&mut self.hot, 1 << induction);
        self.begun = segment + 1;
        self.map_hot(State::Before);
        self.hot.memory(true, &[0x3b], induction, Memory::context(record + LastPage::PAGE_LIMIT));
        let look = self.hot.relative(&[0x0f, 0x8d]);
        let back = self.hot.here();

        self.resolve_hot(look, self.cold.here())?;
        // Two registers for this path, and the groups' own in their place.
        let spilled = self.scratch.spilled;
        let needed =
            groups.iter().fold(1 << induction | 1 << RSP, |set, group| set | group.address.registers(Shape::Plain));
        let free = (spilled | !live) & !needed;
        let mut order: Vec<u8> = (0..16u8).filter(|register| needed >> register & 1 == 0).collect();
        order.sort_by_key(|register| free >> register & 1 == 0);
        let &[r1, least, ..] = &order[..] else { return Err(Error::TooMany) };
        let borrowed = (1u16 << r1 | 1 << least) & !free;
        self.map_cold(State::Counting);
        for register in (0..16u8).filter(|register| borrowed >> register & 1 != 0) {
            self.cold.store(register, Memory::context(crate::context::spill(register)));
        }
        self.scratch.spilled |= borrowed;
        self.map_cold(State::Counting);
        for register in (0..16u8).filter(|register| spilled & needed >> register & 1 != 0) {
            self.cold.load(register, Memory::context(crate::context::spill(register)));
        }
        self.cold.memory(false, &[0xc7], 0, Memory::context(record + LastPage::CLASS));
        self.cold.imm32(LastPage::IS_PAGE_LIMIT);
        let farthest = self.derived.map_or(FARTHEST, |(derived, _)| {
            self.cold.move64(r1, induction);
            derived.count(&mut self.cold, r1);
            MOST_UNCOUNTED << derived.shift
        });
        self.cold.constant(least, farthest);
        let mut ways = Vec::with_capacity(groups.len());
        for (index, group) in groups.iter().enumerate() {
            let last_page = LastPageSlot { id: LastPageId(limit.0 + 1 + index as u32), executions: self.executions };
            let place = self.register_group(group, Some(last_page))?;
            self.map_cold(State::Counting);
            let miss = self.compare_page(group, &place, r1);
            let room = self.cold.here();
            self.least_room(group, r1, least);
            ways.push((place, miss, room, self.cold.here()));
            self.checked += 1;
            self.map_cold(State::Counting);
        }
        // Without a page limit, as the page of a group is not known yet, nothing can be said of the loop.
        self.cold.registers(true, &[0x85], least, least); // test
        // lea least, [induction variable + least + 1]
        self.cold.lea(least, Memory::Flat { base: Some(induction), index: Some(least), scale: 1, displacement: 1 });
        self.cold.store(least, Memory::context(record + LastPage::PAGE_LIMIT));
        let unlimited = self.cold.relative(&[0x0f, 0x88]); // js
        let looks = Memory::context(record + LastPage::MISSES);
        self.cold.memory(false, &[0xff], 0, looks); // inc dword
        self.cold.memory(false, &[0xf7], 0, looks); // test dword
        self.cold.imm32(JUDGED - 1);
        let judge = self.cold.relative(&[0x0f, 0x84]);
        let judged = self.cold.here();
        self.resolve_cold(unlimited, judged)?;
        for register in (0..16u8).filter(|register| borrowed >> register & 1 != 0) {
            self.cold.load(register, Memory::context(crate::context::spill(register)));
        }
        let field = self.cold.relative(&[0xe9]);
        self.resolve_cold(field, back)?;
        let stub = self.cold.here();
        self.resolve_cold(judge, stub)?;
        self.map_cold(State::Counting);
        self.cold.memory(false, &[0x8b], r1, looks); // mov r1d, ..
        self.cold.registers(true, &[0xc1], 4, r1); // shl
        self.cold.raw(&[FEW]);
        let executions = self.config.execution_counter(self.executions).ok_or(Error::TooMany)?;
        self.cold.memory(true, &[0x3b], r1, Memory::context(executions));
        let field = self.cold.relative(&[0x0f, 0x82]);
        self.resolve_cold(field, judged)?;
        let what = What { operation: Operation::Again, ..What::one(Kind::Read) };
        let site = ways.first().map_or(SiteId(0), |(place, ..)| place.first);
        call_out(&mut self.cold, &what, &[site, SiteId(RetranslateReason::ShortLoop as u32)], &[], r1);
        self.return_to(r1, judged)?;
        // The groups that have changed their pages.
        let all = self.checked;
        for (index, (group, (place, miss, room, next))) in groups.iter().zip(ways).enumerate() {
            self.checked = (first + index) as u16;
            self.map_cold(State::Counting);
            let settled = self.cold.here();
            let still = self.compare_page(group, &place, r1);
            let field = self.cold.relative(&[0xe9]);
            self.resolve_cold(field, room)?;
            let none = self.cold.here();
            self.resolve_cold(still, none)?;
            self.cold.registers(true, &[0xc7], 0, least); // mov least, -1
            self.cold.imm32(u32::MAX);
            let field = self.cold.relative(&[0xe9]);
            self.resolve_cold(field, next)?;
            let stub = self.cold.here();
            self.resolve_cold(miss, stub)?;
            if group.is_constant() {
                self.constant_stub(group, &place, settled)?;
            } else {
                self.stub(group, &place, r1, settled)?;
            }
        }
        self.checked = all;
        self.scratch.spilled = spilled;
        self.map_hot(State::Before);
        Ok(())
    }

    /// Goes to what is returned unless the group is in its last page. `r1` is then its offset there.
    fn compare_page(&mut self, group: &Group, place: &Place, r1: u8) -> crate::emit::Field {
        let page = place.record + LastPage::PAGE;
        if group.is_constant() {
            self.cold.compare_context(true, page, 0);
            return self.cold.relative(&[0x0f, 0x84]);
        }
        operand(&mut self.cold, r1, group);
        self.cold.memory(true, &[0x2b], r1, Memory::context(page));
        self.cold.compare(r1, 4096 - group.span as i32);
        self.cold.relative(&[0x0f, 0x83])
    }

    /// Lowers `least` to what the induction variable can grow by while a group stays in its page, where it is `r1`
    /// bytes from the beginning.
    fn least_room(&mut self, group: &Group, r1: u8, least: u8) {
        let Some(Advance { by, shift }) = group.advance.filter(|advance| advance.by != 0) else { return };
        if by > 0 {
            self.cold.registers(true, &[0xf7], 3, r1); // neg
            self.cold.registers(true, &[0x81], 0, r1); // add
            self.cold.imm32((4095 - group.span) as u32);
        }
        if shift != 0 {
            let opcode = if shift > 0 { 5 } else { 4 };
            self.cold.registers(true, &[0xc1], opcode, r1);
            self.cold.raw(&[shift.unsigned_abs()]);
        }
        self.cold.registers(true, &[0x3b], r1, least); // cmp
        self.cold.registers(true, &[0x0f, 0x4c], least, r1); // cmovl
    }
}
