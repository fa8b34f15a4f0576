//! What the exact engine's agent counts, in memory that outlives the program: one sparse memory file for a whole recording.
//!
//! The counters themselves are shared, not messages about them. A program that is killed at any instruction leaves exactly
//! what it had counted, and the collector may look at any time without asking.
//!
//! ```text
//!  0        header: what the collector wants, how many extents are in use
//!  1 MiB    the agent's image: mapped privately into each program at its exec
//!  1 GiB    directory: one entry for each extent
//!  1 TiB    extent 0: a process       header | log | sites | stretches | pages | lines
//!  2 TiB    extent 1: a thread        header | site counters | page counters | stays | lines
//!  3 TiB    ...
//! ```
//! Offsets are vast and almost all of the file is a hole: memory is used by what was written, and the reader finds that with
//! `SEEK_DATA`. An extent belongs to one process or thread for ever; numbers are given by [`SessionHeader::extents`].
//!
//! **Pages** have dense numbers, given by the agent at first touch: number `p` is the `p`-th page incarnation of its process
//! (a page that is unmapped and touched again gets a new number). [`PageRecord`] `p` says which page it was and in which class
//! it is counted, and each thread counts reads and writes in its [`PageCounts`] `p`; those that come in pairs, one of each, it may count in one word, at
//! [`thread::UPDATES`].
//!
//! **Sites** are operands of instructions, dense as well: [`SiteRecord`] `s`, and in each thread one row of counters, one
//! counter for each class. A class is a home and whether the page was placed by a pinned thread ([`ProcessHeader::classes`]).
//!
//! **Stays** are what the counters lack: a group of sites is counted by the passes through its piece of code as long as it
//! keeps to one page. Pending for [`StayRecord::entry`] are `passes - since` accesses of each of its sites. A group of several has
//! a row of its own, whose counters stand for one access of each ([`SiteRecord::members`]).
//!
//! **Tallies** count a group page by page: [`TallyHeader`] says for which pages there are counters now, and beside each counter stands, like
//! [`StayRecord::entry`], what it counts for. What a counter has is pending as the passes of a stay are.
//!
//! **Stretches** say how often code is executed: instructions that are executed together, and which of the counters above tells how
//! often ([`StretchRecord`]).
//!
//! **Cache lines** are counted where [`SessionHeader::lines`] asks for it: of each page in use, whatever its number, 64 records lie side by side. The
//! process's [`LastAccess`] says who accessed a line last; each thread counts its own accesses, and those that found another thread to be
//! the last one, in its [`LineCounts`], and the latter also by who that was ([`thread::COMMUNICATION`]).
//!
//! A thread changes a stay in this order: `entry` = 0, `since`, the flat tables, `since`, `entry`. Whoever reads while it runs reads
//! the flat tables first, then `entry`, `since`, the passes, `since` and `entry` again, and leaves out a stay that changed.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// First word of the file: "numaexct", little endian.
pub const MAGIC: u64 = 0x7463_7865_616d_756e;
/// Version of everything in this module.
pub const VERSION: u32 = 15;
/// Bytes of the whole file: sparse.
pub const FILE_BYTES: u64 = 1 << 62;

/// Where the [`Placement`] stands.
pub const PLACEMENT_OFFSET: u64 = 1 << 14;
/// Where the agent's image begins.
pub const IMAGE_OFFSET: u64 = 1 << 20;
/// Most bytes of the image.
pub const MOST_IMAGE_BYTES: u64 = 64 << 20;
/// Where the pattern of an empty lookup table stands: see [`SessionHeader::pattern`].
pub const PATTERN_OFFSET: u64 = 1 << 29;
/// Where pages stand that processes have in common: the agents'.
pub const COMMON_OFFSET: u64 = 3 << 28;
/// Words of that table.
pub const COMMON_ENTRIES: usize = 1 << 25;
/// Where the directory begins.
pub const DIRECTORY_OFFSET: u64 = 1 << 30;
/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 1 << 40;
/// Most extents of a file.
pub const MOST_EXTENTS: u32 = 1 << 21;

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

