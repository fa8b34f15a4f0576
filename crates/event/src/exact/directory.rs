//! Which process or thread an extent belongs to.

use super::file::{DIRECTORY_OFFSET, EXTENT_BYTES};
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// An extent by its number in the directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Extent(pub u32);

impl Extent {
    /// "None" where an extent is kept in a word.
    pub const NONE: Extent = Extent(u32::MAX);

    /// Where it begins in the file.
    pub const fn offset(self) -> u64 {
        (self.0 as u64 + 1) * EXTENT_BYTES
    }

    /// Where its directory entry stands.
    pub const fn directory_offset(self) -> u64 {
        DIRECTORY_OFFSET + self.0 as u64 * size_of::<DirectoryEntry>() as u64
    }
}

/// Kinds of extents.
pub mod kind {
    /// Given, not filled yet.
    pub const NONE: u32 = 0;
    /// A process: one program image, from its exec or fork to its exec or end.
    pub const PROCESS: u32 = 1;
    /// A thread of a process.
    pub const THREAD: u32 = 2;
    /// What a thread counts on another node than the one that it began on. It is known by its own extent, which
    /// has the same index and process.
    pub const SEAT: u32 = 3;
}

/// What an extent is.
#[repr(C)]
#[derive(Debug)]
pub struct DirectoryEntry {
    /// One of [`kind`], written last.
    pub kind: AtomicU32,
    /// Of a thread: its process. Of a process: the one that forked it, or whose exec it is, or [`Extent::NONE`].
    pub parent: AtomicU32,
    /// The process's or thread's id. Of a process 0 until it has been forked, as of a thread until it runs.
    pub id: AtomicU32,
    /// Of a process, one of [`end`], and in the bits above the lowest eight the exit status.
    pub end: AtomicU32,
    /// `CLOCK_MONOTONIC` at its start. Of a process whose fork failed the greatest number; its parent's next one may
    /// take its place.
    pub start_ns: AtomicU64,
    /// The same at its end; 0 while it runs, and for ever when it was killed.
    pub end_ns: AtomicU64,
    /// Of a thread: its place in the order of creation within the recording. Of a process: 1 if it began with an exec.
    pub index: AtomicU32,
    /// Of a process: its slot. Of a thread: the number from there on that decides its node on a virtual machine: see
    /// [`super::Slots`].
    pub slot: AtomicU32,
    /// Of a process: threads created in it, beyond its first.
    pub created: AtomicU32,
    /// Of a thread, when it began, and of a seat: the node that it is bound to, as index in the machine's list;
    /// negative: unpinned.
    pub node: AtomicI32,
    /// Of a thread: its stack pointer when it began, which says where its stack is.
    pub stack: AtomicU64,
    /// Of a thread: not 0: another one has bound it since it looked; on a virtual machine to what
    /// [`super::thread::WANTED`] says. With [`GONE_ON`] it is too late to say so here: the thread is about to be known
    /// by its next extent.
    pub rebound: AtomicU32,
    /// Of a thread: how often it has taken back what was counted of an execution that broke off. Added to afterwards,
    /// so whoever reads the counters in between two readings of this knows how many executions these may have too many,
    /// and one more.
    pub taken_back: AtomicU32,
    /// Of a thread: how often its place has changed: see [`super::thread::now`]. Whoever reads that finds a
    /// whole place if this has not changed meanwhile.
    pub places: AtomicU32,
    /// Of a thread or a seat where accesses are counted by word: when it was left for other counters, for good;
    /// 0: it was not.
    pub left_ns: AtomicU64,
    /// Of a thread: its name, up to the first zero, as the kernel gives it. Taken when it begins, names itself, and
    /// ends.
    pub name: [AtomicU8; 16],
}

/// See [`DirectoryEntry::rebound`].
pub const GONE_ON: u32 = 1 << 31;

/// How a process came to an end, where the agent saw it.
pub mod end {
    /// It runs, or was killed.
    pub const NONE: u32 = 0;
    /// `exit_group`, or the last thread's exit.
    pub const EXIT: u32 = 1;
    /// Another program took it over; a new extent if it is observed. Of a thread's extent: it executed that program,
    /// which begins where it was.
    pub const EXEC: u32 = 2;
    /// Of a seat: the thread counts there no more. It may go on elsewhere.
    pub const REPLACED: u32 = 3;
}
