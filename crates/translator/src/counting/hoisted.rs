//! Loops whose operands advance by constant steps: one check for all of them, hoisted out of the groups.
//!
//! Problem: an inner loop over ten arrays has ten groups ([`crate::ir::plan`]), and a check for each takes longer than
//! the work. Yet each of their addresses grows by the same amount from iteration to iteration, so how many iterations
//! all of them stay in their pages can be computed.
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
//!           jge  look                  in the cold half: checks each group as `last_page.rs` does, then sets
//!                                      the limit
//!   back:   ...
//!           jb   loop                  so nobody else comes here
//! ```
//! From the offset in its page, each group can grow by so many bytes; in terms of the induction variable that is a
//! shift, because only groups are taken whose step is the variable's times a power of two. The least of them is the way
//! to the limit. A group that has no last page now (its page is not known, or ends within the group) sets the limit to
//! the induction variable: the next iteration looks again.
//!
//! In most such loops the iterations need no counter either, as they follow from the induction variable:
//! [`super::derived`].
//!
//! A loop of few iterations is better off without: whenever it has found [`JUDGED`] limits, it is judged by its
//! iterations, and translated again with a check for each group if they are too few ([`crate::Cache::retranslate`]).
//!
//! The page limit stands in a [`LastPage`] of its own right before those of its groups, so that whoever has a group
//! look at its page again finds it: see `numalens_event::exact::LastPageRecord::look_again`.

use super::Counting;
use super::derived::{MOST_UNCOUNTED, count_iterations};
use super::strategy::GroupAt;
use super::stub::{constant_page_stub, other_page_stub};
use crate::abi::registers::RSP;
use crate::abi::what::{Operation, RetranslateReason, What};
use crate::emit::{Code, Emitter, Field, Memory, call_out, operand};
use crate::ir::loops::Advance;
use crate::ir::mark::State;
use crate::ir::plan::Group;
use crate::{Env, Error, LastPage, LastPageId, LastPageSlot, Shape, SiteId, Way, context};
use alloc::vec::Vec;
use numalens_isa::{Kind, PAGE};

/// How many page limits a loop finds between two judgements. A power of two.
const JUDGED: u32 = 256;
/// log2 of the iterations for each look below which a page limit does not pay.
const FEW: u8 = 2;
/// Records in a page of the table: a page limit and its groups lie in one.
const IN_A_PAGE: u32 = PAGE as u32 / LastPage::BYTES;
/// Farthest that a page limit lies ahead: for groups that do not advance.
const FARTHEST: u64 = 0x7fff_ffff;

/// The look at the groups that advance together, once the page limit is reached.
struct Look<'p> {
    /// The first of them, in the plan.
    first: u16,
    groups: &'p [Group],
    /// Where their page limit is.
    limit: LastPageId,
    /// Offset from GS of its record.
    record: u32,
    registers: Registers,
}

/// What the look needs besides the groups' own registers.
#[derive(Clone, Copy)]
struct Registers {
    induction: u8,
    r1: u8,
    least: u8,
    /// Those of them that the program needs.
    borrowed: u16,
    /// What was spilled before, and the look has to have in place.
    reloaded: u16,
}

/// A group, and where its part of the look goes on.
struct Part<'p> {
    of: GroupAt<'p>,
    /// Its page is another.
    miss: Field,
    /// It is in its page; behind that.
    room: u64,
    next: u64,
}

impl<'a, E: Env> Counting<'a, E> {
    /// Gives the segments that have a page limit their records.
    pub(crate) fn register_page_limits(&mut self, segments: &[(u16, u32)]) {
        for &(segment, groups) in segments {
            let numbers = &mut self.registry.numbers;
            let left = IN_A_PAGE - numbers.last_pages % IN_A_PAGE;
            if left < groups + 1 {
                numbers.last_pages += left;
            }
            self.page_limits.push((segment, LastPageId(numbers.last_pages)));
            numbers.last_pages += groups + 1;
        }
    }

