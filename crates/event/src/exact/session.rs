//! The start of the file: what is recorded, and how.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// The start of the file. The collector writes all but the counters before any program starts.
#[repr(C)]
#[derive(Debug)]
pub struct SessionHeader {
    /// [`super::MAGIC`].
    pub magic: AtomicU64,
    /// [`super::VERSION`].
    pub version: AtomicU32,
    /// The collector's process.
    pub collector_pid: AtomicU32,
    /// Extents given so far; may run past [`super::MOST_EXTENTS`] when all are used.
    pub extents: AtomicU32,
    /// Threads begun so far: the index of the next one.
    pub threads: AtomicU32,
    /// 1: count accesses relative to the stack pointer too.
    pub stack: AtomicU32,
    /// 1: count how often code is executed.
    pub code: AtomicU32,
    /// 1: count accesses by cache line.
    pub lines: AtomicU32,
    /// 1: count accesses by word, so that each belongs to an object.
    pub words: AtomicU32,
    /// The private cache of each thread: sets, ways, log2 of the bytes of a line; all 0: none.
    pub cache: [AtomicU32; 3],
    /// 1: record children too.
    pub follow: AtomicU32,
    /// The process of the command that was started.
    pub command_pid: AtomicU32,
    /// log2 of the number of classes.
    pub classes_log2: AtomicU32,
    /// The descriptor by which programs hold this file.
    pub descriptor: AtomicI32,
    /// Bytes of the image in memory.
    pub image_bytes: AtomicU64,
    /// Offset of its first instruction.
    pub image_entry: AtomicU64,
    /// Programs that ran unobserved because something failed in the agent; each has a log record in its parent.
    pub unobserved: AtomicU32,
    /// The kernel's code that programs call.
    pub vdso: VdsoPlaces,
    /// Of a virtual machine: the path of the folder that holds its files below `sys` and `proc`, ended by 0; empty:
    /// there is none.
    pub files: [AtomicU8; MOST_PATH],
    /// The path of the table of pages that processes have in common, where other recordings share it, ended by 0;
    /// empty: it is at [`super::COMMON_OFFSET`].
    pub common: [AtomicU8; MOST_PATH],
    /// Futex word: whether they are there: one of [`machine_files`]. Programs that read them wait for that.
    pub files_written: AtomicU32,
    /// Bits of [`debug`]; 0 in use.
    pub debug: AtomicU32,
    /// Bytes of translated code that a process keeps before it evicts the oldest.
    pub most_code: AtomicU64,
    /// The pointer that the pattern of an empty lookup table, in that of a thread's own memory, consists of; 0: nobody
    /// has written it yet, 1: somebody is about to. A
    /// process whose agent lies elsewhere than the first one's has a pattern of its own ([`super::process::LOOKUP`]).
    pub pattern: AtomicU64,
    /// What the command was started with as its limit of address space (soft, hard), in bytes: the tables do not fit
    /// into less than all, so the kernel's is lifted and the agent keeps to this one.
    pub address_space: [AtomicU64; 2],
    /// Whether the kernel makes huge pages of anonymous memory: one of [`huge_pages`].
    pub huge_pages: AtomicU32,
    /// Which of `clock` is in force.
    pub clock_in_force: AtomicU32,
    /// 1 while accesses are counted for the profile: the collector's word.
    pub counting: AtomicU32,
    /// What the program, or the user, wants that to be.
    pub wanted: AtomicU32,
    /// Futex word: how often a program has asked the collector to look here.
    pub requests: AtomicU32,
    /// Futex word: how many of those were seen to. Whoever starts or stops the counting waits for that.
    pub answered: AtomicU32,
    /// Phases and marks that programs have declared so far; from [`super::MOST_MARKS`] on they are only counted.
    pub marks: AtomicU32,
    /// Where agents have their fragments from.
    pub fragments: FragmentCounts,
    /// `CLOCK_MONOTONIC` without a system call: the collector sets one anchor while the other is in force.
    pub clock: [ClockAnchor; 2],
}

/// Places in the vdso: offsets, plus 1; 0: there is none.
#[repr(C)]
#[derive(Debug)]
pub struct VdsoPlaces {
    /// A `syscall` instruction.
    pub syscall: AtomicU64,
    /// The function that tells a thread its CPU.
    pub getcpu: AtomicU64,
}

/// How many fragments agents have from where.
#[repr(C)]
#[derive(Debug)]
pub struct FragmentCounts {
    /// They were translated.
    pub translated: AtomicU64,
    /// They were persisted.
    pub persisted: AtomicU64,
}

impl SessionHeader {
    /// The private cache of each thread, if accesses are looked up in one.
    pub fn cache(&self) -> Option<Geometry> {
        let [sets, ways, line_log2] = self.cache.each_ref().map(|word| word.load(Relaxed));
        (sets != 0).then_some(Geometry { sets, ways, line_log2 })
    }
}

/// Values of [`SessionHeader::files_written`].
pub mod machine_files {
    /// They are being written.
    pub const COMING: u32 = 0;
    /// They are there.
    pub const THERE: u32 = 1;
    /// They could not be written: programs find the host's.
    pub const MISSING: u32 = 2;
}

/// Bytes of [`SessionHeader::files`] and [`SessionHeader::common`].
pub const MOST_PATH: usize = 256;

/// The shape of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Sets, a power of two.
    pub sets: u32,
    /// Lines of a set.
    pub ways: u32,
    /// log2 of the bytes of a line.
    pub line_log2: u32,
}

/// A moment on two clocks.
#[repr(C)]
#[derive(Debug)]
pub struct ClockAnchor {
    /// The processor's time stamp counter.
    pub ticks: AtomicU64,
    /// `CLOCK_MONOTONIC`.
    pub ns: AtomicU64,
    /// Nanoseconds of a tick, times 2^32; 0: the counter is no clock here.
    pub ns_per_tick: AtomicU64,
}

impl ClockAnchor {
    /// The time at a reading of the counter.
    pub fn at(&self, ticks: u64) -> Option<u64> {
        let rate = self.ns_per_tick.load(Relaxed);
        let since = u128::from(ticks.saturating_sub(self.ticks.load(Relaxed)));
        (rate != 0).then(|| self.ns.load(Relaxed) + ((since * u128::from(rate)) >> 32) as u64)
    }
}

/// Whether the kernel makes huge pages of anonymous memory.
pub mod huge_pages {
    /// Never.
    pub const NEVER: u32 = 0;
    /// Where the program advises it.
    pub const ADVISED: u32 = 1;
    /// Wherever it can.
    pub const ALWAYS: u32 = 2;
}

/// What tests and measurements change.
pub mod debug {
    /// Translate without counting: what translation alone costs.
    pub const NO_COUNTING: u32 = 1;
    /// Count every access in the flat tables immediately.
    pub const FLAT: u32 = 2;
    /// Count by last pages wherever that can be done, not in long loops only.
    pub const LAST_PAGE: u32 = 4;
    /// Count by last pages in all loops, not only in those that have had many iterations.
    pub const LOOPS: u32 = 8;
    /// Give numbers of pages again after some thousands.
    pub const FEW_PAGE_NUMBERS: u32 = 16;
}
