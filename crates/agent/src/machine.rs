//! The virtual machine as the program sees it.
//!
//! Problem: a program that asks where it runs, binds its threads or places its pages itself is to do on a laptop what
//! it would do on the server that `--machine` names. The kernel knows nothing of that machine.
//!
//! Mechanism: every way to ask leads through a system call or through code of the kernel's that is translated like the
//! program's own, so the agent answers
//! (which function answers which call, [`crate::syscalls::table`] says):
//!
//! ```text
//!   cpuid, lsl: blocks end there, the agent answers \  processor.rs
//!   getcpu, also of the vdso and the vsyscall page  |
//!   sched_getaffinity, sched_setaffinity             |- calls.rs      place.rs: a thread's CPUs, and the one it is on
//!   set_mempolicy, mbind, ...                        |- policies.rs   policy.rs: where a page goes
//!   move_pages, migrate_pages                        |- moves.rs      others.rs: pages of other processes
//!                                                    |  shared_policies.rs  policies of memory that processes share
//!   open, stat, readlink, ... of sysfs               |- files.rs      a folder of the collector's stands for it
//!                                                    |  paths.rs      where a path leads, whatever it is relative to
//!   open of /proc/self/status, /proc/meminfo, ...    |- proc_files.rs the kernel's text with other lines
//!   sysinfo                                         /  memory.rs      as much memory as the machine has
//! ```
//! Restartable sequences, by which the C library would read its CPU from memory that the kernel writes, are refused to
//! programs of all recordings. The host's own affinity and policies are never changed: where a thread really runs does
//! not matter.
//!
//! What a thread has asked for stands in its extent of the session file ([`numalens_event::exact::ThreadPlace`]), so
//! that other processes can read it, and change it (`taskset -p`), and so that it outlives an exec.

pub mod calls;
pub mod cpus;
pub mod files;
pub mod memory;
pub mod moves;
pub mod nodes;
mod numa_maps;
mod others;
mod paths;
pub mod place;
pub mod policies;
pub mod policy;
mod proc_files;
mod processor;
pub mod published_policies;
mod shared_policies;
mod wanted;

use crate::state::runtime::runtime;
use crate::state::thread::Thread;
pub use calls::{getcpu, processor};
use numalens_event::exact::Placement;
use numalens_translator::CpuQuery;
pub(crate) use policies::read_nodes;
pub use shared_policies::in_force;
pub use wanted::wanted_home;

/// Answers an instruction that asks about the processor.
pub fn asked(thread: &Thread, query: CpuQuery) {
    processor::answer(thread, placement(), query);
}

/// The machine in force.
fn placement() -> &'static Placement {
    runtime().session.placement()
}
