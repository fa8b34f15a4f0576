//! The questions that only the kernel can answer, asked once a batch: where pages live and how large they are.

use super::Session;
use super::bindings::RangePolicy;
use super::facts::{Attributed, CodeKey};
use super::page_map::{CHUNK, PageState, Run};
use super::pages::is_huge;
use super::pending::{Pending, PendingAccess, PendingFault, PendingFetch};
use super::touches::Touch;
use crate::homes::{PageHome, query_homes, unseen_pages};
use crate::perf::monotonic_ns;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Class, Fault, Found};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// Pages whose homes are re-read at a time, so that no walk holds the collector up.
const REREAD_AT_ONCE: usize = 1 << 16;

/// What the kernel said about the pages of one process; empty when the process was gone.
type Answers = FxHashMap<Page, PageHome>;

/// Pages that were there without a fault that was seen.
struct Unseen {
    page: Page,
    count: u64,
    /// The index of their home.
    home: Option<usize>,
    huge: bool,
}

/// What a fault places.
struct Placing {
    touch: Touch,
    /// The index of its home.
    home: Option<u16>,
    inferred: bool,
}

/// What a fault finds at a page that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meets {
    Same,
    Another,
    /// Nobody had placed it.
    NotPlaced,
}

/// Asks the kernel about pages, and takes in what it says.
pub struct BatchSettler<'a> {
    pub session: &'a mut Session,
}

