//! A profile as analyses read it: dimensions as rows, facts folded. Read once, shared by all sections of a report.

use crate::facts::cache_lines::LineFacts;
use crate::facts::cache_misses::Misses;
use crate::facts::call_stacks::StackFacts;
use crate::facts::code::{Code, OwnPlace};
use crate::facts::code_fetches::CodeFacts;
use crate::facts::contended_lines::Lines;
use crate::facts::first_accesses::Events;
use crate::facts::line_objects::UseFacts;
use crate::facts::margins;
use crate::facts::node_timeline::NodeTimes;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_use::{Flows, Moments, PageFacts};
use crate::facts::placed::FirstTouches;
use crate::facts::sites::SiteFacts;
use crate::facts::subjects::Subjects;
use crate::facts::totals::Basis;
use crate::facts::totals::Totals;
use crate::facts::wrappers::Wrappers;
use crate::model::about::About;
use crate::model::counts::Counts;
use crate::model::report::Report;
use numalens_profile::PinningLog;
use numalens_profile::ids::{ObjectId, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{
    Allocation, CacheLine, LineCommunication, Object, Phase, PlacedPages, Placement, Process, Thread,
};
use numalens_simulate::CostModel;
use numalens_topology::{Machine, NodeId};
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// Everything that analyses read. What is shared does not depend on some filters, and is then that of the whole
/// recording.
pub struct Study {
    pub about: About,
    pub machine: Machine,
    pub processes: Vec<Process>,
    pub threads: FxHashMap<ThreadId, Thread>,
    /// All threads of the processes, as they started, those too that the filter leaves out.
    pub order: Vec<ThreadId>,
    /// The places that a virtual machine gives them, in that order.
    pub slots: Vec<u32>,
    pub placements: Vec<Placement>,
    pub pinning: PinningLog,
    pub code: Arc<Code>,
    pub objects: FxHashMap<ObjectId, Object>,
    /// Every period of every page, for questions about homes.
    pub pages: Vec<PlacedPages>,
    /// Those of them that are placements (see `placed`).
    pub placed: Vec<PlacedPages>,
    pub sites: SiteFacts,
    pub by_object: ObjectFacts,
    pub by_page: Arc<PageFacts>,
    pub fetches: CodeFacts,
    pub allocations: Vec<Allocation>,
    pub phases: Vec<Phase>,
    pub subjects: Arc<Subjects>,
    pub flows: Arc<Flows>,
    pub moments: Arc<Moments>,
    /// What is made of flows alone, when it is first asked for.
    pub usage: Arc<OnceLock<Totals>>,
    pub wrappers: OnceLock<Wrappers>,
    /// What advice says: the verdict is made of it, and it is shown beside that.
    pub advice: OnceLock<Vec<Report>>,
    /// None: the recording had no cache.
    pub misses: Option<Misses>,
    pub lines: LineFacts,
    pub cache_lines: Vec<CacheLine>,
    pub line_pairs: Vec<LineCommunication>,
    pub stacks: StackFacts,
    pub uses: UseFacts,
    pub node_times: NodeTimes,
    pub object_events: Events,
    pub thread_events: Events,
}

impl Study {
    /// Whether a thread had ended when another one began; not known of those that the study does not have.
    pub fn ends_before(&self, one: ThreadId, other: ThreadId) -> bool {
        let end = self.threads.get(&one).and_then(|row| row.end_ns);
        end.is_some_and(|end| self.threads.get(&other).is_some_and(|row| end <= row.start_ns))
    }

    /// The line that wanted what is allocated, or touched first, on a stack.
    pub fn wanted_at(&self, stack: Option<StackId>, site: Option<SiteId>) -> Option<OwnPlace> {
        let wrappers = self.wrappers.get_or_init(|| {
            let allocations = self.objects.values().map(|object| (object.stack, object.site));
            let touches = self.placed.iter().map(|pages| (pages.stack, pages.site));
            Wrappers::new(&self.code, allocations.chain(touches))
        });
        wrappers.own_place(&self.code, stack, site)
    }

    /// What its memory is used for, summed when it is first asked for.
    pub fn totals(&self, model: &CostModel<'_>) -> &Totals {
        let ends_before = |one, other| self.ends_before(one, other);
        let basis = Basis {
            about: &self.about,
            machine: &self.machine,
            objects: &self.objects,
            code: &self.code,
            subjects: &self.subjects,
            sites: &self.sites,
            by_object: &self.by_object,
            lines: &self.lines,
            flows: &self.flows,
            ends_before: &ends_before,
        };
        self.usage.get_or_init(|| Totals::new(&basis, model))
    }

    /// What is known of its cache lines.
    pub fn lines(&self) -> Lines<'_> {
        Lines { counted: &self.cache_lines, sampled: &self.lines, subjects: &self.subjects, code: &self.code }
    }

    /// Accesses of everything.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for ((_, class), tally) in self.sites.by_thread() {
            total.add(class, tally);
        }
        total
    }

    /// Accesses by thread.
    pub fn by_thread(&self) -> FxHashMap<ThreadId, Counts> {
        let mut threads: FxHashMap<ThreadId, Counts> = FxHashMap::default();
        for ((thread, class), tally) in self.sites.by_thread() {
            threads.entry(thread).or_default().add(class, tally);
        }
        threads
    }

    /// Placed pages of everything.
    pub fn first_touches(&self) -> FirstTouches {
        let mut sum = FirstTouches::default();
        self.placed.iter().for_each(|row| sum.add(row));
        if let Some(margins) = &self.sites.margins {
            margins.threads.keys().for_each(|thread| sum += margins.touches(*thread));
        }
        sum
    }

    /// What an analysis says that needs accesses by page, when there are but sums.
    pub fn sums_only(&self) -> Option<String> {
        self.sites.margins.as_ref().map(|_| margins::MISSING.to_string())
    }

    /// The nodes of matrices: the machine's, and whatever else the facts name (a profile of a machine that changed).
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.machine.nodes.iter().map(|node| node.id).collect();
        nodes.extend(self.sites.by_nodes().flat_map(|((_, node, home), _)| [node, home]).flatten());
        nodes.extend(self.fetches.instructions.keys().flat_map(|key| [key.node, key.home]).flatten());
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// Kernel's number of a process.
    pub fn pid(&self, process: ProcessId) -> Option<u32> {
        self.process(process).map(|p| p.pid)
    }

    /// A process.
    pub fn process(&self, process: ProcessId) -> Option<&Process> {
        self.processes.iter().find(|p| p.process == process)
    }

    /// What the sections of accesses have to say beforehand.
    pub fn access_doubts(&self) -> Vec<String> {
        if self.sites.is_empty() { vec![self.about.none("accesses")] } else { Vec::new() }
    }
}
