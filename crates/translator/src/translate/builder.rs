//! A fragment in the making: the program's instructions, each with its counting.

use super::FragmentPlan;
use super::exits::Exits;
use crate::abi::registers::{RAX, RSP};
use crate::counting::{Counting, Registry};
use crate::emit::{Code, Emitter, Memory, Progress, Scratch};
use crate::fragment::drafts::Drafts;
use crate::fragment::links::Chain;
use crate::fragment::metadata::FragmentMetadata;
use crate::fragment::{Fragment, Rare};
use crate::ir::cpu_query::CpuQuery;
use crate::ir::decode::{Decoded, LONGEST};
use crate::ir::exit::ExitKind;
use crate::ir::far::{FarReturn, is_old_call, is_privileged};
use crate::ir::mark::State;
use crate::ir::numbers::Numbers;
use crate::ir::plan::sets_fs_base;
use crate::{Config, Env, Error, ExitId, Room, context};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use iced_x86::{FlowControl, Mnemonic, Register};
use numalens_isa::{Shape, is_request};

/// Where the code of a fragment goes, and what its exits are numbered from.
pub(crate) struct Target<'a> {
    pub room: &'a Room,
    pub first_exit: ExitId,
}

pub(crate) struct Builder<'a, E: Env> {
    pub plan: FragmentPlan<'a>,
    pub out: Emitter<'a>,
    pub counting: Counting<'a, E>,
    pub exits: Exits,
    /// Room to pack marks in.
    packed: Vec<u8>,
}

impl<'a, E: Env> Builder<'a, E> {
    /// `drafts`: empty, for their memory.
    pub fn new(
        config: &'a Config,
        env: &'a mut E,
        plan: FragmentPlan<'a>,
        target: &Target<'_>,
        drafts: Drafts,
        numbers: &'a mut Numbers,
    ) -> Self {
        let start = plan.ip;
        let out = Emitter {
            config,
            start,
            hot: Code { base: target.room.hot, bytes: drafts.hot },
            cold: Code { base: target.room.cold, bytes: drafts.cold },
            scratch: Scratch { uses: drafts.uses, ..Scratch::default() },
            hot_map: drafts.hot_map,
            cold_map: drafts.cold_map,
            at: Progress::default(),
        };
        let registry = Registry {
            config,
            env,
            numbers,
            start,
            sites: drafts.sites,
            site_instructions: drafts.site_instructions,
            ahead: drafts.ahead,
            once: drafts.once,
            counted_segments: drafts.counted_segments,
            pieces: drafts.pieces,
        };
        let counting = Counting::new(registry, plan.groups, plan.segments, drafts.page_limits);
        let exits = Exits::new(target.first_exit, drafts.exits);
        Builder { plan, out, counting, exits, packed: drafts.packed }
    }

    /// The fragment, whose code ends at `end` in the program, and what it was made in, both halves of its code among
    /// it.
    pub fn finish(mut self, end: u64) -> Result<(Fragment, Drafts), Error> {
        let Emitter { start: ip, hot: Code { base: hot, .. }, cold: Code { base: target, .. }, .. } = self.out;
        let (hot_length, cold_length) = (self.out.hot.offset(), self.out.cold.offset());
        let cold = i32::try_from(target.wrapping_sub(hot) as i64).map_err(|_| Error::OutOfReach { ip, target })?;
        self.out.hot.align(8, 0xcc);
        self.out.cold.align(8, 0xcc);
        self.counting.registry.ahead.sort_by_key(|one| (one.segment, one.instruction));
        let (returns_at, first_exit) = (self.exits.returns_at, self.exits.first);
        let (rare, compares) = (self.rare(), self.plan.compares);
        let mut drafts = self.into_drafts();
        let fragment = Fragment {
            ip,
            hot,
            metadata: FragmentMetadata::pack(&mut drafts, ip, hot, target),
            rare,
            landing: None,
            returns_at: returns_at.and_then(|at| NonZeroU32::new((at - hot) as u32 + 1)),
            incoming: Chain::EMPTY,
            length: (end - ip) as u32,
            hot_length,
            cold,
            cold_length,
            first_exit,
            compares,
            dead: false,
        };
        Ok((fragment, drafts))
    }

