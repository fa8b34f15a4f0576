//! The questions that only the kernel can answer, asked once a batch: where pages live and how large they are.

use super::bindings::RangePolicy;
use super::huge::is_huge;
use super::pages::{CHUNK, PageState, Run, Touch};
use super::{PendingAccess, PendingFault, PendingFetch, Session};
use crate::homes::{PageHome, query_homes, unseen_pages};
use crate::perf::monotonic_ns;
use crate::session::facts::{Attributed, CodeKey};
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Class, Fault, Found};
use numalens_topology::{Locality, NodeId};
use rustc_hash::FxHashMap;

/// Pages whose homes are re-read at a time, so that no walk holds the collector up.
const REREAD_AT_ONCE: usize = 1 << 16;

/// What the kernel said about the pages of one process; empty when the process was gone.
type Answers = FxHashMap<Page, PageHome>;

impl Session {
    /// Answers what is pending and turns it into facts.
    pub fn settle(&mut self) {
        let mut faults = std::mem::take(&mut self.pending_faults);
        let mut accesses = std::mem::take(&mut self.pending_accesses);
        let mut fetches = std::mem::take(&mut self.pending_fetches);
        if faults.is_empty() && accesses.is_empty() && fetches.is_empty() {
            return;
        }
        self.batch += 1;
        let answers = self.ask(&faults, &accesses, &fetches);
        for fault in &faults {
            self.settle_fault(fault, answers.get(&fault.pid));
        }
        // After them all: what has a fault of its own was not mapped along with another.
        for fault in &faults {
            if let Some(answers) = answers.get(&fault.pid).filter(|_| self.options.machine.is_virtual) {
                self.settle_around(fault, answers);
            }
        }
        for access in &accesses {
            self.settle_access(access, answers.get(&access.pid));
        }
        for fetch in &fetches {
            self.settle_fetch(fetch, answers.get(&fetch.pid));
        }
        // Their memory is for the next batch.
        faults.clear();
        accesses.clear();
        fetches.clear();
        (self.pending_faults, self.pending_accesses, self.pending_fetches) = (faults, accesses, fetches);
        for process in self.live.values_mut() {
            process.maps_fresh = false;
        }
        let halvings = self.facts.keep_within_limits(self.now_ns);
        self.widen(halvings);
    }

    /// Asks the kernel for the homes of all pages in question, one call for each process.
    fn ask(
        &self,
        faults: &[PendingFault],
        accesses: &[PendingAccess],
        fetches: &[PendingFetch],
    ) -> FxHashMap<i32, Answers> {
        let virtual_machine = self.options.machine.is_virtual;
        let mut questions: FxHashMap<i32, Vec<Page>> = FxHashMap::default();
        for fault in faults {
            // On a virtual machine only one thing is unknown: whether a read found the shared zero page.
            if !virtual_machine || fault.read_only {
                questions.entry(fault.pid).or_default().push(fault.page);
            }
            // On a real one it is of no use to know who mapped them: the kernel says where they are when they are
            // accessed.
            if let Some(process) = self.live.get(&fault.pid).filter(|_| virtual_machine) {
                let unknown = fault.around.clone().map(Page).filter(|&page| process.pages.get(page).is_none());
                questions.entry(fault.pid).or_default().extend(unknown);
            }
        }
        // A sampled page may have moved since we last looked.
        let used = accesses.iter().map(|access| (access.pid, Page::of(access.address)));
        for (pid, page) in used.chain(fetches.iter().map(|fetch| (fetch.pid, fetch.page))) {
            if !virtual_machine || self.live.get(&pid).is_none_or(|process| process.pages.get(page).is_none()) {
                questions.entry(pid).or_default().push(page);
            }
        }
        let mut answers = FxHashMap::default();
        for (pid, mut pages) in questions {
            let alive = self.live.get(&pid).is_some_and(|process| !process.ended);
            pages.sort_unstable();
            pages.dedup();
            let mut homes = Vec::new();
            if alive && query_homes(pid, &pages, &mut homes).is_ok() {
                answers.insert(pid, pages.into_iter().zip(homes).collect());
            }
        }
        answers
    }

