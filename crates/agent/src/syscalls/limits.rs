//! The program's limit of address space.
//!
//! The agent's tables are vast and almost empty, so the kernel's limit is lifted, and what the program believes to be in force
//! is kept here and enforced by the agent: it knows every mapping of the program's. Children inherit it with the process's header.

use super::EFAULT;
use crate::call;
use crate::runtime::Runtime;
use crate::user;
use core::sync::atomic::Ordering::Relaxed;

/// `RLIMIT_AS`.
pub const ADDRESS_SPACE: u64 = 9;
const INFINITY: u64 = u64::MAX;
const EPERM: u64 = (linux_raw_sys::errno::EPERM as i64).wrapping_neg() as u64;

/// getrlimit, setrlimit and prlimit of the process itself, of [`ADDRESS_SPACE`]. Returns the call's result.
pub fn exchange(runtime: &Runtime, new: u64, old: u64) -> u64 {
    let limit = &runtime.process().header().address_space;
    let was = limit.each_ref().map(|word| word.load(Relaxed));
    if new != 0 {
        let Ok([soft, hard]) = user::read::<[u64; 2]>(new) else { return EFAULT };
        if soft > hard {
            return super::EINVAL;
        }
        if hard > was[1] && !crate::sys::is_root() {
            return EPERM;
        }
        limit[0].store(soft, Relaxed);
        limit[1].store(hard, Relaxed);
    }
    if old != 0 && user::write(old, &was).is_err() {
        return EFAULT;
    }
    0
}

/// Whether `more` bytes would take the program, which has `mapped` of them, past its limit.
pub fn exceeded(runtime: &Runtime, mapped: impl FnOnce() -> u64, more: u64) -> bool {
    let soft = runtime.process().header().address_space[0].load(Relaxed);
    soft != INFINITY && mapped().saturating_add(more) > soft
}

/// Lets the kernel enforce the limit: for a program that will not be observed.
pub fn hand_over(runtime: &Runtime) {
    let limit = runtime.process().header().address_space.each_ref().map(|word| word.load(Relaxed));
    // SAFETY: two words of our own.
    let _ = unsafe { call!(__NR_setrlimit, ADDRESS_SPACE, &raw const limit) };
}
