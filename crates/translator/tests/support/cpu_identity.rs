//! Answers what a program asks about its processor, as the host does.

use super::memory::Mapping;
use numalens_translator::{CpuQuery, context};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

const ZERO_FLAG: u64 = 1 << 6;

pub fn answer(thread: &mut Mapping, query: CpuQuery) {
    let slot = |register: u8| context::register(register) as usize;
    match query {
        CpuQuery::Cpuid => {
            let told = __cpuid_count(thread.get(slot(0)) as u32, thread.get(slot(1)) as u32);
            for (register, value) in [(0, told.eax), (3, told.ebx), (1, told.ecx), (2, told.edx)] {
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