    fn settle_fault(&mut self, fault: &PendingFault, answers: Option<&Answers>) {
        let answer = answers.and_then(|answers| answers.get(&fault.page)).copied();
        let mut touch = fault.touch;
        touch.bin = self.bin(fault.time_ns);
        let policy = self.live.get(&fault.pid).and_then(|process| process.bindings.get(fault.page.address()));
        if matches!(policy, Some(RangePolicy::Bound(_))) {
            touch.by_pinned();
        }
        let read_anonymous = fault.read_only && touch.fault != Fault::File;
        let zero_page = read_anonymous && !matches!(answer, Some(PageHome::Node(_)));
        touch.by_read = read_anonymous && !zero_page;
        let (home, inferred) = if zero_page {
            touch.fault = Fault::ZeroPage;
            (None, false)
        } else if self.options.machine.is_virtual {
            (self.virtual_home(fault.page, fault.node, fault.cpu), false)
        } else {
            match answer {
                Some(PageHome::Node(node)) => (self.options.machine.index_of(node), false),
                _ => (self.home_by_policy(fault, policy), true),
            }
        };
        self.tally.inferred_homes += u64::from(inferred && home.is_some());
        let home = home.and_then(|index| u16::try_from(index).ok());
        let alive = answers.is_some() || self.options.machine.is_virtual;
        let before = self.placed_before(fault.pid, fault.page);
        let home = before.filter(|_| self.options.machine.is_virtual).map_or(home, |before| before.home);
        let Some(process) = self.live.get(&fault.pid) else { return };
        let was = process.pages.get(fault.page);
        if let Some(was) = was {
            let again = self.touches.get(was.touch);
            // Nobody placed the page before: a read found the zero page, or it was taken for unseen before the record
            // of this fault had come.
            let early = again.fault == Fault::None && !again.moved && fault.time_ns <= process.reconciled_ns;
            let not_placed = again.fault == Fault::ZeroPage || again.by_read || early;
            if not_placed && !early && !fault.read_only && touch.fault == Fault::Anonymous {
                touch.fault = Fault::CopyOnWrite;
            }
            if again.process == touch.process
                && !early
                && (fault.read_only || !not_placed)
                && self.is_same_page(fault, again.fault, answer)
            {
                if let Some(home) = home.filter(|_| !inferred) {
                    self.found_at(fault.pid, fault.page, was, home, touch.bin);
                }
                return;
            }
            let Some(process) = self.live.get_mut(&fault.pid) else { return };
            let id = process.id;
            let gone = if was.huge {
                let first = Page(fault.page.0 / CHUNK * CHUNK);
                process.pages.forget(first, Page(first.0 + CHUNK))
            } else {
                vec![Run { page: fault.page, count: 1, state: was }]
            };
            if !not_placed {
                self.close_runs(id, &gone, Some(touch.bin));
            }
        }
        let touch = before.map_or(touch, |before| self.found_there(touch, before));
        let touch = self.touches.intern(touch);
        let batch = self.batch;
        let Some(process) = self.live.get_mut(&fault.pid) else { return };
        let mut huge = false;
        if fault.may_be_huge
            && alive
            && !process.ended
            && process.pages.ask_size(fault.page, was.is_some(), batch)
            && is_huge(process.pid, fault.page)
        {
            process.pages.place_huge(fault.page, touch, home, inferred);
            huge = true;
        } else {
            process.pages.place(fault.page, touch, home, inferred);
        }
        if before.is_none() {
            self.note_shared(fault.pid, fault.page, touch, home, huge);
        }
    }

    /// The pages that a fault mapped along with its own came by its thread. Else they would be taken for placed by
    /// whoever is sampled there first, and most of a large library, where no page has many samples, would seem local to
    /// everybody.
    fn settle_around(&mut self, fault: &PendingFault, answers: &Answers) {
        for page in fault.around.clone().map(Page) {
            let unknown = self.live.get(&fault.pid).is_some_and(|process| process.pages.get(page).is_none());
            if unknown && matches!(answers.get(&page), Some(PageHome::Node(_))) {
                let home = self.virtual_home(page, fault.node, fault.cpu);
                self.place_unseen(fault.pid, page, 1, home, false, fault.time_ns);
            }
        }
    }

    /// Whether a fault on a page that is known, placed by a fault of kind `placed`, found that same page. A file's page
    /// is mapped anew and written to first; a page comes back from swap; NUMA balancing takes mappings away to see who
    /// uses the page. A read never places anonymous memory. A write does when the memory was given back before, which
    /// need not be known to us: where the kernel balances, the fault is taken for its doing.
    fn is_same_page(&self, fault: &PendingFault, placed: Fault, answer: Option<PageHome>) -> bool {
        let now = fault.touch.fault;
        let private = (now == Fault::Anonymous && placed != Fault::ZeroPage) || placed == Fault::CopyOnWrite;
        let stays = match answer {
            Some(PageHome::Node(_)) => fault.read_only || self.balancing,
            // On its way to another node.
            Some(PageHome::NotPresent) => self.balancing,
            _ => false,
        };
        (now == Fault::File && placed == Fault::File) || (private && stays)
    }

