//! A signal that finds the thread in translated code: what has been counted and not been done is taken back, and the
//! program's registers are put where they belong.

use super::Resume;
use super::arrival::Signal;
use super::delivery::{deliver, deliver_kept};
use super::frame::{R_FLAGS, R_RIP, UserContext};
use super::kept::step_on;
use super::kernel::die;
use super::numbers::{
    MISALIGNED, SI_KERNEL, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SYS_SECCOMP, TRAP_FLAG, is_fault,
};
use super::state::Kept;
use super::taken_back::{abandon, correct, take_back};
use crate::pages::{AccessHandler, in_call};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::{call, say};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Release;
use numalens_isa::Register;
use numalens_isa::convention::system_call;
use numalens_translator::{Position, SiteId, State, Unexecuted, Unmade, count, settle_derived};

/// A signal has come to a thread in the cache.
pub(super) fn arrived(thread: &mut Thread, signal: &mut Signal<'_>, ucontext: &mut UserContext) -> Resume {
    let (rip, number) = (ucontext.registers[R_RIP], signal.number);
    let fault = !signal.stepped && is_fault(number, signal.code());
    // A breakpoint of the program's is reported behind the instruction.
    let breakpoint = number == SIGTRAP && signal.code() == SI_KERNEL && !signal.stepped;
    let at = match stand(thread, signal, ucontext, fault, if breakpoint { rip - 1 } else { rip }) {
        Stand::Executed => return Resume::AsItStands,
        Stand::GoesOn => {
            step_on(thread, signal, ucontext);
            return Resume::AsItStands;
        }
        Stand::At(at) => at,
    };
    let ip = at.ip + u64::from(breakpoint);
    let result = (at.state == State::AfterSyscall).then(|| ucontext.register(system_call::RESULT));
    match at.state {
        State::AfterSyscall => ucontext.set_register(system_call::NEXT, ip),
        State::Counted | State::Counting if fault && !breakpoint => take_back(thread, ucontext, &at.counted),
        State::String => finish_string(thread, ucontext),
        _ => {}
    }
    in_call::end(thread, result);
    if !breakpoint {
        abandon(thread, ucontext, &at.unmade);
        correct(thread, &at.unexecuted);
        runtime().session.entry(thread.extent).taken_back.fetch_add(1, Release);
    }
    if signal.stepped {
        ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        return deliver_kept(thread, ucontext, ip);
    }
    if number == SIGSYS && signal.code() == SYS_SECCOMP {
        // Behind the call, as the program knows it.
        signal.info[2] = ip;
    }
    // What a siginfo that names the faulting instruction must say.
    if fault && matches!(number, SIGILL | SIGFPE) && !breakpoint && signal.info[2] == rip {
        signal.info[2] = ip;
    }
    let mask = ucontext.mask;
    deliver(thread, ucontext, ip, &Kept { signal: number, info: *signal.info }, mask)
}

/// Where a thread stands in the cache.
enum Stand {
    /// The load that faulted was the agent's, and has been done in its place.
    Executed,
    /// Where it has to go on to a boundary first.
    GoesOn,
    /// At an instruction of the program's, whose registers are in place now.
    At(Boundary),
}

/// An instruction of the program's at which a thread is stopped.
struct Boundary {
    ip: u64,
    state: State,
    /// The sites that have been counted for it.
    counted: Vec<SiteId>,
    unmade: Unmade,
    unexecuted: [Unexecuted; 2],
}

/// Finds out where a thread stands, at `at` of the cache. Ends the process where no code is there.
fn stand(thread: &Thread, signal: &Signal<'_>, ucontext: &mut UserContext, fault: bool, at: u64) -> Stand {
    let number = signal.number;
    let code = runtime().code.lock();
    let Some(position) = code.cache.locate(at) else {
        let rip = ucontext.registers[R_RIP];
        let mapped = code.env.arenas.contain(rip);
        drop(code);
        say!("numalens: signal {number} at {rip:#x}, which is not translated code (in the cache: {mapped})");
        die(number);
    };
    let is_misaligned = number == SIGBUS && signal.code() == MISALIGNED && position.state == State::Before;
    if is_misaligned && compares_code(ucontext, position.ip) {
        return Stand::Executed;
    }
    if !fault && matches!(position.state, State::Counting | State::Counted | State::Leaving) {
        return Stand::GoesOn;
    }
    restore_registers(thread, ucontext, &position);
    Stand::At(Boundary {
        ip: position.ip,
        state: position.state,
        counted: position.counted.to_vec(),
        unmade: position.unmade(),
        unexecuted: position.unexecuted,
    })
}

/// Puts the program's registers where they belong.
fn restore_registers(thread: &Thread, ucontext: &mut UserContext, position: &Position<'_>) {
    for register in Register::ALL {
        if position.spilled & register.bit() != 0 {
            ucontext.set_register(register, thread.context.spilled(register));
        }
        if position.saved & register.bit() != 0 {
            ucontext.set_register(register, thread.context.register(register));
        }
    }
    if let Some(derived) = &position.derived {
        let registers = ucontext.general();
        // SAFETY: the context of this thread, which is stopped in the loop.
        unsafe { settle_derived(thread.context.0 as *mut u8, derived, &registers) };
    }
}

/// Counts what a repeated string instruction has done so far.
fn finish_string(thread: &Thread, ucontext: &UserContext) {
    let [rcx, rsi, rdi] = [Register::Rcx, Register::Rsi, Register::Rdi].map(|register| ucontext.register(register));
    let mut fs = 0u64;
    // SAFETY: a word for the answer.
    let _ = unsafe { call!(__NR_arch_prctl, arch::GET_FS, &raw mut fs) };
    let handler = &mut AccessHandler::new(thread, true);
    // SAFETY: the context of this thread, stopped in the string instruction that the context describes.
    unsafe { count::finish_string(thread.context.0 as *mut u8, &runtime().config, handler, rcx, rsi, rdi, fs) };
}

/// Programs that probe the processor set the flag for alignment checks, and a fragment whose code may change begins by
/// comparing that code, eight bytes at a time from any address. If that is what faulted, does the load in its place.
fn compares_code(ucontext: &mut UserContext, fragment: u64) -> bool {
    const FARTHEST: u64 = 1 << 12;
    let rip = ucontext.registers[R_RIP];
    // SAFETY: an instruction that was just executed, in an arena of ours.
    let code = unsafe { (rip as *const [u8; 8]).read() };
    let (length, bytes) = match code {
        [0x4c, 0x8b, 0x1d, ..] => (7, 8),
        [0x44, 0x8b, 0x1d, ..] => (7, 4),
        [0x44, 0x0f, 0xb7, 0x1d, ..] => (8, 2),
        _ => return false,
    };
    let [.., a, b, c, d] = code[..length] else { return false };
    let at = (rip + length as u64).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
    if at.wrapping_sub(fragment) >= FARTHEST {
        return false;
    }
    let mut value = [0u8; 8];
    for (number, byte) in value.iter_mut().enumerate().take(bytes) {
        // SAFETY: the fragment's own code, which the instruction was about to read.
        *byte = unsafe { ((at + number as u64) as *const u8).read() };
    }
    ucontext.set_register(Register::R11, u64::from_le_bytes(value));
    ucontext.registers[R_RIP] = rip + length as u64;
    true
}
