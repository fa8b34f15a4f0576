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
//! must have, and each call puts it there. All returns of a thread go through [`take_return`]: what there is once is
//! not in the way of the program's code in the caches.
//!
//! The flags are left alone: a program may return into the middle of a function with flags that it restored just
//! before, as Go's preemption does. No register is dead at a return either, as callers may know what this function
//! leaves alone. The table says where control goes; the prediction is only a guess, so that it does not matter whether
//! calls and returns are balanced. What is left below the stack pointer is the address in the cache, where a program
//! cannot expect anything.

use crate::emit::{Memory, RCX, RSP};
use crate::fragment::State;
use crate::translate::{Builder, push_entry};
use crate::translation_map::MapEntry;
use crate::{Env, Error, context};
use core::arch::global_asm;
use iced_x86::Instruction;

unsafe extern "C" {
    /// Through `context::RETURN`, as translated returns enter it. A thread that is stopped within must be let go on to
    /// the cache.
    #[link_name = "numalens_take_return"]
    pub fn take_return();
    /// The instruction of it that writes to the program's stack. If it faults, as natively nothing would, put rax and
    /// rdx back from `context::SETTLE_SAVED` and rcx from `context::REGISTERS`, take the address off the stack, and go
    /// on at `context::RETURN_MISS`.
    #[link_name = "numalens_take_return_writes"]
    pub fn take_return_writes();
    /// The end of it.
    #[link_name = "numalens_take_return_end"]
    pub fn take_return_end();
}

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

/// Which entry of the table a return address has: not by its lowest bits, as calls lie apart.
pub(crate) fn index_of(ip: u64) -> u64 {
    ip >> 3 & ((1 << context::RETURNS_BITS) - 1)
}

/// What tells it from the others that have the same entry.
pub(crate) fn tag_of(ip: u64) -> u32 {
    (ip as u32).rotate_right(3).wrapping_add((ip >> 32) as u32)
}

impl<E: Env> Builder<'_, E> {
    /// Pushes the return address of a call to the program's `next`, in a way that has the processor predict the return.
    pub(crate) fn push_return(&mut self, next: u64) -> Result<(), Error> {
        let under_way = self.hot_map.last().copied();
        let over = self.hot.relative(&[0xe8]);
        self.return_site(next)?;
        let here = self.hot.here();
        self.resolve_hot(over, here)?;
        if let Some(entry) = under_way {
            push_entry(&mut self.hot_map, MapEntry { offset: self.hot.offset(), state: State::Counted, ..entry });
        }
        self.hot.raw(&[0x65, 0x8f, 0x04, 0x25]); // pop gs:[..]
        self.hot.imm32(self.config.return_entry(next) as u32);
        let (at, tag) = self.config.return_tag(next);
        self.hot.raw(&[0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[..], tag
        self.hot.imm32(at as u32);
        self.hot.imm32(tag);
        if next < 1 << 31 {
            self.hot.raw(&[0x68]); // push next
            self.hot.imm32(next as u32);
            return Ok(());
        }
        self.cold.align(8, 0xcc);
        let constant = self.cold.here();
        self.cold.imm64(next);
        let field = self.hot.relative(&[0xff, 0x35]); // push [rip + ..]
        self.resolve_hot(field, constant)
    }

    /// Writes where a return to `next` comes.
    pub(crate) fn return_site(&mut self, next: u64) -> Result<(), Error> {
        let instruction = (next - self.start) as u32;
        self.returns_at = Some(self.hot.here());
        let entry = self.map_entry(self.hot.offset(), State::Before);
        push_entry(&mut self.hot_map, MapEntry { instruction, state: State::Before, begun: 0, counted: 0, ..entry });
        self.leave_to(&[0xe9], next)
    }

    /// A return.
    pub(crate) fn give_back(&mut self, instruction: &Instruction) {
        self.hot.store(RCX, Memory::context(context::register(RCX)));
        let entry = MapEntry { saved: 1 << RCX, ..self.map_entry(self.hot.offset(), State::Counted) };
        push_entry(&mut self.hot_map, entry);
        self.count_execution_on_the_way();
        self.hot.load(RCX, Memory::base(RSP, 0));
        if instruction.op_count() == 1 {
            self.hot.lea(RSP, Memory::base(RSP, instruction.immediate16().into()));
        }
        self.hot.jump_context(None, context::RETURN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_of_an_entry_have_tags_of_their_own(one in 0..1u64 << 47, other in 0..1u64 << 47, bit in 0..47u32) {
            let of_one = 0x7_fff8;
            for other in [other & !of_one | one & of_one, one ^ 1 << bit] {
                let are_same = (index_of(one), tag_of(one)) == (index_of(other), tag_of(other));
                prop_assert_eq!(one == other, are_same);
            }
        }
    }
}
