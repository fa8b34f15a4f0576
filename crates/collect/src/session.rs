//! From records to facts: who did what to which page, and where that page lived at the time.
//!
//! Records come in order of time, in batches. Some questions can only be put to the kernel, and cost a system call:
//! where a page lives, how large it is. They are gathered while a batch is read and asked once at its end:
//!
//! ```text
//!   batch --handle--> faults, accesses ----.
//!     (threads, maps, stacks follow)       |  settle
//!                                          '--------> homes asked in one go --> facts added
//! ```
//!
//! Between the touch of a page and the question the page may have gone. Its home then follows from the CPU that
//! touched it and is marked as inferred.

mod bindings;
mod brought_in;
mod code_bytes;
mod counted;
mod counted_objects;
mod counts;
mod facts;
mod heap;
mod huge;
mod intern;
mod marks;
mod objects;
mod observed;
mod output;
mod pages;
mod process;
mod remembered;
mod samples;
mod segments;
mod settle;
mod slots;
mod stacks;
mod thread_locals;
mod threads;
mod unobserved;
mod vmas;

use crate::homes::{kernel_balances, thread_affinity, thread_policy};
use crate::perf::{Batch, Payload, Record};
use crate::rank;
pub use counted::{BegunThread, CodePlace, PlacedBy, PlacedPage, TouchId};
pub use counted_objects::{Change, Claimed, SeenAccess};
pub use counts::{Bound, CountedObject, CountedSite, Of, PageClass, UsedPage, Who};
use facts::FactTables;
pub use heap::{HeapNote, HeapNotes};
use intern::Place;
use marks::Marks;
pub use marks::name_of;
use numalens_event::exact::Geometry;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Access, Found, Source};
use numalens_topology::{CpuSet, Machine, NodeId, PagePolicy, ThreadPlacement};
use objects::Objects;
pub use objects::Owner;
use observed::Observed;
pub use output::{Output, OutputError, SeenCode};
use pages::{Run, Touches};
use process::{Images, LiveProcess};
use slots::Slots;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use threads::{ThreadBinding, Threads};

/// How a recording is to be interpreted.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    pub machine: Machine,
    pub placement: ThreadPlacement,
    pub policy: PagePolicy,
    pub time_bins: u32,
    /// Count accesses relative to the stack pointer too.
    pub stack: bool,
    /// Count where code is fetched from.
    pub code: bool,
    /// Count accesses by cache line.
    pub lines: bool,
    /// Attribute every access to its object, however many share a page.
    pub every_object: bool,
    /// Look accesses up in a private cache of each thread.
    pub cache: Option<Geometry>,
    /// Nanoseconds (clock) or accesses (hardware) that one sample stands for.
    pub period: u64,
    /// Record the children of the first process too.
    pub follow: bool,
    /// Accesses are counted, not sampled.
    pub counted: bool,
    /// They are counted from when the program, or the user, says so.
    pub start_paused: bool,
}

/// What was seen of samples and pages, for `meta`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Clock samples in user mode.
    pub samples: u64,
    /// Those given to an access.
    pub resolved: u64,
    /// Of the rest: at accesses relative to the stack pointer, left out unless asked for.
    pub stack: u64,
    /// Of the rest: no memory access found near the instruction.
    pub no_access: u64,
    /// Samples and faults in the interposer's own code: left out.
    pub own: u64,
    /// Page faults seen.
    pub faults: u64,
    /// Pages whose home was inferred because they were gone before it could be asked for.
    pub inferred_homes: u64,
    /// Pages that the kernel moved to another node while we watched.
    pub migrated_pages: u64,
    /// Records that the kernel had to drop.
    pub lost: u64,
    /// Accesses told so far, where every one is counted.
    pub counted: u64,
}

/// A fault waiting for the kernel's word on its page.
struct PendingFault {
    pid: i32,
    time_ns: u64,
    page: Page,
    cpu: u32,
    /// Its bin is set when it is settled: bins may have become wider until then.
    touch: pages::Touch,
    node: Option<NodeId>,
    policy: String,
    /// The faulting instruction only read.
    read_only: bool,
    may_be_huge: bool,
    /// Numbers of the pages that the kernel may have mapped along with it.
    around: std::ops::Range<u64>,
}

