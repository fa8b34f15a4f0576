//! The ways out of a fragment: jumps, calls, returns, system calls.
//!
//! A direct jump to another fragment that is there goes to it from the beginning. Any other first goes to a stub in the
//! cold half, which calls the dispatcher with the number of the exit; the dispatcher has it go to its target from then
//! on. A call pushes the program's return address, never one of the cache, so a return is an indirect jump. Indirect
//! jumps bring the target in rax to a table of the thread, indexed by its low bits:
//!
//! ```text
//!   mov  gs:[REGISTERS + 0], rax
//!   mov  gs:[REGISTERS + 8], rcx
//!   mov  rax, target
//!   mov  ecx, 32 - lookup_bits
//!   shlx ecx, eax, ecx
//!   rorx rcx, rcx, 32 - lookup_bits
//!   jmp  gs:[rcx*8 + lookup]         a landing, which checks that it is the right one, or LOOKUP_MISS
//! ```
//! The flags are left alone all the way: an indirect jump within a function may need them.
//!
//! Returns: [`super::returns`].

use super::Builder;
use crate::abi::registers::{RAX, RCX};
use crate::abi::what::{Operation, What};
use crate::emit::Memory;
use crate::ir::decode::Decoded;
use crate::ir::exit::ExitKind;
use crate::ir::mark::{MapEntry, State, push_entry};
use crate::{Env, Error, SiteId, context};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use numalens_isa::Kind;
use numalens_isa::convention::system_call;

