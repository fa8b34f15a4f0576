//! What an engine that counts every access adds: totals instead of samples, homes that it knows.

use super::Session;

use super::collections::Part;
use super::counts::{CountedSite, Of, UsedPage};
use super::executed_lines::parts;
use super::facts::{CodeKey, PageKey, SiteKey};
use super::heap_changes::Claimed;
use super::intern::Place;
use super::remembered::Caller;
use super::threads::ThreadBinding;
use super::touches::{PlacedPage, TouchId};
use super::vmas::Vma;
use numalens_aggregate::Counts;
use numalens_profile::ids::*;
use numalens_profile::words::Class;
use numalens_topology::{CpuSet, NodeId};
use std::ops::Range;
use std::path::Path;

/// Where a page of code is.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace {
    /// The file that it comes from.
    pub module: Option<ModuleId>,
    /// Index of its home.
    pub home: Option<u16>,
}

/// A thread that has begun, or goes on in another place.
pub struct BegunThread {
    pub process: ProcessId,
    pub pid: i32,
    pub tid: i32,
    /// Index of the node that it is bound to.
    pub node: Option<u16>,
    /// Its CPUs, and its memory policy in the kernel's words; on a virtual machine if the program has said anything
    /// about them.
    pub place: Option<(CpuSet, String)>,
    /// It may be one that is known.
    pub goes_on: bool,
    /// Its stack pointer when it began; 0: not known.
    pub sp: u64,
    pub name: String,
}

/// A thread's part in a collection of garbage: the index of its node, times on the clock of the records.
pub struct CollectionPart {
    pub node: Option<u16>,
    pub generation: u64,
    pub begun_ns: u64,
    pub ended_ns: u64,
    pub leads: bool,
}

impl Session {
    /// Time on the clock of the records, since the start; later calls use bins up to it.
    pub fn advance(&mut self, time: u64) -> u64 {
        let time_ns = self.since_start(time);
        self.come_to(time_ns);
        time_ns
    }

    /// Whether pages and threads are where a virtual machine has them.
    pub fn is_virtual(&self) -> bool {
        self.options.machine.is_virtual
    }

    /// The index of a node of the machine.
    pub fn node_index(&self, node: NodeId) -> Option<u16> {
        self.options.machine.index_of(node).and_then(|index| u16::try_from(index).ok())
    }

    pub(super) fn node_id(&self, index: Option<u16>) -> Option<NodeId> {
        self.pages.node(index)
    }

    /// The bin of a time since the start, until one is asked for that is behind all bins: then all become wider.
    pub fn bin_of(&mut self, time_ns: u64) -> Bin {
        self.bin(time_ns)
    }

    /// A process begins: by a fork of `parent`, or as the first.
    pub fn process_begins(&mut self, pid: i32, parent: Option<ProcessId>, command: String, time_ns: u64) -> ProcessId {
        self.processes.begin(pid, parent, command, time_ns)
    }

    /// Another program takes a process over.
    pub fn process_execs(&mut self, pid: i32, command: Option<String>, time_ns: u64) {
        let bin = self.bin(time_ns);
        self.close_memory(pid, time_ns, Some(bin));
        self.processes.exec(pid, command);
    }

    /// A process has said its rank.
    pub fn process_ranked(&mut self, id: ProcessId, rank: u32) {
        self.processes.ranked(id, rank);
    }

    /// A process has ended; `end` says how, where that is known.
    pub fn process_ends(&mut self, pid: i32, time_ns: u64, end: Option<String>) {
        let Some(id) = self.processes.id_of(pid) else { return };
        self.threads.end_all_but(id, None, time_ns);
        self.close_memory(pid, time_ns, None);
        self.processes.end(pid, time_ns, end);
    }

