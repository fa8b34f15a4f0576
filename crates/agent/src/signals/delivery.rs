//! How a signal is delivered: the program's handler begins, and the way back from it.

use super::Resume;
use super::calls::seen;
use super::frame::{CONTEXT_BYTES, FRAME_BYTES, R_FLAGS, R_RIP, SigInfo, UserContext};
use super::held::{HELD_BITS, hold};
use super::kept::requeue;
use super::kernel::{agents_stack, block_all, install};
use super::numbers::{
    ALL_BUT_FAULTS, CLEARED_FLAGS, RED_ZONE, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SIGSEGV, SIGSYS, SYS_SECCOMP,
    TRAP_FLAG, bit, is_fault,
};
use super::state::{Action, AlternateStack, DISABLED, DISARM, Kept, ON_STACK};
use crate::call;
use crate::entry;
use crate::state::own;
use crate::state::thread::Thread;
use crate::state::thread_context::SIGNAL_STACK;
use numalens_isa::convention::function::{ARGUMENTS, RESULT, STACK_POINTER};

/// Delivers what was kept to the thread, which stands at `ip` of the program.
pub(super) fn deliver_kept(thread: &mut Thread, ucontext: &mut UserContext, ip: u64) -> Resume {
    ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
    let kept = core::mem::take(&mut thread.signals.pending.kept);
    let mask = thread.signals.pending.mask;
    thread.context.set(own::PENDING, 0);
    let mut signals = kept.into_iter().flatten();
    let first = signals.next();
    // The others come again, when the mask of the first one's handler lets them.
    signals.for_each(|other| requeue(thread, &other));
    match first {
        Some(mut first) => {
            if first.signal == SIGSYS && first.info[1] as i32 == SYS_SECCOMP {
                first.info[2] = ip;
            }
            deliver(thread, ucontext, ip, &first, mask)
        }
        None => {
            ucontext.mask = mask;
            Resume::At(ip)
        }
    }
}

/// Lets the thread, which stands at `ip` of the program with the registers of `ucontext` and `mask`, begin the
/// program's handler when our own returns.
pub(super) fn deliver(thread: &mut Thread, ucontext: &mut UserContext, ip: u64, kept: &Kept, mask: u64) -> Resume {
    let signal = kept.signal;
    let action = thread.signals.actions.get(signal);
    ucontext.mask = mask;
    let fault = is_fault(signal, kept.info[1] as i32);
    // The kernel does not deliver a fault that is blocked: it ends the process.
    let forced = fault && signal == SIGSEGV && thread.signals.pending.blocked & bit(signal) != 0;
    if action.handler <= 1 || forced {
        // What has no handler is the kernel's to do: it may have had one when the signal came. A fault that is ignored
        // kills.
        if action.handler == 0 || fault {
            // If it does not end the process (it stops it, or is ignored by default), the program goes on where it was.
            install_default(kept.signal);
            requeue(thread, kept);
        }
        return Resume::At(ip);
    }
    ucontext.registers[R_RIP] = ip;
    let stack = ucontext.register(STACK_POINTER);
    let on_it = thread.signals.alternate.holds(stack);
    let switch = action.flags & SA_ONSTACK != 0 && thread.signals.alternate.flags & DISABLED == 0 && !on_it;
    let top = if switch { thread.signals.alternate.base + thread.signals.alternate.bytes } else { stack - RED_ZONE };
    // SAFETY: the kernel's own frame.
    let vector_bytes = unsafe { ucontext.vector_bytes() };
    let vector_at = (top - vector_bytes) & !63;
    let frame = ((vector_at - FRAME_BYTES) & !15) - 8;
    let copy = UserContext {
        stack: seen(thread.signals.alternate, on_it),
        vector_state: if vector_bytes == 0 { 0 } else { vector_at },
        mask: mask | thread.signals.pending.blocked,
        ..*ucontext
    };
    // SAFETY: the program's stack, where the kernel would have written. If it cannot be written, this faults with the
    // signal blocked and the kernel ends the program with SIGSEGV, as it would have done itself.
    unsafe {
        core::ptr::copy_nonoverlapping(ucontext.vector_state as *const u8, vector_at as *mut u8, vector_bytes as usize);
        (frame as *mut u64).write(action.restorer);
        ((frame + 8) as *mut UserContext).write(copy);
        ((frame + 8 + CONTEXT_BYTES) as *mut SigInfo).write(kept.info);
    }
    if thread.signals.alternate.flags & DISARM != 0 && switch {
        thread.signals.alternate = AlternateStack::NONE;
    }
    if action.flags & SA_RESETHAND != 0 {
        install(signal, &Action::default());
        thread.signals.actions.table.lock()[signal as usize].handler = 0;
    }
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { bit(signal) };
    thread.signals.pending.blocked |= (action.mask | own) & HELD_BITS;
    ucontext.mask = (mask | action.mask | own) & !HELD_BITS;
    ucontext.vector_state = 0;
    ucontext.set_register(STACK_POINTER, frame);
    ucontext.registers[R_FLAGS] &= !CLEARED_FLAGS;
    // No vector registers hold arguments of the handler, which takes the signal, its siginfo and its ucontext.
    ucontext.set_register(RESULT, 0);
    ucontext.set_register(ARGUMENTS[0], u64::from(signal));
    ucontext.set_register(ARGUMENTS[1], frame + 8 + CONTEXT_BYTES);
    ucontext.set_register(ARGUMENTS[2], frame + 8);
    Resume::InHandler(action.handler)
}