impl<E: Env> Builder<'_, E> {
    pub(crate) fn conditional(&mut self, instruction: &Instruction, code: &[u8]) -> Result<(), Error> {
        let target = instruction.near_branch64();
        if instruction.is_jcc_short_or_near() {
            // The condition is in the low half of the opcode's last byte.
            let from_end = if instruction.is_jcc_short() { 2 } else { 5 };
            let condition = code[code.len() - from_end] & 15;
            return self.exits.jump(&mut self.out, &[0x0f, 0x80 | condition], target);
        }
        // loop, jrcxz: they reach only 127 bytes.
        self.out.hot.raw(&code[..code.len() - 1]);
        self.out.hot.raw(&[2]);
        self.out.map_hot(State::Counted);
        self.out.hot.raw(&[0xeb, 0]);
        let over = self.out.hot.bytes.len();
        self.exits.jump(&mut self.out, &[0xe9], target)?;
        let distance = self.out.hot.bytes.len() - over;
        self.out.hot.bytes[over - 1] = distance as u8;
        Ok(())
    }

    pub(crate) fn system_call(&mut self, next: u64) -> Result<(), Error> {
        let at = self.out.ip();
        let field = self.out.hot.relative(&[0xe9]);
        let stub = self.out.cold.here();
        self.out.resolve_hot(field, stub)?;
        let execute = self.out.hot.here();
        self.exits.stub(&mut self.out, ExitKind::Syscall { execute }, at)?;
        self.out.map_hot(State::Before);
        self.out.hot.raw(&system_call::INSTRUCTION);
        self.out.at.instruction = (next - self.out.start) as u32;
        self.out.at.counted = 0;
        self.out.map_hot(State::AfterSyscall);
        self.note_return();
        self.look_for_news(next)?;
        self.out.hot.constant(RCX, next);
        self.out.map_hot(State::Before);
        self.exits.jump(&mut self.out, &[0xe9], next)
    }

    /// A system call by 32-bit rules: it returns as an interrupt does, with all registers but rax.
    pub(crate) fn old_system_call(&mut self, next: u64, code: &[u8]) -> Result<(), Error> {
        let at = self.out.ip();
        let field = self.out.hot.relative(&[0xe9]);
        let stub = self.out.cold.here();
        self.out.resolve_hot(field, stub)?;
        let execute = self.out.hot.here();
        self.exits.stub(&mut self.out, ExitKind::OldSyscall { execute }, at)?;
        self.out.map_hot(State::Before);
        self.out.hot.raw(code);
        self.out.at.instruction = (next - self.out.start) as u32;
        self.out.at.counted = 0;
        self.out.map_hot(State::Before);
        self.note_return();
        self.exits.jump(&mut self.out, &[0xe9], next)
    }

    /// The thread is in no system call any more.
    fn note_return(&mut self) {
        self.out.hot.raw(&[0x65, 0x48, 0xc7, 0x04, 0x25]); // mov qword gs:[..], 0
        self.out.hot.imm32(context::CALLING);
        self.out.hot.imm32(0);
    }

    /// Leaves where the owner wants to hear of it. Behind a system call rcx is free, and the flags are the program's.
    fn look_for_news(&mut self, next: u64) -> Result<(), Error> {
        self.out.hot.load(RCX, Memory::context(context::NEWS));
        self.out.hot.load(RCX, Memory::Flat { base: Some(RCX), index: None, scale: 1, displacement: 0 });
        self.out.hot.raw(&[0xe3, 0]); // jrcxz past the jump
        let from = self.out.hot.bytes.len();
        self.out.hot.constant(RCX, next);
        self.out.map_hot(State::Before);
        let field = self.out.hot.relative(&[0xe9]);
        let stub = self.out.cold.here();
        self.out.resolve_hot(field, stub)?;
        self.exits.stub(&mut self.out, ExitKind::News, next)?;
        let distance = self.out.hot.bytes.len() - from;
        self.out.hot.bytes[from - 1] = distance as u8;
        self.out.map_hot(State::AfterSyscall);
        Ok(())
    }

    /// An instruction that the owner of the cache does, [`ExitKind::Request`] or [`ExitKind::CpuQuery`]: what comes
    /// after it is another fragment.
    pub(crate) fn hand_over(&mut self, kind: ExitKind) -> Result<(), Error> {
        let at = self.out.ip();
        let field = self.out.hot.relative(&[0xe9]);
        let stub = self.out.cold.here();
        self.out.resolve_hot(field, stub)?;
        self.exits.stub(&mut self.out, kind, at)
    }

    /// The start of a fragment that is watched.
    pub(crate) fn reached(&mut self) -> Result<(), Error> {
        let at = self.out.start;
        let field = self.out.hot.relative(&[0xe9]);
        let stub = self.out.cold.here();
        self.out.resolve_hot(field, stub)?;
        let execute = self.out.hot.here();
        self.exits.stub(&mut self.out, ExitKind::Reached { execute }, at)?;
        self.out.map_hot(State::Before);
        Ok(())
    }

    /// The start of a fragment where the word that a register points to is wanted.
    pub(crate) fn probe(&mut self, register: u8) -> Result<(), Error> {
        let live = self.plan.list.first().map_or(u16::MAX, |one| one.before.registers);
        let word = self.out.scratch.pick(&mut self.out.hot, live, 1 << register);
        self.out.map_hot(State::Before);
        self.out.hot.load(word, Memory::base(register, 0));
        self.out.map_hot(State::Counting);
        let what = What { operation: Operation::Probe, ..What::one(Kind::Read) };
        self.out.call_out_inline(&what, SiteId(0), &[word], word)?;
        self.out.scratch.restore(&mut self.out.hot, u16::MAX);
        self.out.map_hot(State::Before);
        Ok(())
    }

    fn save_for_lookup(&mut self) {
        self.out.hot.store(RAX, Memory::context(context::register(RAX)));
        self.out.hot.store(RCX, Memory::context(context::register(RCX)));
        let entry =
            MapEntry { saved: 1 << RAX | 1 << RCX, ..self.out.map_entry(self.out.hot.offset(), State::Counted) };
        push_entry(&mut self.out.hot_map, entry);
    }

    /// Goes to the translation of the program's address in rax.
    fn look_up(&mut self) {
        self.counting.count_execution_on_the_way(&mut self.out);
        let unknown = MapEntry {
            instruction: u32::MAX,
            saved: 1 << RAX | 1 << RCX,
            ..self.out.map_entry(self.out.hot.offset(), State::Leaving)
        };
        push_entry(&mut self.out.hot_map, unknown);
        let above = 32 - self.out.config.lookup_bits;
        self.out.hot.constant(RCX, u64::from(above));
        self.out.hot.shift_left_half_by(RCX, RAX, RCX);
        self.out.hot.rotate_right(RCX, RCX, above);
        self.out.hot.jump_context(Some(RCX), self.out.config.lookup);
    }

    /// An indirect jump or call.
    pub(crate) fn indirect(&mut self, one: &Decoded, next: u64) -> Result<(), Error> {
        let instruction = &one.instruction;
        self.save_for_lookup();
        if instruction.op0_kind() == OpKind::Register {
            let register = instruction.op0_register().number() as u8;
            self.out.hot.move64(RAX, register);
        } else if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            let field = self.out.hot.relative(&[0x48, 0x8b, 0x05]);
            if !self.out.hot.resolve(field, target) {
                self.out.hot.bytes.truncate(field.0 - 3);
                self.out.hot.constant(RAX, target);
                self.out.hot.load(RAX, Memory::base(RAX, 0));
            }
        } else {
            let part = |register: Register| (register != Register::None).then(|| register.number() as u8 & 15);
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            if instruction.memory_segment() == Register::FS {
                self.out.hot.raw(&[0x64]);
            }
            if base.is_gpr32() || index.is_gpr32() {
                self.out.hot.raw(&[0x67]);
            }
            let memory = Memory::Flat {
                base: part(base),
                index: part(index),
                scale: instruction.memory_index_scale() as u8,
                displacement: instruction.memory_displacement64() as i32,
            };
            self.out.hot.load(RAX, memory);
        }
        if instruction.flow_control() == FlowControl::IndirectCall {
            self.push_return(next)?;
        }
        self.look_up();
        Ok(())
    }

    /// `rdpid` or `rdtscp` on a processor that is not the host's. Done over again, if a signal comes between two of
    /// these, it is the same.
    pub(crate) fn processor(&mut self, instruction: &Instruction) {
        let to =
            if instruction.mnemonic() == Mnemonic::Rdpid { instruction.op0_register().number() as u8 } else { RCX };
        self.out.hot.memory(false, &[0x8b], to, Memory::context(context::PROCESSOR));
        if instruction.mnemonic() == Mnemonic::Rdtscp {
            self.out.hot.raw(&[0x0f, 0xae, 0xe8, 0x0f, 0x31]); // lfence; rdtsc
        }
    }
}