    /// Writes the check of the groups of a segment that advance together, of which the next one to check is the first.
    pub(crate) fn check_hoisted(&mut self, out: &mut Emitter<'_>, live: u16) -> Result<(), Error> {
        let (plan, first) = (self.plan, out.at.checked);
        let left = &plan.groups[usize::from(first)..];
        let segment = left.first().map_or(0, |group| group.segment);
        let together = left.iter().take_while(|group| group.advance.is_some() && group.segment == segment);
        let groups = &left[..together.count()];
        let limit = self.page_limits.iter().find(|(of, _)| *of == segment).map(|(_, limit)| *limit);
        let limit = limit.ok_or(Error::TooMany)?;
        let record = self.registry.record(limit)?;
        let induction = plan.induction.as_ref().map_or(0, |induction| induction.register);
        out.scratch.restore(&mut out.hot, 1 << induction);
        out.at.begun = segment + 1;
        out.map_hot(State::Before);
        out.hot.memory(true, &[0x3b], induction, Memory::context(record + LastPage::PAGE_LIMIT));
        let reached = out.hot.relative(&[0x0f, 0x8d]);
        let back = out.hot.here();

        out.resolve_hot(reached, out.cold.here())?;
        let spilled = out.scratch.spilled;
        let registers = Registers::pick(groups, induction, spilled, live).ok_or(Error::TooMany)?;
        let look = Look { first, groups, limit, record, registers };
        let ways = self.look(out, &look)?;
        let judge = look.set_limit(out, back)?;
        self.judge(out, &look, &ways, judge)?;
        let all = out.at.checked;
        look.settle(out, ways)?;
        out.at.checked = all;
        out.scratch.spilled = spilled;
        out.map_hot(State::Before);
        Ok(())
    }

    /// Finds how far the induction variable can grow while all groups stay in their pages.
    fn look(&mut self, out: &mut Emitter<'_>, look: &Look<'_>) -> Result<Vec<Part<'a>>, Error> {
        let Registers { induction, r1, least, borrowed, reloaded } = look.registers;
        out.map_cold(State::Counting);
        for_each_register(borrowed, |register| out.cold.store(register, Memory::context(context::spill(register))));
        out.scratch.spilled |= borrowed;
        out.map_cold(State::Counting);
        for_each_register(reloaded, |register| out.cold.load(register, Memory::context(context::spill(register))));
        out.cold.memory(false, &[0xc7], 0, Memory::context(look.record + LastPage::CLASS));
        out.cold.imm32(LastPage::IS_PAGE_LIMIT);
        let farthest = self.derived.map_or(FARTHEST, |(derived, _)| {
            out.cold.move64(r1, induction);
            count_iterations(&mut out.cold, &derived, r1);
            MOST_UNCOUNTED << derived.shift
        });
        out.cold.constant(least, farthest);
        let mut ways = Vec::with_capacity(look.groups.len());
        for (index, group) in (0..).zip(look.groups) {
            let last_page = LastPageSlot { id: LastPageId(look.limit.0 + 1 + index), executions: self.executions };
            let of = self.registry.register_group(self.plan, out.at.checked, Some(last_page), 0)?;
            self.registry.env.counted(of.place.first, group.members.into(), Way::PageLimit);
            out.map_cold(State::Counting);
            let miss = compare_page(&mut out.cold, &of, r1);
            let room = out.cold.here();
            least_room(&mut out.cold, group, r1, least);
            ways.push(Part { of, miss, room, next: out.cold.here() });
            out.at.checked += 1;
            out.map_cold(State::Counting);
        }
        Ok(ways)
    }

    /// Has the loop translated again if it has too few iterations for each look.
    fn judge(&self, out: &mut Emitter<'_>, look: &Look<'_>, ways: &[Part<'_>], judge: Judge) -> Result<(), Error> {
        let r1 = look.registers.r1;
        let stub = out.cold.here();
        out.resolve_cold(judge.from, stub)?;
        out.map_cold(State::Counting);
        out.cold.memory(false, &[0x8b], r1, look.looks()); // mov r1d, ..
        out.cold.registers(true, &[0xc1], 4, r1); // shl
        out.cold.raw(&[FEW]);
        let executions = out.config.execution_counter(self.executions).ok_or(Error::TooMany)?;
        out.cold.memory(true, &[0x3b], r1, Memory::context(executions));
        let field = out.cold.relative(&[0x0f, 0x82]);
        out.resolve_cold(field, judge.back)?;
        let what = What { operation: Operation::Again, ..What::one(Kind::Read) };
        let site = ways.first().map_or(SiteId(0), |way| way.of.place.first);
        call_out(&mut out.cold, &what, &[site, SiteId(RetranslateReason::ShortLoop as u32)], &[], r1);
        out.return_to(r1, judge.back)
    }
}

impl Registers {
    /// Two registers for the look, free ones if there are any, and the groups' own in their place.
    fn pick(groups: &[Group], induction: u8, spilled: u16, live: u16) -> Option<Registers> {
        let own = groups.iter().fold(0, |set, group| set | group.address.registers(Shape::Plain));
        let needed = 1 << induction | 1 << RSP | own;
        let free = (spilled | !live) & !needed;
        let mut order: Vec<u8> = (0..16u8).filter(|register| needed >> register & 1 == 0).collect();
        order.sort_by_key(|register| free >> register & 1 == 0);
        let &[r1, least, ..] = &order[..] else { return None };
        let borrowed = (1u16 << r1 | 1 << least) & !free;
        Some(Registers { induction, r1, least, borrowed, reloaded: spilled & needed })
    }
}

