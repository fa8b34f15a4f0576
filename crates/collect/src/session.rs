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
mod clock;
mod code_bytes;
mod collections;
mod counted;
mod counted_objects;
mod counts;
mod executed_lines;
mod facts;
mod heap;
mod heap_changes;
mod heap_notes;
mod images;
mod intern;
mod languages;
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
use crate::runtimes::RuntimeLog;
use clock::Clock;
use collections::{COLLECTION, Part};
pub use counted::{BegunThread, CodePlace, CollectionPart};
pub use counted_objects::SeenAccess;
pub use counts::{Bound, CountedObject, CountedSite, Of, PageClass, UsedPage, Who};
use facts::FactTables;
use heap::HeapHandler;
pub use heap_changes::{Change, Claimed};
pub use heap_notes::{HeapNote, HeapNotes};
use images::Images;
use languages::Languages;
use marks::Marks;
pub use marks::name_of;
use numalens_event::exact::site::WAYS;
use numalens_event::request::Request;
use numalens_profile::ids::*;
use numalens_profile::{Meta, tables};
use objects::Objects;
pub use objects::Owner;
use observed::Observed;
pub use options::SessionOptions;
use output::TableWriter;
pub use output::{Output, OutputError, SeenCode};
use pages::Pages;
use pending::Pending;
use processes::Processes;
use samples::SampleHandler;
use settle::BatchSettler;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    /// Accesses reported so far, where every one is counted.
    pub counted: u64,
    /// And by how they were counted.
    pub ways: [u64; WAYS.len()],
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
    languages: Languages,
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
            languages: Languages::default(),
            output,
            tally: Tally::default(),
            options,
        }
    }

    /// Runtimes tell of their code in a log.
    pub fn listen_to_runtimes(&mut self, log: Option<RuntimeLog>) {
        log.into_iter().for_each(|log| self.languages.runtimes.listen(log));
    }

    /// Takes in which lines of interpreted languages threads were seen at. Whether there are any to look at.
    pub fn take_lines(&mut self) -> bool {
        self.languages.take_lines(&mut self.images, &self.clock)
    }

    /// So many records were lost since the start: at least those that the rings reported.
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
            BatchSettler { session: self }.note_pages_from_before(pid);
        }
        id
    }

    /// Adds a process of one thread that waits to execute the program: nothing of what it is yet matters.
    pub fn expect(&mut self, pid: i32) {
        let id = self.processes.begin(pid, None, String::new(), self.clock.now_ns);
        self.begin_thread(id, (pid, pid), None, self.clock.now_ns, "start");
    }

    /// `creator`: the thread that made this one, if that was seen. A new thread has its creator's CPUs and policy; by
    /// the time we can ask the kernel it may have changed them, or have ended.
    fn begin_thread(
        &mut self,
        process: ProcessId,
        id: (i32, i32),
        creator: Option<u32>,
        time_ns: u64,
        cause: &str,
    ) -> ThreadId {
        let (pid, tid) = id;
        let options = &self.options;
        let (bound, cause) = if options.machine.is_virtual {
            let slot = self.processes.slots.next(pid) + rank::own().unwrap_or(0) as usize;
            (options.virtual_binding(options.placement.node_of(&options.machine, slot)), "virtual machine")
        } else {
            let inherited = creator.and_then(|creator| self.threads.get(creator)).map(|creator| creator.bound.clone());
            (inherited.or_else(|| options.asked_binding(pid, tid)).unwrap_or_else(|| options.anywhere()), cause)
        };
        self.threads.begin(process, tid as u32, &comm(pid, tid), time_ns, bound, cause)
    }

    /// Asks where every thread may run now (real machine only): changes that nobody reported, as notes of the time
    /// `now` (on the clock of the records), to be handled when all that happened before has been.
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
            Payload::Sampled(sampled) => SampleHandler { session: self }.sampled(batch, record, sampled, time_ns),
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
        if self.processes.get(pid).is_none() {
            self.adopt(pid, "observed");
        }
    }

    /// The thread of a process that is known, which something was reported by or of. Where the kernel's word of its
    /// beginning was lost, it begins here: while the collector waits for a processor, rings fill up.
    pub fn thread_reports(&mut self, pid: i32, tid: u32, time_ns: u64) -> Option<ThreadId> {
        let process = self.processes.id_of(pid)?;
        let known = self.threads.at(process, tid, time_ns);
        Some(known.unwrap_or_else(|| self.begin_thread(process, (pid, tid as i32), None, time_ns, "observed")))
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

    /// Answers what is pending and turns it into facts.
    pub fn settle(&mut self) {
        BatchSettler { session: self }.settle();
    }

    /// Finds the pages of a process that the kernel placed without a fault: compares what is there with what was seen.
    pub fn reconcile(&mut self, pid: i32) {
        BatchSettler { session: self }.reconcile(pid);
    }

    /// Looks again where pages live, a piece of each process at a time, so that migrations appear. Returns those that
    /// have moved, by process.
    pub fn reread_homes(&mut self) -> Vec<(i32, Vec<Page>)> {
        BatchSettler { session: self }.reread_homes()
    }

    /// Whether processes had pages when they were met, on no node of the virtual machine.
    pub fn has_pages_from_before(&self) -> bool {
        self.pages.from_before > 0
    }

    /// Takes in one event of the interposer.
    pub fn handle_heap(&mut self, notes: &HeapNotes, note: &HeapNote) {
        HeapHandler { session: self }.handle(notes, note);
    }

    /// Makes what was seen so far readable on disk.
    ///
    /// # Errors
    /// The profile cannot be written.
    pub fn checkpoint(&mut self, meta: &mut Meta) -> Result<(), OutputError> {
        TableWriter { session: self }.checkpoint(meta)
    }

    /// The code seen so far: it can be named while the rest is taken in.
    pub fn code_so_far(&mut self) -> SeenCode {
        TableWriter { session: self }.code_so_far()
    }

    /// Writes everything and gives the profile its final name. `seen` gets the code first: it can be named
    /// meanwhile.
    ///
    /// # Errors
    /// The profile cannot be written.
    pub fn finish(mut self, meta: &mut Meta, seen: impl FnOnce(SeenCode)) -> Result<PathBuf, OutputError> {
        self.settle();
        TableWriter { session: &mut self }.complete(meta, seen)?;
        self.output.finish(meta)
    }

    /// Adds cache lines that threads have accessed.
    pub fn add_cache_lines(&mut self, rows: Vec<tables::CacheLine>) {
        if !self.leaves_lines_out() {
            self.output.add(rows);
        }
    }

    /// Accesses by cache line are known for all of a process only: with pauses in between they would not be those that
    /// were counted.
    fn leaves_lines_out(&mut self) -> bool {
        let paused = self.observed.ever_paused();
        if paused {
            self.coarsened("cache_lines: left out, as the counting was paused");
        }
        paused
    }

    /// Adds accesses to cache lines that another thread had accessed last.
    pub fn add_line_communication(&mut self, rows: Vec<tables::LineCommunication>) {
        if !self.leaves_lines_out() {
            self.output.add(rows);
        }
    }

    /// Notes what was given up to stay within memory.
    pub fn coarsened(&mut self, note: &str) {
        if !self.facts.coarsened.iter().any(|known| known == note) {
            self.facts.coarsened.push(note.to_owned());
        }
    }

    /// Pages are counted under the first of each region from now on.
    pub fn pages_are_counted_together(&mut self, regions: Vec<tables::PageRegion>) {
        if !regions.is_empty() {
            self.facts.page_regions.extend(regions);
            self.coarsened(
                "page_accesses: accesses to memory that more than two threads use are known by regions of 2 MiB, to \
                 record within the budget of memory",
            );
        }
    }

    /// Bytes written to disk so far.
    pub fn bytes_written(&self) -> u64 {
        self.output.bytes()
    }

    /// Time of the last record, since the start.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns
    }

    /// Ids of the processes that live.
    pub fn live_pids(&self) -> Vec<i32> {
        self.processes.pids()
    }

    /// A thread of a process, if it is known, has asked for something at `time_ns` since the start.
    pub fn requested(
        &mut self,
        process: ProcessId,
        thread: Option<ThreadId>,
        time_ns: u64,
        request: Request,
        name: &str,
    ) {
        match request {
            Request::Start | Request::Stop => self.observed.change(time_ns, request == Request::Start),
            Request::Begin => self.marks.add(process, thread, name, time_ns, None),
            Request::End => {
                let ns = self.marks.end(process, thread, name, time_ns);
                if let Some(ns) = ns.filter(|_| name == COLLECTION) {
                    let live = self.threads.of_process(process).find(|live| Some(live.id) == thread);
                    let node = live.and_then(|live| live.bound.node);
                    let kind = name.to_owned();
                    self.languages.collections.add(Part { process, thread, node, kind, leads: true, ns });
                }
            }
            Request::Mark => self.marks.add(process, thread, name, time_ns, Some(time_ns)),
            // Of the engines.
            Request::Moved | Request::Alloc | Request::Free | Request::Name => {}
            Request::Born | Request::Dies | Request::Leaves | Request::WhenMoved => {}
        }
    }

    /// OpenMP regions of thread `tid` that the call before `call` began have lasted from `begun` to `ended`, on the
    /// clock of the records. The library says so, from memory that is the target's to write.
    fn parallel(&mut self, pid: i32, tid: u32, call: u64, begun: u64, ended: u64) {
        let Some(live) = self.processes.get(pid) else { return };
        let process = live.id;
        let (start_ns, end_ns) = (self.since_start(begun), self.since_start(ended).min(self.clock.now_ns));
        let thread = self.threads.at(process, tid, end_ns);
        if start_ns <= end_ns && live.vmas.find(call).is_some() {
            let site = self.images.code.site(live.place(call.saturating_sub(1)));
            self.marks.region((process, thread, site), start_ns, end_ns, self.facts.bin_width_ns());
        }
    }

    /// The user names this moment, of a process of this id or of the first.
    pub fn marked_by_user(&mut self, pid: i32, time: u64, name: &str) {
        let time_ns = self.since_start(time);
        let process = self.processes.get(pid).map_or(ProcessId(0), |process| process.id);
        if self.processes.row(process).is_some() {
            self.marks.add(process, None, name, time_ns, Some(time_ns));
        }
    }

    /// From `time` on, on the clock of the records, accesses are counted, or not.
    pub fn count_from(&mut self, time: u64, counting: bool) {
        let time_ns = self.since_start(time);
        self.observed.change(time_ns, counting);
    }

    /// Whether accesses are counted.
    pub fn is_counting(&self) -> bool {
        self.observed.now()
    }

    /// Whether they were not, at any time.
    pub fn was_ever_paused(&self) -> bool {
        self.observed.ever_paused()
    }

    /// Whether they were at `time_ns` since the start.
    pub fn counted_at(&self, time_ns: u64) -> bool {
        self.observed.at(time_ns)
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
