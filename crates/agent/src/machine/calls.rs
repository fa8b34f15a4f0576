//! Calls about the CPUs of threads.

use super::cpus::CpuSet;
use super::nodes::number_of;
use super::place::{Place, all_cpus};
use super::placement;
use crate::placement as places;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, Errno, raw};
use crate::syscalls::call::errno;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::errno::{EFAULT, EINVAL};
use numalens_event::exact::{MOST_CPUS, Placement};

/// The CPU that a thread is on, and the number of its node.
pub fn cpu_of(place: &Place, placement: &Placement) -> (u32, u32) {
    let (cpu, node) = place.current(placement, sys::cpu).unwrap_or((0, 0));
    (cpu, number_of(placement, node).unwrap_or(0))
}

/// The same as `rdpid` and `rdtscp` tell it on Linux: of a thread on several nodes, where it was when it was put there.
pub fn processor(place: &Place, placement: &Placement) -> u64 {
    let (cpu, node) = cpu_of(place, placement);
    u64::from(node << 12 | cpu)
}

/// getcpu.
pub fn getcpu(thread: &Thread, [cpu, node, ..]: [u64; 6]) -> u64 {
    let (on, of) = cpu_of(&thread.place, placement());
    let told = |to: u64, value: u32| to == 0 || user::write_bytes(to, &value.to_le_bytes()).is_ok();
    if told(cpu, on) && told(node, of) { 0 } else { errno(EFAULT) }
}

/// sched_getaffinity.
pub fn get_affinity(thread: &Thread, [tid, bytes, mask, ..]: [u64; 6]) -> u64 {
    let numbers = u64::from(placement().cpu_numbers.load(Relaxed));
    let bytes = u64::from(bytes as u32);
    if bytes * 8 < numbers || !bytes.is_multiple_of(8) {
        return errno(EINVAL);
    }
    let cpus = match target(thread, tid as u32) {
        Target::Itself => thread.place.cpus.clone(),
        Target::Known(extent) => places::wanted(&runtime().session, extent).0,
        Target::Stranger => all_cpus(placement()),
        Target::Nobody(error) => return error,
    };
    let words = bytes.min(numbers.next_multiple_of(64) / 8) as usize / 8;
    match user::write_words(mask, &cpus.0[..words]) {
        Ok(()) => words as u64 * 8,
        Err(Errno(error)) => errno(error as u32),
    }
}

/// sched_setaffinity.
pub fn set_affinity(thread: &mut Thread, [tid, bytes, mask, ..]: [u64; 6]) -> u64 {
    let mut wanted = CpuSet::EMPTY;
    let bytes = (bytes as u32 as usize).min(MOST_CPUS / 8);
    let mut named = [0u8; MOST_CPUS / 8];
    if user::read_bytes(mask, &mut named[..bytes]).is_err() {
        return errno(EFAULT);
    }
    for (word, eight) in wanted.0.iter_mut().zip(named.chunks_exact(8)) {
        *word = eight.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
    }
    let target = target(thread, tid as u32);
    if let Target::Nobody(error) = target {
        return error;
    }
    let cpus = wanted.intersection(&all_cpus(placement()));
    if cpus.is_empty() {
        return errno(EINVAL);
    }
    match target {
        Target::Itself => places::settle(thread, cpus, thread.place.policy),
        Target::Known(extent) => places::want(&runtime().session, tid as u32, extent, &cpus),
        // One that does not see this machine.
        Target::Stranger | Target::Nobody(_) => {}
    }
    0
}

/// Whom a call is about.
enum Target {
    Itself,
    /// Another thread of the recording.
    Known(numalens_event::exact::Extent),
    /// One that is not recorded.
    Stranger,
    /// There is none: the kernel's word.
    Nobody(u64),
}

fn target(thread: &Thread, tid: u32) -> Target {
    if tid == 0 || tid == thread.tid {
        return Target::Itself;
    }
    let mut mask = [0u64; MOST_CPUS / 64];
    // SAFETY: asks for a mask of our own.
    let asked = unsafe {
        sys::syscall(
            raw::__NR_sched_getaffinity,
            [u64::from(tid), MOST_CPUS as u64 / 8, mask.as_mut_ptr() as u64, 0, 0, 0],
        )
    };
    if sys::check(asked).is_err() {
        return Target::Nobody(asked);
    }
    runtime().session.thread_of(tid).map_or(Target::Stranger, Target::Known)
}
