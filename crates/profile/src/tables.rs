//! Every table of a profile, one struct each: a field is a column, the struct's doc says what one row is.
//!
//! Facts (`page_accesses`, `site_accesses`, `object_accesses`, `samples`, `code_fetches`, `site_misses`, `page_misses`,
//! `cache_lines`, `line_communication`) merge by addition; the rest are their dimensions. Times are nanoseconds since
//! the start of the recording. Addresses are virtual. A count that comes from samples carries its `period`, the amount
//! of the recorded unit (`meta.unit`) that one counted sample stands for; exact counts have period 1 and `samples` 0.

use crate::ids::*;
use crate::words::*;
use numalens_topology::NodeId;

/// How the path of a module begins that stands for code that a process made at run time: `perf-map:PID`. Addresses in
/// it are absolute; a runtime can name them in /tmp/perf-PID.map.
pub const PERF_MAP: &str = "perf-map:";

/// How the names of variables end of which each thread has a copy.
pub const THREAD_LOCAL: &str = " (thread-local)";
/// What the object is called that has the accesses to blocks of a process's heap that are no rows of `objects`.
pub const UNSAMPLED_BLOCKS: &str = "heap blocks that were not sampled";

table! {
    /// A process that the recording met.
    Process = "processes" {
        process: ProcessId,
        pid: u32,
        parent: Option<ProcessId>,
        rank: Option<u32>,
        host: String,
        command: String,
        start_ns: u64,
        end_ns: Option<u64>,
        /// `exited 0`, `killed by signal 9`, `running` (when the recording ended), or `unknown`.
        end: String,
        /// Whether its heap calls were observed (a static program's cannot be).
        heap_observed: bool,
    }

    /// A thread.
    Thread = "threads" {
        process: ProcessId,
        thread: ThreadId,
        tid: u32,
        name: String,
        start_ns: u64,
        end_ns: Option<u64>,
        /// Times the scheduler took it off a CPU.
        switches: u64,
        /// Times it went on on another CPU than before.
        migrations: u64,
    }

    /// The thread's placement from `time_ns` on: its pinning log.
    Placement = "placements" {
        process: ProcessId,
        thread: ThreadId,
        time_ns: u64,
        /// Allowed CPUs as a kernel list, `0-3,8`.
        cpus: String,
        /// The node that it is bound to; none: unpinned.
        node: Option<NodeId>,
        /// Memory policy in the kernel's words: `default`, `bind:0`, `interleave:0-3`, ...
        policy: String,
        /// What made it so: `start`, `observed`, `sched_setaffinity`, `virtual machine`, ...
        cause: String,
    }

    /// A file or region that code or data was mapped from.
    Module = "modules" {
        module: ModuleId,
        path: String,
        /// Hexadecimal; empty when it has none.
        build_id: String,
    }

    /// A range of addresses of a process while it was mapped.
    Mapping = "mappings" {
        process: ProcessId,
        time_ns: u64,
        start: u64,
        end: u64,
        /// Offset of `start` in the file.
        offset: u64,
        /// As in /proc/PID/maps: `r-xp`.
        perms: String,
        module: Option<ModuleId>,
        name: String,
    }

    /// A machine instruction.
    Site = "sites" {
        site: SiteId,
        module: Option<ModuleId>,
        /// The address that the module's own symbol table uses (stated virtual memory address); absolute when there is
        /// no module.
        address: u64,
    }

    /// One level of the inlined call chain at a site; depth 0 is the innermost. Written by `symbolize`.
    Frame = "frames" {
        site: SiteId,
        depth: u32,
        function: FunctionId,
        file: Option<String>,
        line: Option<u32>,
    }

    /// A function. Written by `symbolize`.
    Function = "functions" {
        function: FunctionId,
        module: Option<ModuleId>,
        /// Demangled.
        name: String,
    }

    /// A node of the tree of call stacks: `site`, called from the site of `parent`. The leaf is the innermost frame.
    Stack = "stacks" {
        stack: StackId,
        parent: Option<StackId>,
        site: SiteId,
    }

    /// Fact: accesses of one thread to one page in one time bin.
    /// A row never spans a change of the node that the thread was bound to.
    PageAccess = "page_accesses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        /// The node that the thread was bound to; none: unpinned. Older profiles lack the column: there the pinning log
        /// tells ([`crate::PinningLog`]).
        node: Option<NodeId>,
        /// Where the page was then; none: nowhere, not known, or an older profile, which lacks the column. Pages may
        /// move.
        home: Option<NodeId>,
        page: Page,
        reads: u64,
        writes: u64,
        samples: u32,
        period: u64,
    }

    /// Fact: accesses of one thread from one site to pages of one home in one time bin, of one class.
    /// A row never spans a change of the node that the thread was bound to.
    SiteAccess = "site_accesses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        /// The node that the thread was bound to; none: unpinned.
        node: Option<NodeId>,
        site: SiteId,
        home: Option<NodeId>,
        class: Class,
        reads: u64,
        writes: u64,
        samples: u32,
        period: u64,
    }

    /// Fact: accesses of one thread from one site to one object. In exact recordings rows without `samples` are exact,
    /// from counts of whole pages, which do not know the site; those with samples are the counts of pages that several
    /// objects share, told apart by that many sampled accesses.
    ObjectAccess = "object_accesses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        node: Option<NodeId>,
        site: Option<SiteId>,
        object: ObjectId,
        home: Option<NodeId>,
        class: Class,
        reads: u64,
        writes: u64,
        samples: u32,
        period: u64,
    }

    /// What is uncertain of an object's accesses in an exact recording, because of pages that several objects shared.
    /// Profiles of versions that did not tell have none.
    ObjectBound = "object_bounds" {
        process: ProcessId,
        object: ObjectId,
        /// Accesses to pages that it has shared, while it did, which were divided by samples.
        divided: u64,
        /// Sum over these of how many accesses such a sample stands for.
        squares: f64,
        /// Those that were not told apart: any of them may be its own.
        untold: u64,
        /// Those of the divided ones of which it may have so many more or less, as samples may not have come at random.
        skewed: u64,
    }

    /// Fact of imported profiles that have no finer ones: accesses of one thread, while bound to `node`, to pages of
    /// one home. Reads and writes are not told apart (`meta.reads_and_writes` is false).
    NodeAccess = "node_accesses" {
        process: ProcessId,
        thread: ThreadId,
        node: Option<NodeId>,
        home: Option<NodeId>,
        accesses: u64,
        /// Bytes that it allocated there, where the tool counts them.
        allocated: u64,
        /// Pages that it touched first and that came to lie there; they stand beside one of the thread's nodes.
        touched: u64,
    }

    /// Fact of imported profiles that have no finer ones: accesses of one thread, or from one site, or to the objects
    /// of one allocation: one of the three is there. Threads and sites count the same accesses; their number is the sum
    /// of all columns, as the access that places a page has no class.
    ClassSum = "class_sums" {
        process: ProcessId,
        thread: Option<ThreadId>,
        site: Option<SiteId>,
        object: Option<ObjectId>,
        local: u64,
        remote: u64,
        unpinned_page: u64,
        unpinned_thread: u64,
        unpinned_both: u64,
        memory_tier_local: u64,
        memory_tier_remote: u64,
        /// Accesses of pinned and of unpinned threads to pages that had no home yet.
        first_touch: u64,
        unpinned_first_touch: u64,
    }

    /// Fact of exact recordings with a private cache for each thread (`meta.cache`): those accesses of a row of
    /// `site_accesses` that missed it. A read-modify-write that does is a read.
    SiteMiss = "site_misses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        node: Option<NodeId>,
        site: SiteId,
        home: Option<NodeId>,
        class: Class,
        reads: u64,
        writes: u64,
    }

    /// Fact of such recordings: those accesses of a row of `page_accesses` that missed the thread's private cache.
    PageMiss = "page_misses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        node: Option<NodeId>,
        home: Option<NodeId>,
        page: Page,
        reads: u64,
        writes: u64,
    }

    /// Fact of exact recordings that ask for it: accesses of one thread to one cache line of 64 bytes, of the whole
    /// recording; to those lines of a page that no other thread accessed, together. An access belongs to the line that
    /// it begins in.
    CacheLine = "cache_lines" {
        process: ProcessId,
        thread: ThreadId,
        page: Page,
        /// Which of the page's 64; none: several.
        line: Option<u32>,
        /// Lines that the row stands for.
        lines: u32,
        /// What held the first word that the thread accessed, when the recording looked; none: of several lines, or not
        /// known.
        object: Option<ObjectId>,
        reads: u64,
        writes: u64,
        /// Words of 4 bytes that the thread accessed, and wrote: a bit each, the lowest the first; 0 of several lines.
        words_accessed: u32,
        words_written: u32,
        /// Accesses that found another thread to be the last one that had accessed the line.
        transitions: u64,
        /// Of those: one that was bound to another node then.
        node_transitions: u64,
        /// Of `transitions`: from there on until its turn ended, the thread read what the other one had written in its
        /// own, or wrote what that had accessed.
        true_sharing: u64,
        /// Of `transitions`: one of the two wrote, but other words than the other accessed.
        false_sharing: u64,
    }

    /// Of exact recordings within a budget of memory: pages that were counted together. What `page_accesses` has of
    /// `page` from then on is of so many pages of 2 MiB, of which that is the first.
    PageRegion = "page_regions" {
        process: ProcessId,
        page: Page,
        pages: u32,
    }

    /// An instruction of a loop that ends only when somebody else writes to memory: its accesses wait. As
    /// far as the code was there to look at.
    WaitingSite = "waiting_sites" {
        site: SiteId,
    }

    /// Fact of exact recordings that ask for it: accesses of one thread to cache lines that `other` had accessed last.
    LineCommunication = "line_communication" {
        process: ProcessId,
        thread: ThreadId,
        other: ThreadId,
        accesses: u64,
    }

    /// Fact of the sample engine: one sampled access.
    Sample = "samples" {
        process: ProcessId,
        time_ns: u64,
        thread: ThreadId,
        cpu: u32,
        site: SiteId,
        stack: Option<StackId>,
        address: u64,
        found: Found,
        access: Access,
        object: Option<ObjectId>,
        node: Option<NodeId>,
        home: Option<NodeId>,
        class: Class,
        latency: Option<u32>,
        source: Option<Source>,
        period: u64,
    }

    /// Fact: instructions executed (sample engine: samples taken) by one thread on one code page in one time bin.
    CodeFetch = "code_fetches" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        node: Option<NodeId>,
        page: Page,
        module: Option<ModuleId>,
        home: Option<NodeId>,
        instructions: u64,
        period: u64,
    }

    /// Sum of `page_accesses`, of large exact recordings: accesses of one thread to the pages of one home on memory
    /// that is one to analyses. This table and the seven below it are written together, when the names of code are
    /// known; a profile that lacks them says the same with all facts.
    PageSum = "page_sums" {
        /// The memory: the first of its rows of `pages`, which count from 0 in the order of process, page and
        /// `bin_from`. Those of one object and one first toucher are one; where no object is known, those that one
        /// instruction has touched first. None: no row has the pages.
        first_row: Option<u32>,
        thread: ThreadId,
        /// The node that the thread was bound to; none: unpinned.
        node: Option<NodeId>,
        /// Where the pages were then.
        home: Option<NodeId>,
        /// By the first toucher, at the time of the touch.
        initial: bool,
        reads: u64,
        writes: u64,
        /// Those of them that wait for other threads.
        waiting_reads: u64,
        waiting_writes: u64,
    }

    /// Sum of `page_accesses`: how the nodes share memory that one line of the program could place otherwise, and what
    /// of it stays in caches. Accesses that wait and initialisations are left out.
    TargetSum = "target_sums" {
        /// The first of its rows of `pages`, as in `page_sums`.
        first_row: u32,
        /// Accesses from nodes, and those of them to pages that have two or more.
        accesses: u64,
        shared: u64,
        /// Of the latter, in parts of 2^-40: those that have the node of another one that is drawn of their page. The
        /// lower 64 bits, and those above.
        same: u64,
        same_high: u64,
        /// Accesses from anywhere, and those of them to pages that stay in private caches.
        used: u64,
        cached: u64,
        /// By nodes other than the maker's, waiting included.
        others_reads: u64,
        others_writes: u64,
        /// By the maker's: before the time bin in which others begin, in it, and since.
        before_reads: u64,
        before_writes: u64,
        opening_reads: u64,
        opening_writes: u64,
        own_reads: u64,
        own_writes: u64,
    }

    /// Sum of `page_accesses`: accesses of one node to one part of such memory. Of all huge pages, and of all small
    /// pages where few were used twice.
    TargetPart = "target_parts" {
        /// The memory, as in `target_sums`.
        first_row: u32,
        huge: bool,
        process: ProcessId,
        /// Of the page, in pages of its size.
        number: u64,
        node: NodeId,
        accesses: u64,
    }

    /// Sum of `page_accesses`: accesses that two threads make to the same pages, of each page as many as the one makes
    /// that uses it less. Initialisations are left out. Where pages have few accesses, neighbouring ones count as one.
    ThreadPair = "thread_pairs" {
        thread: ThreadId,
        node: Option<NodeId>,
        /// It comes later in the order of threads and nodes.
        other: ThreadId,
        other_node: Option<NodeId>,
        accesses: f64,
    }

    /// Sum of `page_accesses`: a page with several small objects whose users have it in their caches.
    CachedPage = "cached_pages" {
        process: ProcessId,
        page: Page,
    }

    /// Sum of `page_accesses`: accesses to pages that one node uses more than others do, and those from nodes with
    /// CPUs.
    MainUser = "main_users" {
        node: NodeId,
        /// By the node itself, and by all.
        own: u64,
        accesses: u64,
    }

    /// Sum of `page_accesses` where many threads use the same pages: accesses from a node to a page while it had one
    /// home.
    NodePage = "node_pages" {
        process: ProcessId,
        page: Page,
        /// The node that the threads were bound to; none: unpinned.
        node: Option<NodeId>,
        home: Option<NodeId>,
        reads: u64,
        writes: u64,
    }

    /// Accesses of an instruction that the sums took for waiting. Sums of other names of code say nothing.
    SummedWait = "summed_waits" {
        site: SiteId,
        accesses: u64,
    }

    /// A period in which a run of `count` neighbouring pages, placed alike, had one home.
    PlacedPages = "pages" {
        process: ProcessId,
        page: Page,
        count: u64,
        bin_from: Bin,
        /// Exclusive; none: until the end of the process or of the recording.
        bin_to: Option<Bin>,
        home: Option<NodeId>,
        /// Bytes of the page that maps it: 4096, 2 MiB, ...
        page_size: u64,
        placed: Placed,
        fault: Fault,
        /// The kernel placed them, in this call of the thread, which `site` and `stack` lead to; none: an access did,
        /// or nobody knows, or an older profile, which
        /// lacks the column.
        call: Option<SystemCall>,
        thread: Option<ThreadId>,
        /// The node that the thread was bound to when it touched them; none: unpinned, or an older profile, which lacks
        /// the column.
        node: Option<NodeId>,
        site: Option<SiteId>,
        stack: Option<StackId>,
        object: Option<ObjectId>,
        /// The home was not read from the kernel but follows from the CPU of the first touch (the page was gone before
        /// it could be asked for).
        inferred: bool,
    }

    /// An object of one of the five kinds, or `count` small ones of one allocation site.
    Object = "objects" {
        process: ProcessId,
        object: ObjectId,
        kind: ObjectKind,
        name: String,
        base: u64,
        /// Bytes, of all `count` together.
        size: u64,
        count: u64,
        site: Option<SiteId>,
        stack: Option<StackId>,
        thread: Option<ThreadId>,
        birth_ns: u64,
        death_ns: Option<u64>,
    }

    /// An allocation or release that was recorded.
    Allocation = "allocations" {
        process: ProcessId,
        time_ns: u64,
        thread: ThreadId,
        object: Option<ObjectId>,
        call: Call,
        address: u64,
        bytes: u64,
        /// How many bytes of allocations of this site this row stands for (`bytes` when all were recorded; 0: it
        /// reserves addresses, and only what is touched of them is memory).
        weight: u64,
    }

    /// A node of the machine in force.
    MachineNode = "machine" {
        node: NodeId,
        cpus: String,
        memory_bytes: u64,
        /// SLIT distances to nodes in the table's order, `10 21`.
        distances: String,
        /// Memory tier, 0 the fastest.
        tier: u32,
        /// Huge page sizes in bytes, `2097152 1073741824`.
        huge_pages: String,
        /// It has CPUs, and none in `cpus`: they are offline, or not allowed where the machine was described. None in
        /// profiles of versions that took such a node for a memory tier.
        only_unusable_cpus: Option<bool>,
        latency_ns: Option<f64>,
        bandwidth: Option<f64>,
    }

    /// A named span of the program.
    Phase = "phases" {
        process: ProcessId,
        phase: u32,
        name: String,
        thread: Option<ThreadId>,
        start_ns: u64,
        end_ns: Option<u64>,
        /// Where the phase is named by a place in the program: the call that begins an OpenMP parallel region.
        site: Option<SiteId>,
    }

    /// A thread's parts in collections of garbage of one kind, on one node.
    Collection = "collections" {
        process: ProcessId,
        thread: Option<ThreadId>,
        /// The node that the thread was on when its part was over; none: not known.
        node: Option<NodeId>,
        /// `generation 0`, or what the runtime calls it.
        kind: String,
        /// Collections that the thread has led, the nanoseconds of all of them, and of the longest.
        led: u64,
        led_ns: u64,
        longest_ns: u64,
        /// Those that it has taken part in beside another thread, and the nanoseconds of its parts.
        helped: u64,
        helped_ns: u64,
    }

    /// Objects that threads on a node have processed in collections of garbage: each time that one came to a pointer.
    ProcessedObjects = "processed_objects" {
        process: ProcessId,
        node: Option<NodeId>,
        /// Where they lay.
        home: Option<NodeId>,
        /// Theirs, by the runtime's number; none: they are static.
        generation: Option<u32>,
        objects: u64,
    }

    /// How the profile was made: one key and its value as JSON.
    MetaEntry = "meta" {
        key: String,
        value: String,
    }
}

/// Tables of sums of `page_accesses`. They are of all facts of one recording: where several become one, or some facts
/// are left out, there are none.
pub const SUMS: [&str; 8] = [
    PageSum::TABLE,
    TargetSum::TABLE,
    TargetPart::TABLE,
    ThreadPair::TABLE,
    CachedPage::TABLE,
    MainUser::TABLE,
    NodePage::TABLE,
    SummedWait::TABLE,
];
