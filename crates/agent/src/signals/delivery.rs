//! How a signal is delivered: the program's handler begins, and the way back from it.

use super::calls::seen;
use super::frame::{CONTEXT_BYTES, FRAME_BYTES, R_FLAGS, R_RIP, R_RSP, SigInfo, UserContext};
use super::held::{HELD_BITS, hold};
use super::{
    ALL_BUT_FAULTS, Action, CLEARED_FLAGS, Kept, RED_ZONE, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SIGSEGV, SIGSYS,
    SYS_SECCOMP, TRAP_FLAG, agents_stack, bit, block_all, install, is_fault, requeue,
};
use crate::call;
use crate::entry;
use crate::runtime;
use crate::thread::{AlternateStack, DISABLED, DISARM, ON_STACK, Thread};
use crate::thread_context::{SIGNAL_STACK, own};

/// Delivers what was kept to the thread, which stands at `ip` of the program.
pub(super) fn deliver_kept(thread: &mut Thread, ucontext: &mut UserContext, ip: u64) {
    ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
    let kept = core::mem::take(&mut thread.pending.kept);
    let mask = thread.pending.mask;
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
            deliver(thread, ucontext, ip, &first, mask);
        }
        None => {
            ucontext.registers[R_RIP] = runtime::enter(thread, ip);
            ucontext.mask = mask;
        }
    }
}

/// Lets the thread, which stands at `ip` of the program with the registers of `ucontext` and `mask`, begin the
/// program's handler when our own returns.
pub(super) fn deliver(thread: &mut Thread, ucontext: &mut UserContext, ip: u64, kept: &Kept, mask: u64) {
    let signal = kept.signal;
    let action = thread.actions.get(signal);
    ucontext.mask = mask;
    let fault = is_fault(signal, kept.info[1] as i32);
    // The kernel does not deliver a fault that is blocked: it ends the process.
    let forced = fault && signal == SIGSEGV && thread.pending.blocked & bit(signal) != 0;
    if action.handler <= 1 || forced {
        // What has no handler is the kernel's to do: it may have had one when the signal came. A fault that is ignored
        // kills.
        if action.handler == 0 || fault {
            ucontext.registers[R_RIP] = ip;
            die_as_the_program(thread, ucontext, kept);
        }
        ucontext.registers[R_RIP] = runtime::enter(thread, ip);
        return;
    }
    ucontext.registers[R_RIP] = ip;
    let stack = ucontext.registers[R_RSP];
    let on_it = thread.alternate.holds(stack);
    let switch = action.flags & SA_ONSTACK != 0 && thread.alternate.flags & DISABLED == 0 && !on_it;
    let top = if switch { thread.alternate.base + thread.alternate.bytes } else { stack - RED_ZONE };
    // SAFETY: the kernel's own frame.
    let vector_bytes = unsafe { ucontext.vector_bytes() };
    let vector_at = (top - vector_bytes) & !63;
    let frame = ((vector_at - FRAME_BYTES) & !15) - 8;
    let copy = UserContext {
        stack: seen(thread.alternate, on_it),
        vector_state: if vector_bytes == 0 { 0 } else { vector_at },
        mask: mask | thread.pending.blocked,
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
    if thread.alternate.flags & DISARM != 0 && switch {
        thread.alternate = AlternateStack::NONE;
    }
    if action.flags & SA_RESETHAND != 0 {
        install(signal, &Action::default());
        thread.actions.table.lock()[signal as usize].handler = 0;
    }
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { bit(signal) };
    thread.pending.blocked |= (action.mask | own) & HELD_BITS;
    ucontext.mask = (mask | action.mask | own) & !HELD_BITS;
    ucontext.vector_state = 0;
    ucontext.registers[R_RSP] = frame;
    ucontext.registers[R_FLAGS] &= !CLEARED_FLAGS;
    ucontext.set_register(0, 0);
    ucontext.set_register(7, u64::from(signal));
    ucontext.set_register(6, frame + 8 + CONTEXT_BYTES);
    ucontext.set_register(2, frame + 8);
    enter_handler(thread, ucontext, action.handler);
}

fn enter_handler(thread: &mut Thread, ucontext: &mut UserContext, handler: u64) {
    // A handler that is no code faults when it is entered: keep that fault with the mask of the handler.
    let entry = runtime::enter(thread, handler);
    if entry == entry::deliver_trap as *const () as u64 {
        thread.pending.mask = ucontext.mask;
        ucontext.mask = ALL_BUT_FAULTS;
    }
    ucontext.registers[R_RIP] = entry;
}

/// A signal whose action is the default: the kernel's, which ends the process in most cases.
fn die_as_the_program(thread: &mut Thread, ucontext: &mut UserContext, kept: &Kept) {
    install_default(kept.signal);
    requeue(thread, kept);
    // If it does not end the process (it stops it, or is ignored by default), the program goes on where it was.
    let ip = ucontext.registers[R_RIP];
    ucontext.registers[R_RIP] = runtime::enter(thread, ip);
}

fn install_default(signal: u32) {
    let default = Action::default();
    // SAFETY: a structure of our own.
    let _ = unsafe { call!(__NR_rt_sigaction, signal, &raw const default, 0, 8) };
}

/// The program's rt_sigreturn: goes on where its frame says.
pub fn sigreturn(thread: &mut Thread) -> ! {
    block_all();
    let context = thread.context;
    let at = context.register(4);
    // SAFETY: the frame that the program returns with, at its stack pointer. If it is not there, the kernel would have
    // killed the program with SIGSEGV, and so does this fault.
    let frame = unsafe { (at as *const UserContext).read() };
    // SAFETY: as above.
    let vector_bytes = unsafe { frame.vector_bytes() };
    let stack = AlternateStack { flags: frame.stack.flags & !ON_STACK, ..frame.stack };
    if matches!(stack.flags & !DISARM, 0 | DISABLED) {
        thread.alternate = stack;
    }
    // The copy stands low on the signal stack, which nobody uses now.
    let vector_at = (context.0 + SIGNAL_STACK + 64) & !63;
    let copy_at = (vector_at + vector_bytes).next_multiple_of(64) + 8;
    let mut copy = UserContext { stack: agents_stack(context), ..frame };
    hold(thread, frame.mask);
    let thread = core::hint::black_box(thread);
    copy.mask &= !HELD_BITS;
    if vector_bytes != 0 {
        copy.vector_state = vector_at;
    }
    let target = frame.registers[R_RIP];
    let entry = runtime::enter(thread, target);
    let trap = entry::deliver_trap as *const () as u64;
    copy.registers[R_RIP] = entry;
    if thread.pending.mask().is_some() {
        // Signals came before all were blocked: they are delivered where the program goes on.
        if entry != trap {
            context.set(own::DELIVER_AT, entry);
        }
        thread.pending.mask = copy.mask;
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
