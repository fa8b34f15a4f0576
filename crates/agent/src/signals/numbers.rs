//! The kernel's numbers for signals and what is said with them.

use crate::sys::raw;
use numalens_isa::flags;

pub(super) const SIGTRAP: u32 = raw::SIGTRAP;
pub(super) const SIGSEGV: u32 = raw::SIGSEGV;
pub(super) const SIGBUS: u32 = raw::SIGBUS;
pub(super) const SIGFPE: u32 = raw::SIGFPE;
pub(super) const SIGILL: u32 = raw::SIGILL;
pub(super) const SIGSYS: u32 = raw::SIGSYS;
/// Blocked while a signal is kept: all but what faults, steps and kills raise.
pub(super) const ALL_BUT_FAULTS: u64 =
    !(bit(SIGTRAP) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGSYS));
pub(super) const TRAP_FLAG: u64 = flags::TRAP;
/// Cleared for a handler: direction, trap, resume.
pub(super) const CLEARED_FLAGS: u64 = flags::DIRECTION | TRAP_FLAG | flags::RESUME;
/// `TRAP_TRACE`, a single step; and `TRAP_BRKPT`, as which kernels in virtual machines tell one now and then, whose
/// host has not said in DR6 that it was a step. (Breakpoints are [`SI_KERNEL`].)
pub(super) const STEPPED: [i32; 2] = [2, 1];
pub(super) const SI_KERNEL: i32 = 0x80;
/// `SEGV_ACCERR`.
pub(super) const NO_ACCESS: i32 = 2;
/// `BUS_ADRALN`.
pub(super) const MISALIGNED: i32 = 1;
/// The code of the SIGSYS of a seccomp filter.
pub(super) const SYS_SECCOMP: i32 = 1;
pub(super) const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const SA_NODEFER: u64 = raw::SA_NODEFER as u64;
pub(super) const SA_RESETHAND: u64 = raw::SA_RESETHAND as u64;
pub(super) const SA_ONSTACK: u64 = raw::SA_ONSTACK as u64;
/// What the kernel must know of the program's flags.
pub(super) const PASSED_ON: u64 = (raw::SA_NOCLDSTOP | raw::SA_NOCLDWAIT | raw::SA_RESTART) as u64;
pub(super) const OURS: u64 = raw::SA_SIGINFO as u64 | SA_ONSTACK | SA_RESTORER;
pub(super) const RED_ZONE: u64 = 128;

/// A signal in a mask.
pub(super) const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Whether a signal comes from the thread's own instruction.
pub(super) fn is_fault(signal: u32, code: i32) -> bool {
    code > 0 && matches!(signal, SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP)
}