/// The start of the file. The collector writes all but the counters before any program starts.
#[repr(C)]
#[derive(Debug)]
pub struct SessionHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The collector's process.
    pub collector_pid: AtomicU32,
    /// Extents given so far; may run past [`MOST_EXTENTS`] when all are used.
    pub extents: AtomicU32,
    /// Threads begun so far: the index of the next one, which decides its node on a virtual machine.
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
    /// Offset of a `syscall` instruction in the vdso, plus 1; 0: there is none.
    pub vdso_syscall: AtomicU64,
    /// Offset in the vdso of the function that tells a thread its CPU, plus 1; 0: there is none.
    pub vdso_getcpu: AtomicU64,
    /// Of a virtual machine: the path of the folder that holds its files below `sys` and `proc`, ended by 0; empty: there is none.
    pub files: [AtomicU8; MOST_PATH],
    /// The path of the table of pages that processes have in common, where other recordings share it, ended by 0; empty: it is at [`COMMON_OFFSET`].
    pub common: [AtomicU8; MOST_PATH],
    /// Futex word: whether they are there: one of [`machine_files`]. Programs that read them wait for that.
    pub files_written: AtomicU32,
    /// Bits of [`debug`]; 0 in use.
    pub debug: AtomicU32,
    /// Bytes of translated code that a process keeps before it gives up the oldest.
    pub most_code: AtomicU64,
    /// The pointer that the pattern of an empty lookup table consists of; 0: nobody has written it yet, 1: somebody is about to. A
    /// process whose agent lies elsewhere than the first one's has a pattern of its own ([`process::LOOKUP`]).
    pub pattern: AtomicU64,
    /// What the command was started with as its limit of address space (soft, hard), in bytes: the tables do not fit into
    /// less than all, so the kernel's is lifted and the agent keeps to this one.
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
    /// Phases and marks that programs have told of so far; from [`MOST_MARKS`] on they are only counted.
    pub marks: AtomicU32,
    /// `CLOCK_MONOTONIC` without a system call: the collector sets one anchor while the other is in force.
    pub clock: [ClockAnchor; 2],
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

/// Most phases and marks that the programs of a recording may tell of: the log is for more than these.
pub const MOST_MARKS: u32 = 1 << 20;

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

impl SessionHeader {
    /// The private cache of each thread, if accesses are looked up in one.
    pub fn cache(&self) -> Option<Geometry> {
        let [sets, ways, line_log2] = self.cache.each_ref().map(|word| word.load(Relaxed));
        (sets != 0).then_some(Geometry { sets, ways, line_log2 })
    }
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
    /// Count every access in the flat tables at once.
    pub const FLAT: u32 = 2;
    /// Count by stays wherever that can be done, not in long loops only.
    pub const STAYS: u32 = 4;
    /// Count by stays in all loops, not only in those that have had many passes.
    pub const LOOPS: u32 = 8;
}

/// Kinds of extents.
pub mod kind {
    /// Given, not filled yet.
    pub const NONE: u32 = 0;
    /// A process: one program image, from its exec or fork to its exec or end.
    pub const PROCESS: u32 = 1;
    /// A thread of a process.
    pub const THREAD: u32 = 2;
}

/// What an extent is.
#[repr(C)]
#[derive(Debug)]
pub struct DirectoryEntry {
    /// One of [`kind`], written last.
    pub kind: AtomicU32,
    /// Of a thread: its process. Of a process: the one that forked it, or whose exec it is, or [`Extent::NONE`].
    pub parent: AtomicU32,
    /// The process's or thread's id.
    pub id: AtomicU32,
    /// Of a process, one of [`end`], and in the bits above the lowest eight the exit status.
    pub end: AtomicU32,
    /// `CLOCK_MONOTONIC` at its start.
    pub start_ns: AtomicU64,
    /// The same at its end; 0 while it runs, and for ever when it was killed.
    pub end_ns: AtomicU64,
    /// Of a thread: its place in the order of creation within the recording. Of a process: 1 if it began with an exec.
    pub index: AtomicU32,
    /// Of a thread: the node that it is bound to, as index in the machine's list; negative: unpinned. Of a process that has
    /// called exec: the index of the thread that did, which goes on in the next program.
    pub node: AtomicI32,
    /// Of a thread: its stack pointer when it began, which says where its stack is.
    pub stack: AtomicU64,
    /// Of a thread: not 0: another one has bound it since it looked; on a virtual machine to what [`thread::WANTED`] says.
    pub bound_anew: AtomicU32,
    /// Of a thread: how often it has taken back what was counted of a pass that broke off. Added to afterwards, so whoever reads the counters in
    /// between two readings of this knows how many passes these may have too many, and one more.
    pub taken_back: AtomicU32,
    /// Of a thread: its name, up to the first zero, as the kernel gives it. Taken when it begins, names itself, and ends.
    pub name: [AtomicU8; 16],
}

/// How a process came to an end, where the agent saw it.
pub mod end {
    /// It runs, or was killed.
    pub const NONE: u32 = 0;
    /// `exit_group`, or the last thread's exit.
    pub const EXIT: u32 = 1;
    /// Another program took it over; a new extent if it is observed.
    pub const EXEC: u32 = 2;
    /// Of a thread's extent: the thread goes on in a later one, bound to another place.
    pub const REPLACED: u32 = 3;
}

