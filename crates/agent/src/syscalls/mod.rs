//! The program's system calls: what the agent must know of, do itself, or keep from the kernel.
//!
//! Most pass: they are executed in the code cache, where an interruption maps to the program's own address. What changes
//! memory is executed here, so that the agent's picture of it changes with it; none of those block.

mod descriptors;
mod memory;
pub mod tasks;

use crate::runtime::runtime;
use crate::signals;
use crate::sys::raw;
use crate::thread::Thread;

/// What becomes of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Execute it in the cache.
    Execute,
    /// It is done: the kernel's word for the result.
    Done(u64),
    /// Go on at this address in the cache.
    Continue(u64),
}

/// The arguments of a system call, from the saved registers.
pub fn arguments(thread: &Thread) -> [u64; 6] {
    [7, 6, 2, 10, 8, 9].map(|register| thread.area.register(register))
}

const ENOSYS: u64 = (linux_raw_sys::errno::ENOSYS as i64).wrapping_neg() as u64;
const EINVAL: u64 = (linux_raw_sys::errno::EINVAL as i64).wrapping_neg() as u64;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;

/// Looks at the system call at `ip` before it is executed.
pub fn examine(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    let area = thread.area;
    let number = area.register(0) as u32;
    let arguments = arguments(thread);
    let [a, b, c, d, ..] = arguments;
    match number {
        // Programs that register neither do without: the C library falls back to clone and to slower code.
        raw::__NR_rseq | raw::__NR_clone3 => Verdict::Done(ENOSYS),
        // GS is the agent's.
        raw::__NR_arch_prctl if matches!(a, ARCH_SET_GS | ARCH_GET_GS) => Verdict::Done(EINVAL),
        raw::__NR_rt_sigaction => Verdict::Done(signals::action(thread, a, b, c, d)),
        raw::__NR_rt_sigprocmask => Verdict::Done(signals::mask(thread, a, b, c, d)),
        raw::__NR_sigaltstack => Verdict::Done(signals::alternate_stack(thread, a, b)),
        raw::__NR_rt_sigreturn => signals::sigreturn(thread),
        raw::__NR_mmap
        | raw::__NR_munmap
        | raw::__NR_mprotect
        | raw::__NR_pkey_mprotect
        | raw::__NR_mremap
        | raw::__NR_brk
        | raw::__NR_madvise
        | raw::__NR_shmat
        | raw::__NR_shmdt => Verdict::Done(memory::execute(runtime(), number, arguments)),
        raw::__NR_clone => tasks::clone(thread, ip, next, arguments),
        raw::__NR_fork => tasks::clone(thread, ip, next, [u64::from(raw::SIGCHLD), 0, 0, 0, 0, 0]),
        raw::__NR_vfork => {
            let flags = raw::CLONE_VM | raw::CLONE_VFORK | raw::SIGCHLD;
            tasks::clone(thread, ip, next, [u64::from(flags), 0, 0, 0, 0, 0])
        }
        raw::__NR_execve => tasks::execute(thread, ip, raw::AT_FDCWD, a, 0, number, arguments),
        raw::__NR_execveat => tasks::execute(thread, ip, a as i32, b, arguments[4] as u32, number, arguments),
        raw::__NR_exit => tasks::exit_thread(thread, a),
        raw::__NR_exit_group => tasks::exit_process(thread, a),
        raw::__NR_close | raw::__NR_close_range | raw::__NR_dup2 | raw::__NR_dup3 | raw::__NR_fcntl => {
            descriptors::examine(runtime().session.descriptor, number, arguments)
        }
        _ => Verdict::Execute,
    }
}