/// The handler that was to begin is no code, and faults when it is entered: that fault is kept with the mask of the
/// handler.
pub fn handler_is_no_code(thread: &mut Thread, ucontext: &mut UserContext) {
    thread.signals.pending.mask = ucontext.mask;
    ucontext.mask = ALL_BUT_FAULTS;
}

/// A signal's action is the default: the kernel's, which ends the process in most cases.
fn install_default(signal: u32) {
    let default = Action::default();
    // SAFETY: a structure of our own.
    let _ = unsafe { call!(__NR_rt_sigaction, signal, &raw const default, 0, 8) };
}

/// The frame that the program returns with, at its stack pointer.
fn frame_of(thread: &Thread) -> UserContext {
    // SAFETY: if it is not there, the kernel would have killed the program with SIGSEGV, and so does this fault.
    unsafe { (thread.context.register(STACK_POINTER) as *const UserContext).read() }
}

/// The program's rt_sigreturn. Returns where the program goes on, as its frame says; [`return_to`] takes it there.
pub fn sigreturn(thread: &mut Thread) -> u64 {
    block_all();
    let frame = frame_of(thread);
    let stack = AlternateStack { flags: frame.stack.flags & !ON_STACK, ..frame.stack };
    if matches!(stack.flags & !DISARM, 0 | DISABLED) {
        thread.signals.alternate = stack;
    }
    hold(thread, frame.mask);
    frame.registers[R_RIP]
}

/// Ends [`sigreturn`]: the thread goes on at `entry` of the cache, with all else as the frame says.
pub fn return_to(thread: &mut Thread, entry: u64) -> ! {
    let context = thread.context;
    let frame = frame_of(thread);
    // SAFETY: the frame that the program returns with.
    let vector_bytes = unsafe { frame.vector_bytes() };
    // The copy stands low on the signal stack, which nobody uses now.
    let vector_at = (context.0 + SIGNAL_STACK + 64) & !63;
    let copy_at = (vector_at + vector_bytes).next_multiple_of(64) + 8;
    let mut copy = UserContext { stack: agents_stack(context), ..frame };
    copy.mask &= !HELD_BITS;
    if vector_bytes != 0 {
        copy.vector_state = vector_at;
    }
    let thread = core::hint::black_box(thread);
    let trap = entry::deliver_trap as *const () as u64;
    copy.registers[R_RIP] = entry;
    if thread.signals.pending.mask().is_some() {
        // Signals came before all were blocked: they are delivered where the program goes on.
        if entry != trap {
            context.set(own::DELIVER_AT, entry);
        }
        thread.signals.pending.mask = copy.mask;
        copy.mask = ALL_BUT_FAULTS;
        copy.registers[R_RIP] = trap;
    }
    // SAFETY: the signal stack of this thread has room for the copy; the kernel reads it at once.
    unsafe {
        core::ptr::copy_nonoverlapping(frame.vector_state as *const u8, vector_at as *mut u8, vector_bytes as usize);
        (copy_at as *mut UserContext).write(copy);
        entry::sigreturn(copy_at)
    }
}