    /// What few fragments have, if this one does.
    fn rare(&self) -> Option<Box<Rare>> {
        let (registry, groups) = (&self.counting.registry, self.plan.groups);
        let rare = Rare {
            sites: registry.sites[..].into(),
            site_instructions: registry.site_instructions[..].into(),
            steps: if groups.needs_steps { groups.steps[..].into() } else { Box::default() },
            loop_start: self.exits.loop_start,
            derived: self.counting.derived,
        };
        let has_rare = !rare.sites.is_empty() || !rare.steps.is_empty() || rare.loop_start.is_some();
        has_rare.then(|| Box::new(rare))
    }

    fn into_drafts(self) -> Drafts {
        let Builder { out, counting, exits, packed, .. } = self;
        let Counting { registry, page_limits, .. } = counting;
        Drafts {
            hot: out.hot.bytes,
            cold: out.cold.bytes,
            hot_map: out.hot_map,
            cold_map: out.cold_map,
            packed,
            exits: exits.list,
            goes_back: exits.goes_back,
            sites: registry.sites,
            site_instructions: registry.site_instructions,
            ahead: registry.ahead,
            uses: out.scratch.uses,
            once: registry.once,
            counted_segments: registry.counted_segments,
            page_limits,
            pieces: registry.pieces,
        }
    }

    /// Begins the loop that the fragment may be. `live`: registers that are needed there.
    pub fn begin_loop(&mut self, live: u16) -> Result<(), Error> {
        if self.counting.begin_loop(&mut self.out, live)? {
            self.exits.loop_start = Some(self.out.hot.here());
            self.exits.derived = self.counting.derived.map(|(derived, _)| derived);
        }
        Ok(())
    }

    /// Comes to an instruction.
    pub fn begin(&mut self, number: usize, one: &Decoded) {
        self.out.scratch.current = number;
        // The values of dead registers need not come back.
        self.out.scratch.spilled &= one.before.registers;
        self.out.at.instruction = (one.instruction.ip() - self.out.start) as u32;
        self.out.at.counted = 0;
        self.out.map_hot(State::Before);
    }

    /// Writes one instruction of the program, which `code` begins with, with its counting. `true`: control does not go
    /// on after it.
    pub fn instruction(&mut self, number: usize, one: &Decoded, code: &[u8]) -> Result<bool, Error> {
        let instruction = &one.instruction;
        if instruction.is_invalid() {
            self.out.scratch.restore(&mut self.out.hot, u16::MAX);
            self.out.hot.raw(&[0x0f, 0x0b]);
            return Ok(true);
        }
        if let Some(obstacle) = one.obstacle {
            self.out.scratch.restore(&mut self.out.hot, u16::MAX);
            let field = self.out.hot.relative(&[0xe9]);
            let stub = self.out.cold.here();
            self.out.resolve_hot(field, stub)?;
            self.exits.stub(&mut self.out, ExitKind::Unsupported(obstacle), instruction.ip())?;
            return Ok(true);
        }
        let list = one.accesses_in(self.plan.accesses);
        // What the instruction itself looks at, and with it what addresses are computed from, must be in place.
        let needs = list.iter().fold(one.usage.reads, |set, access| set | access.address.registers(access.shape));
        self.out.scratch.restore(&mut self.out.hot, needs);
        self.out.map_hot(State::Before);
        if list.first().is_some_and(|access| access.shape == Shape::String) {
            self.counting.string(&mut self.out, one, code, list)?;
            return Ok(false);
        }
        let grouped = self.plan.groups.grouped.get(number).copied().unwrap_or(0);
        for (index, access) in list.iter().enumerate() {
            if grouped >> index.min(7) & 1 != 0 && index < 8 {
                continue;
            }
            self.counting.count_access(&mut self.out, instruction, access, one.before)?;
            self.out.at.counted = self.out.at.counted.saturating_add(1);
            self.out.map_hot(State::Counting);
            self.out.scratch.restore(&mut self.out.hot, needs);
        }
        if one.leaves {
            self.out.scratch.restore(&mut self.out.hot, u16::MAX);
        }
        // With nothing counted here, the thread still stands before the instruction.
        self.out.map_hot(if self.out.at.counted == 0 { State::Before } else { State::Counted });
        let closed = self.original(one, code)?;
        self.out.scratch.spilled &= !one.usage.kills;
        if sets_fs_base(instruction) {
            self.note_fs_base();
        }
        Ok(closed)
    }

