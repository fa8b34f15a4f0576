//! The rows. `docs/reference/system-calls.md` is made from them.

use super::{Answer, NO_CALL, Row, Subject};
use crate::machine::{calls, files, memory as machine_memory, moves, policies};
use crate::signals;
use crate::state::runtime::runtime;
use crate::sys::raw;
use crate::syscalls::call::{ENOSYS, Verdict};
use crate::syscalls::memory::{advice, area, heap, lock, policy, remap, segment};
use crate::syscalls::written::{self, Writes};
use crate::syscalls::{affinity, control, descriptors, exec, limits, memory, old_numbers, tasks};
use Subject::{Content, Control, Descriptors, Memory, Other, Paths, Placement, Signals, Tasks};
use numalens_event::exact::by;

/// Takes a path that exists, relative to the working folder, as its first argument.
const PATH: Answer = |thread, call| files::lead(thread, call, None, 0);
/// Takes a folder's descriptor and a path.
const PATH_AT: Answer = |thread, call| files::lead(thread, call, Some(0), 1);

const fn row(subject: Subject, name: &'static str, number: u32) -> Row {
    Row::new(subject, name, number)
}

/// Fills the buffer that its second and third argument are.
const fn fills(by: u32) -> Writes {
    Writes::Buffer { by, at: 1, bytes: 2 }
}

/// Fills the vector of buffers that its second and third argument are.
const fn scatters(by: u32) -> Writes {
    Writes::Vector { by, list: 1, count: 2 }
}

