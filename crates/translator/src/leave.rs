//! The ways out of a block: jumps, calls, returns, system calls.
//!
//! A direct jump first goes to a stub in the cold half, which calls the dispatcher with the number of the exit; the dispatcher
//! has it go to its target from then on. A call pushes the program's return address, never one of the cache, so a return is an indirect
//! jump. Indirect jumps bring the target in rax to a table of the thread, indexed by its low bits:
//!
//! ```text
//!   mov  gs:[REGISTERS + 0], rax
//!   mov  gs:[REGISTERS + 8], rcx
//!   mov  rax, target
//!   pext rcx, rax, gs:[LOOKUP_MASK]
//!   jmp  gs:[rcx*8 + lookup]         a landing, which checks that it is the right one, or LOOKUP_MISS
//! ```
//! The flags are left alone all the way: an indirect jump within a function may need them.
//!
//! # Returns
//!
//! With [`crate::Config::predicted_returns`] (else they are indirect jumps like others):
//!
//! The processor predicts returns by a stack of its own, on which only call instructions push. A return that is translated to a jump
//! is guessed by its history instead, often wrongly. So calls are calls, and returns returns, though by way of addresses in the cache that the
//! program never sees: a call replaces the address that it has pushed at once, and a return puts it back right before it pops it.
//!
//! ```text
//!   call 1f                          mov  gs:[REGISTERS + 0], rax       rax, rcx are not dead: callers may know that
//!   jmp  next   <- returns here      mov  gs:[REGISTERS + 8], rcx       this function leaves them alone
//! 1: lea  rsp, [rsp + 8]             mov  rax, [rsp]
//!   push [next, as a constant]       mov  ecx, eax
//!   jmp  target                      and  ecx, mask                     bits 3 to 19: which entry
//!                                    pext rax, rax, gs:[RETURN_TAG]     the other 31
//!                                    not  eax                           so that no tag is 0
//!                                    cmp  eax, gs:[rcx + returns + 4]
//!                                    jne  miss                          -> pop rax; jmp gs:[RETURN_MISS]
//!                                    movsxd rax, gs:[rcx + returns]     from the program's address to the cache's
//!                                    add  [rsp], rax
//!                                    mov  rcx, gs:[REGISTERS + 8]
//!                                    mov  rax, gs:[REGISTERS + 0]
//!                                    ret
//! ```
//! Entries are small and those of neighbours lie together: large programs return to many places. The table says where control goes; the prediction is only a guess, so that it does not matter whether calls and returns are balanced. What is
//! left below the stack pointer is the address in the cache, where a program cannot expect anything.

