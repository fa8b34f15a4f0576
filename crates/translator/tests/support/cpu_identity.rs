//! Answers what a program asks about its processor, as the host does.

use super::memory::Mapping;
use numalens_isa::Register;
use numalens_translator::{CpuQuery, context};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

const ZERO_FLAG: u64 = 1 << 6;

pub fn answer(thread: &mut Mapping, query: CpuQuery) {
    let slot = |register: Register| context::register(register.number()) as usize;
    match query {
        CpuQuery::Cpuid => {
            use Register::{Rax, Rbx, Rcx, Rdx};
            let told = __cpuid_count(thread.get(slot(Rax)) as u32, thread.get(slot(Rcx)) as u32);
            for (register, value) in [(Rax, told.eax), (Rbx, told.ebx), (Rcx, told.ecx), (Rdx, told.edx)] {
                thread.set(slot(register), value.into());
            }
        }
        CpuQuery::Limit { to, bytes, selector } => {
            let selector = thread.get(slot(selector)) as u32 & 0xffff;
            let (limit, found): (u32, u8);
            // SAFETY: looks at a descriptor, whichever.
            unsafe {
                asm!("lsl {limit:e}, {selector:e}", "setz {found}", limit = inout(reg) 0 => limit, selector = in(reg) selector,
                    found = out(reg_byte) found, options(nomem, nostack));
            }
            let flags = thread.get(context::FLAGS as usize);
            thread.set(context::FLAGS as usize, if found != 0 { flags | ZERO_FLAG } else { flags & !ZERO_FLAG });
            if found != 0 {
                let metadata = if bytes == 2 { thread.get(slot(to)) & !0xffff } else { 0 };
                let limit = if bytes == 2 { limit & 0xffff } else { limit };
                thread.set(slot(to), metadata | u64::from(limit));
            }
        }
    }
}