/// Where pages and threads go on a virtual machine. Nodes are indices in the machine's list.
#[repr(C)]
#[derive(Debug)]
pub struct Placement {
    /// 1: a virtual machine. 0: homes are the kernel's, asked with `move_pages`.
    pub is_virtual: AtomicU32,
    /// One of [`policy`].
    pub policy: AtomicU32,
    /// Seed of [`policy::RANDOM`].
    pub seed: AtomicU64,
    /// Nodes of the machine.
    pub nodes: AtomicU32,
    /// Entries used of `memory_nodes`.
    pub memory_nodes_used: AtomicU32,
    /// Entries used of `cpu_nodes`.
    pub cpu_nodes_used: AtomicU32,
    /// One of [`threads`].
    pub threads: AtomicU32,
    /// One more than the highest number of a CPU.
    pub cpu_numbers: AtomicU32,
    /// All memory of the machine in KiB; 0: not known.
    pub memory_kib: AtomicU64,
    /// The nodes with memory.
    pub memory_nodes: [AtomicU8; MOST_NODES],
    /// The nodes with CPUs.
    pub cpu_nodes: [AtomicU8; MOST_NODES],
    /// For a toucher's node, the node that takes its page under first touch or `bind`.
    pub home_of: [AtomicU8; MOST_NODES],
    /// For each node, those with memory in the order in which the kernel falls back to them; [`NO_NODE`] past the last.
    pub fallback: [[AtomicU8; MOST_NODES]; MOST_NODES],
    /// The kernel's number of each node, plus 1; 0 past the last.
    pub kernel_nodes: [AtomicU32; MOST_NODES],
    /// Node of each CPU of the machine in force.
    pub node_of_cpu: [AtomicU8; MOST_CPUS],
}

/// Nodes at most.
pub const MOST_NODES: usize = 64;
/// CPUs at most.
pub const MOST_CPUS: usize = 8192;
/// No node: unpinned, or without a home.
pub const NO_NODE: u8 = u8::MAX;

/// Where threads run on a virtual machine, among the CPUs that they may run on.
pub mod threads {
    /// Each on one node, in turn.
    pub const SPREAD: u32 = 0;
    /// Each on one node, which are filled one after the other.
    pub const COMPACT: u32 = 1;
    /// Wherever the program lets them.
    pub const FREE: u32 = 2;
}

/// Page placement policies.
pub mod policy {
    /// `home_of` the toucher's node.
    pub const HOME_OF: u32 = 0;
    /// Page by page over the nodes with memory.
    pub const INTERLEAVE: u32 = 1;
    /// Drawn for each page.
    pub const RANDOM: u32 = 2;
}

/// Most classes: a home, or none, times placed by a pinned or an unpinned thread; [`UNDECIDED`]; [`READ_ONLY`]; and 0, which is none.
pub const MOST_CLASSES: usize = 2 * (MOST_NODES + 1) + 3;

/// The header of a process's extent.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessHeader {
    /// Sites given.
    pub sites: AtomicU32,
    /// Stretches given.
    pub stretches: AtomicU32,
    /// Page numbers given, plus one (0 is none); 0 until the header is filled.
    pub pages: AtomicU32,
    /// Bytes of the log.
    pub log_bytes: AtomicU64,
    /// 1: there are pages whose cache lines are not counted, as there are too many.
    pub lines_left_out: AtomicU32,
    /// Not 0: pages were touched of which words are not counted.
    pub words_left_out: AtomicU32,
    /// After a fork: sites below this number are the parent's.
    pub inherited_sites: AtomicU32,
    /// The same of stretches.
    pub inherited_stretches: AtomicU32,
    /// After a fork: pages below this number are the parent's, except those with a record of their own.
    pub inherited_pages: AtomicU32,
    /// Where the table of pages is in the process: an entry of 8 bytes for each page, whose lower half tells its class, 0: none. Setting
    /// that to 0 makes the agent ask for the page's home again.
    pub shadow: AtomicU64,
    /// What each class means, from 1: see [`class_word`]; 0 while it is not in use.
    pub classes: [AtomicU32; MOST_CLASSES],
    /// The program's limit of address space (soft, hard), in bytes, as it set it or inherited it.
    pub address_space: [AtomicU64; 2],
    /// Why the agent gave up, as text, when it did.
    pub failure: [AtomicU8; 256],
    /// Sites that have counted much, by the collector's word, in a ring: how many it has named, and how many of them the agent has seen.
    pub warmed: AtomicU32,
    pub warmed_seen: AtomicU32,
    pub warmed_sites: [AtomicU32; WARMED],
}

/// Sites that the collector may name before the agent has seen them; what is more is forgotten.
pub const WARMED: usize = 1024;

impl ProcessHeader {
    /// Names a site that has counted much. For one caller at a time.
    pub fn warm(&self, site: u32) {
        let number = self.warmed.load(Relaxed);
        self.warmed_sites[number as usize % WARMED].store(site, Relaxed);
        self.warmed.store(number.wrapping_add(1), Release);
    }