impl BatchSettler<'_> {
    /// Answers what is pending and turns it into facts.
    pub fn settle(&mut self) {
        let Some(batch) = self.session.pending.take() else { return };
        let answers = self.ask(&batch);
        for fault in &batch.faults {
            self.settle_fault(fault, answers.get(&fault.pid));
        }
        // After them all: what has a fault of its own was not mapped along with another.
        for fault in &batch.faults {
            if let Some(answers) = answers.get(&fault.pid).filter(|_| self.session.options.machine.is_virtual) {
                self.settle_around(fault, answers);
            }
        }
        for access in &batch.accesses {
            self.settle_access(access, answers.get(&access.pid));
        }
        for fetch in &batch.fetches {
            self.settle_fetch(fetch, answers.get(&fetch.pid));
        }
        self.session.pending.reuse(batch);
        for process in self.session.processes.live_mut() {
            process.maps_fresh = false;
        }
        self.session.keep_within_limits();
    }

    /// Asks the kernel for the homes of all pages in question, one call for each process.
    fn ask(&self, batch: &Pending) -> FxHashMap<i32, Answers> {
        let Pending { faults, accesses, fetches, .. } = batch;
        let virtual_machine = self.session.options.machine.is_virtual;
        let mut questions: FxHashMap<i32, Vec<Page>> = FxHashMap::default();
        for fault in faults {
            // On a virtual machine only one thing is unknown: whether a read found the shared zero page.
            if !virtual_machine || fault.read_only {
                questions.entry(fault.pid).or_default().push(fault.page);
            }
            // On a real one it is of no use to know who mapped them: the kernel says where they are when they are
            // accessed.
            if let Some(process) = self.session.processes.get(fault.pid).filter(|_| virtual_machine) {
                let unknown = fault.around.clone().map(Page).filter(|&page| process.pages.get(page).is_none());
                questions.entry(fault.pid).or_default().extend(unknown);
            }
        }
        // A sampled page may have moved since we last looked.
        let used = accesses.iter().map(|access| (access.pid, Page::of(access.address)));
        for (pid, page) in used.chain(fetches.iter().map(|fetch| (fetch.pid, fetch.page))) {
            if !virtual_machine
                || self.session.processes.get(pid).is_none_or(|process| process.pages.get(page).is_none())
            {
                questions.entry(pid).or_default().push(page);
            }
        }
        let mut answers = FxHashMap::default();
        for (pid, mut pages) in questions {
            let alive = self.session.processes.get(pid).is_some_and(|process| !process.ended);
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
        let is_virtual = self.session.options.machine.is_virtual;
        let Placing { mut touch, home, inferred } = self.placing(fault, answer);
        let Some(process) = self.session.processes.get(fault.pid) else { return };
        let before = self.session.pages.segments.placed_before(process, fault.page);
        let home = before.filter(|_| is_virtual).map_or(home, |before| before.home);
        let was = process.pages.get(fault.page);
        if let Some(was) = was {
            match self.meets(fault, was, answer, &mut touch, process.walk.reconciled_ns) {
                Meets::Same => {
                    if let Some(home) = home.filter(|_| !inferred) {
                        self.found_at(fault.pid, fault.page, home, touch.bin);
                    }
                    return;
                }
                met => self.fault_replaces(fault, was, touch.bin, met == Meets::NotPlaced),
            }
        }
        let touch = before.map_or(touch, |before| self.session.pages.touches.found_there(touch, before));
        let touch = self.session.pages.touches.intern(touch);
        let batch = self.session.pending.batch;
        let Some(process) = self.session.processes.get_mut(fault.pid) else { return };
        let huge = fault.may_be_huge
            && (answers.is_some() || is_virtual)
            && !process.ended
            && process.pages.ask_size(fault.page, was.is_some(), batch)
            && is_huge(process.pid, fault.page);
        process.pages.put(fault.page, touch, home, inferred, huge);
        if before.is_none() {
            self.session.pages.segments.note(process, fault.page, touch, home, huge);
        }
    }

    /// What a fault places, and where, if it places a page: by the kernel's word, or by what policies say.
    fn placing(&mut self, fault: &PendingFault, answer: Option<PageHome>) -> Placing {
        let mut touch = fault.touch;
        touch.bin = self.session.bin(fault.time_ns);
        let policy =
            self.session.processes.get(fault.pid).and_then(|live| live.policies.bindings.get(fault.page.address()));
        if matches!(policy, Some(RangePolicy::Bound(_))) {
            touch.by_pinned();
        }
        let read_anonymous = fault.read_only && touch.fault != Fault::File;
        let zero_page = read_anonymous && !matches!(answer, Some(PageHome::Node(_)));
        touch.by_read = read_anonymous && !zero_page;
        let (home, inferred) = if zero_page {
            touch.fault = Fault::ZeroPage;
            (None, false)
        } else if self.session.options.machine.is_virtual {
            (self.session.options.virtual_home(fault.page, fault.node, fault.cpu), false)
        } else {
            match answer {
                Some(PageHome::Node(node)) => (self.session.options.machine.index_of(node), false),
                _ => (self.home_by_policy(fault, policy), true),
            }
        };
        self.session.pages.inferred_homes += u64::from(inferred && home.is_some());
        Placing { touch, home: home.and_then(|index| u16::try_from(index).ok()), inferred }
    }

    /// What a fault finds at a page that is known; `touch`, by which the page counts as placed, becomes one that copies
    /// where it does.
    fn meets(
        &self,
        fault: &PendingFault,
        was: PageState,
        answer: Option<PageHome>,
        touch: &mut Touch,
        reconciled_ns: u64,
    ) -> Meets {
        let again = self.session.pages.touches.get(was.touch);
        // Nobody placed the page before: a read found the zero page, or it was taken for unseen before the record of
        // this fault had come.
        let early = again.fault == Fault::None && !again.moved && fault.time_ns <= reconciled_ns;
        let not_placed = again.fault == Fault::ZeroPage || again.by_read || early;
        if not_placed && !early && !fault.read_only && touch.fault == Fault::Anonymous {
            touch.fault = Fault::CopyOnWrite;
        }
        let may_be_same = again.process == touch.process && !early && (fault.read_only || !not_placed);
        if may_be_same && self.is_same_page(fault, again.fault, answer) {
            return Meets::Same;
        }
        if not_placed { Meets::NotPlaced } else { Meets::Another }
    }

    /// A fault places another page where one was known: that one's period ends, if it had been placed.
    fn fault_replaces(&mut self, fault: &PendingFault, was: PageState, bin: Bin, not_placed: bool) {
        let Some(process) = self.session.processes.get_mut(fault.pid) else { return };
        let gone = if was.huge {
            let first = Page(fault.page.0 / CHUNK * CHUNK);
            process.pages.forget(first, Page(first.0 + CHUNK))
        } else {
            vec![Run { page: fault.page, count: 1, state: was }]
        };
        if !not_placed {
            self.session.pages.close_runs(process.id, &gone, Some(bin));
        }
    }

    /// The pages that a fault mapped along with its own came by its thread. Else they would be taken for placed by
    /// whoever is sampled there first, and most of a large library, where no page has many samples, would seem local to
    /// everybody.
    fn settle_around(&mut self, fault: &PendingFault, answers: &Answers) {
        for page in fault.around.clone().map(Page) {
            let unknown =
                self.session.processes.get(fault.pid).is_some_and(|process| process.pages.get(page).is_none());
            if unknown && matches!(answers.get(&page), Some(PageHome::Node(_))) {
                let home = self.session.options.virtual_home(page, fault.node, fault.cpu);
                self.place_unseen(fault.pid, &Unseen { page, count: 1, home, huge: false }, fault.time_ns);
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
            Some(PageHome::Node(_)) => fault.read_only || self.session.pages.balancing,
            // On its way to another node.
            Some(PageHome::NotPresent) => self.session.pages.balancing,
            _ => false,
        };
        (now == Fault::File && placed == Fault::File) || (private && stays)
    }

    /// Where the kernel's policy put a page that is gone: on the toucher's node, or where the policy binds it.
    fn home_by_policy(&self, fault: &PendingFault, range: Option<RangePolicy>) -> Option<usize> {
        let machine = &self.session.options.machine;
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
        let known = self.session.processes.get(pid).and_then(|process| process.pages.get(page));
        if let Some(state) = known {
            let pinned = self.session.pages.touches.get(state.touch).pinned;
            let mut home = state.home;
            if let Some(PageHome::Node(found)) = answer.filter(|_| !self.session.options.machine.is_virtual)
                && let Some(found) =
                    self.session.options.machine.index_of(found).and_then(|index| u16::try_from(index).ok())
            {
                home = Some(found);
                let bin = self.session.bin(time_ns);
                self.found_at(pid, page, found, bin);
            }
            let machine = &self.session.options.machine;
            return (home.map(|index| machine.nodes[usize::from(index)].id), pinned);
        }
        let machine = &self.session.options.machine;
        let home = match answer {
            Some(PageHome::Node(_)) if machine.is_virtual => self.session.options.virtual_home(page, node, cpu),
            Some(PageHome::Node(found)) => machine.index_of(found),
            _ => None,
        };
        let Some(home) = home else { return (None, false) };
        let pinned = self.place_unseen(pid, &Unseen { page, count: 1, home: Some(home), huge: false }, time_ns);
        // It may be another thread's.
        let placed = self.session.processes.get(pid).and_then(|process| process.pages.get(page));
        let pinned = placed.map_or(pinned, |state| self.session.pages.touches.get(state.touch).pinned);
        let home = placed.and_then(|state| state.home).map_or(home, usize::from);
        (Some(self.session.options.machine.nodes[home].id), pinned)
    }

    /// Notes pages that the kernel placed unseen, those of memory that a thread has had brought in as that thread's.
    /// The others count as placed by a pinned thread when all threads of the process are pinned: whichever made the
    /// system call, it was one. Returns whether they do.
    fn place_unseen(&mut self, pid: i32, unseen: &Unseen, time_ns: u64) -> bool {
        let &Unseen { page, count, home, huge } = unseen;
        let bin = self.session.bin(time_ns);
        let Some(process) = self.session.processes.get_mut(pid) else { return false };
        let id = process.id;
        let pinned = self.session.threads.of_process(id).all(|thread| thread.bound.node.is_some());
        let mut alone = Touch::unseen(id, bin, pinned);
        alone.object = self.session.objects.placed_for(process, &self.session.threads, page.address(), time_ns);
        let by_nobody = self.session.pages.touches.intern(alone);
        let is_virtual = self.session.options.machine.is_virtual;
        let home = home.and_then(|index| u16::try_from(index).ok());
        for page in (page.0..page.0 + count).step_by(if huge { CHUNK as usize } else { 1 }).map(Page) {
            let (mut touch, mut home) = (by_nobody, home);
            if let Some(&by) = process.policies.brought_in.get(&page.address()) {
                touch = by;
                if is_virtual {
                    let node = self.session.pages.touches.get(by).node;
                    home = self.session.options.virtual_home(page, node, 0).and_then(|index| u16::try_from(index).ok());
                }
            }
            match self.session.pages.segments.placed_before(process, page) {
                Some(before) => {
                    let found = self.session.pages.touches.found_there(alone, before);
                    touch = self.session.pages.touches.intern(found);
                    home = if is_virtual { before.home } else { home };
                }
                None => self.session.pages.segments.note(process, page, touch, home, huge),
            }
            process.pages.put(page, touch, home, false, huge);
        }
        pinned
    }

    fn settle_access(&mut self, access: &PendingAccess, answers: Option<&Answers>) {
        let page = Page::of(access.address);
        let (home, pinned) = self.home_of(access.pid, page, access.node, access.cpu, access.time_ns, answers);
        let class = Class::from(self.session.options.machine.locality(access.node, home, pinned));
        let bin = self.session.bin(access.time_ns);
        self.session.facts.add_access(Attributed {
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
        self.session.output.add_sample(tables::Sample {
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
        let bin = self.session.bin(fetch.time_ns);
        if self.session.options.code {
            let PendingFetch { process, thread, node, page, module, .. } = *fetch;
            self.session.facts.add_code(CodeKey { process, bin, thread, node, page, module, home }, 1);
        }
    }

    /// Finds the pages of a process that the kernel placed without a fault: compares what is there with what was seen.
    pub fn reconcile(&mut self, pid: i32) {
        let Some(process) = self.session.processes.get(pid).filter(|process| !process.ended) else { return };
        let Ok(mappings) = crate::homes::read_maps(pid) else { return };
        let seen = |page| process.pages.get(page).is_some() || process.own.has_page(page);
        let Ok(runs) = unseen_pages(pid, &mappings, seen) else { return };
        // A process that runs on has placed some of them since the rings were read, and its faults are still to come.
        let now = self.session.since_start(monotonic_ns());
        let id = process.id;
        if let Some(process) = self.session.processes.get_mut(pid) {
            process.walk.reconciled_ns = now;
        }
        let first = self.session.threads.of_process(id).map(|thread| (thread.id, thread.bound.node)).min();
        let node = first.and_then(|(_, node)| node);
        let time_ns = self.session.clock.now_ns;
        for run in runs {
            let home = if self.session.options.machine.is_virtual {
                self.session.options.virtual_home(run.start, node, 0)
            } else {
                self.session.options.machine.index_of(run.home)
            };
            if home.is_some() {
                self.place_unseen(pid, &Unseen { page: run.start, count: run.count, home, huge: run.huge }, time_ns);
            }
        }
    }

    /// What a process has already when the recording meets it was touched by nobody knows whom: on a virtual machine it
    /// has no home. (On a real one the kernel knows.)
    pub fn note_pages_from_before(&mut self, pid: i32) {
        let Ok(mappings) = crate::homes::read_maps(pid) else { return };
        let Ok(runs) = unseen_pages(pid, &mappings, |_| false) else { return };
        let now = self.session.since_start(monotonic_ns());
        if let Some(process) = self.session.processes.get_mut(pid) {
            process.walk.reconciled_ns = now;
        }
        for run in runs {
            self.session.pages.from_before += run.count;
            let unseen = Unseen { page: run.start, count: run.count, home: None, huge: run.huge };
            self.place_unseen(pid, &unseen, self.session.clock.now_ns);
        }
    }

    /// Looks again where pages live, a piece of each process at a time, so that migrations appear.
    ///
    /// Returns those that have moved, by process.
    pub fn reread_homes(&mut self) -> Vec<(i32, Vec<Page>)> {
        if self.session.options.machine.is_virtual {
            return Vec::new();
        }
        let pids: Vec<i32> = self.session.processes.pids();
        let moved = pids.into_iter().map(|pid| (pid, self.reread(pid)));
        moved.filter(|(_, pages)| !pages.is_empty()).collect()
    }

    fn reread(&mut self, pid: i32) -> Vec<Page> {
        let bin = self.session.bin(self.session.clock.now_ns);
        let mut moved = Vec::new();
        let Some(process) = self.session.processes.get_mut(pid).filter(|process| !process.ended) else { return moved };
        let (pages, next) = process.pages.some_pages(process.walk.from, REREAD_AT_ONCE);
        process.walk.goes_on(next);
        let mut homes = Vec::new();
        if query_homes(pid, &pages, &mut homes).is_err() {
            return moved;
        }
        for (&page, home) in pages.iter().zip(homes) {
            let PageHome::Node(node) = home else { continue };
            let index = self.session.options.machine.index_of(node).and_then(|index| u16::try_from(index).ok());
            let state = self.session.processes.get(pid).and_then(|process| process.pages.get(page));
            if let (Some(index), Some(state)) = (index, state) {
                if state.home != Some(index) {
                    moved.push(page);
                }
                self.found_at(pid, page, index, bin);
            }
        }
        if let (None, Some(process)) = (next, self.session.processes.get_mut(pid)) {
            process.walk.moved_since = None;
        }
        moved
    }

    /// The kernel says that a page lives on the node with index `home` now.
    fn found_at(&mut self, pid: i32, page: Page, home: u16, bin: Bin) {
        let Some(process) = self.session.processes.get(pid) else { return };
        let is_there = process.pages.get(page).is_some_and(|state| state.home == Some(home));
        // A time that is asked for may widen the bins, and `bin` be another one then: only where that is not needed.
        let since = process.walk.moved_since.map(|since| if is_there { self.session.bin(since) } else { bin });
        if let Some(process) = self.session.processes.get_mut(pid) {
            self.session.pages.found_at(process, page, home, bin, since);
        }
    }
}
