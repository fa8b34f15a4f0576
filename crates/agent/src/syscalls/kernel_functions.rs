//! Functions of the kernel's that are not translated.

use super::call::arguments;
use crate::machine;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, raw};
use numalens_isa::convention::function::{RESULT, STACK_POINTER};

const VSYSCALLS: u64 = 0xffff_ffff_ff60_0000;

/// The page of calls at fixed addresses that programs of another age use, which the kernel executes itself, and on a
/// virtual machine the vdso's getcpu. If `ip` is one of them, does it and returns where it returns to.
pub fn execute(thread: &mut Thread, ip: u64) -> Option<u64> {
    let number = match ip.wrapping_sub(VSYSCALLS) {
        _ if runtime().code.lock().env.vdso.getcpu == Some(ip) => raw::__NR_getcpu,
        0 => raw::__NR_gettimeofday,
        0x400 => raw::__NR_time,
        0x800 => raw::__NR_getcpu,
        _ => return None,
    };
    runtime().code.lock().env.maps.find(ip)?;
    let context = thread.context;
    let stack = context.register(STACK_POINTER);
    let after = user::read::<u64>(stack).ok()?;
    let result = match number {
        raw::__NR_getcpu if is_virtual() => machine::getcpu(thread, arguments(thread)),
        // SAFETY: the program's own call with the program's own arguments.
        _ => unsafe { sys::for_program(number, arguments(thread)) },
    };
    context.set_register(RESULT, result);
    context.set_register(STACK_POINTER, stack + 8);
    Some(after)
}