    /// A thread begins on `node` (index), at `place`. One that goes on, after an exec or bound to another
    /// place, is the one it was.
    pub fn thread_begins(&mut self, begun: &BegunThread, time_ns: u64) -> ThreadId {
        let &BegunThread { process, pid, tid, node, ref place, goes_on, sp, ref name } = begun;
        let (options, node) = (&self.options, self.node_id(node));
        let bound = options.binding_at(node, place.as_ref()).unwrap_or_else(|| {
            let asked = options.asked_binding(pid, tid);
            ThreadBinding { node, ..asked.unwrap_or_else(|| options.anywhere()) }
        });
        if let Some(thread) = self.threads.get(tid as u32).filter(|thread| goes_on && thread.process == process) {
            let id = thread.id;
            self.threads.rebind(tid as u32, id, bound, time_ns);
            return id;
        }
        let cause = if self.options.machine.is_virtual { "virtual machine" } else { "start" };
        let id = self.threads.begin(process, tid as u32, name, time_ns, bound, cause);
        self.threads.stack_seen(tid as u32, sp);
        id
    }

    /// The thread of this tid, `at`, may run elsewhere, on `node` (index).
    pub fn thread_placed(&mut self, at: (i32, ThreadId), node: Option<u16>, place: &(CpuSet, String), time_ns: u64) {
        if let Some(bound) = self.options.binding_at(self.node_id(node), Some(place)) {
            self.threads.rebind(at.0 as u32, at.1, bound, time_ns);
        }
    }

    /// A thread on a node has done its part in a collection of a generation, and has processed objects: where they lay,
    /// their generation (none: static), how many.
    pub fn collected(
        &mut self,
        process: ProcessId,
        thread: Option<ThreadId>,
        part: &CollectionPart,
        objects: impl Iterator<Item = (Option<u16>, Option<u32>, u64)>,
    ) {
        let node = self.node_id(part.node);
        let kind = format!("generation {}", part.generation);
        let ns = part.ended_ns.saturating_sub(part.begun_ns);
        self.languages.collections.add(Part { process, thread, node, kind, leads: part.leads, ns });
        for (home, generation, objects) in objects {
            let home = self.node_id(home);
            self.languages.collections.processed(process, [node, home], generation, objects);
        }
    }

    /// A thread has ended, unless another one with its tid has taken its place already.
    pub fn thread_ends(&mut self, tid: i32, id: ThreadId, time_ns: u64) {
        if self.threads.get(tid as u32).is_some_and(|thread| thread.id == id) {
            self.threads.end(tid as u32, time_ns);
        }
    }

    /// What a thread is called by now.
    pub fn thread_named(&mut self, tid: i32, id: ThreadId, name: &str) {
        if self.threads.get(tid as u32).is_some_and(|thread| thread.id == id) {
            self.threads.rename(tid as u32, name);
        }
    }

    /// Something was mapped; `segment` says which shared memory, 0: none.
    #[expect(clippy::too_many_arguments, reason = "the words of a record")]
    pub fn range_mapped(
        &mut self,
        pid: i32,
        range: Range<u64>,
        offset: u64,
        prot: u64,
        shared: bool,
        segment: u64,
        name: &str,
    ) {
        let inode = u64::from(name.starts_with('/'));
        let vma = Vma::reported(range.start, range.end, offset, prot as u32, shared, inode, Path::new(name));
        let vma = Vma { segment, ..vma };
        if let Some(process) = self.processes.get_mut(pid) {
            process.map(&mut self.images, vma);
        }
    }

    /// Something was unmapped.
    pub fn range_unmapped(&mut self, pid: i32, range: Range<u64>) {
        if let Some(process) = self.processes.get_mut(pid) {
            process.unmap(range.start, range.end);
        }
    }

    /// What is mapped from an address on is at other addresses as well.
    pub fn range_moved(&mut self, pid: i32, from: u64, to: Range<u64>) {
        let Some(process) = self.processes.get_mut(pid) else { return };
        let Some(vma) = process.vmas.find(from).cloned() else { return };
        let offset = vma.offset + (from - vma.start);
        process.map(&mut self.images, Vma { start: to.start, end: to.end, offset, ..vma });
    }

    /// So many sites are about to be asked for.
    pub fn expect_sites(&mut self, count: usize) {
        self.images.code.expect_sites(count);
    }

