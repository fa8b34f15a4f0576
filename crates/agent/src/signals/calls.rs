//! What the program asks the kernel about signals. The kernel knows our handler only, so the agent keeps what the
//! program has asked for.

use super::held::{HELD_BITS, hold};
use super::kernel::install;
use super::numbers::{ALL_BUT_FAULTS, bit};
use super::state::{Action, AlternateStack, DISABLED, DISARM, ON_STACK, SIGNALS};
use crate::call;
use crate::state::thread::Thread;
use crate::sys::{self, raw};
use numalens_isa::Register;

/// The program's rt_sigaction.
pub fn action(thread: &Thread, signal: u64, new: u64, old: u64, size: u64) -> u64 {
    let invalid = errno(linux_raw_sys::errno::EINVAL);
    if size != 8 || signal == 0 || signal > SIGNALS as u64 {
        return invalid;
    }
    let signal = signal as u32;
    if new != 0 && matches!(signal, raw::SIGKILL | raw::SIGSTOP) {
        return invalid;
    }
    let wanted = match (new != 0).then(|| crate::sys::user::read::<Action>(new)).transpose() {
        Ok(wanted) => wanted,
        Err(error) => return errno(error.0 as u32),
    };
    let mut table = thread.signals.actions.table.lock();
    let was = table[signal as usize];
    if let Some(wanted) = wanted {
        let result = install(signal, &wanted);
        if sys::check(result).is_err() {
            return result;
        }
        table[signal as usize] = wanted;
    }
    drop(table);
    match (old != 0).then(|| crate::sys::user::write(old, &was)).transpose() {
        Ok(_) => 0,
        Err(error) => errno(error.0 as u32),
    }
}

/// The program's rt_sigprocmask. Some signals are never blocked in the kernel: [`super::held`].
pub fn mask(thread: &mut Thread, how: u64, new: u64, old: u64, size: u64) -> u64 {
    if size != 8 {
        return errno(linux_raw_sys::errno::EINVAL);
    }
    let wanted = match (new != 0).then(|| crate::sys::user::read::<u64>(new)).transpose() {
        Ok(wanted) => wanted,
        Err(error) => return errno(error.0 as u32),
    };
    // Nobody may come between reading and changing the mask.
    let mut was = 0u64;
    let everything = ALL_BUT_FAULTS;
    // SAFETY: masks of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const everything, &raw mut was, 8) };
    let current = thread.signals.pending.mask().map_or(was, |mask| *mask) | thread.signals.pending.blocked;
    let changed = match (wanted, how as u32) {
        (None, _) => Some(current),
        (Some(set), raw::SIG_BLOCK) => Some(current | set),
        (Some(set), raw::SIG_UNBLOCK) => Some(current & !set),
        (Some(set), raw::SIG_SETMASK) => Some(set),
        _ => None,
    };
    let next = changed.unwrap_or(current) & !HELD_BITS;
    hold(thread, changed.unwrap_or(current));
    // What waited has come by now, if it may: the handler has changed what `thread` leads to.
    let thread = core::hint::black_box(thread);
    let kept = thread.signals.pending.mask().is_some();
    if let Some(mask) = thread.signals.pending.mask() {
        *mask = next;
    }
    let in_force = if kept { everything } else { next };
    // SAFETY: as above.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const in_force, 0, 8) };
    let told = match (old != 0).then(|| crate::sys::user::write(old, &current)).transpose() {
        Ok(_) => 0,
        Err(error) => errno(error.0 as u32),
    };
    if changed.is_none() { errno(linux_raw_sys::errno::EINVAL) } else { told }
}

/// The program's rt_sigpending.
pub fn pending(thread: &Thread, set: u64, size: u64) -> u64 {
    // SAFETY: the program's own call.
    let result = unsafe { sys::for_program(raw::__NR_rt_sigpending, [set, size, 0, 0, 0, 0]) };
    match crate::sys::user::read::<u64>(set) {
        Ok(known) if result == 0 && thread.signals.pending.held.iter().any(Option::is_some) => {
            let held = thread.signals.pending.held.iter().flatten().fold(0, |all, held| all | bit(held.signal));
            crate::sys::user::write(set, &(known | held)).map_or(result, |()| 0)
        }
        _ => result,
    }
}

/// The program's sigaltstack.
pub fn alternate_stack(thread: &mut Thread, new: u64, old: u64) -> u64 {
    const SMALLEST: u64 = 2048;
    let stack = thread.context.register(Register::Rsp);
    let on_it = thread.signals.alternate.holds(stack);
    let was = seen(thread.signals.alternate, on_it);
    if new != 0 {
        let wanted: AlternateStack = match crate::sys::user::read(new) {
            Ok(wanted) => wanted,
            Err(error) => return errno(error.0 as u32),
        };
        if on_it {
            return errno(linux_raw_sys::errno::EPERM);
        }
        match wanted.flags & !DISARM {
            DISABLED => thread.signals.alternate = AlternateStack::NONE,
            0 | ON_STACK if wanted.bytes >= SMALLEST => {
                thread.signals.alternate = AlternateStack { flags: wanted.flags & DISARM, ..wanted };
            }
            0 | ON_STACK => return errno(linux_raw_sys::errno::ENOMEM),
            _ => return errno(linux_raw_sys::errno::EINVAL),
        }
    }
    match (old != 0).then(|| crate::sys::user::write(old, &was)).transpose() {
        Ok(_) => 0,
        Err(error) => errno(error.0 as u32),
    }
}

/// An alternate stack as the program is told about it.
pub(super) fn seen(stack: AlternateStack, on_it: bool) -> AlternateStack {
    AlternateStack { flags: if on_it { stack.flags | ON_STACK } else { stack.flags }, ..stack }
}

fn errno(number: u32) -> u64 {
    i64::from(number).wrapping_neg() as u64
}
