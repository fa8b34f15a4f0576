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
mod clock;
mod code_bytes;
mod counted;
mod counted_objects;
mod counts;
mod facts;
mod heap;
mod heap_notes;
mod images;
mod intern;
mod marks;
mod objects;
mod observed;
mod options;
mod output;
mod page_map;
mod pages;
mod pending;
mod process;
mod processes;
mod remembered;
mod samples;
mod settle;
mod slots;
mod stacks;
mod thread_bindings;
mod thread_locals;
mod threads;
mod touches;
mod unobserved;
mod vmas;

use crate::homes::{thread_affinity, thread_policy};
use crate::perf::{Batch, Payload, Record};
use crate::rank;
use clock::Clock;
pub use counted::{BegunThread, CodePlace};
pub use counted_objects::{Change, Claimed, SeenAccess};
pub use counts::{Bound, CountedObject, CountedSite, Of, PageClass, UsedPage, Who};
use facts::FactTables;
pub use heap_notes::{HeapNote, HeapNotes};
use images::Images;
use marks::Marks;
pub use marks::name_of;
use numalens_profile::ids::*;
use objects::Objects;
pub use objects::Owner;
use observed::Observed;
pub use options::SessionOptions;
pub use output::{Output, OutputError, SeenCode};
use pages::Pages;
use pending::Pending;
use processes::Processes;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use threads::Threads;
pub use touches::{PlacedBy, PlacedPage, TouchId};
use unobserved::Unobserved;
use vmas::Vma;

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
    /// Records that the kernel had to drop.
    pub lost: u64,
    /// Accesses told so far, where every one is counted.
    pub counted: u64,
}

/// The state of a recording, in parts.
pub struct Session {
    options: SessionOptions,
    clock: Clock,
    images: Images,
    processes: Processes,
    threads: Threads,
    objects: Objects,
    pages: Pages,
    facts: FactTables,
    marks: Marks,
    observed: Observed,
    unobserved: Unobserved,
    pending: Pending,
    output: Output,
    pub tally: Tally,
}

impl Session {
    /// A session that writes to `output`. `start_ns` is now, on the clock of the records.
    pub fn new(options: SessionOptions, output: Output, start_ns: u64) -> Self {
        Session {
            clock: Clock::new(start_ns),
            images: Images::default(),
            processes: Processes::new(options.follow),
            threads: Threads::default(),
            objects: Objects::new(options.every_object),
            pages: Pages::new(&options.machine),
            facts: FactTables::new(options.time_bins),
            marks: Marks::default(),
            observed: Observed::new(options.start_paused),
            unobserved: Unobserved::default(),
            pending: Pending::default(),
            output,
            tally: Tally::default(),
            options,
        }
    }

    /// So many records were lost since the start: at least those that the rings told of.
    pub fn lost_in_all(&mut self, count: u64) {
        self.tally.lost = self.tally.lost.max(count);
    }

    /// The recording has come to `time_ns`.
    fn come_to(&mut self, time_ns: u64) {
        self.clock.come_to(time_ns);
        self.images.now_ns = self.clock.now_ns;
    }

    /// Nanoseconds since the start of the recording.
    pub fn since_start(&self, time: u64) -> u64 {
        self.clock.since_start(time)
    }

    /// The time bin of a moment; everything that holds bins follows when they become wider.
    fn bin(&mut self, time_ns: u64) -> Bin {
        let (bin, halvings) = self.facts.bin(time_ns);
        self.pages.coarsen(halvings);
        bin
    }

    /// Adds a process that exists already, with its threads, as /proc shows it.
    pub fn adopt(&mut self, pid: i32, cause: &str) -> ProcessId {
        let id =
            self.processes.begin(pid, None, command_line(pid).unwrap_or_else(|| comm(pid, pid)), self.clock.now_ns);
        for tid in task_ids(pid) {
            self.begin_thread(id, (pid, tid), None, self.clock.now_ns, cause);
        }
        if let Some(process) = self.processes.get_mut(pid) {
            process.read_maps(&mut self.images);
        }
        if self.options.machine.is_virtual {
            self.note_pages_from_before(pid);
        }
        id
    }

    /// Adds a process of one thread that waits to execute the program: nothing of what it is yet matters.
    pub fn expect(&mut self, pid: i32) {
        let id = self.processes.begin(pid, None, String::new(), self.clock.now_ns);
        self.begin_thread(id, (pid, pid), None, self.clock.now_ns, "start");
    }