    /// The site of an instruction of a process.
    pub fn site_at(&mut self, pid: i32, address: u64) -> SiteId {
        match self.processes.get(pid) {
            Some(process) => process.executed(&mut self.images, address),
            None => self.images.code.site(Place { module: None, address }),
        }
    }

    /// Adds a thread's accesses to a page, or those of them that missed its private cache.
    pub fn count_page(&mut self, of: Of, counted: &UsedPage) {
        let UsedPage { process, thread, time_ns, page, reads, writes, .. } = *counted;
        let bin = self.bin(time_ns);
        let (node, home) = (self.node_id(counted.node), self.node_id(counted.home));
        self.facts.add_page(
            of,
            PageKey { process, bin, thread, node, home, page },
            Counts { reads, writes, samples: 0 },
        );
    }

    /// Whether every access is attributed to its object.
    pub fn records_every_object(&self) -> bool {
        self.options.every_object
    }

    /// Bytes that may be kept of single pages.
    pub fn memory_budget(&self) -> u64 {
        self.options.memory_budget
    }

    /// Whether accesses are looked up in a private cache of each thread.
    pub fn has_cache(&self) -> bool {
        self.options.cache.is_some()
    }

    /// Adds a thread's accesses from a site, or those of them that missed its private cache.
    pub fn count_site(&mut self, of: Of, counted: &CountedSite) {
        let CountedSite { process, thread, time_ns, site, reads, writes, .. } = *counted;
        if of == Of::Accesses {
            self.tally.counted = self.tally.counted.saturating_add(reads).saturating_add(writes);
            if let Some(way) = self.tally.ways.get_mut(usize::from(counted.way)) {
                *way = way.saturating_add(reads).saturating_add(writes);
            }
        }
        let bin = self.bin(time_ns);
        let (node, home) = (self.node_id(counted.node), self.node_id(counted.home));
        let class = Class::from(self.options.machine.locality(node, home, counted.pinned));
        let key = SiteKey { process, bin, thread, node, site, home, class };
        self.facts.add_site(of, key, Counts { reads, writes, samples: 0 });
    }

    /// A stack with the line of an interpreted language that it worked for at a time; itself, if it worked for none.
    pub fn stack_near(&mut self, tid: u32, time_ns: u64, stack: Option<StackId>) -> Option<StackId> {
        self.languages.stack_near(&mut self.images, tid, time_ns, stack)
    }

    /// The line of an interpreted language that an instruction worked for at a time; itself, if it is none's.
    pub fn line_near(&mut self, tid: u32, time_ns: u64, site: SiteId) -> SiteId {
        self.languages.line_near(&self.images.code, tid, time_ns, site)
    }

    /// Gives what a thread has counted between two times at instructions that work for lines of an interpreted language
    /// to the lines that it was seen at.
    pub fn give_to_lines<T: Copy>(
        &mut self,
        tid: u32,
        [since_ns, until_ns]: [u64; 2],
        counted: &mut Vec<(T, CountedSite)>,
    ) {
        // To read what other threads have counted may have taken a tenth of a second.
        if self.languages.runtimes.have_looked() {
            self.take_lines();
        }
        let lines = self.languages.lines.between(tid, since_ns, until_ns);
        let Some(&(first, _)) = lines.first() else { return };
        for at in 0..counted.len() {
            let (key, one) = counted[at];
            if !self.languages.works_for_lines(&self.images.code, one.site) {
                continue;
            }
            let parts = parts(one.reads, &lines).zip(parts(one.writes, &lines)).zip(&lines);
            for ((reads, writes), &(site, _)) in parts {
                let part = CountedSite { site, reads, writes, ..one };
                if site == first {
                    counted[at].1 = part;
                } else if reads + writes > 0 {
                    counted.push((key, part));
                }
            }
        }
    }