    /// Calls `found` for each site that has been named and not seen. For one caller at a time.
    #[inline]
    pub fn each_warmed(&self, mut found: impl FnMut(u32)) {
        let (named, seen) = (self.warmed.load(Acquire), self.warmed_seen.load(Relaxed));
        let new = named.wrapping_sub(seen).min(WARMED as u32);
        if new != 0 {
            (named.wrapping_sub(new)..named)
                .for_each(|number| found(self.warmed_sites[number as usize % WARMED].load(Relaxed)));
            self.warmed_seen.store(named, Relaxed);
        }
    }
}

/// Offsets in a process's extent.
pub mod process {
    /// The log.
    pub const LOG: u64 = 1 << 20;
    /// Most bytes of the log: what a process says in its life. What does not fit is not said; [`super::ProcessHeader::log_bytes`] counts it.
    pub const LOG_BYTES: u64 = 1 << 30;
    /// What an empty lookup table looks like; threads map it copy-on-write.
    pub const LOOKUP: u64 = 1 << 36;
    /// Site records.
    pub const SITES: u64 = 1 << 37;
    /// Stretch records.
    pub const STRETCHES: u64 = (1 << 37) + (1 << 36);
    /// Page records.
    pub const PAGES: u64 = 1 << 38;
    /// Who accessed cache lines last: [`super::LINES_OF_PAGE`] records for each page.
    pub const LINES: u64 = 1 << 39;
    /// Bytes reserved for them.
    pub const LINES_BYTES: u64 =
        super::MOST_LINE_PAGES as u64 * super::LINES_OF_PAGE * size_of::<super::LastAccess>() as u64;
}

/// Address space that the tables of a program with some tens of threads take.
pub const ADDRESS_SPACE_NEEDED: u64 = 400 << 30;
/// Most page numbers of a process: 512 GiB touched at 4 KiB.
pub const MOST_PAGES: u32 = 1 << 27;
/// Page numbers below this one have their cache lines counted: 32 GiB touched at 4 KiB.
pub const MOST_LINE_PAGES: u32 = 1 << 23;
/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// log2 of the bytes of a word of which accesses are counted by themselves.
pub const WORD_BITS: u32 = 2;
/// Such words of a page. Those of pages below [`MOST_LINE_PAGES`] are counted.
pub const WORDS_OF_PAGE: u64 = 4096 >> WORD_BITS;
/// Reads of a word are counted in the lower half of 64 bits, writes in the upper one, from this bit on.
pub const WORD_WRITES: u32 = 32;
/// Cache lines of a page.
pub const LINES_OF_PAGE: u64 = 4096 / LINE_BYTES;
/// Most sites of a process.
pub const MOST_SITES: u32 = 1 << 23;
/// Most stretches of a process: it may have as many counters of passes as sites, and stretches for both.
pub const MOST_STRETCHES: u32 = 1 << 24;

/// An operand of an instruction.
#[repr(C)]
#[derive(Debug)]
pub struct SiteRecord {
    /// The instruction's address.
    pub address: AtomicU64,
    /// Bits of [`site`].
    pub flags: AtomicU32,
    /// Bytes of the log when it was made: which mappings were in force.
    pub log: AtomicU32,
    /// The number of its stay, plus 1; 0: it has none.
    pub stay: AtomicU32,
    /// The number of the stay's counter of passes.
    pub passes: AtomicU32,
    /// Not 0: no operand, but a row that stands for so many sites, the first of which is `address`.
    pub members: AtomicU32,
    /// Fills the record.
    pub padding: AtomicU32,
}

/// Instructions of one page that are executed together.
#[repr(C)]
#[derive(Debug)]
pub struct StretchRecord {
    /// The address of the first.
    pub address: AtomicU64,
    /// How many; and above [`stretch::KIND_SHIFT`] what tells how often: one of [`stretch`].
    pub instructions: AtomicU32,
    /// The number of the counter of passes, or of the site.
    pub counter: AtomicU32,
}

/// What tells how often a stretch is executed.
pub mod stretch {
    /// A counter of passes.
    pub const PASSES: u32 = 0;
    /// The accesses of a site, to pages of all classes.
    pub const SITE: u32 = 1;
    /// A counter of passes that holds instructions to be added, modulo 2^64: what runs that broke off had counted.
    pub const CORRECTION: u32 = 2;
    /// Where the kind stands.
    pub const KIND_SHIFT: u32 = 16;
}

/// What a thread knows of a stay.
#[repr(C)]
#[derive(Debug)]
pub struct StayRecord {
    /// The page's address; 0 where it must be looked up anew.
    pub page: AtomicU64,
    /// The number of passes before the stay.
    pub since: AtomicU64,
    /// What it is counted for: below, where the column of the class begins among the site counters; above, the index of the page's counter of
    /// reads; 0: there is no stay.
    pub entry: AtomicU64,
    /// How often the page changed.
    pub misses: AtomicU32,
    /// Not 0: it changed so often that the flat tables are used; or [`IS_LIMIT`].
    pub hot: AtomicU32,
}

