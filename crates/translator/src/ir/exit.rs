//! The ways out of a fragment.

use super::cpu_query::CpuQuery;
use super::far::{FarReturn, Obstacle};

/// What an exit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// To `target`; the displacement at `branch` can be made to go there directly.
    Direct { branch: u64 },
    /// Before a system call; `execute` is the address of one in the cache.
    Syscall { execute: u64 },
    /// The program asks its observer for something.
    Request,
    /// The program asks which CPU it is on.
    CpuQuery(CpuQuery),
    /// The program comes to a watched address; `execute` is what comes next in the cache.
    Reached { execute: u64 },
    /// Behind a system call, to `target`: the owner of the cache wants to hear of it.
    News,
    /// Before a system call by 32-bit rules, as [`ExitKind::Syscall`].
    OldSyscall { execute: u64 },
    /// A return that takes more than rip off the stack.
    Returns(FarReturn),
    /// The program's code is no longer what was translated.
    Stale,
    /// An instruction that cannot be translated.
    Unsupported(Obstacle),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub kind: ExitKind,
    /// Where the program goes on.
    pub target: u64,
    /// The code that calls the dispatcher.
    pub stub: u64,
}
