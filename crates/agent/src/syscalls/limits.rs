//! The program's limit of address space.
//!
//! The agent's tables are vast and almost empty, so the kernel's limit is lifted, and what the program believes to be
//! in force is kept here and enforced by the agent: it knows every mapping of the program's. Children inherit it with
//! the process's header.

use super::call::{Call, EFAULT, EINVAL, Verdict, errno};
use crate::call;
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread::Thread;
use crate::sys;
use crate::sys::user;
use core::sync::atomic::Ordering::Relaxed;

/// `RLIMIT_AS`.
pub const ADDRESS_SPACE: u64 = 9;
const INFINITY: u64 = u64::MAX;
const EPERM: u64 = errno(linux_raw_sys::errno::EPERM);

/// The program's getrlimit.
pub fn get(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [limit, old, ..] = call.arguments;
    (limit == ADDRESS_SPACE).then(|| Verdict::Done(exchange(runtime(), 0, old)))
}

/// The program's setrlimit.
pub fn set(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [limit, new, ..] = call.arguments;
    (limit == ADDRESS_SPACE).then(|| Verdict::Done(exchange(runtime(), new, 0)))
}

/// The program's prlimit, of itself.
pub fn get_and_set(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [pid, limit, new, old, ..] = call.arguments;
    let is_own = pid as u32 == 0 || pid as u32 == sys::process_id();
    (limit == ADDRESS_SPACE && is_own).then(|| Verdict::Done(exchange(runtime(), new, old)))
}

/// getrlimit, setrlimit and prlimit of the process itself, of [`ADDRESS_SPACE`]. Returns the call's result.
pub fn exchange(runtime: &Runtime, new: u64, old: u64) -> u64 {
    let limit = &runtime.process().header().address_space;
    let was = limit.each_ref().map(|word| word.load(Relaxed));
    if new != 0 {
        let Ok([soft, hard]) = user::read::<[u64; 2]>(new) else { return EFAULT };
        if soft > hard {
            return EINVAL;
        }
        if hard > was[1] && !sys::is_root() {
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