/// What [`StayRecord::hot`] is in a record that is no stay's: in place of the page it has the limit of the groups after it, up to the next such
/// record in its 4096 bytes. They look at their pages only when a register has grown to it, as a signed number.
pub const IS_LIMIT: u32 = 0x7fff_fffe;

impl StayRecord {
    /// Has a stay, one of the records in 4096 bytes of the table, look at its page again if it is on `page` still. Any process may do so
    /// while its thread runs.
    pub fn look_again(records: &[StayRecord], number: usize, page: u64) {
        let Some(record) = records.get(number) else { return };
        if record.page.compare_exchange(page, 0, AcqRel, Relaxed).is_ok() {
            let limit = records[..number].iter().rev().find(|record| record.hot.load(Relaxed) == IS_LIMIT);
            if let Some(limit) = limit {
                limit.page.store(i64::MIN as u64, Release);
            }
        }
    }
}

/// What a thread knows of a tally.
#[repr(C)]
#[derive(Debug)]
pub struct TallyHeader {
    /// The address of the first page that has a counter; [`tally::NOWHERE`]: the next access asks.
    pub base: AtomicU64,
    /// The agent's.
    pub tables: [AtomicU64; 2],
    /// Counters that have begun are in this range, both ends included.
    pub low: AtomicU32,
    pub high: AtomicU32,
    /// The agent's.
    pub missed: AtomicU32,
    /// The row that stands for the group's sites.
    pub row: AtomicU32,
    /// How many of them read, and write.
    pub reads: AtomicU32,
    pub writes: AtomicU32,
    /// The agent's.
    pub counted: AtomicU64,
    /// Fills the record.
    pub padding: AtomicU64,
}

impl TallyHeader {
    /// The address of the first page that has a counter, and the addresses of those whose counters may have begun.
    pub fn begun(&self) -> (u64, core::ops::Range<u64>) {
        let [low, high] = [&self.low, &self.high].map(|end| u64::from(end.load(Relaxed)));
        let base = self.base.load(Relaxed);
        (base, base.saturating_add(low * 4096)..base.saturating_add((high + 1) * 4096))
    }

    /// Has the thread look at all of its pages again, if some of `pages` (their addresses) are among them. Any thread may do so while it runs.
    pub fn look_again(&self, pages: &core::ops::Range<u64>) {
        let (_, begun) = self.begun();
        if begun.start < pages.end && pages.start < begun.end {
            self.base.store(tally::NOWHERE, Release);
        }
    }
}

/// A counter of a tally: it has begun; it is to be asked about. Else it has not begun.
pub mod tally {
    /// In place of an address: too far from all for a counter.
    pub const NOWHERE: u64 = 1 << 63;
    /// Counts, in the bits below.
    pub const BEGUN: u32 = 1 << 31;
    /// Has counted so much, in the bits below; the next access asks.
    pub const ASKED: u32 = 1 << 30;

    /// What it has counted.
    pub fn count_of(counter: u32) -> u32 {
        match counter {
            _ if counter & BEGUN != 0 => counter & !BEGUN,
            _ if counter & ASKED != 0 => counter & !ASKED,
            _ => 0,
        }
    }

    /// Has the next access that it would count ask. Any process may do so while its thread runs. The thread may be counting at this very moment, and go over it:
    /// so it is looked whether it has, a few times.
    pub fn ask(counter: &super::AtomicU32) {
        use super::{AcqRel, Acquire};
        let asked = |now: u32| (now & BEGUN != 0 && count_of(now) < ASKED / 2).then_some(count_of(now) | ASKED);
        for _ in 0..16 {
            if counter.fetch_update(AcqRel, Acquire, asked).is_err() {
                break;
            }
        }
    }
}

/// Tallies of a thread.
pub const MOST_TALLIES: u32 = 256;
/// Pages that each has counters for: 1 GiB.
pub const TALLY_PAGES: u32 = 1 << 18;

/// Bits of [`SiteRecord::flags`].
pub mod site {
    /// Reads.
    pub const READ: u32 = 1;
    /// Writes. With `READ`: a read-modify-write, one of each.
    pub const WRITE: u32 = 2;
    /// Relative to the stack pointer.
    pub const STACK: u32 = 4;
}

