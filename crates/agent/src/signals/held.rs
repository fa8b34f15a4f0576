//! Signals that the agent itself cannot do without: they are never blocked in the kernel, and held back here while the
//! program has blocked them.

use super::frame::{R_FLAGS, SigInfo, UserContext};
use super::kept::requeue;
use super::numbers::{TRAP_FLAG, bit};
use super::state::{HELD, Kept};
use crate::call;
use crate::code::smc::Fault;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, raw};

/// [`HELD`] as a mask.
pub(super) const HELD_BITS: u64 = bit(HELD[0]) | bit(HELD[1]);

/// A signal that somebody has sent waits, if the program has blocked it. Whether it does.
pub(super) fn hold_back(thread: &mut Thread, signal: u32, info: &SigInfo) -> bool {
    let is_sent = info[1] as i32 <= 0;
    let place = HELD.iter().position(|&held| held == signal);
    let Some(place) = place.filter(|_| is_sent && thread.signals.pending.blocked & bit(signal) != 0) else {
        return false;
    };
    thread.signals.pending.held[place].get_or_insert(Kept { signal, info: *info });
    true
}

/// The program sets its mask to this: signals of [`HELD`] that it does not block any more come now.
pub(super) fn hold(thread: &mut Thread, mask: u64) {
    thread.signals.pending.blocked = mask & HELD_BITS;
    for place in 0..HELD.len() {
        if let Some(held) = thread.signals.pending.held[place].take_if(|held| mask & bit(held.signal) == 0) {
            requeue(thread, &held);
        }
    }
}

/// Has the kernel block what the program has blocked of the signals that it must not, or does so no more.
pub fn block_held(thread: &Thread, now: bool) {
    let (how, mask) = (if now { raw::SIG_BLOCK } else { raw::SIG_UNBLOCK }, thread.signals.pending.blocked);
    // SAFETY: a mask of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, how, &raw const mask, 0, 8) };
}

/// A fault at an address, by a thread in translated code: whether it is one of a write-protected page's. The thread
/// then makes one step.
pub(super) fn writes_to_protected(thread: &mut Thread, ucontext: &mut UserContext, address: u64) -> bool {
    let mut code = runtime().code.lock();
    match code.faulted(address) {
        Fault::NotOurs => return false,
        Fault::Again => {}
        Fault::Step(page) => {
            // An instruction that writes to two pages faults twice.
            match thread.signals.pending.writes_to.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(page),
                None => code.unprotect(&(page..page + sys::PAGE)),
            }
            ucontext.registers[R_FLAGS] |= TRAP_FLAG;
        }
    }
    true
}

/// The thread has made its step, or another signal has come before. Whether there was one to make.
pub(super) fn end_write(thread: &mut Thread) -> bool {
    let pages = core::mem::take(&mut thread.signals.pending.writes_to);
    if pages == [None; 2] {
        return false;
    }
    let mut code = runtime().code.lock();
    pages.into_iter().flatten().for_each(|page| code.written(page));
    true
}
