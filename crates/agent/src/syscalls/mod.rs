//! The program's system calls: what the agent must know of, do itself, or keep from the kernel.
//!
//! Most pass: they are executed in the code cache, where an interruption maps to the program's own address. What
//! changes memory is executed here, so that the agent's picture of it changes with it; none of those block.

mod descriptors;
mod exec;
mod limits;
mod memory;
mod old;
pub mod own_memory;
pub mod seccomp;
pub mod tasks;
pub mod written;

use crate::interposer;
use crate::machine;
use crate::pages::{in_call, is_virtual};
use crate::placement;
use crate::runtime::runtime;
use crate::signals;
use crate::smc;
use crate::sys::{self, raw};
use crate::thread::Thread;
use tasks::Task;
use written::written;

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

/// By which instruction the program makes a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// `syscall`.
    Syscall,
    /// `int 0x80`, with this number there.
    Old(u32),
}

impl Gate {
    /// Makes a call of the program's in its name; number and arguments are those of `syscall`.
    ///
    /// # Safety
    /// As the call itself.
    pub unsafe fn make(self, number: u32, arguments: [u64; 6]) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Gate::Syscall => sys::for_program(number, arguments),
                Gate::Old(number) => sys::for_program_by_old_rules(number, old::as_there(number, arguments)),
            }
        }
    }
}

/// A call that the program is about to make; number and arguments are those of `syscall`.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The address of the instruction.
    pub ip: u64,
    /// The address after it.
    pub next: u64,
    /// `__NR_*`.
    pub number: u32,
    /// As the number has them.
    pub arguments: [u64; 6],
    /// The instruction.
    pub gate: Gate,
}

/// The arguments of a system call, from the saved registers.
pub fn arguments(thread: &Thread) -> [u64; 6] {
    [7, 6, 2, 10, 8, 9].map(|register| thread.context.register(register))
}

const ENOSYS: u64 = (linux_raw_sys::errno::ENOSYS as i64).wrapping_neg() as u64;
const EINVAL: u64 = (linux_raw_sys::errno::EINVAL as i64).wrapping_neg() as u64;
const EFAULT: u64 = (linux_raw_sys::errno::EFAULT as i64).wrapping_neg() as u64;
const MAP_SHADOW_STACK: u32 = 453;
/// The `ARCH_SHSTK_*` calls: returns are jumps here.
const SHADOW_STACKS: core::ops::RangeInclusive<u64> = 0x5001..=0x5005;

/// The kernel's word for an error.
pub fn errno(number: u32) -> u64 {
    i64::from(number).wrapping_neg() as u64
}
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_GS: u64 = 0x1004;

/// Offsets in files are below this, addresses of mappings above.
const LEAST_CODE: u64 = 1 << 44;

/// Looks at the system call at `ip` before it is executed.
pub fn examine(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    let number = thread.context.register(0) as u32;
    let arguments = arguments(thread);
    if interposer::contains(ip) && interposer::makes(number) {
        // SAFETY: the library's own call, of those that change nothing of the program's.
        return Verdict::Done(unsafe { sys::syscall(number, arguments) });
    }
    if seccomp::forbids(thread.tid, number) {
        signals::kill_process();
    }
    examine_call(thread, &Call { ip, next, number, arguments, gate: Gate::Syscall })
}

/// Looks at the call by `int 0x80` at `ip` before it is executed.
pub fn examine_old(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    old::examine(thread, ip, next)
}

