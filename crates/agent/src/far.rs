//! Returns that take more than rip off the stack: `lret` and `iret` within 64-bit code.

use crate::state::failure::give_up;
use crate::state::thread::Thread;
use crate::sys::user;
use numalens_isa::{Register, flags};
use numalens_translator::{FarReturn, FarTarget, context as fixed};

/// The segments that Linux has for programs: code of 64 bits and of 32, and their data.
const CODE_64: u16 = 0x33;
const CODE_32: u16 = 0x23;
const DATA: u16 = 0x2b;
/// A selector with this bit is one of a table of the program's own (`modify_ldt`).
const OWN_TABLE: u16 = 4;
/// An address that no pointer has: the processor does not say where such a fault is.
const NOWHERE: u64 = 1 << 63;

/// Does what a far return at `ip` does. Returns where the program goes on.
///
/// # Errors
/// The address that it must not access.
pub fn take(thread: &mut Thread, ip: u64, how: &FarReturn) -> Result<u64, u64> {
    let context = thread.context;
    let stack = context.register(Register::Rsp);
    let mut frame = [0u8; 40];
    let frame = &mut frame[..how.words() * usize::from(how.bytes)];
    for (word, at) in frame.chunks_exact_mut(how.bytes.into()).zip((stack..).step_by(how.bytes.into())) {
        if user::read_bytes(at, word).is_err() {
            return Err(at);
        }
    }
    let flags = context.get(fixed::FLAGS);
    let Some(FarTarget { ip: target, code_segment, stack, interrupt }) = how.target(stack, frame, flags) else {
        return Err(stack);
    };
    let (flags, stack_segment) = interrupt.unwrap_or((flags, DATA));
    match (code_segment, stack_segment) {
        (CODE_64, DATA) if flags & flags::TRAP == 0 => {}
        (CODE_64, DATA) => cannot(ip, "it sets the trap flag, to step through the program itself"),
        (CODE_32, _) => cannot(ip, "it goes on in 32-bit code"),
        (code, data) if (code | data) & OWN_TABLE != 0 => cannot(ip, "it goes on in a segment of the program's own"),
        _ => return Err(NOWHERE),
    }
    context.set_register(Register::Rsp, stack);
    context.set(fixed::FLAGS, flags);
    Ok(target)
}

fn cannot(ip: u64, why: &str) -> ! {
    give_up(format_args!("the program uses an instruction at {ip:#x} that cannot be observed: {why}"))
}