/// An access waiting for the home of its page.
struct PendingAccess {
    pid: i32,
    process: ProcessId,
    thread: ThreadId,
    time_ns: u64,
    cpu: u32,
    node: Option<NodeId>,
    site: SiteId,
    stack: Option<StackId>,
    object: ObjectId,
    address: u64,
    found: Found,
    access: Access,
    latency: Option<u32>,
    source: Option<Source>,
    period: u64,
}

/// A sample of the instruction pointer waiting for the home of its code page.
struct PendingFetch {
    pid: i32,
    process: ProcessId,
    thread: ThreadId,
    time_ns: u64,
    node: Option<NodeId>,
    page: Page,
    module: Option<ModuleId>,
}

/// The state of a recording.
pub struct Session {
    options: SessionOptions,
    start_ns: u64,
    now_ns: u64,
    images: Images,
    touches: Touches,
    /// Pages of memory that several processes have mapped.
    segments: segments::Segments,
    live: BTreeMap<i32, LiveProcess>,
    processes: Vec<tables::Process>,
    threads: Threads,
    /// Their places, where this gives them.
    slots: Slots,
    objects: Objects,
    /// What is uncertain of their accesses, of an exact recording.
    object_bounds: Vec<tables::ObjectBound>,
    facts: FactTables,
    marks: Marks,
    observed: Observed,
    pending_faults: Vec<PendingFault>,
    pending_accesses: Vec<PendingAccess>,
    pending_fetches: Vec<PendingFetch>,
    closed_pages: output::ClosedPages,
    output: Output,
    pub tally: Tally,
    first_pid: Option<i32>,
    /// Batches settled so far.
    batch: u32,
    /// The kernel moves pages to where they are used.
    balancing: bool,
    /// The collector's.
    own_pid: u32,
    /// Pages of adopted processes that are on no node of the virtual machine.
    pages_from_before: u64,
    /// Children that are not recorded, as the user wanted, with what is known of their programs.
    left_out: BTreeMap<i32, String>,
    /// Why no program has the library that tells of heap blocks, if none has.
    no_heap: Option<String>,
}

impl Session {
    /// A session that writes to `output`. `start_ns` is now, on the clock of the records.
    pub fn new(options: SessionOptions, output: Output, start_ns: u64) -> Self {
        Session {
            facts: FactTables::new(options.time_bins),
            marks: Marks::default(),
            observed: Observed::new(options.start_paused),
            balancing: !options.machine.is_virtual && kernel_balances(),
            objects: Objects::new(options.every_object),
            object_bounds: Vec::new(),
            options,
            start_ns,
            now_ns: 0,
            images: Images::default(),
            touches: Touches::default(),
            segments: segments::Segments::default(),
            live: BTreeMap::new(),
            processes: Vec::new(),
            threads: Threads::default(),
            slots: Slots::default(),
            pending_faults: Vec::new(),
            pending_accesses: Vec::new(),
            pending_fetches: Vec::new(),
            closed_pages: output::ClosedPages::default(),
            output,
            tally: Tally::default(),
            first_pid: None,
            own_pid: std::process::id(),
            pages_from_before: 0,
            left_out: BTreeMap::new(),
            no_heap: None,
            batch: 0,
        }
    }

    /// So many records were lost since the start: at least those that the rings told of.
    pub fn lost_in_all(&mut self, count: u64) {
        self.tally.lost = self.tally.lost.max(count);
    }

    /// The recording has come to `time_ns`.
    fn come_to(&mut self, time_ns: u64) {
        self.now_ns = self.now_ns.max(time_ns);
        self.images.now_ns = self.now_ns;
    }