    /// Where a page of code is now, as far as it is known.
    pub fn code_place(&self, pid: i32, page: Page) -> CodePlace {
        let Some(process) = self.processes.get(pid) else { return CodePlace { module: None, home: None } };
        let home = process.pages.get(page).and_then(|state| state.home);
        CodePlace { module: process.place(page.address()).module, home }
    }

    /// Adds instructions that a thread, bound to `node` (index), has executed from a page.
    #[expect(clippy::too_many_arguments, reason = "the columns of the table")]
    pub fn count_code(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        time_ns: u64,
        node: Option<u16>,
        page: Page,
        place: CodePlace,
        instructions: u64,
    ) {
        let CodePlace { module, home } = place;
        let bin = self.bin(time_ns);
        let (node, home) = (self.node_id(node), self.node_id(home));
        self.facts.add_code(CodeKey { process, bin, thread, node, page, module, home }, instructions);
    }

    /// A page was placed. Returns the touch that it has from now on, and whether that is the touch of a whole huge
    /// page.
    pub fn page_placed(&mut self, pid: i32, placed: &PlacedPage) -> Option<(TouchId, bool)> {
        let bin = self.bin(placed.time_ns);
        let process = self.processes.get_mut(pid)?;
        Some(self.pages.placed(process, placed, bin))
    }

    /// A page lives elsewhere now: `home` is the index of its node. Returns the touch that it has from now on.
    pub fn page_migrated(
        &mut self,
        pid: i32,
        page: Page,
        home: u16,
        on_purpose: bool,
        time_ns: u64,
    ) -> Option<TouchId> {
        let bin = self.bin(time_ns);
        let since = if on_purpose { Some(self.bin(0)) } else { None };
        let process = self.processes.get_mut(pid)?;
        self.pages.found_at(process, page, home, bin, since);
        process.pages.get(page).map(|state| state.touch)
    }

    /// The kernel says where a page is whose home was inferred.
    pub fn page_found(&mut self, pid: i32, page: Page, home: u16) {
        if let Some(process) = self.processes.get_mut(pid) {
            self.pages.found(process, page, home);
        }
    }

    /// An agent has found that a page with this touch is a part of a huge one.
    pub fn page_is_huge(&mut self, pid: i32, page: Page, touch: TouchId) {
        if let Some(process) = self.processes.get_mut(pid) {
            self.pages.is_huge(process, page, touch);
        }
    }

    /// Asks again about pages that were not there yet when their accesses were reported.
    pub fn ask_sizes(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(pid) {
            self.pages.ask_sizes(process);
        }
    }

    /// A page was touched for an object that was on its way: it has that object's touch from now on.
    pub fn touched_for(&mut self, pid: i32, page: Page, touch: TouchId, claimed: &Claimed) -> TouchId {
        self.pages.touched_for(self.processes.get_mut(pid), page, touch, claimed.object, claimed.told)
    }

    /// The call stack that a copy of registers and stack shows.
    pub fn stack_from(&mut self, pid: i32, ip: u64, sp: u64, bp: u64, bytes: &[u8]) -> Option<StackId> {
        let process = self.processes.get_mut(pid)?;
        process.stack(&mut self.images, &Caller { ip, sp, bp, registers: None }, bytes, &[])
    }

    /// A page has gone. What goes of a huge page is reported as a range.
    pub fn page_gone(&mut self, pid: i32, page: Page, time_ns: u64) {
        if self.processes.get(pid).is_some_and(|process| !process.pages.is_in_huge(page)) {
            self.pages_gone(pid, page..Page(page.0 + 1), time_ns);
        }
    }

    /// Pages have gone.
    pub fn pages_gone(&mut self, pid: i32, pages: Range<Page>, time_ns: u64) {
        let bin = self.bin(time_ns);
        if let Some(process) = self.processes.get_mut(pid) {
            self.pages.gone(process, pages.start, pages.end, bin);
        }
    }

    /// Keeps facts within memory.
    pub fn keep_within_limits(&mut self) {
        let halvings = self.facts.keep_within_limits(self.clock.now_ns);
        self.pages.coarsen(halvings);
    }
}