/// An incarnation of a page.
#[repr(C)]
#[derive(Debug)]
pub struct PageRecord {
    /// Page number: address / 4096.
    pub page: AtomicU64,
    /// Time of the first touch.
    pub begin_ns: AtomicU64,
    /// When it was unmapped; 0 before.
    pub end_ns: AtomicU64,
    /// The site of the first touch.
    pub site: AtomicU32,
    /// The extent of the thread that touched it first.
    pub thread: AtomicU32,
    /// One of [`touch`]; written last.
    pub how: AtomicU32,
    /// The class in which it is counted now; [`ProcessHeader::classes`] says what that means.
    pub class: AtomicU32,
    /// The class that the page had when it was placed; [`UNDECIDED`] until somebody has asked the kernel.
    pub first_class: AtomicU32,
    /// One of [`fault`], and what stands beside it.
    pub fault: AtomicU32,
    /// Of a page that continues another one, that one's number: of [`touch::MOVED`], [`touch::HUGE`], [`touch::INHERITED`]. Of
    /// [`touch::FIRST`]: accesses of so many sites that follow `site` were counted for [`UNDECIDED`] with its own.
    pub origin: AtomicU32,
    /// The agent's: what is still to be found out; 0: `class` is final for now.
    pub open: AtomicU32,
    /// The agent's: accesses since then. Of a page that is open to nothing: the collector's, which wants so many accesses told
    /// ([`log::ACCESS`]); [`HOLD`]: not yet.
    pub waited: AtomicU32,
    /// Where the call stack of the first touch stands in the log: offset / 8 + 1; 0: none.
    pub stack: AtomicU32,
}

/// In [`PageRecord::waited`]: accesses are to be told, but threads that stay on the page must be made to look again first.
pub const HOLD: u32 = 1 << 31;

/// How a page came into being.
pub mod touch {
    /// Not filled yet.
    pub const NONE: u32 = 0;
    /// By the access recorded.
    pub const FIRST: u32 = 1;
    /// It was there already: the kernel, or a time before the recording.
    pub const UNSEEN: u32 = 2;
    /// It was moved here by `mremap`: toucher and home are those of before.
    pub const MOVED: u32 = 3;
    /// A read of untouched memory: the shared zero page, nothing was placed.
    pub const ZERO: u32 = 4;
    /// Part of the huge page that another access placed.
    pub const HUGE: u32 = 5;
    /// The parent's, shared since the fork. No page of its own until it is written.
    pub const INHERITED: u32 = 6;
}

/// What kind of access placed a page.
pub mod fault {
    /// None was seen.
    pub const NONE: u32 = 0;
    /// A write to fresh anonymous memory.
    pub const ANONYMOUS: u32 = 1;
    /// A write to a page that was shared until then.
    pub const COPY_ON_WRITE: u32 = 2;
    /// A page of a file or of shared memory.
    pub const FILE: u32 = 3;
    /// The bits of these.
    pub const KIND: u32 = 0xff;
    /// Set besides one of these: it may have placed a whole huge page.
    pub const MAY_BE_HUGE: u32 = 1 << 8;
    /// Set besides [`FILE`]: another process has placed it, this one has only mapped it.
    pub const ANOTHERS: u32 = 1 << 9;
    /// Above this bit stands where in the page the access began, in bytes.
    pub const OFFSET_SHIFT: u32 = 16;
}

/// Accesses of one thread to one page.
#[repr(C)]
#[derive(Debug)]
pub struct PageCounts {
    /// Reads.
    pub reads: AtomicU64,
    /// Writes.
    pub writes: AtomicU64,
}

/// Who accessed a cache line last: the agent's, see there. Both words change at once.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct LastAccess {
    /// The thread, its node, and what was found out about its accesses.
    pub who: AtomicU64,
    /// The words that it and the thread before it accessed.
    pub words: AtomicU64,
}

/// Accesses of one thread to one cache line.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LineCounts {
    /// Reads.
    pub reads: AtomicU64,
    /// Writes.
    pub writes: AtomicU64,
    /// Accesses that found another thread to be the last one.
    pub transitions: AtomicU64,
    /// Of those: bound to another node.
    pub node_transitions: AtomicU64,
    /// Of those that found another thread: this one then read what that one had written, or wrote what that one had accessed.
    pub true_sharing: AtomicU64,
    /// Of those: one of the two wrote, but none of what it did concerns the other.
    pub false_sharing: AtomicU64,
    /// Words of 4 bytes that it has accessed, a bit each; and written, 16 bits higher.
    pub words: AtomicU64,
}

/// Where a thread may run, at [`thread::PLACE`] of its extent, from the start of that extent on.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadPlace {
    /// 1 when the rest is filled. On a virtual machine 0 stands for all CPUs and no policy.
    pub known: AtomicU64,
    /// The kernel's number of its memory policy (`MPOL_*`), on a virtual machine with its flags.
    pub policy: AtomicU64,
    /// The nodes of that policy, by the kernel's numbers below 64.
    pub policy_nodes: AtomicU64,
    /// On a virtual machine: the nodes that the program named for it, where flags let these be others.
    pub named_nodes: AtomicU64,
    /// Its CPUs, a bit each.
    pub cpus: [AtomicU64; MOST_CPUS / 64],
}

/// How many sites have counters, for so many classes: their columns may take 1 GiB, as what follows must stay within reach of a displacement.
pub fn sites(classes_log2: u32) -> u32 {
    let most = (1u64 << 30) / (8 << classes_log2);
    most.min(MOST_SITES.into()) as u32
}