    /// Where a page lands on the virtual machine when a thread on `node` (`None`: unpinned, running on `cpu` of the
    /// host) touches it first.
    fn virtual_home(&self, page: Page, node: Option<NodeId>, cpu: u32) -> Option<usize> {
        let machine = &self.options.machine;
        let node = node.or_else(|| {
            // An unpinned thread runs anywhere: the host's CPUs stand for the nodes in turn.
            let nodes = machine.nodes_with_cpus().count().max(1);
            machine.nodes_with_cpus().nth(cpu as usize % nodes).map(|node| node.id)
        })?;
        machine.index_of(self.options.policy.home(machine, page.0, node))
    }

    /// Where the kernel's policy put a page that is gone: on the toucher's node, or where the policy binds it.
    fn home_by_policy(&self, fault: &PendingFault, range: Option<RangePolicy>) -> Option<usize> {
        let machine = &self.options.machine;
        let of_the_toucher = || machine.node_of_cpu(fault.cpu).and_then(|node| machine.index_of(node));
        if matches!(fault.touch.fault, Fault::File) {
            return None;
        }
        match range {
            Some(RangePolicy::Bound(node) | RangePolicy::Preferred(node)) => return machine.index_of(node),
            Some(RangePolicy::Local) => return of_the_toucher(),
            Some(RangePolicy::Several) => return None,
            None => {}
        }
        match fault.policy.split_once(':') {
            None if matches!(fault.policy.as_str(), "default" | "local") => of_the_toucher(),
            Some(("bind", nodes)) => nodes.parse().ok().and_then(|node| machine.index_of(NodeId(node))),
            _ => None,
        }
    }

    /// What is known of a page that is used; one that nobody was seen to touch first is asked for and noted.
    fn home_of(
        &mut self,
        pid: i32,
        page: Page,
        node: Option<NodeId>,
        cpu: u32,
        time_ns: u64,
        answers: Option<&Answers>,
    ) -> (Option<NodeId>, bool) {
        let answer = answers.and_then(|answers| answers.get(&page)).copied();
        let known = self.live.get(&pid).and_then(|process| process.pages.get(page));
        if let Some(state) = known {
            let pinned = self.touches.get(state.touch).pinned;
            let mut home = state.home;
            if let Some(PageHome::Node(found)) = answer.filter(|_| !self.options.machine.is_virtual)
                && let Some(found) = self.options.machine.index_of(found).and_then(|index| u16::try_from(index).ok())
            {
                home = Some(found);
                let bin = self.bin(time_ns);
                self.found_at(pid, page, state, found, bin);
            }
            let machine = &self.options.machine;
            return (home.map(|index| machine.nodes[usize::from(index)].id), pinned);
        }
        let machine = &self.options.machine;
        let home = match answer {
            Some(PageHome::Node(_)) if machine.is_virtual => self.virtual_home(page, node, cpu),
            Some(PageHome::Node(found)) => machine.index_of(found),
            _ => None,
        };
        let Some(home) = home else { return (None, false) };
        let pinned = self.place_unseen(pid, page, 1, Some(home), false, time_ns);
        // It may be another thread's.
        let placed = self.live.get(&pid).and_then(|process| process.pages.get(page));
        let pinned = placed.map_or(pinned, |state| self.touches.get(state.touch).pinned);
        let home = placed.and_then(|state| state.home).map_or(home, usize::from);
        (Some(self.options.machine.nodes[home].id), pinned)
    }