    /// Nanoseconds since the start of the recording.
    pub fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start_ns)
    }

    /// The time bin of a moment; everything that holds bins follows when they become wider.
    fn bin(&mut self, time_ns: u64) -> Bin {
        let (bin, halvings) = self.facts.bin(time_ns);
        self.widen(halvings);
        bin
    }

    fn widen(&mut self, halvings: u32) {
        if halvings > 0 {
            self.touches.coarsen(halvings);
            self.closed_pages.coarsen(halvings);
        }
    }

    /// Adds a process that exists already, with its threads, as /proc shows it.
    pub fn adopt(&mut self, pid: i32, cause: &str) -> ProcessId {
        let id = self.begin_process(pid, None, command_line(pid).unwrap_or_else(|| comm(pid, pid)), self.now_ns);
        for tid in task_ids(pid) {
            self.begin_thread(id, (pid, tid), None, self.now_ns, cause);
        }
        if let Some(process) = self.live.get_mut(&pid) {
            process.read_maps(&mut self.images);
        }
        if self.options.machine.is_virtual {
            self.note_pages_from_before(pid);
        }
        id
    }

    /// Adds a process of one thread that waits to execute the program: nothing of what it is yet matters.
    pub fn expect(&mut self, pid: i32) {
        let id = self.begin_process(pid, None, String::new(), self.now_ns);
        self.begin_thread(id, (pid, pid), None, self.now_ns, "start");
    }

    fn begin_process(&mut self, pid: i32, parent: Option<ProcessId>, command: String, time_ns: u64) -> ProcessId {
        self.first_pid.get_or_insert(pid);
        let id = ProcessId(self.processes.len() as u32);
        self.processes.push(tables::Process {
            process: id,
            pid: pid as u32,
            parent,
            // A forked child has its parent's environment.
            rank: match parent {
                Some(id) => self.processes.get(id.0 as usize).and_then(|row| row.rank),
                None => rank::of_process(pid),
            },
            host: host_name(),
            command,
            start_ns: time_ns,
            end_ns: None,
            end: "running".to_owned(),
            // What a forked child's parent had loaded, it has.
            heap_observed: parent.and_then(|id| self.processes.get(id.0 as usize)).is_some_and(|row| row.heap_observed),
        });
        let process = match parent.and_then(|_| self.parent_of(id)) {
            Some(parent) => parent.fork(id, pid),
            None => LiveProcess::new(id, pid),
        };
        self.live.insert(pid, process);
        id
    }

    fn parent_of(&self, id: ProcessId) -> Option<&LiveProcess> {
        let parent = self.processes.get(id.0 as usize)?.parent?;
        self.live.values().find(|process| process.id == parent)
    }

    /// `creator`: the thread that made this one, if that was seen. A new thread has its creator's CPUs and policy; by the
    /// time we can ask the kernel it may have changed them, or have ended.
    fn begin_thread(&mut self, process: ProcessId, id: (i32, i32), creator: Option<u32>, time_ns: u64, cause: &str) {
        let (pid, tid) = id;
        let name = comm(pid, tid);
        let machine = &self.options.machine;
        let (bound, cause) = if machine.is_virtual {
            let slot = self.slots.next(pid) + rank::own().unwrap_or(0) as usize;
            (self.virtual_bound(self.options.placement.node_of(machine, slot)), "virtual machine")
        } else {
            let inherited = creator.and_then(|creator| self.threads.get(creator)).map(|creator| creator.bound.clone());
            (inherited.or_else(|| self.asked_bound(pid, tid)).unwrap_or_else(|| self.anywhere()), cause)
        };
        self.threads.begin(process, tid as u32, &name, time_ns, bound, cause);
    }

    /// Where a thread of `node` may run on the virtual machine; none: unpinned.
    fn virtual_bound(&self, node: Option<NodeId>) -> ThreadBinding {
        let machine = &self.options.machine;
        let cpus = match node.and_then(|node| machine.node(node)) {
            Some(node) => node.cpus.clone(),
            None => machine.cpus(),
        };
        ThreadBinding { cpus, node, policy: self.options.policy.to_string() }
    }

    /// Where a thread may run of which nothing is known.
    fn anywhere(&self) -> ThreadBinding {
        ThreadBinding { cpus: self.options.machine.cpus(), node: None, policy: "default".to_owned() }
    }

    /// Where a thread may run now, if it still exists.
    fn asked_bound(&self, pid: i32, tid: i32) -> Option<ThreadBinding> {
        let cpus = thread_affinity(tid).ok()?;
        let policy = thread_policy(pid, tid).ok()?;
        Some(bound(&self.options.machine, cpus, policy))
    }

    /// Asks where every thread may run now (real machine only): changes nobody told us of, as notes of the time `now` (on the
    /// clock of the records), to be handled when all that happened before has been.
    pub fn observe_placements(&self, with_policies: bool, now: u64, notes: &mut HeapNotes) {
        if self.options.machine.is_virtual {
            return;
        }
        for tid in self.threads.tids() {
            let Some(thread) = self.threads.get(tid) else { continue };
            let Some(pid) = self.processes.get(thread.process.0 as usize).map(|row| row.pid as i32) else { continue };
            let Ok(cpus) = thread_affinity(tid as i32) else { continue };
            let policy = match with_policies.then(|| thread_policy(pid, tid as i32)) {
                Some(Ok(policy)) => policy,
                _ => thread.bound.policy.clone(),
            };
            let bound = bound(&self.options.machine, cpus, policy);
            if bound != thread.bound {
                notes.observed(now, pid, tid, bound);
            }
        }
    }

    /// A thread of `pid` has changed its memory policy: asks which one it has now.
    fn policy_changed(&mut self, pid: i32, tid: u32, time_ns: u64) {
        if self.options.machine.is_virtual {
            return;
        }
        let Some(cpus) = self.threads.get(tid).map(|thread| thread.bound.cpus.clone()) else { return };
        if let Ok(policy) = thread_policy(pid, tid as i32) {
            self.threads.bind(tid, bound(&self.options.machine, cpus, policy), time_ns, "set_mempolicy");
        }
    }

    /// Takes in one record.
    pub fn handle(&mut self, batch: &Batch, record: &Record) {
        let time_ns = self.since_start(record.time);
        self.come_to(time_ns);
        let (pid, tid) = (record.pid as i32, record.tid as i32);
        if let Payload::Lost { count } = record.payload {
            self.tally.lost += count;
            return;
        }
        // Our own process is met when the whole system is watched.
        if pid <= 0 || record.pid == self.own_pid {
            return;
        }
        if !self.follows(pid) {
            match &record.payload {
                Payload::Forked { .. } => self.left_out(pid, String::new()),
                Payload::Named { name, exec: true } => {
                    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
                    self.left_out(pid, command_line(pid).unwrap_or(name));
                }
                _ => {}
            }
            return;
        }
        match &record.payload {
            Payload::Forked { parent_pid, parent_tid } => {
                self.forked(pid, tid, *parent_pid as i32, *parent_tid, time_ns);
            }
            Payload::Exited => self.exited(pid, tid, time_ns),
            Payload::Named { name, exec } => self.named(pid, tid, name, *exec, time_ns),
            Payload::Mapped { start, end, offset, prot, shared, inode, path } => {
                self.known(pid);
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                let vma = LiveProcess::vma_of(*start, *end, *offset, *prot, *shared, *inode, path);
                if let Some(process) = self.live.get_mut(&pid) {
                    process.map(&mut self.images, vma);
                }
            }
            Payload::SwitchedOut => self.threads.switched(record.tid, record.cpu, false),
            Payload::SwitchedIn => self.threads.switched(record.tid, record.cpu, true),
            Payload::Sampled(sampled) => self.sampled(batch, record, sampled, time_ns),
            Payload::Lost { .. } => {}
        }
    }

    /// Whether children are to be recorded too.
    pub fn follows_children(&self) -> bool {
        self.options.follow
    }

    /// A child is not recorded, as the user wanted: it is named in the profile all the same.
    pub fn left_out(&mut self, pid: i32, command: String) {
        let known = self.left_out.entry(pid).or_default();
        if !command.is_empty() {
            *known = command;
        }
    }

    /// Whether a process is to be recorded: every one, or only the first.
    fn follows(&self, pid: i32) -> bool {
        self.options.follow || self.first_pid.is_none_or(|first| first == pid)
    }

    /// Makes sure that the process is known; one that runs since before the recording is adopted.
    fn known(&mut self, pid: i32) {
        if !self.live.contains_key(&pid) {
            self.adopt(pid, "observed");
        }
    }

    fn forked(&mut self, pid: i32, tid: i32, parent_pid: i32, parent_tid: u32, time_ns: u64) {
        if pid == parent_pid {
            self.known(pid);
            let Some(process) = self.live.get(&pid).map(|process| process.id) else { return };
            if self.threads.get(tid as u32).is_none() {
                self.begin_thread(process, (pid, tid), Some(parent_tid), time_ns, "start");
            }
            return;
        }
        self.known(parent_pid);
        // What the parent touched before, the child inherits: that must be known when its pages are copied.
        self.settle();
        let parent = self.live.get(&parent_pid).map(|process| process.id);
        let command = parent
            .and_then(|parent| self.processes.get(parent.0 as usize))
            .map(|row| row.command.clone())
            .unwrap_or_default();
        let process = self.begin_process(pid, parent, command, time_ns);
        self.begin_thread(process, (pid, tid), Some(parent_tid), time_ns, "start");
    }

    fn named(&mut self, pid: i32, tid: i32, name: &[u8], exec: bool, time_ns: u64) {
        self.known(pid);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        if exec {
            self.settle();
            self.process_execs(pid, Some(command_line(pid).unwrap_or_else(|| name.clone())), time_ns);
            if let Some(id) = self.live.get(&pid).map(|process| process.id) {
                if self.threads.get(tid as u32).is_none() {
                    self.begin_thread(id, (pid, tid), None, time_ns, "start");
                }
                // The program before may have bound itself for this one (numactl, taskset).
                if !self.options.machine.is_virtual
                    && let Some(bound) = self.asked_bound(pid, tid)
                {
                    self.threads.bind(tid as u32, bound, time_ns, "exec");
                }
                // The other threads did not survive the exec.
                self.threads.end_all_but(id, Some(tid as u32), time_ns);
            }
        }
        self.threads.rename(tid as u32, &name);
    }

    fn exited(&mut self, pid: i32, tid: i32, time_ns: u64) {
        let Some(process) = self.live.get(&pid).map(|process| process.id) else { return };
        self.threads.end(tid as u32, time_ns);
        if self.threads.of_process(process).next().is_none() {
            self.settle();
            self.close_memory(pid, time_ns, None);
            self.live.remove(&pid);
            self.slots.ended(pid);
            let row = &mut self.processes[process.0 as usize];
            row.end_ns = Some(time_ns);
            if row.end == "running" {
                row.end = "unknown".to_owned();
            }
        }
    }

    /// Says how the process that was launched ended.
    pub fn ended(&mut self, pid: i32, end: String) {
        if let Some(row) = self.processes.iter_mut().rev().find(|row| row.pid == pid as u32) {
            row.end = end;
        }
    }

    /// A process's memory is no more: what its pages and blocks were goes into the profile. `end` is the bin in which
    /// another program took the process over; none when the process itself ended.
    fn close_memory(&mut self, pid: i32, time_ns: u64, end: Option<Bin>) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        process.ended = true;
        self.objects.release_all(&mut process.blocks, time_ns);
        let runs = std::mem::take(&mut process.pages).runs();
        let id = process.id;
        self.marks.close(id, time_ns);
        self.close_runs(id, &runs, end);
    }

    fn close_runs(&mut self, process: ProcessId, runs: &[Run], end: Option<Bin>) {
        for run in runs {
            let touch = self.touches.get(run.state.touch);
            // What a forked child inherited was placed by its parent, and stands in the parent's rows.
            if touch.process == process {
                let row = self.page_row(run, touch, end);
                self.closed_pages.add(row);
            }
        }
    }
}

/// The placement that CPUs and a memory policy make: a policy that binds to one node wins.
fn bound(machine: &Machine, cpus: CpuSet, policy: String) -> ThreadBinding {
    let by_policy = policy.strip_prefix("bind:").and_then(|nodes| nodes.parse().ok()).map(NodeId);
    let node = by_policy.or_else(|| machine.single_node(&cpus));
    ThreadBinding { cpus, node, policy }
}

/// The words of a process's command; `None` for one that is gone, or has none.
pub fn command_line(pid: i32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = command.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    Some(words.join(" ").trim_end().to_owned()).filter(|command| !command.is_empty())
}

fn comm(pid: i32, tid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn task_ids(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