fn examine_call(thread: &mut Thread, call: &Call) -> Verdict {
    let &Call { ip, number, arguments, gate, .. } = call;
    let [a, b, c, d, ..] = arguments;
    let changes_memory = matches!(
        number,
        raw::__NR_mmap
            | raw::__NR_munmap
            | raw::__NR_mprotect
            | raw::__NR_pkey_mprotect
            | raw::__NR_mremap
            | raw::__NR_madvise
    );
    if !changes_memory {
        smc::make_way(number, &arguments);
    }
    if is_virtual()
        && let Some(verdict) = machine::examine(thread, number, arguments)
    {
        return verdict;
    }
    match number {
        // Programs that have neither do without: the C library falls back to slower code.
        raw::__NR_rseq | MAP_SHADOW_STACK => Verdict::Done(ENOSYS),
        // GS is the agent's.
        raw::__NR_arch_prctl if matches!(a, ARCH_SET_GS | ARCH_GET_GS) || SHADOW_STACKS.contains(&a) => {
            Verdict::Done(EINVAL)
        }
        raw::__NR_arch_prctl if a == ARCH_SET_FS => {
            // SAFETY: the program's own call.
            let result = unsafe { sys::for_program(number, arguments) };
            thread.context.log_fs_base(runtime().process());
            Verdict::Done(result)
        }
        raw::__NR_prctl => process_control(thread, arguments),
        raw::__NR_seccomp if matches!(a, 0 | 1) => Verdict::Done(match a {
            0 => seccomp::restrict(),
            _ => seccomp::install(c, |longer| {
                // SAFETY: the program's own call with a filter of ours that ends with the program's.
                unsafe { sys::for_program(number, [a, b, longer, 0, 0, 0]) }
            }),
        }),
        raw::__NR_getrlimit if a == limits::ADDRESS_SPACE => Verdict::Done(limits::exchange(runtime(), 0, b)),
        raw::__NR_setrlimit if a == limits::ADDRESS_SPACE => Verdict::Done(limits::exchange(runtime(), b, 0)),
        raw::__NR_prlimit64 if b == limits::ADDRESS_SPACE && (a as u32 == 0 || a as u32 == sys::process_id()) => {
            Verdict::Done(limits::exchange(runtime(), c, d))
        }
        raw::__NR_rt_sigaction => Verdict::Done(
            seccomp::judged(number, [0, 0, 0, 8, 0, 0]).unwrap_or_else(|| signals::action(thread, a, b, c, d)),
        ),
        raw::__NR_rt_sigprocmask => Verdict::Done(
            seccomp::judged(number, [0, 0, 0, 0, 0, 0]).unwrap_or_else(|| signals::mask(thread, a, b, c, d)),
        ),
        raw::__NR_rt_sigpending => Verdict::Done(signals::pending(thread, a, b)),
        raw::__NR_sigaltstack => Verdict::Done(signals::alternate_stack(thread, a, b)),
        raw::__NR_rt_sigreturn => signals::sigreturn(thread),
        raw::__NR_mlock | raw::__NR_mlock2 | raw::__NR_munlock | raw::__NR_remap_file_pages | own_memory::MSEAL
            if own_memory::names_own(a, b) =>
        {
            Verdict::Done(own_memory::refused("mlock", a, b))
        }
        raw::__NR_mlockall => Verdict::Done(in_call::around(thread, ip, written(number, arguments), |_| {
            (memory::lock_all(runtime(), number, a), None)
        })),
        raw::__NR_munlockall => Verdict::Done(memory::lock_all(runtime(), number, a)),
        raw::__NR_mmap
        | raw::__NR_munmap
        | raw::__NR_mprotect
        | raw::__NR_pkey_mprotect
        | raw::__NR_mremap
        | raw::__NR_brk
        | raw::__NR_madvise
        | raw::__NR_mbind
        | raw::__NR_shmat
        | raw::__NR_shmdt => Verdict::Done(change_memory(thread, call)),
        raw::__NR_pwrite64 if d >= LEAST_CODE => {
            memory::written_at(d, c);
            Verdict::Execute
        }
        raw::__NR_sched_setaffinity | raw::__NR_set_mempolicy => Verdict::Done(bind(thread, number, arguments)),
        // With nodes to go to, and for pages of this process.
        raw::__NR_move_pages | raw::__NR_migrate_pages
            if (a as u32 == 0 || a as u32 == sys::process_id()) && (number == raw::__NR_migrate_pages || d != 0) =>
        {
            Verdict::Done(memory::execute(thread, number, arguments, gate))
        }
        raw::__NR_clone => tasks::clone(thread, call, Task::of_clone(arguments)),
        raw::__NR_fork => tasks::clone(thread, call, Task::of_clone([raw::SIGCHLD.into(), 0, 0, 0, 0, 0])),
        raw::__NR_vfork => {
            let flags = raw::CLONE_VM | raw::CLONE_VFORK | raw::SIGCHLD;
            tasks::clone(thread, call, Task::of_clone([flags.into(), 0, 0, 0, 0, 0]))
        }
        raw::__NR_clone3 => tasks::clone3(thread, call),
        raw::__NR_execve => exec::execute(thread, ip, raw::AT_FDCWD, a, 0, number, arguments),
        raw::__NR_execveat => exec::execute(thread, ip, a as i32, b, arguments[4] as u32, number, arguments),
        raw::__NR_exit => tasks::exit_thread(thread, a),
        raw::__NR_exit_group => tasks::exit_process(thread, a),
        raw::__NR_close | raw::__NR_close_range | raw::__NR_dup2 | raw::__NR_dup3 | raw::__NR_fcntl => {
            descriptors::examine(runtime().session.descriptor, number, arguments)
        }
        _ => {
            if let Some(written) = written(number, arguments) {
                match gate {
                    Gate::Syscall => in_call::begin(thread, ip, written),
                    // Nobody looks behind it: what it places is nobody's.
                    Gate::Old(_) => written.ranges.all().iter().for_each(|range| {
                        runtime().shadow.written_by_kernel(range.start, range.end - range.start);
                    }),
                }
            }
            Verdict::Execute
        }
    }
}

