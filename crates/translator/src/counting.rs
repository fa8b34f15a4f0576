//! Counting: what stands between the instructions of a fragment.
//!
//! [`Counting`] goes with the [`Emitter`] from instruction to instruction, and has sites and groups registered. How
//! each is counted is a [`strategy`] of its own.

pub(crate) mod asm;
pub(crate) mod derived;
mod direct;
mod each;
mod executions;
mod gathers;
mod hoisted;
mod images;
mod immediate;
mod last_page;
mod masked;
mod masks;
mod megamorphic;
mod numbered_bits;
mod registry;
mod single;
pub(crate) mod strategy;
mod strings;
mod stub;
pub(crate) mod tier_up;
mod tiles;

pub(crate) use registry::Registry;

use crate::emit::{Emitter, Memory};
use crate::ir::decode::Decoded;
use crate::ir::liveness::Live;
use crate::ir::mark::State;
use crate::ir::plan::Plan;
use crate::ir::segments::{Planned, happens_once};
use crate::{DerivedCount, Env, Error, LastPage, LastPageId, LastPageSlot, Site};
use alloc::vec::Vec;
use derived::{count_behind_loop, note_bias};
use iced_x86::Instruction;
use numalens_isa::Access;
use strategy::{AccessAt, count_access, count_group};

/// What counts a fragment.
pub(crate) struct Counting<'a, E: Env> {
    pub registry: Registry<'a, E>,
    plan: &'a Plan,
    segments: &'a [Planned],
    /// A segment whose execution is counted when the fragment is left, and the offset of its counter from GS.
    count_on_the_way: Option<(u16, u32)>,
    /// The segment whose executions are counted by the counter `executions`.
    segment: Option<u16>,
    executions: u32,
    /// How executions follow from the induction variable of the loop, and where in the hot half that ends.
    pub derived: Option<(DerivedCount, u32)>,
    /// The records of the page limits of segments.
    pub page_limits: Vec<(u16, LastPageId)>,
}

impl<'a, E: Env> Counting<'a, E> {
    pub fn new(
        registry: Registry<'a, E>,
        plan: &'a Plan,
        segments: &'a [Planned],
        page_limits: Vec<(u16, LastPageId)>,
    ) -> Self {
        Counting {
            registry,
            plan,
            segments,
            count_on_the_way: None,
            segment: None,
            executions: 0,
            derived: None,
            page_limits,
        }
    }

    /// Writes what whoever enters a loop from elsewhere goes through. `false`: it is none with page limits.
    pub fn begin_loop(&mut self, out: &mut Emitter<'_>, live: u16) -> Result<bool, Error> {
        let plan = self.plan;
        let Some(induction) = &plan.induction else { return Ok(false) };
        self.register_page_limits(&induction.segments);
        for &(_, limit) in &self.page_limits {
            let record = self.registry.record(limit)?;
            out.hot.store(induction.register, Memory::context(record + LastPage::PAGE_LIMIT));
        }
        if let (Some(shift), Some(&(segment, limit))) = (induction.counts, self.page_limits.first()) {
            let executions = self.begin_segment(segment)?;
            let bias = self.registry.record(limit)? + LastPage::BIAS;
            let derived = DerivedCount { register: induction.register, shift, grown: 0, bias, executions };
            note_bias(out, &derived, live);
            // It ends where the loop does.
            self.derived = Some((derived, u32::MAX));
        }
        Ok(true)
    }

    /// Before instruction `number`: counts the iterations, if that follows the loop. The flags are left alone.
    pub fn end_derived(&mut self, out: &mut Emitter<'_>, number: usize, live: u16) {
        let ended = self.plan.induction.as_ref().is_some_and(|induction| induction.back + 1 == number);
        if let Some((derived, end)) = self.derived.as_mut().filter(|_| ended) {
            count_behind_loop(out, derived, live);
            *end = out.hot.offset();
        }
    }

    /// Gives a segment, whose groups are checked from here on, an execution counter: its offset from GS.
    fn begin_segment(&mut self, segment: u16) -> Result<u32, Error> {
        self.segment = Some(segment);
        self.executions = self.registry.numbers.executions;
        self.registry.new_execution_counter(segment)
    }

    /// Writes the checks that stand before instruction `number`.
    pub fn check_groups(&mut self, out: &mut Emitter<'_>, number: usize, live: u16) -> Result<(), Error> {
        let plan = self.plan;
        while let Some(group) = plan.groups.get(usize::from(out.at.checked)).filter(|group| group.at == number) {
            let segment = group.segment;
            let is_immediate = plan.is_immediate(segment);
            if !is_immediate && self.segment != Some(segment) {
                let executions = self.begin_segment(segment)?;
                out.map_hot(State::Before);
                out.hot.increment(Memory::context(executions));
            }
            if is_immediate || group.advance.is_none() {
                self.check(out, segment, !is_immediate && !group.no_last_page, live)?;
            } else {
                self.check_hoisted(out, live)?;
            }
        }
        Ok(())
    }

    /// Writes the check of the next group.
    fn check(&mut self, out: &mut Emitter<'_>, segment: u16, has_record: bool, live: u16) -> Result<(), Error> {
        let executions = self.executions;
        let last_page = has_record.then(|| LastPageSlot { id: self.registry.new_last_page(), executions });
        let of = self.registry.register_group(self.plan, out.at.checked, last_page, live)?;
        out.at.begun = segment + 1;
        if has_record {
            out.map_hot(State::Before);
        }
        if let Some(way) = count_group(out, &of)? {
            self.registry.env.counted(of.place.first, of.group.members.into(), way);
        }
        out.at.checked += 1;
        out.map_hot(State::Before);
        Ok(())
    }

    /// Counts an access of the current instruction that is in no group, before it.
    pub fn count_access(
        &mut self,
        out: &mut Emitter<'_>,
        instruction: &Instruction,
        access: &Access,
        live: Live,
    ) -> Result<(), Error> {
        let site = self.registry.new_site(&Site::new(instruction.ip(), access), out.at.instruction);
        if happens_once(access) {
            self.registry.once.push((out.at.instruction, site));
        }
        if let Some(way) = count_access(out, &AccessAt { instruction, access, site, live })? {
            self.registry.env.counted(site, 1, way);
        }
        Ok(())
    }

    /// Writes a repeated string instruction with its counting around it.
    pub fn string(&mut self, out: &mut Emitter<'_>, one: &Decoded, code: &[u8], list: &[Access]) -> Result<(), Error> {
        strings::write_string(out, &mut self.registry, one, code, list)
    }
}