/// The site and the class of the counter at a place among the site counters: there is a column of [`sites`] counters for each class.
pub fn site_and_class(place: u64, classes_log2: u32) -> (u32, u32) {
    let sites = u64::from(sites(classes_log2));
    ((place % sites) as u32, (place / sites) as u32)
}

/// Offsets in a thread's extent.
pub mod thread {
    /// The [`super::ThreadPlace`].
    pub const PLACE: u64 = 1 << 38;
    /// The one that another thread wants for it, on a virtual machine.
    pub const WANTED: u64 = PLACE + (1 << 16);
    /// Site counters: see [`super::site_and_class`].
    pub const SITES: u64 = 0;
    /// Bytes reserved for them.
    pub const SITES_BYTES: u64 = 1 << 32;
    /// Page counters.
    pub const PAGES: u64 = SITES + SITES_BYTES;
    /// Bytes reserved for them.
    pub const PAGES_BYTES: u64 = super::MOST_PAGES as u64 * size_of::<super::PageCounts>() as u64;
    /// Reads and writes of pages, one of each: 64 bits a page.
    pub const UPDATES: u64 = PASSES + PASSES_BYTES;
    /// Bytes reserved for them.
    pub const UPDATES_BYTES: u64 = super::MOST_PAGES as u64 * 8;
    /// Stays.
    pub const STAYS: u64 = 1 << 33;
    /// Bytes reserved for them.
    pub const STAYS_BYTES: u64 = super::MOST_SITES as u64 * size_of::<super::StayRecord>() as u64;
    /// Counters of passes, 64 bits each.
    pub const PASSES: u64 = STAYS + STAYS_BYTES;
    /// Bytes reserved for them.
    pub const PASSES_BYTES: u64 = super::MOST_SITES as u64 * 8;
    /// Tallies: their headers; of each in turn the counters, 32 bits each; of each in turn what these count for, 64 bits each.
    pub const TALLIES: u64 = 1 << 34;
    /// Where the counters are.
    pub const TALLY_COUNTERS: u64 = TALLIES + super::MOST_TALLIES as u64 * size_of::<super::TallyHeader>() as u64;
    /// Bytes of those of a tally.
    pub const TALLY_COUNTERS_BYTES: u64 = super::TALLY_PAGES as u64 * 4;
    /// Where stands what they count for.
    pub const TALLY_WORDS: u64 = TALLY_COUNTERS + super::MOST_TALLIES as u64 * TALLY_COUNTERS_BYTES;
    /// Bytes of that, of a tally.
    pub const TALLY_WORDS_BYTES: u64 = super::TALLY_PAGES as u64 * 8;
    /// Bytes reserved for all.
    pub const TALLIES_BYTES: u64 = TALLY_WORDS + super::MOST_TALLIES as u64 * TALLY_WORDS_BYTES - TALLIES;
    /// Counts of cache lines: [`super::LINES_OF_PAGE`] records for each page.
    pub const LINES: u64 = 1 << 39;
    /// Bytes reserved for them.
    pub const LINES_BYTES: u64 =
        super::MOST_LINE_PAGES as u64 * super::LINES_OF_PAGE * size_of::<super::LineCounts>() as u64;
    /// Accesses to cache lines that another thread had accessed last: 64 bits for each thread, by its place in the order of creation.
    pub const COMMUNICATION: u64 = LINES + LINES_BYTES;
    /// Bytes reserved for them.
    pub const COMMUNICATION_BYTES: u64 = super::MOST_EXTENTS as u64 * 8;
    /// Accesses by word: [`super::WORDS_OF_PAGE`] counters for each page.
    pub const WORDS: u64 = (1 << 39) + (1 << 37);
    /// Bytes reserved for them.
    pub const WORDS_BYTES: u64 = super::MOST_LINE_PAGES as u64 * super::WORDS_OF_PAGE * 8;
    /// Accesses that missed the thread's private cache: as [`SITES`], and behind them as [`PAGES`].
    pub const MISSES: u64 = (1 << 39) + (1 << 38);
    /// Bytes reserved for them.
    pub const MISSES_BYTES: u64 = SITES_BYTES + PAGES_BYTES;
}

/// The header of a log record. Records are padded to 8 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct LogHeader {
    /// One of [`log`]; 0 until the record is complete: whoever reads stops there.
    pub kind: AtomicU32,
    /// Bytes, header and padding included.
    pub bytes: AtomicU32,
    /// When.
    pub time_ns: AtomicU64,
}