    /// Notes pages that the kernel placed unseen, those of memory that a thread has had brought in as that thread's.
    /// The others count as placed by a pinned thread when all threads of the
    /// process are pinned: whichever made the system call, it was one.
    fn place_unseen(
        &mut self,
        pid: i32,
        page: Page,
        count: u64,
        home: Option<usize>,
        huge: bool,
        time_ns: u64,
    ) -> bool {
        let bin = self.bin(time_ns);
        let Some(id) = self.live.get(&pid).map(|process| process.id) else { return false };
        let pinned = self.threads.of_process(id).all(|thread| thread.bound.node.is_some());
        let mut touch = Touch::unseen(id, bin, pinned);
        touch.object = self.block_or_variable_at(pid, page.address(), time_ns);
        let alone = touch;
        let touch = self.touches.intern(touch);
        let home = home.and_then(|index| u16::try_from(index).ok());
        for page in (page.0..page.0 + count).step_by(if huge { CHUNK as usize } else { 1 }).map(Page) {
            let (mut touch, mut home) = (touch, home);
            let brought = self.live.get(&pid).and_then(|process| process.brought_in.get(&page.address()).copied());
            if let Some(by) = brought {
                let node = self.touches.get(by).node;
                let there = self.virtual_home(page, node, 0).and_then(|index| u16::try_from(index).ok());
                (touch, home) = (by, if self.options.machine.is_virtual { there } else { home });
            }
            match self.placed_before(pid, page) {
                Some(before) => {
                    touch = self.touches.intern(self.found_there(alone, before));
                    home = if self.options.machine.is_virtual { before.home } else { home };
                }
                None => self.note_shared(pid, page, touch, home, huge),
            }
            let Some(process) = self.live.get_mut(&pid) else { return pinned };
            if huge {
                process.pages.place_huge(page, touch, home, false);
            } else {
                process.pages.place(page, touch, home, false);
            }
        }
        pinned
    }

    fn settle_access(&mut self, access: &PendingAccess, answers: Option<&Answers>) {
        let page = Page::of(access.address);
        let (home, pinned) = self.home_of(access.pid, page, access.node, access.cpu, access.time_ns, answers);
        let class = class(self.options.machine.locality(access.node, home, pinned));
        let bin = self.bin(access.time_ns);
        self.facts.add_access(Attributed {
            process: access.process,
            thread: access.thread,
            bin,
            node: access.node,
            site: access.site,
            page,
            object: access.object,
            home,
            class,
            access: access.access,
            weight: if access.found == Found::Hardware { access.period.max(1) } else { 1 },
        });
        self.output.add_sample(tables::Sample {
            process: access.process,
            time_ns: access.time_ns,
            thread: access.thread,
            cpu: access.cpu,
            site: access.site,
            stack: access.stack,
            address: access.address,
            found: access.found,
            access: access.access,
            object: Some(access.object),
            node: access.node,
            home,
            class,
            latency: access.latency,
            source: access.source,
            period: access.period,
        });
    }

    fn settle_fetch(&mut self, fetch: &PendingFetch, answers: Option<&Answers>) {
        let (home, _) = self.home_of(fetch.pid, fetch.page, fetch.node, 0, fetch.time_ns, answers);
        let bin = self.bin(fetch.time_ns);
        if self.options.code {
            let PendingFetch { process, thread, node, page, module, .. } = *fetch;
            self.facts.add_code(CodeKey { process, bin, thread, node, page, module, home }, 1);
        }
    }

    /// Finds the pages of a process that the kernel placed without a fault: compares what is there with what was seen.
    pub fn reconcile(&mut self, pid: i32) {
        let Some(process) = self.live.get(&pid).filter(|process| !process.ended) else { return };
        let Ok(mappings) = crate::homes::read_maps(pid) else { return };
        let seen = |page| process.pages.get(page).is_some() || process.is_own_memory(page);
        let Ok(runs) = unseen_pages(pid, &mappings, seen) else { return };
        // A process that runs on has placed some of them since the rings were read, and its faults are still to come.
        let now = self.since_start(monotonic_ns());
        let id = process.id;
        if let Some(process) = self.live.get_mut(&pid) {
            process.reconciled_ns = now;
        }
        let first = self.threads.of_process(id).map(|thread| (thread.id, thread.bound.node)).min();
        let node = first.and_then(|(_, node)| node);
        let time_ns = self.now_ns;
        for run in runs {
            let home = if self.options.machine.is_virtual {
                self.virtual_home(run.start, node, 0)
            } else {
                self.options.machine.index_of(run.home)
            };
            if home.is_some() {
                self.place_unseen(pid, run.start, run.count, home, run.huge, time_ns);
            }
        }
    }

    /// What a process has already when the recording meets it was touched by nobody knows whom: on a virtual machine it
    /// has no home. (On a real one the kernel knows.)
    pub(super) fn note_pages_from_before(&mut self, pid: i32) {
        let Ok(mappings) = crate::homes::read_maps(pid) else { return };
        let Ok(runs) = unseen_pages(pid, &mappings, |_| false) else { return };
        let now = self.since_start(monotonic_ns());
        if let Some(process) = self.live.get_mut(&pid) {
            process.reconciled_ns = now;
        }
        for run in runs {
            self.pages_from_before += run.count;
            self.place_unseen(pid, run.start, run.count, None, run.huge, self.now_ns);
        }
    }

