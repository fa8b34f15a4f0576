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
//! Returns: [`crate::returns`].

use crate::decode::Decoded;
use crate::emit::{Memory, RAX, RCX};
use crate::fragment::{Exit, ExitKind, State};
use crate::translate::{Builder, push_entry};
use crate::translation_map::MapEntry;
use crate::{Env, Error, ExitId, context};
use iced_x86::{FlowControl, Instruction, OpKind, Register};

impl<E: Env> Builder<'_, E> {
    pub(crate) fn conditional(&mut self, instruction: &Instruction, code: &[u8]) -> Result<(), Error> {
        let target = instruction.near_branch64();
        if instruction.is_jcc_short_or_near() {
            // The condition is in the low half of the opcode's last byte.
            let from_end = if instruction.is_jcc_short() { 2 } else { 5 };
            let condition = code[code.len() - from_end] & 15;
            return self.leave_to(&[0x0f, 0x80 | condition], target);
        }
        // loop, jrcxz: they reach only 127 bytes.
        self.hot.raw(&code[..code.len() - 1]);
        self.hot.raw(&[2]);
        self.map_hot(State::Counted);
        self.hot.raw(&[0xeb, 0]);
        let over = self.hot.bytes.len();
        self.leave_to(&[0xe9], target)?;
        let distance = self.hot.bytes.len() - over;
        self.hot.bytes[over - 1] = distance as u8;
        Ok(())
    }

    /// A direct jump: to a stub at first, unless the fragment is a loop and goes back.
    pub(crate) fn leave_to(&mut self, opcode: &[u8], target: u64) -> Result<(), Error> {
        let field = self.hot.patchable(opcode);
        let again = self.loop_start.filter(|_| target == self.start);
        if again.is_some() {
            self.goes_back = Some(ExitId(self.first_exit.0 + self.exits.len() as u32));
        }
        let stub = self.cold.here();
        self.resolve_hot(field, again.unwrap_or(stub))?;
        let branch = self.hot.address_of(field);
        self.exit_stub_after(ExitKind::Direct { branch }, target, again.is_some())
    }

    pub(crate) fn exit_stub(&mut self, kind: ExitKind, target: u64) -> Result<(), Error> {
        self.exit_stub_after(kind, target, false)
    }

    /// `goes_back`: that of the jump back to the start of a loop.
    fn exit_stub_after(&mut self, kind: ExitKind, target: u64, goes_back: bool) -> Result<(), Error> {
        let index = self.exits.len() as u32;
        let id = self.first_exit.0.checked_add(index).filter(|&id| id < 1 << 31).ok_or(Error::TooMany)?;
        let entry = MapEntry {
            offset: self.cold.offset(),
            instruction: index,
            spilled: 0,
            saved: 1 << RAX,
            state: State::Leaving,
            counted: 0,
            begun: 0,
            checked: 0,
        };
        push_entry(&mut self.cold_map, entry);
        let stub = self.cold.here();
        self.cold.store(RAX, Memory::context(context::register(RAX)));
        if goes_back {
            self.end_derived_for_good();
        }
        self.cold.constant(RAX, u64::from(id));
        self.cold.jump_context(None, context::DISPATCH);
        self.exits.push(Exit { kind, target, stub });
        Ok(())
    }

    pub(crate) fn system_call(&mut self, next: u64) -> Result<(), Error> {
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        let execute = self.hot.here();
        self.exit_stub(ExitKind::Syscall { execute }, self.start + u64::from(self.current))?;
        self.map_hot(State::Before);
        self.hot.raw(&[0x0f, 0x05]);
        self.current = (next - self.start) as u32;
        self.counted = 0;
        self.map_hot(State::AfterSyscall);
        self.note_return();
        self.look_for_news(next)?;
        self.hot.constant(RCX, next);
        self.map_hot(State::Before);
        self.leave_to(&[0xe9], next)
    }

    /// A system call by 32-bit rules: it returns as an interrupt does, with all registers but rax.
    pub(crate) fn old_system_call(&mut self, next: u64, code: &[u8]) -> Result<(), Error> {
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        let execute = self.hot.here();
        self.exit_stub(ExitKind::OldSyscall { execute }, self.start + u64::from(self.current))?;
        self.map_hot(State::Before);
        self.hot.raw(code);
        self.current = (next - self.start) as u32;
        self.counted = 0;
        self.map_hot(State::Before);
        self.note_return();
        self.leave_to(&[0xe9], next)
    }

    /// The thread is in no system call any more.
    fn note_return(&mut self) {
        self.hot.raw(&[0x65, 0x48, 0xc7, 0x04, 0x25]); // mov qword gs:[..], 0
        self.hot.imm32(context::CALLING);
        self.hot.imm32(0);
    }

    /// Leaves where the owner wants to hear of it. Behind a system call rcx is free, and the flags are the program's.
    fn look_for_news(&mut self, next: u64) -> Result<(), Error> {
        self.hot.load(RCX, Memory::context(context::NEWS));
        self.hot.load(RCX, Memory::Flat { base: Some(RCX), index: None, scale: 1, displacement: 0 });
        self.hot.raw(&[0xe3, 0]); // jrcxz past the jump
        let from = self.hot.bytes.len();
        self.hot.constant(RCX, next);
        self.map_hot(State::Before);
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        self.exit_stub(ExitKind::News, next)?;
        let distance = self.hot.bytes.len() - from;
        self.hot.bytes[from - 1] = distance as u8;
        self.map_hot(State::AfterSyscall);
        Ok(())
    }

    /// An instruction that the owner of the cache does, [`ExitKind::Request`] or [`ExitKind::CpuQuery`]: what comes
    /// after it is another fragment.
    pub(crate) fn hand_over(&mut self, kind: ExitKind) -> Result<(), Error> {
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        self.exit_stub(kind, self.start + u64::from(self.current))
    }

    /// The start of a fragment that is watched.
    pub(crate) fn reached(&mut self) -> Result<(), Error> {
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        let execute = self.hot.here();
        self.exit_stub(ExitKind::Reached { execute }, self.start)?;
        self.map_hot(State::Before);
        Ok(())
    }

    fn save_for_lookup(&mut self) {
        self.hot.store(RAX, Memory::context(context::register(RAX)));
        self.hot.store(RCX, Memory::context(context::register(RCX)));
        let entry = MapEntry { saved: 1 << RAX | 1 << RCX, ..self.map_entry(self.hot.offset(), State::Counted) };
        push_entry(&mut self.hot_map, entry);
    }

    /// Goes to the translation of the program's address in rax.
    fn look_up(&mut self) {
        self.count_execution_on_the_way();
        let unknown = MapEntry {
            instruction: u32::MAX,
            saved: 1 << RAX | 1 << RCX,
            ..self.map_entry(self.hot.offset(), State::Leaving)
        };
        push_entry(&mut self.hot_map, unknown);
        let above = 32 - self.config.lookup_bits;
        self.hot.constant(RCX, u64::from(above));
        self.hot.shift_left_half_by(RCX, RAX, RCX);
        self.hot.rotate_right(RCX, RCX, above);
        self.hot.jump_context(Some(RCX), self.config.lookup);
    }

    /// An indirect jump or call.
    pub(crate) fn indirect(&mut self, one: &Decoded, next: u64) -> Result<(), Error> {
        let instruction = &one.instruction;
        self.save_for_lookup();
        if instruction.op0_kind() == OpKind::Register {
            let register = instruction.op0_register().number() as u8;
            self.hot.move64(RAX, register);
        } else if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            let field = self.hot.relative(&[0x48, 0x8b, 0x05]);
            if !self.hot.resolve(field, target) {
                self.hot.bytes.truncate(field.0 - 3);
                self.hot.constant(RAX, target);
                self.hot.load(RAX, Memory::base(RAX, 0));
            }
        } else {
            let part = |register: Register| (register != Register::None).then(|| register.number() as u8 & 15);
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            if instruction.memory_segment() == Register::FS {
                self.hot.raw(&[0x64]);
            }
            if base.is_gpr32() || index.is_gpr32() {
                self.hot.raw(&[0x67]);
            }
            let memory = Memory::Flat {
                base: part(base),
                index: part(index),
                scale: instruction.memory_index_scale() as u8,
                displacement: instruction.memory_displacement64() as i32,
            };
            self.hot.load(RAX, memory);
        }
        if instruction.flow_control() == FlowControl::IndirectCall {
            self.push_return(next)?;
        }
        self.look_up();
        Ok(())
    }
}
