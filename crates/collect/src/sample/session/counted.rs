//! What an engine that counts every access adds: totals instead of samples, homes that it knows.

use super::pages::Touch;
use super::{LiveProcess, Session};
use numalens_aggregate::Counts;
use numalens_profile::ids::*;
use numalens_profile::words::{Class, Fault};
use numalens_topology::NodeId;
use std::path::Path;

/// Counts of one thread at one site, for pages of one class.
#[derive(Clone, Copy, Debug)]
pub struct CountedSite {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub bin: Bin,
    /// Index of the node that the thread was bound to.
    pub node: Option<u8>,
    pub site: SiteId,
    /// Index of the pages' home.
    pub home: Option<u8>,
    /// The pages were placed by a pinned thread.
    pub pinned: bool,
    pub reads: u64,
    pub writes: u64,
}

/// A page that has come into being.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPage {
    pub page: Page,
    pub time_ns: u64,
    /// Who touched it first; none: nobody was seen to.
    pub toucher: Option<(ThreadId, SiteId)>,
    /// Index of its home.
    pub home: Option<u8>,
    /// It counts as placed by a pinned thread.
    pub pinned: bool,
}

impl Session {
    /// Time on the clock of the records, since the start; later calls use bins up to it.
    pub fn advance(&mut self, time: u64) -> u64 {
        let time_ns = self.since_start(time);
        self.now_ns = self.now_ns.max(time_ns);
        time_ns
    }

    /// The bin of a time since the start.
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
        let row = &mut self.processes[process.id.0 as usize];
        if let Some(command) = command {
            row.command = command;
        }
    }

    /// A process has ended; `end` says how, where that is known.
    pub fn process_ends(&mut self, pid: i32, time_ns: u64, end: Option<String>) {
        let Some(id) = self.live.get(&pid).map(|process| process.id) else { return };
        self.threads.end_all_but(id, None, time_ns);
        self.close_memory(pid, time_ns, None);
        self.live.remove(&pid);
        let row = &mut self.processes[id.0 as usize];
        row.end_ns = Some(time_ns);
        if row.end == "running" {
            row.end = end.unwrap_or_else(|| "unknown".to_owned());
        }
    }

    /// A thread begins on `node` (index) of a virtual machine, or where the kernel lets it run; the thread that goes on after
    /// an exec is the one it was.
    pub fn thread_begins(
        &mut self,
        process: ProcessId,
        pid: i32,
        tid: i32,
        node: Option<u8>,
        time_ns: u64,
    ) -> ThreadId {
        if let Some(thread) = self.threads.get(tid as u32).filter(|thread| thread.process == process) {
            return thread.id;
        }
        let name = super::comm(pid, tid);
        let machine = &self.options.machine;
        let (bound, cause) = if machine.is_virtual {
            let node = node.and_then(|node| machine.nodes.get(usize::from(node)));
            (self.virtual_bound(node.map(|node| node.id)), "virtual machine")
        } else {
            (self.asked_bound(pid, tid).unwrap_or_else(|| self.anywhere()), "start")
        };
        self.threads.begin(process, tid as u32, &name, time_ns, bound, cause)
    }

    /// A thread has ended.
    pub fn thread_ends(&mut self, tid: i32, time_ns: u64) {
        self.threads.end(tid as u32, time_ns);
    }

    /// Takes the thread's name anew, while it can be asked for.
    pub fn refresh_name(&mut self, pid: i32, tid: i32) {
        let name = super::comm(pid, tid);
        if !name.is_empty() {
            self.threads.rename(tid as u32, &name);
        }
    }

    /// Something was mapped.
    pub fn range_mapped(
        &mut self,
        pid: i32,
        range: std::ops::Range<u64>,
        offset: u64,
        prot: u64,
        shared: bool,
        name: &str,
    ) {
        let inode = u64::from(name.starts_with('/'));
        let vma = LiveProcess::vma_of(range.start, range.end, offset, prot as u32, shared, inode, Path::new(name));
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

    /// The site of an instruction of a process.
    pub fn site_at(&mut self, pid: i32, address: u64) -> SiteId {
        let place = match self.live.get(&pid) {
            Some(process) => process.place(address),
            None => super::Place { module: None, address },
        };
        self.images.code.site(place)
    }

    /// Adds a thread's accesses to a page.
    pub fn count_page(&mut self, process: ProcessId, thread: ThreadId, bin: Bin, page: Page, reads: u64, writes: u64) {
        self.facts.add_page_counts(process, thread, bin, page, Counts { reads, writes, samples: 0 });
    }

    /// Adds a thread's accesses from a site.
    pub fn count_site(&mut self, counted: &CountedSite) {
        let machine = &self.options.machine;
        let id = |index: u8| machine.nodes.get(usize::from(index)).map(|node| node.id);
        let (node, home): (Option<NodeId>, Option<NodeId>) = (counted.node.and_then(id), counted.home.and_then(id));
        let class = Class::from(machine.locality(node, home, counted.pinned));
        let counts = Counts { reads: counted.reads, writes: counted.writes, samples: 0 };
        let CountedSite { process, thread, bin, site, .. } = *counted;
        self.facts.add_site_counts(process, thread, bin, node, site, home, class, counts);
    }

    /// A page was placed.
    pub fn page_placed(&mut self, pid: i32, placed: &PlacedPage) {
        let bin = self.bin(placed.time_ns);
        let Some(process) = self.live.get(&pid).map(|process| process.id) else { return };
        let touch = match placed.toucher {
            Some((thread, site)) => {
                Touch::first(process, thread, site, None, bin, placed.pinned, Fault::Anonymous, None)
            }
            None => Touch::unseen(process, bin, placed.pinned),
        };
        let touch = self.touches.intern(touch);
        let Some(process) = self.live.get_mut(&pid) else { return };
        process.pages.place(placed.page, touch, placed.home, false);
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