use crate::block::{Exit, ExitKind, Mark, State};
use crate::decode::Decoded;
use crate::emit::{Memory, RAX, RCX, RSP};
use crate::translate::{Builder, push_mark};
use crate::{Env, Error, area};
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
        self.mark_hot(State::Counted);
        self.hot.raw(&[0xeb, 0]);
        let over = self.hot.bytes.len();
        self.leave_to(&[0xe9], target)?;
        let distance = self.hot.bytes.len() - over;
        self.hot.bytes[over - 1] = distance as u8;
        Ok(())
    }

    /// A direct jump: to a stub at first.
    pub(crate) fn leave_to(&mut self, opcode: &[u8], target: u64) -> Result<(), Error> {
        let field = self.hot.patchable(opcode);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        let branch = self.hot.address_of(field);
        self.exit_stub(ExitKind::Direct { branch }, target)
    }

    pub(crate) fn exit_stub(&mut self, kind: ExitKind, target: u64) -> Result<(), Error> {
        let index = self.exits.len() as u32;
        let id = self.first_exit.0.checked_add(index).filter(|&id| id < 1 << 31).ok_or(Error::TooMany)?;
        let mark = Mark {
            offset: self.cold.offset(),
            instruction: index,
            spilled: 0,
            saved: 1 << RAX,
            state: State::Leaving,
            counted: 0,
            begun: 0,
            checked: 0,
        };
        push_mark(&mut self.cold_marks, mark);
        let stub = self.cold.here();
        self.cold.store(RAX, Memory::area(area::register(RAX)));
        self.cold.constant(RAX, u64::from(id));
        self.cold.jump_area(None, area::DISPATCH);
        self.exits.push(Exit { kind, target, stub });
        Ok(())
    }

    pub(crate) fn system_call(&mut self, next: u64) -> Result<(), Error> {
        let field = self.hot.relative(&[0xe9]);
        let stub = self.cold.here();
        self.resolve_hot(field, stub)?;
        let execute = self.hot.here();
        self.exit_stub(ExitKind::Syscall { execute }, self.start + u64::from(self.current))?;
        self.mark_hot(State::Before);
        self.hot.raw(&[0x0f, 0x05]);
        self.current = (next - self.start) as u32;
        self.counted = 0;
        self.mark_hot(State::AfterSyscall);
        self.hot.constant(RCX, next);
        self.mark_hot(State::Before);
        self.leave_to(&[0xe9], next)
    }

    pub(crate) fn push_constant(&mut self, value: u64) -> Result<(), Error> {
        if value < 1 << 31 {
            self.hot.raw(&[0x68]);
            self.hot.imm32(value as u32);
            return Ok(());
        }
        self.cold.align(8, 0xcc);
        let constant = self.cold.here();
        self.cold.imm64(value);
        let field = self.hot.relative(&[0xff, 0x35]);
        self.resolve_hot(field, constant)
    }

    /// Pushes the return address of a call to the program's `next`, in a way that has the processor predict the return.
    pub(crate) fn push_return(&mut self, next: u64) -> Result<(), Error> {
        if !self.config.predicted_returns {
            self.push_constant(next)?;
            self.mark_hot(State::Counted);
            return Ok(());
        }
        let under_way = self.hot_marks.last().copied();
        let over = self.hot.relative(&[0xe8]);
        self.returns_at = Some(self.hot.here());
        let after = (next - self.start) as u32;
        let returned =
            Mark { instruction: after, begun: 0, counted: 0, ..self.mark(self.hot.offset(), State::Counted) };
        push_mark(&mut self.hot_marks, Mark { state: State::Before, ..returned });
        self.leave_to(&[0xe9], next)?;
        let here = self.hot.here();
        self.resolve_hot(over, here)?;
        if let Some(mark) = under_way {
            push_mark(&mut self.hot_marks, Mark { offset: self.hot.offset(), state: State::Counted, ..mark });
        }
        if next < 1 << 31 {
            self.hot.raw(&[0x48, 0xc7, 0x04, 0x24]); // mov qword [rsp], next
            self.hot.imm32(next as u32);
            return Ok(());
        }
        self.hot.lea(RSP, Memory::base(RSP, 8));
        self.push_constant(next)
    }

    fn save_for_lookup(&mut self) {
        self.hot.store(RAX, Memory::area(area::register(RAX)));
        self.hot.store(RCX, Memory::area(area::register(RCX)));
        let mark = Mark { saved: 1 << RAX | 1 << RCX, ..self.mark(self.hot.offset(), State::Counted) };
        push_mark(&mut self.hot_marks, mark);
    }

    /// Goes to the translation of the program's address in rax.
    fn look_up(&mut self) {
        let unknown =
            Mark { instruction: u32::MAX, saved: 1 << RAX | 1 << RCX, ..self.mark(self.hot.offset(), State::Leaving) };
        push_mark(&mut self.hot_marks, unknown);
        self.hot.extract(RCX, RAX, area::LOOKUP_MASK);
        self.hot.jump_area(Some(RCX), self.config.lookup);
    }

    /// A return.
    pub(crate) fn give_back(&mut self, instruction: &Instruction, code: &[u8]) -> Result<(), Error> {
        self.save_for_lookup();
        let popped = if instruction.op_count() == 1 { 8 + i32::from(instruction.immediate16()) } else { 8 };
        if !self.config.predicted_returns {
            self.hot.load(RAX, Memory::base(RSP, 0));
            self.hot.lea(RSP, Memory::base(RSP, popped));
            self.look_up();
            return Ok(());
        }
        let mask = self.config.returns_mask();
        let entry = |offset: u32| Memory::Scaled { index: RCX, scale: 1, offset: self.config.returns + offset };
        self.hot.load(RAX, Memory::base(RSP, 0));
        self.hot.move32(RCX, RAX);
        self.hot.registers(false, &[0x81], 4, RCX); // and ecx, mask
        self.hot.imm32(mask);
        self.hot.extract(RAX, RAX, area::RETURN_TAG);
        self.hot.registers(false, &[0xf7], 2, RAX); // not eax
        self.hot.memory(false, &[0x3b], RAX, entry(4)); // cmp eax, ..
        let miss = self.hot.relative(&[0x0f, 0x85]);
        self.hot.memory(true, &[0x63], RAX, entry(0)); // movsxd rax, ..
        self.hot.memory(true, &[0x01], RAX, Memory::base(RSP, 0)); // add [rsp], rax
        self.hot.load(RCX, Memory::area(area::register(RCX)));
        self.hot.load(RAX, Memory::area(area::register(RAX)));
        self.hot.raw(code);
        let stub = self.cold.here();
        self.resolve_hot(miss, stub)?;
        let saved = 1 << RAX | 1 << RCX;
        let leaving = Mark { instruction: u32::MAX, saved, ..self.mark(self.cold.offset(), State::Leaving) };
        push_mark(&mut self.cold_marks, leaving);
        self.cold.load(RAX, Memory::base(RSP, 0));
        self.cold.lea(RSP, Memory::base(RSP, popped));
        self.cold.jump_area(None, area::RETURN_MISS);
        Ok(())
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
