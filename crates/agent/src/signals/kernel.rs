//! What the kernel knows of signals: that we handle them, on our stack, and its masks.

use super::held::HELD_BITS;
use super::numbers::{ALL_BUT_FAULTS, OURS, PASSED_ON, bit};
use super::state::{Action, Actions, AlternateStack, HELD};
use crate::call;
use crate::entry;
use crate::state::thread::Thread;
use crate::state::thread_context::{SIGNAL_STACK, SIGNAL_STACK_BYTES, ThreadContext};
use crate::sys::{self, raw};
use alloc::sync::Arc;

/// Prepares the calling thread: its signal stack, and the handlers of single steps and of writes to write-protected
/// pages.
pub fn begin_thread(thread: &mut Thread) {
    set_alternate_stack(thread.context);
    for signal in HELD {
        install(signal, &thread.signals.actions.get(signal));
    }
    let (held, mut was) = (HELD_BITS, 0u64);
    // SAFETY: masks of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_UNBLOCK, &raw const held, &raw mut was, 8) };
    thread.signals.pending.blocked = was & HELD_BITS;
}

pub(super) fn agents_stack(context: ThreadContext) -> AlternateStack {
    AlternateStack { base: context.0 + SIGNAL_STACK, flags: 0, padding: 0, bytes: SIGNAL_STACK_BYTES }
}

/// Makes the kernel use the agent's signal stack in this thread.
pub fn set_alternate_stack(context: ThreadContext) {
    let stack = agents_stack(context);
    // SAFETY: the stack belongs to this thread's context.
    let _ = unsafe { call!(__NR_sigaltstack, &raw const stack, 0) };
}

/// Tells the kernel what is to be done for a signal: itself, or call us.
pub(super) fn install(signal: u32, wanted: &Action) -> u64 {
    let kernel = if wanted.handler > 1 || HELD.contains(&signal) {
        let handler = entry::signal_entry as *const () as u64;
        let restorer = entry::signal_return as *const () as u64;
        Action { handler, flags: wanted.flags & PASSED_ON | OURS, restorer, mask: u64::MAX }
    } else {
        *wanted
    };
    // SAFETY: the structure is the kernel's; the handler is ours.
    unsafe { sys::syscall(raw::__NR_rt_sigaction, [u64::from(signal), &raw const kernel as u64, 0, 8, 0, 0]) }
}

/// Blocks all signals of the calling thread and returns the mask that was.
pub fn block_all() -> u64 {
    let (everything, mut was) = (ALL_BUT_FAULTS, 0u64);
    // SAFETY: masks of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const everything, &raw mut was, 8) };
    was
}

/// Sets the mask of the calling thread, or the one it will have when what waits is delivered.
pub fn set_mask(thread: &mut Thread, mask: u64) {
    if let Some(kept) = thread.signals.pending.mask() {
        *kept = mask;
        return;
    }
    // SAFETY: a mask of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const mask, 0, 8) };
}

/// Begins a new thread's life with signals: on the thread itself, all blocked until now.
pub fn open(thread: &mut Thread) {
    set_alternate_stack(thread.context);
    let mask = thread.signals.first_mask;
    set_mask(thread, mask);
}

/// The kernel has taken all handlers from the calling task, as at an exec: so does the program's table, and the agent
/// has its own again.
pub fn clear_handlers(thread: &Thread) {
    for action in thread.signals.actions.table.lock().iter_mut().filter(|action| action.handler > 1) {
        *action = Action::default();
    }
    for signal in HELD {
        install(signal, &thread.signals.actions.get(signal));
    }
}

/// Actions for a task that shares them, or has a copy.
pub fn inherit(actions: &Arc<Actions>, shared: bool) -> Arc<Actions> {
    if shared { actions.clone() } else { Arc::new(actions.copy()) }
}

/// Ends the process by a signal, as if nobody had handled it.
pub(super) fn die(signal: u32) -> ! {
    let default = Action::default();
    let unblocked = bit(signal);
    // SAFETY: structures of our own; the process ends here.
    unsafe {
        let _ = call!(__NR_rt_sigaction, signal, &raw const default, 0, 8);
        let _ = call!(__NR_tgkill, sys::process_id(), sys::thread_id(), signal);
        let _ = call!(__NR_rt_sigprocmask, raw::SIG_UNBLOCK, &raw const unblocked, 0, 8);
    }
    sys::exit_group(128 + signal as i32)
}

/// Ends the process by SIGKILL.
pub fn kill_process() -> ! {
    die(raw::SIGKILL)
}