/// A call that changes the memory map, and may bring pages in.
fn change_memory(thread: &mut Thread, call: &Call) -> u64 {
    let &Call { ip, number, arguments, gate, .. } = call;
    let before = written(number, arguments);
    in_call::around(thread, ip, before, |thread| {
        let heap_end = runtime().code.lock().env.heap_end;
        let result = memory::execute(thread, number, arguments, gate);
        (result, written::brought_in(number, arguments, result, heap_end))
    })
}

/// The program's prctl.
fn process_control(thread: &Thread, arguments: [u64; 6]) -> Verdict {
    use linux_raw_sys::prctl as names;
    let [what, value, third, ..] = arguments;
    match what as u32 {
        names::PR_SET_SECCOMP if value == seccomp::STRICT => Verdict::Done(seccomp::restrict()),
        names::PR_SET_SECCOMP if value == seccomp::FILTER => Verdict::Done(seccomp::install(third, |longer| {
            // SAFETY: the program's own call with a filter of ours that ends with the program's.
            unsafe { sys::for_program(raw::__NR_prctl, [what, value, longer, 0, 0, 0]) }
        })),
        names::PR_SET_NAME => {
            // SAFETY: the program's own call, which reads a name.
            let done = unsafe { sys::for_program(raw::__NR_prctl, arguments) };
            runtime().session.take_name(thread.first);
            Verdict::Done(done)
        }
        names::PR_SET_TSC => {
            sys::forget_clock();
            Verdict::Execute
        }
        _ => Verdict::Execute,
    }
}

/// Functions of the kernel's that are not translated: the page of calls at fixed addresses that programs of another age
/// use, which the kernel executes itself, and on a virtual machine the vdso's getcpu. If `ip` is one of them, does it
/// and returns where it returns to.
pub fn kernel_function(thread: &mut Thread, ip: u64) -> Option<u64> {
    let number = match ip.wrapping_sub(VSYSCALLS) {
        _ if runtime().code.lock().env.getcpu == Some(ip) => raw::__NR_getcpu,
        0 => raw::__NR_gettimeofday,
        0x400 => raw::__NR_time,
        0x800 => raw::__NR_getcpu,
        _ => return None,
    };
    runtime().code.lock().env.maps.find(ip)?;
    let context = thread.context;
    let stack = context.register(4);
    let after = crate::user::read::<u64>(stack).ok()?;
    let result = match number {
        raw::__NR_getcpu if is_virtual() => machine::getcpu(thread, arguments(thread)),
        // SAFETY: the program's own call with the program's own arguments.
        _ => unsafe { sys::for_program(number, arguments(thread)) },
    };
    context.set_register(0, result);
    context.set_register(4, stack + 8);
    Some(after)
}

const VSYSCALLS: u64 = 0xffff_ffff_ff60_0000;

/// The program's sched_setaffinity and set_mempolicy on a real machine.
fn bind(thread: &mut Thread, number: u32, arguments: [u64; 6]) -> u64 {
    // SAFETY: the program's own call with the program's own arguments; it does not block.
    let result = unsafe { sys::for_program(number, arguments) };
    let target = if number == raw::__NR_sched_setaffinity { arguments[0] as u32 } else { 0 };
    if sys::check(result).is_err() {
        return result;
    }
    if target == 0 || target == thread.tid {
        placement::changed(thread);
    } else {
        placement::notify(target);
    }
    result
}