    pub fn has_pages_from_before(&self) -> bool {
        self.pages_from_before > 0
    }

    /// Looks again where pages live, a piece of each process at a time, so that migrations appear.
    ///
    /// Returns those that have moved, by process.
    pub fn reread_homes(&mut self) -> Vec<(i32, Vec<Page>)> {
        if self.options.machine.is_virtual {
            return Vec::new();
        }
        let pids: Vec<i32> = self.live.keys().copied().collect();
        let moved = pids.into_iter().map(|pid| (pid, self.reread(pid)));
        moved.filter(|(_, pages)| !pages.is_empty()).collect()
    }

    fn reread(&mut self, pid: i32) -> Vec<Page> {
        let bin = self.bin(self.now_ns);
        let mut moved = Vec::new();
        let Some(process) = self.live.get_mut(&pid).filter(|process| !process.ended) else { return moved };
        let (pages, next) = process.pages.some_pages(process.reread_from, REREAD_AT_ONCE);
        process.reread_from = next.unwrap_or(Page(0));
        let mut homes = Vec::new();
        if query_homes(pid, &pages, &mut homes).is_err() {
            return moved;
        }
        for (&page, home) in pages.iter().zip(homes) {
            let PageHome::Node(node) = home else { continue };
            let index = self.options.machine.index_of(node).and_then(|index| u16::try_from(index).ok());
            let state = self.live.get(&pid).and_then(|process| process.pages.get(page));
            if let (Some(index), Some(state)) = (index, state) {
                if state.home != Some(index) {
                    moved.push(page);
                }
                self.found_at(pid, page, state, index, bin);
            }
        }
        if let (None, Some(process)) = (next, self.live.get_mut(&pid)) {
            process.moved_since = None;
        }
        moved
    }

    /// The kernel says that a page of which we know `state` lives on the node with index `home` now. If it lived
    /// elsewhere, that period ends and a new one begins with the same touch.
    pub(super) fn found_at(&mut self, pid: i32, page: Page, state: PageState, home: u16, bin: Bin) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        match state.home {
            Some(known) if known == home => return self.found_before_report(pid, page, state),
            // What was inferred has to give way to what was seen; so does not knowing.
            None => return process.pages.set_home(page, Some(home), false),
            Some(_) if state.inferred => return process.pages.set_home(page, Some(home), false),
            Some(_) => {}
        }
        let (id, first, count) = match state.huge {
            true => (process.id, Page(page.0 / CHUNK * CHUNK), CHUNK),
            false => (process.id, page, 1),
        };
        self.tally.migrated_pages += count;
        let gone = process.pages.forget(first, Page(first.0 + count));
        self.close_runs(id, &gone, Some(bin));
        let mut touch = Touch { bin, moved: true, to_another: false, ..self.touches.get(state.touch) };
        let Some(process) = self.live.get_mut(&pid) else { return };
        if process.moved_since.is_some() {
            touch.by_pinned();
        }
        let touch = self.touches.intern(touch);
        if state.huge {
            process.pages.place_huge(first, touch, Some(home), false);
        } else {
            process.pages.place(page, touch, Some(home), false);
        }
    }

    /// A page that was found elsewhere while the call that moved it still ran: only now is it known to have been one.
    fn found_before_report(&mut self, pid: i32, page: Page, state: PageState) {
        let Some(since) = self.live.get(&pid).and_then(|process| process.moved_since) else { return };
        let since = self.bin(since);
        let mut touch = self.touches.get(state.touch);
        if !touch.moved || touch.pinned || touch.bin < since {
            return;
        }
        touch.by_pinned();
        let touch = self.touches.intern(touch);
        let Some(process) = self.live.get_mut(&pid) else { return };
        if state.huge {
            process.pages.place_huge(page, touch, state.home, state.inferred);
        } else {
            process.pages.place(page, touch, state.home, state.inferred);
        }
    }
}

fn class(locality: Locality) -> Class {
    match locality {
        Locality::Local => Class::Local,
        Locality::Remote => Class::Remote,
        Locality::UnpinnedPage => Class::UnpinnedPage,
        Locality::UnpinnedThread => Class::UnpinnedThread,
        Locality::UnpinnedBoth => Class::UnpinnedBoth,
        Locality::MemoryTierLocal => Class::MemoryTierLocal,
        Locality::MemoryTierRemote => Class::MemoryTierRemote,
        Locality::Unplaced => Class::Unplaced,
    }
}