/// Kinds of log records, and their payload: 64-bit words, then text.
pub mod log {
    /// start, end, offset in the file, PROT bits, 1 if shared; path.
    pub const MAPPED: u32 = 1;
    /// start, end.
    pub const UNMAPPED: u32 = 2;
    /// A program that will run unobserved: pid; why.
    pub const UNOBSERVED: u32 = 3;
    /// Something worth a line in the profile's notes; text.
    pub const NOTE: u32 = 4;
    /// A page lives elsewhere now: its number, its class.
    pub const REHOMED: u32 = 5;
    /// A call stack: instruction pointer, stack pointer, frame pointer; the stack's bytes.
    pub const STACK: u32 = 6;
    /// An access that was counted for [`super::UNDECIDED`] besides those that its page's record tells of: the page's number, the site,
    /// the thread's extent.
    pub const EARLY: u32 = 7;
    /// start, end of memory whose contents were given up while huge pages were in it.
    pub const GONE: u32 = 8;
    /// An access that the collector wanted told: its site, the thread's extent, the address, how many there are from there on, the page's
    /// number.
    pub const ACCESS: u32 = 9;
    /// A phase begins or ends, or something happens: the number of the [`crate::request::Request`], the thread's extent; the name.
    pub const MARK: u32 = 10;
    /// Accesses to words of a page that are another object's, or nobody's, from now on: the thread's extent, the address of the first
    /// word, reads, writes, the page's number.
    pub const SHARE: u32 = 12;
    /// A child that shares memory with its parent executes a program, and is not to be recorded: pid.
    pub const LEFT_OUT: u32 = 11;
}

/// The word of the class of accesses to pages of which nobody knows yet where they will be: those that place a page on a real machine.
/// The page's record says where that was, once it is known.
pub const UNDECIDED: u32 = 1 << 31 | 1 << 9;

/// The word of the class of reads of the zero page, which is nowhere: the next write of such a page makes it another one. Always the first class.
pub const READ_ONLY: u32 = 1 << 31 | 1 << 10 | NO_NODE as u32;

/// What a class means, as a word that is never 0: pages with this home (index in the machine's list), placed by a pinned
/// thread or not.
pub fn class_word(home: Option<u8>, pinned: bool) -> u32 {
    1 << 31 | u32::from(pinned) << 8 | u32::from(home.unwrap_or(NO_NODE))
}

/// The meaning of a word made by [`class_word`], or of [`READ_ONLY`]; none for any other.
pub fn class_meaning(word: u32) -> Option<(Option<u8>, bool)> {
    let home = word as u8;
    (word >> 31 != 0 && word != UNDECIDED).then_some(((home != NO_NODE).then_some(home), word >> 8 & 1 != 0))
}

/// Where the page `page` goes under a policy of [`policy`]; the same arithmetic as the collector's policies have.
pub fn home_under(policy: u32, seed: u64, page: u64, memory_nodes: u64) -> Option<u64> {
    match policy {
        policy::INTERLEAVE if memory_nodes > 0 => Some(page % memory_nodes),
        policy::RANDOM if memory_nodes > 0 => Some(mix(mix(seed) ^ page) % memory_nodes),
        _ => None,
    }
}

/// The finalizer of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        assert!(size_of::<SessionHeader>() as u64 <= PLACEMENT_OFFSET);
        assert!(PLACEMENT_OFFSET + size_of::<Placement>() as u64 <= IMAGE_OFFSET);
        const { assert!(IMAGE_OFFSET + MOST_IMAGE_BYTES <= PATTERN_OFFSET) };
        const { assert!(COMMON_OFFSET + COMMON_ENTRIES as u64 * 8 <= DIRECTORY_OFFSET) };
        assert!(Extent(MOST_EXTENTS).directory_offset() <= Extent(0).offset());
        assert!(Extent(MOST_EXTENTS).offset() <= FILE_BYTES);
        assert!(size_of::<ProcessHeader>() as u64 <= process::LOG);
        const { assert!(process::LOG + process::LOG_BYTES <= process::LOOKUP) };
        assert!(process::SITES + u64::from(MOST_SITES) * size_of::<SiteRecord>() as u64 <= process::STRETCHES);
        assert!(process::STRETCHES + u64::from(MOST_STRETCHES) * size_of::<StretchRecord>() as u64 <= process::PAGES);
        assert!(process::PAGES + u64::from(MOST_PAGES) * size_of::<PageRecord>() as u64 <= process::LINES);
        const { assert!(process::LINES + process::LINES_BYTES <= EXTENT_BYTES) };
        const { assert!(thread::PAGES + thread::PAGES_BYTES <= thread::STAYS) };
        const { assert!(thread::UPDATES + thread::UPDATES_BYTES <= thread::TALLIES) };
        const { assert!(thread::TALLY_COUNTERS.is_multiple_of(4096)) };
        const { assert!(thread::TALLIES + thread::TALLIES_BYTES <= thread::PLACE) };
        assert!(thread::PLACE + size_of::<ThreadPlace>() as u64 <= thread::LINES);
        const { assert!(thread::COMMUNICATION + thread::COMMUNICATION_BYTES <= thread::WORDS) };
        const { assert!(thread::WORDS + thread::WORDS_BYTES <= thread::MISSES) };
        const { assert!(thread::MISSES + thread::MISSES_BYTES <= EXTENT_BYTES) };
    }
}
