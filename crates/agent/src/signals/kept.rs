//! Signals that wait until they can be delivered.

use super::arrival::Signal;
use super::frame::{R_FLAGS, SIGINFO_WORDS, SigInfo, UserContext};
use super::kernel::block_all;
use super::numbers::{ALL_BUT_FAULTS, SI_KERNEL, SIGSEGV, TRAP_FLAG};
use super::state::Kept;
use crate::call;
use crate::entry;
use crate::state::own;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;

/// The program's instruction at `ip` has accessed `at`, where it must not; of a jump to where no code is, it is the
/// code. Returns where to go on.
pub fn bad_access(thread: &mut Thread, ip: u64, at: u64) -> u64 {
    let was = block_all();
    let mapped = runtime().code.lock().env.maps.find(at).is_some();
    let mut info: SigInfo = [0; SIGINFO_WORDS];
    // No address at all: the processor does not say which.
    let is_canonical = (at as i64) << 16 >> 16 == at as i64;
    let code: u64 = match (is_canonical, mapped) {
        (false, _) => SI_KERNEL as u64,
        (true, true) => 2,
        (true, false) => 1,
    };
    info[0] = u64::from(SIGSEGV);
    info[1] = code;
    info[2] = if is_canonical { at } else { 0 };
    keep(thread, SIGSEGV, info, was);
    thread.signals.pending.at = Some(ip);
    entry::deliver_trap as *const () as u64
}

pub(super) fn keep(thread: &mut Thread, signal: u32, info: SigInfo, mask: u64) {
    let kept = Kept { signal, info };
    if thread.signals.pending.kept[0].is_none() {
        thread.signals.pending.mask = mask;
    }
    match thread.signals.pending.kept.iter_mut().find(|place| place.is_none()) {
        Some(place) => *place = Some(kept),
        None => requeue(thread, &kept),
    }
    thread.context.set(own::PENDING, 1);
}

/// Gives a signal back to the kernel: it comes again when the mask lets it.
pub(super) fn requeue(thread: &Thread, kept: &Kept) {
    let (pid, tid) = (sys::process_id(), thread.tid);
    // SAFETY: a siginfo of our own.
    let _ = unsafe { call!(__NR_rt_tgsigqueueinfo, pid, tid, kept.signal, &raw const kept.info) };
}

/// Keeps a signal until the thread is where it can be delivered, one instruction after the other.
pub(super) fn step_on(thread: &mut Thread, signal: &Signal<'_>, ucontext: &mut UserContext) {
    if !signal.stepped {
        keep(thread, signal.number, *signal.info, ucontext.mask);
    }
    ucontext.registers[R_FLAGS] |= TRAP_FLAG;
    ucontext.mask = ALL_BUT_FAULTS;
}

/// What a child of a fork must forget: signals of its parent. The mask stays.
pub fn forget(thread: &mut Thread) {
    thread.signals.pending = thread.signals.pending.inherited();
    thread.context.set(own::PENDING, 0);
}