    /// `creator`: the thread that made this one, if that was seen. A new thread has its creator's CPUs and policy; by the
    /// time we can ask the kernel it may have changed them, or have ended.
    fn begin_thread(&mut self, process: ProcessId, id: (i32, i32), creator: Option<u32>, time_ns: u64, cause: &str) {
        let (pid, tid) = id;
        let options = &self.options;
        let (bound, cause) = if options.machine.is_virtual {
            let slot = self.processes.slots.next(pid) + rank::own().unwrap_or(0) as usize;
            (options.virtual_binding(options.placement.node_of(&options.machine, slot)), "virtual machine")
        } else {
            let inherited = creator.and_then(|creator| self.threads.get(creator)).map(|creator| creator.bound.clone());
            (inherited.or_else(|| options.asked_binding(pid, tid)).unwrap_or_else(|| options.anywhere()), cause)
        };
        self.threads.begin(process, tid as u32, &comm(pid, tid), time_ns, bound, cause);
    }

    /// Asks where every thread may run now (real machine only): changes nobody told us of, as notes of the time `now` (on
    /// the clock of the records), to be handled when all that happened before has been.
    pub fn observe_placements(&self, with_policies: bool, now: u64, notes: &mut HeapNotes) {
        if self.options.machine.is_virtual {
            return;
        }
        for tid in self.threads.tids() {
            let Some(thread) = self.threads.get(tid) else { continue };
            let Some(pid) = self.processes.row(thread.process).map(|row| row.pid as i32) else { continue };
            let Ok(cpus) = thread_affinity(tid as i32) else { continue };
            let policy = match with_policies.then(|| thread_policy(pid, tid as i32)) {
                Some(Ok(policy)) => policy,
                _ => thread.bound.policy.clone(),
            };
            let bound = self.options.binding(cpus, policy);
            if bound != thread.bound {
                notes.observed(now, pid, tid, bound);
            }
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
        if self.processes.is_none_of_them(pid) {
            return;
        }
        if !self.processes.follows(pid) {
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
                let vma = Vma::reported(*start, *end, *offset, *prot, *shared, *inode, path);
                if let Some(process) = self.processes.get_mut(pid) {
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
        self.processes.follows_children()
    }

    /// A child is not recorded, as the user wanted: it is named in the profile all the same.
    pub fn left_out(&mut self, pid: i32, command: String) {
        self.unobserved.left_out(pid, command);
    }

    /// Makes sure that the process is known; one that runs since before the recording is adopted.
    fn known(&mut self, pid: i32) {
        if !self.processes.get(pid).is_some() {
            self.adopt(pid, "observed");
        }
    }

    fn forked(&mut self, pid: i32, tid: i32, parent_pid: i32, parent_tid: u32, time_ns: u64) {
        if pid == parent_pid {
            self.known(pid);
            let Some(process) = self.processes.id_of(pid) else { return };
            if self.threads.get(tid as u32).is_none() {
                self.begin_thread(process, (pid, tid), Some(parent_tid), time_ns, "start");
            }
            return;
        }
        self.known(parent_pid);
        // What the parent touched before, the child inherits: that must be known when its pages are copied.
        self.settle();
        let parent = self.processes.id_of(parent_pid);
        let command =
            parent.and_then(|parent| self.processes.row(parent)).map(|row| row.command.clone()).unwrap_or_default();
        let process = self.processes.begin(pid, parent, command, time_ns);
        self.begin_thread(process, (pid, tid), Some(parent_tid), time_ns, "start");
    }

    fn named(&mut self, pid: i32, tid: i32, name: &[u8], exec: bool, time_ns: u64) {
        self.known(pid);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        if exec {
            self.settle();
            self.process_execs(pid, Some(command_line(pid).unwrap_or_else(|| name.clone())), time_ns);
            if let Some(id) = self.processes.id_of(pid) {
                if self.threads.get(tid as u32).is_none() {
                    self.begin_thread(id, (pid, tid), None, time_ns, "start");
                }
                // The program before may have bound itself for this one (numactl, taskset).
                if !self.options.machine.is_virtual
                    && let Some(bound) = self.options.asked_binding(pid, tid)
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
        let Some(process) = self.processes.id_of(pid) else { return };
        self.threads.end(tid as u32, time_ns);
        if self.threads.of_process(process).next().is_none() {
            self.settle();
            self.close_memory(pid, time_ns, None);
            self.processes.end(pid, time_ns, None);
        }
    }

    /// Says how the process that was launched ended.
    pub fn ended(&mut self, pid: i32, end: String) {
        self.processes.ended(pid, end);
    }

    /// A process's memory is no more: what its pages and blocks were goes into the profile. `end` is the bin in which
    /// another program took the process over; none when the process itself ended.
    fn close_memory(&mut self, pid: i32, time_ns: u64, end: Option<Bin>) {
        let Some(process) = self.processes.get_mut(pid) else { return };
        process.ended = true;
        self.objects.release_all(&mut process.blocks, time_ns);
        self.marks.close(process.id, time_ns);
        self.pages.close(process, end);
    }
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