/// All rows. The first stands for calls that nobody looks at.
pub static ROWS: &[Row] = &[
    row(Other, "", NO_CALL),
    row(Memory, "mmap", raw::__NR_mmap)
        .old(&[old_numbers::MMAP2])
        .changes(&area::Map)
        .writes(Writes::Other(written::of_mmap))
        .library(),
    row(Memory, "munmap", raw::__NR_munmap).old(&[91]).changes(&area::Unmap).library(),
    row(Memory, "mprotect", raw::__NR_mprotect).old(&[125]).changes(&area::Protect).library(),
    row(Memory, "pkey_mprotect", raw::__NR_pkey_mprotect).old(&[380]).changes(&area::Protect),
    row(Memory, "mremap", raw::__NR_mremap).old(&[163]).changes(&remap::Remap),
    row(Memory, "brk", raw::__NR_brk).old(&[45]).changes(&heap::Brk),
    row(Memory, "madvise", raw::__NR_madvise)
        .old(&[219])
        .changes(&advice::Advise)
        .writes(Writes::Other(written::of_madvise))
        .library(),
    row(Memory, "shmat", raw::__NR_shmat).old(&[old_numbers::SHMAT]).changes(&segment::Attach),
    row(Memory, "shmdt", raw::__NR_shmdt).old(&[old_numbers::SHMDT]).changes(&segment::Detach),
    row(Memory, "mlock", raw::__NR_mlock).handled(lock::guard).writes(Writes::Other(written::of_mlock)),
    row(Memory, "mlock2", raw::__NR_mlock2).handled(lock::guard).writes(Writes::Other(written::of_mlock2)),
    row(Memory, "munlock", raw::__NR_munlock).handled(lock::guard),
    row(Memory, "remap_file_pages", raw::__NR_remap_file_pages).handled(lock::guard),
    row(Memory, "mseal", raw::__NR_mseal).handled(lock::guard),
    row(Memory, "mlockall", raw::__NR_mlockall)
        .old(&[152])
        .handled(lock::lock_all)
        .writes(Writes::Other(written::of_mlockall)),
    row(Memory, "munlockall", raw::__NR_munlockall).old(&[153]).handled(lock::unlock_all),
    // Programs that have neither do without: the C library falls back to slower code.
    row(Memory, "map_shadow_stack", raw::__NR_map_shadow_stack).handled(|_, _| Some(Verdict::Done(ENOSYS))),
    row(Placement, "rseq", raw::__NR_rseq).old(&[386]).handled(|_, _| Some(Verdict::Done(ENOSYS))),
    row(Placement, "mbind", raw::__NR_mbind)
        .old(&[274])
        .changes(&policy::Bind)
        .answered(|thread, call| Some(policies::bind(runtime(), thread, call.arguments))),
    row(Placement, "set_mempolicy", raw::__NR_set_mempolicy)
        .old(&[276])
        .handled(affinity::bind)
        .answered(|thread, call| Some(policies::set(thread, call.arguments))),
    row(Placement, "get_mempolicy", raw::__NR_get_mempolicy)
        .old(&[275])
        .answered(|thread, call| Some(policies::get(runtime(), thread, call.arguments))),
    row(Placement, "set_mempolicy_home_node", raw::__NR_set_mempolicy_home_node)
        .answered(|_, call| Some(policies::set_home_node(runtime(), call.arguments))),
    row(Placement, "move_pages", raw::__NR_move_pages)
        .handled(policy::move_pages)
        .answered(|thread, call| Some(moves::move_pages(runtime(), thread, call.arguments))),
    row(Placement, "migrate_pages", raw::__NR_migrate_pages)
        .old(&[294])
        .handled(policy::migrate_pages)
        .answered(|thread, call| Some(moves::migrate_pages(runtime(), thread, call.arguments))),
    row(Placement, "sched_setaffinity", raw::__NR_sched_setaffinity)
        .old(&[241])
        .handled(affinity::bind)
        .answered(|thread, call| Some(calls::set_affinity(thread, call.arguments))),
    row(Placement, "sched_getaffinity", raw::__NR_sched_getaffinity)
        .old(&[242])
        .answered(|thread, call| Some(calls::get_affinity(thread, call.arguments)))
        .library(),
    row(Placement, "getcpu", raw::__NR_getcpu)
        .old(&[318])
        .answered(|thread, call| Some(calls::getcpu(thread, call.arguments))),
    row(Placement, "sysinfo", raw::__NR_sysinfo).answered(|_, call| machine_memory::sysinfo(call.arguments)),
    row(Tasks, "clone", raw::__NR_clone).handled(tasks::clone),
    row(Tasks, "clone3", raw::__NR_clone3).handled(tasks::clone3).probe([0; 6]),
    row(Tasks, "fork", raw::__NR_fork).old(&[2]).handled(tasks::fork),
    row(Tasks, "vfork", raw::__NR_vfork).old(&[190]).handled(tasks::vfork),
    row(Tasks, "execve", raw::__NR_execve).handled(exec::execve),
    row(Tasks, "execveat", raw::__NR_execveat).handled(exec::execveat),
    row(Tasks, "exit", raw::__NR_exit)
        .old(&[1])
        .handled(|thread, call| tasks::exit_thread(thread, call.arguments[0]))
        .strict(),
    row(Tasks, "exit_group", raw::__NR_exit_group)
        .old(&[252])
        .handled(|thread, call| tasks::exit_process(thread, call.arguments[0])),
    row(Signals, "rt_sigaction", raw::__NR_rt_sigaction).handled(control::action).probe([0, 0, 0, 8, 0, 0]),
    row(Signals, "rt_sigprocmask", raw::__NR_rt_sigprocmask).old(&[175]).handled(control::mask).probe([0; 6]),
    row(Signals, "rt_sigpending", raw::__NR_rt_sigpending).old(&[176]).handled(control::pending),
    row(Signals, "sigaltstack", raw::__NR_sigaltstack).handled(control::alternate_stack),
    row(Signals, "rt_sigreturn", raw::__NR_rt_sigreturn)
        .handled(|thread, _| Some(Verdict::ReturnFromSignal(signals::sigreturn(thread))))
        .strict(),
    row(Control, "prctl", raw::__NR_prctl).old(&[old_numbers::PRCTL]).handled(control::process).library(),
    row(Control, "arch_prctl", raw::__NR_arch_prctl).handled(control::processor).answered(control::cpuid_faults),
    row(Control, "seccomp", raw::__NR_seccomp).old(&[old_numbers::SECCOMP]).handled(control::seccomp),
    row(Control, "getrlimit", raw::__NR_getrlimit).handled(limits::get).library(),
    row(Control, "setrlimit", raw::__NR_setrlimit).handled(limits::set),
    row(Control, "prlimit64", raw::__NR_prlimit64).old(&[340]).handled(limits::get_and_set),
    row(Descriptors, "close", raw::__NR_close).old(&[6]).handled(descriptors::guard).library(),
    row(Descriptors, "close_range", raw::__NR_close_range).handled(descriptors::guard),
    row(Descriptors, "dup2", raw::__NR_dup2).old(&[63]).handled(descriptors::guard),
    row(Descriptors, "dup3", raw::__NR_dup3).old(&[330]).handled(descriptors::guard),
    row(Descriptors, "fcntl", raw::__NR_fcntl).old(&[55, 221]).handled(descriptors::guard),
    row(Paths, "open", raw::__NR_open).old(&[5]).answered(PATH).library(),
    row(Paths, "stat", raw::__NR_stat).answered(PATH),
    row(Paths, "lstat", raw::__NR_lstat).answered(PATH),
    row(Paths, "access", raw::__NR_access).old(&[33]).answered(PATH),
    row(Paths, "readlink", raw::__NR_readlink).old(&[85]).answered(PATH),
    row(Paths, "statfs", raw::__NR_statfs).answered(PATH),
    row(Paths, "getxattr", raw::__NR_getxattr).old(&[229]).answered(PATH),
    row(Paths, "lgetxattr", raw::__NR_lgetxattr).old(&[230]).answered(PATH),
    row(Paths, "listxattr", raw::__NR_listxattr).old(&[232]).answered(PATH),
    row(Paths, "llistxattr", raw::__NR_llistxattr).old(&[233]).answered(PATH),
    row(Paths, "openat", raw::__NR_openat).old(&[295]).answered(PATH_AT),
    row(Paths, "openat2", raw::__NR_openat2).answered(PATH_AT),
    row(Paths, "newfstatat", raw::__NR_newfstatat).answered(PATH_AT),
    row(Paths, "statx", raw::__NR_statx).old(&[383]).answered(PATH_AT),
    row(Paths, "faccessat", raw::__NR_faccessat).old(&[307]).answered(PATH_AT),
    row(Paths, "faccessat2", raw::__NR_faccessat2).answered(PATH_AT),
    row(Paths, "readlinkat", raw::__NR_readlinkat).old(&[305]).answered(PATH_AT),
    row(Paths, "chdir", raw::__NR_chdir).old(&[12]).answered(|thread, call| files::move_to(thread, call, PATH)),
    row(Paths, "fchdir", raw::__NR_fchdir)
        .old(&[133])
        .answered(|thread, call| files::move_to(thread, call, |_, _| None)),
    row(Paths, "getcwd", raw::__NR_getcwd).old(&[183]).answered(files::name_of_working_folder),
    row(Content, "read", raw::__NR_read).old(&[3]).writes(fills(by::READ)).strict().library(),
    row(Content, "pread64", raw::__NR_pread64).old(&[180]).writes(fills(by::PREAD)),
    row(Content, "readv", raw::__NR_readv).writes(scatters(by::READV)),
    row(Content, "preadv", raw::__NR_preadv).writes(scatters(by::PREADV)),
    row(Content, "preadv2", raw::__NR_preadv2).writes(scatters(by::PREADV)),
    row(Content, "recvfrom", raw::__NR_recvfrom).old(&[371]).writes(fills(by::RECEIVE)),
    row(Content, "recvmsg", raw::__NR_recvmsg).writes(Writes::Other(written::of_recvmsg)),
    row(Content, "recvmmsg", raw::__NR_recvmmsg).writes(Writes::Other(written::of_recvmmsg)),
    row(Content, "getdents", raw::__NR_getdents).writes(fills(by::DIRECTORY)),
    row(Content, "getdents64", raw::__NR_getdents64).writes(fills(by::DIRECTORY)),
    row(Content, "getrandom", raw::__NR_getrandom).writes(Writes::Buffer { by: by::RANDOM, at: 0, bytes: 1 }),
    row(Content, "process_vm_readv", raw::__NR_process_vm_readv).writes(scatters(by::PROCESS_READ)),
    row(Content, "process_vm_writev", raw::__NR_process_vm_writev).writes(Writes::Other(written::of_process_vm_writev)),
    row(Content, "ioctl", raw::__NR_ioctl).writes(Writes::Other(written::of_ioctl)),
    row(Content, "pwrite64", raw::__NR_pwrite64).handled(memory::by_pwrite),
    row(Content, "write", raw::__NR_write).old(&[4]).strict(),
    row(Other, "fstat", raw::__NR_fstat).library(),
    row(Other, "getpid", raw::__NR_getpid).library(),
    row(Other, "getppid", raw::__NR_getppid).library(),
    row(Other, "gettid", raw::__NR_gettid).library(),
    row(Other, "geteuid", raw::__NR_geteuid).library(),
    row(Other, "kill", raw::__NR_kill).library(),
    row(Other, "futex", raw::__NR_futex).library(),
    row(Other, "clock_gettime", raw::__NR_clock_gettime).library(),
    row(Other, "nanosleep", raw::__NR_nanosleep).library(),
];
