//! Calls and returns.
//!
//! Problem: a call pushes the program's return address, never one of the cache, so a return is an indirect jump. The
//! processor predicts returns by a stack of its own, on which only call instructions push; a return that is translated
//! to a jump is guessed by its history instead, often wrongly.
//!
//! Mechanism: calls are calls, and returns returns, though by way of addresses in the cache that the program never
//! sees. A call moves the address that it has pushed to the thread's table of returns at once, and a return puts it in
//! the place of the program's right before it pops it:
//!
//! ```text
//!   call 1f                            mov  gs:[REGISTERS + 8], rcx
//!   jmp  next        the site          mov  rcx, [rsp]                  may fault
//! 1: pop  gs:[its entry]               jmp  gs:[RETURN]
//!   mov  gs:[its tag], rest of next      take_return: the site by the table, or RETURN_MISS, to [rsp]
//!   push [next, as a constant]                        ret
//!   jmp  target
//! ```
//! Several addresses share an entry of the table, chosen by the bits 3 to 18, so the rest of the address is compared as
//! well, by a tag of 32 bits: the lower half of the address, turned by 3 bits so that what is known stands lowest, and
//! the upper half added to that. As addresses of programs have 47 bits, what is added has the place of what is known,
//! and no two addresses of an entry have the same tag. (`pext` would take any bits, but some processors take hundreds
//! of cycles for it.) An instruction that calls may have been translated several times, as part of several fragments,
//! each with a site of its own: what is predicted is the site of the one that was executed, so that is what the table
//! must have, and each call puts it there. All returns of a thread go through [`crate::take_return`]: what there is
//! once is not in the way of the program's code in the caches.
//!
//! The flags are left alone: a program may return into the middle of a function with flags that it restored just
//! before, as Go's preemption does. No register is dead at a return either, as callers may know what this function
//! leaves alone. The table says where control goes; the prediction is only a guess, so that it does not matter whether
//! calls and returns are balanced. What is left below the stack pointer is the address in the cache, where a program
//! cannot expect anything.

use super::Builder;
use crate::abi::registers::{RCX, RSP};
use crate::emit::Memory;
use crate::ir::mark::{MapEntry, State, push_entry};
use crate::{Env, Error, context};
use core::arch::global_asm;
use iced_x86::Instruction;

// rcx: the program's address. No flag is changed.
global_asm!(
    r#"
    .globl numalens_take_return, numalens_take_return_writes, numalens_take_return_end
    .p2align 6
numalens_take_return:
    mov gs:[{ip}], rcx
    mov gs:[{save}], rax
    mov gs:[{save} + 8], rdx
    rorx eax, ecx, 3
    rorx rcx, rcx, 32
    movzx edx, ax
    lea ecx, [rcx + rax]
    mov eax, gs:[rdx*4 + {tags}]
    lea ecx, [rcx + rax]
    jrcxz 1f
    mov rax, gs:[{miss}]
    jmp numalens_take_return_writes
1:
    mov rax, gs:[rdx*8 + {returns}]
numalens_take_return_writes:
    mov [rsp], rax
    mov rax, gs:[{save}]
    mov rdx, gs:[{save} + 8]
    mov rcx, gs:[{rcx}]
    ret
numalens_take_return_end:
    nop
    "#,
    ip = const context::RETURN_IP,
    save = const context::SETTLE_SAVED,
    tags = const context::RETURN_TAGS,
    miss = const context::RETURN_MISS,
    returns = const context::RETURNS,
    rcx = const context::register(RCX),
);

impl<E: Env> Builder<'_, E> {
    /// Pushes the return address of a call to the program's `next`, in a way that has the processor predict the return.
    pub(crate) fn push_return(&mut self, next: u64) -> Result<(), Error> {
        let under_way = self.out.hot_map.last().copied();
        let over = self.out.hot.relative(&[0xe8]);
        self.return_site(next)?;
        let here = self.out.hot.here();
        self.out.resolve_hot(over, here)?;
        if let Some(entry) = under_way {
            push_entry(
                &mut self.out.hot_map,
                MapEntry { offset: self.out.hot.offset(), state: State::Counted, ..entry },
            );
        }
        self.out.hot.raw(&[0x65, 0x8f, 0x04, 0x25]); // pop gs:[..]
        self.out.hot.imm32(self.out.config.return_entry(next) as u32);
        let (at, tag) = self.out.config.return_tag(next);
        self.out.hot.raw(&[0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[..], tag
        self.out.hot.imm32(at as u32);
        self.out.hot.imm32(tag);
        if next < 1 << 31 {
            self.out.hot.raw(&[0x68]); // push next
            self.out.hot.imm32(next as u32);
            return Ok(());
        }
        self.out.cold.align(8, 0xcc);
        let constant = self.out.cold.here();
        self.out.cold.imm64(next);
        let field = self.out.hot.relative(&[0xff, 0x35]); // push [rip + ..]
        self.out.resolve_hot(field, constant)
    }

    /// Writes where a return to `next` comes.
    pub(crate) fn return_site(&mut self, next: u64) -> Result<(), Error> {
        let instruction = (next - self.out.start) as u32;
        self.exits.returns_at = Some(self.out.hot.here());
        let entry = self.out.map_entry(self.out.hot.offset(), State::Before);
        push_entry(
            &mut self.out.hot_map,
            MapEntry { instruction, state: State::Before, begun: 0, counted: 0, ..entry },
        );
        self.exits.jump(&mut self.out, &[0xe9], next)
    }

    /// A return.
    pub(crate) fn give_back(&mut self, instruction: &Instruction) {
        self.out.hot.store(RCX, Memory::context(context::register(RCX)));
        let entry = MapEntry { saved: 1 << RCX, ..self.out.map_entry(self.out.hot.offset(), State::Counted) };
        push_entry(&mut self.out.hot_map, entry);
        self.counting.count_execution_on_the_way(&mut self.out);
        self.out.hot.load(RCX, Memory::base(RSP, 0));
        if instruction.op_count() == 1 {
            self.out.hot.lea(RSP, Memory::base(RSP, instruction.immediate16().into()));
        }
        self.out.hot.jump_context(None, context::RETURN);
    }
}
