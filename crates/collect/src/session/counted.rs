//! What an engine that counts every access adds: totals instead of samples, homes that it knows.

use super::counts::{CountedSite, Of, UsedPage};
use super::facts::{CodeKey, PageKey, SiteKey};
pub use super::pages::TouchId;
use super::pages::{CHUNK, Run, Touch};
use super::process::Caller;
use super::threads::ThreadBinding;
use super::vmas::Vma;
use super::{LiveProcess, Session};
use crate::rank;
use numalens_aggregate::Counts;
use numalens_profile::ids::*;
use numalens_profile::words::{Class, Fault, SystemCall};
use numalens_topology::{CpuSet, NodeId};
use std::path::Path;

/// A page that has come into being.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPage {
    pub page: Page,
    pub time_ns: u64,
    /// How.
    pub by: PlacedBy,
    /// Index of its home.
    pub home: Option<u16>,
    /// The home is what the policy says: nobody could be asked any more.
    pub inferred: bool,
    /// It counts as placed by a pinned thread.
    pub pinned: bool,
    /// What was touched.
    pub object: Option<ObjectId>,
}

/// How a page came into being.
#[derive(Clone, Copy, Debug)]
pub enum PlacedBy {
    /// An access of a thread, bound to a node (index), from a call stack; it may have placed a whole huge page.
    Access {
        thread: ThreadId,
        node: Option<u16>,
        site: SiteId,
        stack: Option<StackId>,
        fault: Fault,
        may_be_huge: bool,
        /// It was the kernel's, in this call of the thread.
        call: Option<SystemCall>,
    },
    /// Nobody was seen to.
    Unseen,
    /// Another access had placed it, of this process or another one: it is shared memory.
    Another,
    /// It was moved here from another address.
    Moved(Option<TouchId>),
    /// It is part of the huge page that another access placed, as far as an agent can tell.
    Part(TouchId),
    /// It was such a part, of one that is gone.
    Piece(TouchId),
}

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
        index.and_then(|index| self.options.machine.nodes.get(usize::from(index))).map(|node| node.id)
    }

    /// The bin of a time since the start, until one is asked for that is behind all bins: then all become wider.
    pub fn bin_of(&mut self, time_ns: u64) -> Bin {
        self.bin(time_ns)
    }

    /// A process begins: by a fork of `parent`, or as the first.
    pub fn process_begins(&mut self, pid: i32, parent: Option<ProcessId>, command: String, time_ns: u64) -> ProcessId {
        self.begin_process(pid, parent, command, time_ns)
    }

    /// Another program takes a process over.
    pub fn process_execs(&mut self, pid: i32, command: Option<String>, time_ns: u64) {
        let bin = self.bin(time_ns);
        self.close_memory(pid, time_ns, Some(bin));
        let Some(process) = self.live.get_mut(&pid) else { return };
        process.exec();
        self.slots.executed(pid);
        let row = &mut self.processes[process.id.0 as usize];
        row.heap_observed = false;
        if let Some(command) = command {
            row.command = command;
        }
        row.rank = rank::of_process(pid).or(row.rank);
    }

    /// A process has told its rank.
    pub fn process_ranked(&mut self, id: ProcessId, rank: u32) {
        if let Some(row) = self.processes.get_mut(id.0 as usize) {
            row.rank = Some(rank);
        }
    }

    /// A process has ended; `end` says how, where that is known.
    pub fn process_ends(&mut self, pid: i32, time_ns: u64, end: Option<String>) {
        let Some(id) = self.live.get(&pid).map(|process| process.id) else { return };
        self.threads.end_all_but(id, None, time_ns);
        self.close_memory(pid, time_ns, None);
        self.live.remove(&pid);
        self.slots.ended(pid);
        let row = &mut self.processes[id.0 as usize];
        row.end_ns = Some(time_ns);
        if row.end == "running" {
            row.end = end.unwrap_or_else(|| "unknown".to_owned());
        }
    }

    /// A thread begins on `node` (index), at `place`. One that goes on, after an exec or bound to another
    /// place, is the one it was.
    pub fn thread_begins(&mut self, begun: &BegunThread, time_ns: u64) -> ThreadId {
        let &BegunThread { process, pid, tid, node, ref place, goes_on, sp, ref name } = begun;
        let bound = self.bound_at(node, place.as_ref()).unwrap_or_else(|| {
            let node = self.node_of_index(node);
            ThreadBinding { node, ..self.asked_bound(pid, tid).unwrap_or_else(|| self.anywhere()) }
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
        if let Some(bound) = self.bound_at(node, Some(place)) {
            self.threads.rebind(at.0 as u32, at.1, bound, time_ns);
        }
    }

    fn node_of_index(&self, node: Option<u16>) -> Option<NodeId> {
        node.and_then(|node| self.options.machine.nodes.get(usize::from(node))).map(|node| node.id)
    }

    /// Where a thread may run that is on `node` (index), at `place`; none where that must be asked for.
    fn bound_at(&self, node: Option<u16>, place: Option<&(CpuSet, String)>) -> Option<ThreadBinding> {
        let machine = &self.options.machine;
        let node = self.node_of_index(node);
        match place {
            None => machine.is_virtual.then(|| self.virtual_bound(node)),
            // What the program leaves open, the placement and the policy of the recording decide.
            Some((cpus, policy)) if machine.is_virtual => {
                let open = self.virtual_bound(node);
                let cpus = if *cpus == machine.cpus() { open.cpus } else { cpus.clone() };
                Some(ThreadBinding {
                    cpus,
                    node,
                    policy: if policy == "default" { open.policy } else { policy.clone() },
                })
            }
            Some((cpus, policy)) => Some(ThreadBinding { cpus: cpus.clone(), node, policy: policy.clone() }),
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

    /// Something was mapped; `segment` tells which shared memory, 0: none.
    #[expect(clippy::too_many_arguments, reason = "the words of a record")]
    pub fn range_mapped(
        &mut self,
        pid: i32,
        range: std::ops::Range<u64>,
        offset: u64,
        prot: u64,
        shared: bool,
        segment: u64,
        name: &str,
    ) {
        let inode = u64::from(name.starts_with('/'));
        let vma = LiveProcess::vma_of(range.start, range.end, offset, prot as u32, shared, inode, Path::new(name));
        let vma = Vma { segment, ..vma };
        if let Some(process) = self.live.get_mut(&pid) {
            process.map(&mut self.images, vma);
        }
    }

    /// Something was unmapped.
    pub fn range_unmapped(&mut self, pid: i32, range: std::ops::Range<u64>) {
        if let Some(process) = self.live.get_mut(&pid) {
            process.unmap(range.start, range.end);
        }
    }

    /// What is mapped from an address on is at other addresses as well.
    pub fn range_moved(&mut self, pid: i32, from: u64, to: std::ops::Range<u64>) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        let Some(vma) = process.vmas.find(from).cloned() else { return };
        let offset = vma.offset + (from - vma.start);
        process.map(&mut self.images, Vma { start: to.start, end: to.end, offset, ..vma });
    }

    /// The site of an instruction of a process.
    pub fn site_at(&mut self, pid: i32, address: u64) -> SiteId {
        let place = match self.live.get(&pid) {
            Some(process) => process.place(address),
            None => super::Place { module: None, address },
        };
        self.images.code.site(place)
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

    /// Whether accesses are looked up in a private cache of each thread.
    pub fn has_cache(&self) -> bool {
        self.options.cache.is_some()
    }

    /// Adds a thread's accesses from a site, or those of them that missed its private cache.
    pub fn count_site(&mut self, of: Of, counted: &CountedSite) {
        let CountedSite { process, thread, time_ns, site, reads, writes, .. } = *counted;
        if of == Of::Accesses {
            self.tally.counted = self.tally.counted.saturating_add(reads).saturating_add(writes);
        }
        let bin = self.bin(time_ns);
        let (node, home) = (self.node_id(counted.node), self.node_id(counted.home));
        let class = Class::from(self.options.machine.locality(node, home, counted.pinned));
        let key = SiteKey { process, bin, thread, node, site, home, class };
        self.facts.add_site(of, key, Counts { reads, writes, samples: 0 });
    }

    /// Where a page of code is now, as far as it is known.
    pub fn code_place(&self, pid: i32, page: Page) -> CodePlace {
        let Some(process) = self.live.get(&pid) else { return CodePlace { module: None, home: None } };
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
        let PlacedPage { page, home, inferred, .. } = *placed;
        let id = self.live.get(&pid)?.id;
        let (by, is_huge) = self.sized(pid, placed);
        let known = self.live.get(&pid)?.pages.get(page);
        if let (PlacedBy::Unseen | PlacedBy::Piece(_), Some(state)) = (by, known)
            && self.touches.get(state.touch).fault != Fault::ZeroPage
        {
            // What is left of a huge page.
            return Some((state.touch, false));
        }
        self.tally.inferred_homes += u64::from(inferred && home.is_some());
        if let PlacedBy::Part(leader) = by {
            let touch = if is_huge { self.grow(pid, page, leader, (home, inferred), Some(bin)) } else { leader };
            return Some((touch, true));
        }
        let first = if is_huge { Page(page.0 / CHUNK * CHUNK) } else { page };
        let gone = self.replaced(pid, first..Page(first.0 + if is_huge { CHUNK } else { 1 }));
        self.close_runs(id, &gone, Some(bin));
        let touch = match by {
            PlacedBy::Access { thread, node, site, stack, fault, call, .. } => {
                let touch =
                    Touch::first(id, thread, self.node_id(node), site, stack, bin, placed.pinned, fault, placed.object);
                Touch { call, ..touch }
            }
            PlacedBy::Moved(Some(touch)) => Touch { bin, moved: true, to_another: false, ..self.touches.get(touch) },
            PlacedBy::Part(touch) | PlacedBy::Piece(touch) => self.touches.get(touch),
            PlacedBy::Another => Touch { object: placed.object, ..Touch::mapped_again(id, bin, placed.pinned) },
            PlacedBy::Moved(None) | PlacedBy::Unseen => {
                Touch { object: placed.object, ..Touch::unseen(id, bin, placed.pinned) }
            }
        };
        let touch = self.touches.intern(touch);
        let process = self.live.get_mut(&pid)?;
        if is_huge {
            process.pages.place_huge(page, touch, home, inferred);
        } else {
            process.pages.place(page, touch, home, inferred);
        }
        Some((touch, is_huge))
    }

    /// Pages are replaced by others at the same addresses. Returns those whose periods end: not the zero page.
    pub(super) fn replaced(&mut self, pid: i32, pages: std::ops::Range<Page>) -> Vec<Run> {
        let Some(process) = self.live.get_mut(&pid) else { return Vec::new() };
        let alone = pages.end.0 - pages.start.0 == 1;
        if alone && process.pages.get(pages.start).is_none_or(|state| state.huge) {
            return Vec::new();
        }
        let mut gone = process.pages.forget(pages.start, pages.end);
        gone.retain(|run| self.touches.get(run.state.touch).fault != Fault::ZeroPage);
        gone
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
        let process = self.live.get_mut(&pid)?;
        let state = process.pages.get(page)?;
        let before = std::mem::replace(&mut process.moved_since, on_purpose.then_some(0));
        self.found_at(pid, page, state, home, bin);
        let process = self.live.get_mut(&pid)?;
        process.moved_since = before;
        process.pages.get(page).map(|state| state.touch)
    }

    /// The kernel says where a page is whose home was inferred.
    pub fn page_found(&mut self, pid: i32, page: Page, home: u16) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        if process.pages.get(page).is_some_and(|state| state.inferred) {
            process.pages.set_home(page, Some(home), false);
            self.tally.inferred_homes = self.tally.inferred_homes.saturating_sub(1);
        }
    }

    /// The call stack that a copy of registers and stack shows.
    pub fn stack_from(&mut self, pid: i32, ip: u64, sp: u64, bp: u64, bytes: &[u8]) -> Option<StackId> {
        let process = self.live.get_mut(&pid)?;
        process.stack(&mut self.images, &Caller { ip, sp, bp, registers: None }, bytes, &[])
    }

    /// Pages have gone.
    pub fn pages_gone(&mut self, pid: i32, pages: std::ops::Range<Page>, time_ns: u64) {
        let bin = self.bin(time_ns);
        let Some(process) = self.live.get_mut(&pid) else { return };
        let id = process.id;
        let runs = process.pages.forget(pages.start, pages.end);
        self.close_runs(id, &runs, Some(bin));
    }

    /// Keeps facts within memory.
    pub fn keep_within_limits(&mut self) {
        let halvings = self.facts.keep_within_limits(self.now_ns);
        self.widen(halvings);
    }

    /// Whether a process is known to live.
    pub fn lives(&self, pid: i32) -> bool {
        self.live.get(&pid).is_some_and(|process: &LiveProcess| !process.ended)
    }
}