    /// Behind an instruction that has changed the base of FS: a thread that stops here goes on to the next one first.
    fn note_fs_base(&mut self) {
        self.out.at.counted = self.out.at.counted.max(1);
        self.out.map_hot(State::Counted);
        let register = self.out.scratch.pick(&mut self.out.hot, u16::MAX, 0);
        self.out.map_hot(State::Counted);
        self.out.hot.read_fs(register);
        self.out.hot.store(register, Memory::context(context::FS_BASE));
    }

    /// The instruction itself.
    fn original(&mut self, one: &Decoded, code: &[u8]) -> Result<bool, Error> {
        let instruction = &one.instruction;
        let next = instruction.ip() + one.length as u64;
        let is_own = |mnemonic| matches!(mnemonic, Mnemonic::Rdpid | Mnemonic::Rdtscp);
        if !one.leaves && !is_own(instruction.mnemonic()) {
            self.copy(one, code)?;
            return Ok(false);
        }
        match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => self.system_call(next)?,
            _ if is_old_call(instruction) => self.old_system_call(next, &code[..one.length])?,
            _ if let Some(how) = FarReturn::of(instruction) => self.hand_over(ExitKind::Returns(how))?,
            _ if is_request(instruction) => self.hand_over(ExitKind::Request)?,
            _ if let Some(query) = CpuQuery::of(self.out.config, instruction) => {
                self.hand_over(ExitKind::CpuQuery(query))?;
            }
            _ if instruction.mnemonic() == Mnemonic::Xbegin => {
                // A transaction that always aborts, for no particular reason: allowed, and what follows is the
                // program's other path.
                self.out.hot.constant(RAX, 0);
                self.out.map_hot(State::Counted);
                self.exits.jump(&mut self.out, &[0xe9], instruction.near_branch64())?;
            }
            _ if self.out.config.own_processor && is_own(instruction.mnemonic()) => {
                self.processor(instruction);
                return Ok(false);
            }
            FlowControl::Next | FlowControl::XbeginXabortXend => {
                self.copy(one, code)?;
                return Ok(false);
            }
            flow if matches!(flow, FlowControl::Interrupt | FlowControl::Exception) || is_privileged(instruction) => {
                self.copy(one, code)?;
                self.out.at.instruction = (next - self.out.start) as u32;
                self.out.at.counted = 0;
                self.out.map_hot(State::Before);
                self.exits.jump(&mut self.out, &[0xe9], next)?;
            }
            FlowControl::ConditionalBranch => {
                self.conditional(instruction, &code[..one.length])?;
                return Ok(false);
            }
            FlowControl::UnconditionalBranch => self.exits.jump(&mut self.out, &[0xe9], instruction.near_branch64())?,
            FlowControl::Call => {
                self.push_return(next)?;
                self.exits.jump(&mut self.out, &[0xe9], instruction.near_branch64())?;
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.indirect(one, next)?,
            _ => self.give_back(instruction),
        }
        Ok(true)
    }

    /// Copies an instruction that goes on to the next one, pointing a RIP-relative operand to where it pointed.
    fn copy(&mut self, one: &Decoded, code: &[u8]) -> Result<(), Error> {
        let instruction = &one.instruction;
        if !instruction.is_ip_rel_memory_operand() {
            self.out.hot.copy(code, one.length);
            return Ok(());
        }
        let code = &code[..one.length];
        let target = instruction.ip_rel_memory_address();
        let distance = target.wrapping_sub(self.out.hot.here() + one.length as u64) as i64;
        let reachable = i32::try_from(distance).ok().filter(|_| instruction.memory_base() == Register::RIP);
        let at = one.displacement_offset;
        if let Some(short) = reachable {
            self.out.hot.raw(&code[..at]);
            self.out.hot.imm32(short as u32);
            self.out.hot.raw(&code[at + 4..]);
            return Ok(());
        }
        // Too far, or relative to eip: through a register. One of the lower eight, so that no prefix changes; the
        // operand has room for it, as its ModRM byte is followed by 32 bits of displacement either way.
        let used = one.usage.reads | one.usage.kills;
        let low = 0xff & !(1 << RSP);
        let register = self.out.scratch.pick(&mut self.out.hot, one.before.registers, used | !low);
        self.out.map_spilled();
        self.out.hot.constant(register, target);
        let mut copy = [0u8; LONGEST];
        let copy = &mut copy[..code.len()];
        copy.copy_from_slice(code);
        copy[at - 1] = copy[at - 1] & 0x38 | 0x80 | register;
        copy[at..at + 4].fill(0);
        self.out.hot.raw(copy);
        Ok(())
    }
}