/// Where a loop is judged.
struct Judge {
    from: Field,
    back: u64,
}

impl Look<'_> {
    /// How many there were.
    fn looks(&self) -> Memory {
        Memory::context(self.record + LastPage::MISSES)
    }

    /// Sets the page limit, and goes back to the loop.
    fn set_limit(&self, out: &mut Emitter<'_>, back: u64) -> Result<Judge, Error> {
        let Registers { induction, least, borrowed, .. } = self.registers;
        // Without a page limit, as the page of a group is not known yet, nothing can be said of the loop.
        out.cold.registers(true, &[0x85], least, least); // test
        // lea least, [induction variable + least + 1]
        out.cold.lea(least, Memory::Flat { base: Some(induction), index: Some(least), scale: 1, displacement: 1 });
        out.cold.store(least, Memory::context(self.record + LastPage::PAGE_LIMIT));
        let unlimited = out.cold.relative(&[0x0f, 0x88]); // js
        out.cold.memory(false, &[0xff], 0, self.looks()); // inc dword
        out.cold.memory(false, &[0xf7], 0, self.looks()); // test dword
        out.cold.imm32(JUDGED - 1);
        let from = out.cold.relative(&[0x0f, 0x84]);
        let judged = out.cold.here();
        out.resolve_cold(unlimited, judged)?;
        for_each_register(borrowed, |register| out.cold.load(register, Memory::context(context::spill(register))));
        let field = out.cold.relative(&[0xe9]);
        out.resolve_cold(field, back)?;
        Ok(Judge { from, back: judged })
    }

    /// Settles the groups that have changed their pages, and goes on with the look.
    fn settle(&self, out: &mut Emitter<'_>, ways: Vec<Part<'_>>) -> Result<(), Error> {
        let Registers { r1, least, .. } = self.registers;
        for (index, Part { of, miss, room, next }) in (0..).zip(ways) {
            out.at.checked = self.first + index;
            out.map_cold(State::Counting);
            let settled = out.cold.here();
            let still = compare_page(&mut out.cold, &of, r1);
            let field = out.cold.relative(&[0xe9]);
            out.resolve_cold(field, room)?;
            let none = out.cold.here();
            out.resolve_cold(still, none)?;
            out.cold.registers(true, &[0xc7], 0, least); // mov least, -1
            out.cold.imm32(u32::MAX);
            let field = out.cold.relative(&[0xe9]);
            out.resolve_cold(field, next)?;
            let stub = out.cold.here();
            out.resolve_cold(miss, stub)?;
            match of.group.is_constant() {
                true => constant_page_stub(out, &of, settled)?,
                false => other_page_stub(out, &of, r1, settled)?,
            }
        }
        Ok(())
    }
}

/// Calls `of_one` with each register of a set, in order.
fn for_each_register(set: u16, of_one: impl FnMut(u8)) {
    (0..16).filter(|register| set >> register & 1 != 0).for_each(of_one);
}

/// Goes to what is returned unless the group is in its last page. `r1` is then its offset there.
fn compare_page(code: &mut Code, of: &GroupAt<'_>, r1: u8) -> Field {
    let group = of.group;
    let page = of.place.record + LastPage::PAGE;
    if group.is_constant() {
        code.compare_context(true, page, 0);
        return code.relative(&[0x0f, 0x84]);
    }
    operand(code, r1, group);
    code.memory(true, &[0x2b], r1, Memory::context(page));
    code.compare(r1, PAGE as i32 - group.span as i32);
    code.relative(&[0x0f, 0x83])
}

/// Lowers `least` to what the induction variable can grow by while a group stays in its page, where it is `r1`
/// bytes from the beginning.
fn least_room(code: &mut Code, group: &Group, r1: u8, least: u8) {
    let Some(Advance { by, shift }) = group.advance.filter(|advance| advance.by != 0) else { return };
    if by > 0 {
        code.registers(true, &[0xf7], 3, r1); // neg
        code.registers(true, &[0x81], 0, r1); // add
        code.imm32((PAGE as i64 - 1 - group.span) as u32);
    }
    if shift != 0 {
        let opcode = if shift > 0 { 5 } else { 4 };
        code.registers(true, &[0xc1], opcode, r1);
        code.raw(&[shift.unsigned_abs()]);
    }
    code.registers(true, &[0x3b], r1, least); // cmp
    code.registers(true, &[0x0f, 0x4c], least, r1); // cmovl
}
