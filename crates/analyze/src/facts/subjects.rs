//! Subjects of advice: the memory that one line of the program could place otherwise.
//!
//! Heap objects of one allocation stack are one subject, a named global, file or stack is one; pages of which no object
//! is known belong to the instruction that touched them first.

use crate::facts::ancestry::Ancestry;
use crate::facts::placed;
use crate::facts::policies::{Policies, Policy};
use crate::model::object_group::Group;
use crate::model::tally;
use numalens_profile::PinningLog;
use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{Object, PlacedPages, Process};
use numalens_profile::words::{ObjectKind, Placed, SystemCall};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A subject: an index of [`Subjects::all`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubjectId(pub u32);

/// A row of `pages`: an index into them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunId(u32);

/// What makes memory one subject.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Key {
    Objects(Group),
    Touched(Option<StackId>, Option<SiteId>),
}

/// Who touches pages first, and the node that it is on.
pub type Toucher = (ThreadId, Option<NodeId>);

/// One subject, and what placed it.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub kind: Option<ObjectKind>,
    /// The largest of its objects, when objects are known.
    pub example: Option<Object>,
    /// Of all its objects.
    pub size: u64,
    pub count: u64,
    /// Bytes by home, those of pages that moved at each.
    pub homes: BTreeMap<Option<NodeId>, u64>,
    /// Bytes placed by first toucher and its node then, by place and by how.
    pub touchers: BTreeMap<Option<Toucher>, u64>,
    pub places: BTreeMap<(Option<StackId>, Option<SiteId>), u64>,
    /// By the kernel, in calls of theirs; those of accesses are not here.
    pub calls: BTreeMap<SystemCall, u64>,
    pub placed: BTreeMap<Placed, u64>,
    pub bytes: u64,
    /// Of these, placed under a policy that takes pages elsewhere than to who touches them.
    pub policies: BTreeMap<Policy, u64>,
    /// The node of whoever placed most of it; none: nobody is known to have placed any.
    pub maker: Option<Option<NodeId>>,
}

impl Subject {
    /// Bytes that anybody is known to have touched: placed while it was recorded, or there before.
    pub fn touched(&self) -> u64 {
        self.bytes.max(tally::total(self.homes.values().copied()))
    }

    /// Small pages placed.
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(4096)
    }
}

/// A row of `pages`, as far as accesses need it.
struct Run {
    page: Page,
    count: u64,
    bins: (Bin, Option<Bin>),
    home: Option<NodeId>,
    small_pages: u32,
    thread: Option<ThreadId>,
    node: Option<NodeId>,
    object: Option<ObjectId>,
    placed: Placed,
    subject: SubjectId,
    /// The first page behind all runs of the process up to this one.
    reach: u64,
    /// Whether no other run has any of its pages.
    alone: bool,
}

/// Subjects by what makes them one, while they are found.
struct Ids<'a> {
    objects: &'a FxHashMap<ObjectId, Object>,
    of_keys: FxHashMap<Key, SubjectId>,
    /// The same by object, as pages are many.
    of_objects: FxHashMap<ObjectId, SubjectId>,
}

/// All subjects, and which pages are theirs.
#[derive(Default)]
pub struct Subjects {
    pub all: Vec<Subject>,
    runs: Vec<Run>,
    /// Runs of a process in the order of pages, then of time.
    processes: FxHashMap<ProcessId, (u32, u32)>,
    layers: FxHashMap<ProcessId, Layers>,
    ancestry: Ancestry,
}

/// Runs of a process, in layers of which each has a page once. Where addresses are used again, a large run may lie
/// below any number of small ones. Each layer is in the order of pages.
///
/// ```text
///   layer 1  ====== run 1 =========   == 4 ==
///   layer 2    2  3      5                       of page p each layer has one run at most
/// ```
#[derive(Default)]
struct Layers(Vec<Vec<u32>>);

/// Layers at most: of addresses that are used again more often, some runs are not found.
const MOST_LAYERS: usize = 64;

impl Layers {
    /// Adds a run that begins where the one before does, or behind that.
    fn add(&mut self, runs: &[Run], at: u32) {
        let begin = runs[at as usize].page.0;
        let ends = |layer: &Vec<u32>| layer.last().map_or(0, |last| runs[*last as usize].end());
        let free = self.0.iter().position(|layer| ends(layer) <= begin);
        match free {
            Some(layer) => self.0[layer].push(at),
            None if self.0.len() < MOST_LAYERS => self.0.push(vec![at]),
            None => self.0[at as usize % MOST_LAYERS].push(at),
        }
    }

    /// Those that have a page.
    fn covering<'a>(&'a self, runs: &'a [Run], page: Page) -> impl Iterator<Item = (u32, &'a Run)> {
        self.0.iter().filter_map(move |layer| {
            let until = layer.partition_point(|at| runs[*at as usize].page <= page);
            let at = *layer.get(until.checked_sub(1)?)?;
            let run = &runs[at as usize];
            (page.0 < run.end()).then_some((at, run))
        })
    }
}

impl Run {
    /// The first page behind it.
    fn end(&self) -> u64 {
        self.page.0.saturating_add(self.count)
    }
}

impl Subjects {
    /// From the rows of the tables; `placed` are those of `pages` that are placements.
    pub fn new(
        pages: &[PlacedPages],
        placed: &[PlacedPages],
        objects: &FxHashMap<ObjectId, Object>,
        (pinning, policies): (&PinningLog, &Policies),
        processes: &[Process],
    ) -> Subjects {
        let mut subjects = Subjects { ancestry: Ancestry::new(processes), ..Subjects::default() };
        let mut ids = Ids { objects, of_keys: FxHashMap::default(), of_objects: FxHashMap::default() };
        let mut rows: Vec<&PlacedPages> = pages.iter().collect();
        rows.sort_by_key(|row| (row.process, row.page, row.bin_from));
        for row in rows {
            let subject = subjects.subject(&mut ids, row);
            if row.home.is_some() {
                *subjects.all[subject.0 as usize].homes.entry(row.home).or_default() += placed::bytes(row);
            }
            let at = subjects.runs.len() as u32;
            let (first, end) = subjects.processes.entry(row.process).or_insert((at, at));
            let before = match subjects.runs[*first as usize..].last_mut() {
                Some(last) => {
                    last.alone &= last.reach <= row.page.0;
                    last.reach
                }
                None => 0,
            };
            *end = at + 1;
            subjects.runs.push(Run {
                page: row.page,
                count: row.count,
                bins: (row.bin_from, row.bin_to),
                home: row.home,
                small_pages: u32::try_from(row.page_size / 4096).unwrap_or(u32::MAX).max(1),
                thread: row.thread,
                node: row.thread.and_then(|thread| row.node.or_else(|| pinning.at_end_of(thread, row.bin_from))),
                object: row.object,
                placed: row.placed,
                subject,
                reach: row.page.0.saturating_add(row.count).max(before),
                alone: before <= row.page.0,
            });
            subjects.layers.entry(row.process).or_default().add(&subjects.runs, at);
        }
        for row in placed {
            let id = subjects.subject(&mut ids, row);
            let (subject, bytes) = (&mut subjects.all[id.0 as usize], placed::bytes(row));
            // Who binds itself only when its memory is there works on that where it is bound to.
            let toucher = row.thread.map(|thread| (thread, row.node.or_else(|| pinning.last(thread))));
            *subject.touchers.entry(toucher).or_default() += bytes;
            *subject.places.entry((row.stack, row.site)).or_default() += bytes;
            *subject.placed.entry(row.placed).or_default() += bytes;
            if let Some(call) = row.call {
                *subject.calls.entry(call).or_default() += bytes;
            }
            subject.bytes += bytes;
            if let Some(policy) = row.thread.and_then(|thread| policies.at_end_of(thread, row.bin_from)) {
                *subject.policies.entry(policy.clone()).or_default() += bytes;
            }
        }
        for subject in &mut subjects.all {
            let most = subject.touchers.iter().max_by_key(|(_, bytes)| **bytes);
            subject.maker = most.map(|(toucher, _)| toucher.and_then(|(_, node)| node));
        }
        // In the order of ids, so that equal profiles give equal answers.
        let mut sorted: Vec<&Object> = objects.values().collect();
        sorted.sort_by_key(|object| object.object);
        for object in sorted {
            let Some(id) = ids.of_keys.get(&Key::Objects(Group::of(object))) else { continue };
            let subject = &mut subjects.all[id.0 as usize];
            subject.kind = Some(object.kind);
            tally::add(&mut subject.size, object.size);
            tally::add(&mut subject.count, object.count);
            if subject.example.as_ref().is_none_or(|example| example.size < object.size) {
                subject.example = Some(object.clone());
            }
        }
        subjects
    }

    fn subject(&mut self, ids: &mut Ids<'_>, row: &PlacedPages) -> SubjectId {
        if let Some(known) = row.object.and_then(|object| ids.of_objects.get(&object)) {
            return *known;
        }
        let object = row.object.and_then(|id| ids.objects.get(&id)).filter(|object| object.kind != ObjectKind::Unknown);
        let key = match object {
            Some(object) => Key::Objects(Group::of(object)),
            None => Key::Touched(row.stack, row.site),
        };
        let subject = *ids.of_keys.entry(key).or_insert_with(|| {
            self.all.push(Subject::default());
            SubjectId(self.all.len() as u32 - 1)
        });
        if let Some(object) = object {
            ids.of_objects.insert(object.object, subject);
        }
        subject
    }

    /// The row that covers a page at a time; where none does, the newest that ever covered it. Of those that share a
    /// time bin, as the page moved, the one with the home that is known; where the one of that time has another home,
    /// one before it that has this. What a process has not placed itself is what the one has placed that forked it.
    pub fn run_of(&self, process: ProcessId, page: Page, bin: Bin, home: Option<NodeId>) -> Option<RunId> {
        let own = |process| self.own_run_of(process, page, bin, home);
        own(process).or_else(|| self.ancestry.above(process).find_map(own))
    }

    fn own_run_of(&self, process: ProcessId, page: Page, bin: Bin, home: Option<NodeId>) -> Option<RunId> {
        let holds = |run: &Run| run.bins.0 <= bin && run.bins.1.is_none_or(|end| bin < end);
        let touches = |run: &Run| run.bins.0 <= bin && run.bins.1.is_none_or(|end| bin <= end);
        // Counts are looked at now and then: an array may be gone by then, and another be where it was, elsewhere.
        let likely = |run: &Run| match run.home {
            Some(_) if run.home == home && touches(run) => 3,
            None if holds(run) => 2,
            Some(_) if run.home == home && run.bins.0 <= bin => 1,
            _ => 0,
        };
        let covering = self.layers.get(&process)?.covering(&self.runs, page);
        let (run, _) = covering.max_by_key(|(at, run)| (likely(run), holds(run), run.bins.0, Reverse(*at)))?;
        Some(RunId(run))
    }

    fn run(&self, run: RunId) -> &Run {
        &self.runs[run.0 as usize]
    }

    /// Whose memory a row is.
    pub fn subject_of(&self, run: RunId) -> SubjectId {
        self.run(run).subject
    }

    /// Whether accesses from a node are not those of the node that made the subject.
    pub fn is_others(&self, subject: SubjectId, node: Option<NodeId>) -> bool {
        self.all[subject.0 as usize].maker != Some(node)
    }

    /// The subject of an object, where some of its pages are known.
    pub fn of_object(&self, object: ObjectId) -> Option<SubjectId> {
        self.runs.iter().find(|run| run.object == Some(object)).map(|run| run.subject)
    }

    /// Where the pages of a row lie.
    pub fn home_of(&self, run: RunId) -> Option<NodeId> {
        self.run(run).home
    }

    /// Small pages that each page of a row has: one, or as many as are in a huge page.
    pub fn small_pages_of(&self, run: RunId) -> u64 {
        u64::from(self.run(run).small_pages)
    }

    /// The object of a row.
    pub fn object_of(&self, run: RunId) -> Option<ObjectId> {
        self.run(run).object
    }

    /// Who touched the pages of a row first, and when.
    pub fn toucher_of(&self, run: RunId) -> (Option<ThreadId>, Bin) {
        (self.run(run).thread, self.run(run).bins.0)
    }

    /// The node that the first toucher of the pages of a row was on then.
    pub fn toucher_node_of(&self, run: RunId) -> Option<NodeId> {
        self.run(run).node
    }

    /// Whether the pages of a row were placed by a pinned thread.
    pub fn is_pinned(&self, run: RunId) -> bool {
        self.run(run).placed != Placed::Unpinned
    }
}

/// Looks up rows of pages one after the other: neighbours are often of one row, or of the next, which is then not
/// looked for again.
#[derive(Default)]
pub struct Cursor(Option<(ProcessId, RunId)>);

impl Cursor {
    /// The row of a page, where there is but one of it at any time.
    #[inline]
    pub fn always(&mut self, subjects: &Subjects, process: ProcessId, page: Page) -> Option<RunId> {
        let covers = |id: &RunId| {
            let run = subjects.run(*id);
            run.alone && run.page <= page && page.0 - run.page.0 < run.count
        };
        if let Some((_, last)) = self.0.filter(|(of, _)| *of == process) {
            let end = subjects.processes.get(&process).map_or(0, |(_, end)| *end);
            let next = Some(RunId(last.0 + 1)).filter(|next| next.0 < end);
            if let Some(found) = [Some(last), next].into_iter().flatten().find(covers) {
                self.0 = Some((process, found));
                return Some(found);
            }
        }
        // Where there is one row, it is the newest whatever the time.
        let Some(found) = subjects.own_run_of(process, page, Bin(0), None) else {
            // Not kept: of the pages beside it the process may have placed some itself.
            return subjects.run_of(process, page, Bin(0), None).filter(covers);
        };
        self.0 = Some((process, found));
        Some(found).filter(covers)
    }

    /// As [`Subjects::run_of`].
    pub fn run_of(
        &mut self,
        subjects: &Subjects,
        process: ProcessId,
        page: Page,
        bin: Bin,
        home: Option<NodeId>,
    ) -> Option<RunId> {
        self.always(subjects, process, page).or_else(|| subjects.run_of(process, page, bin, home))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::placed::tests::row;
    use numalens_profile::words::Fault;

    fn placed(page: u64, count: u64, bins: (u32, Option<u32>), home: u16, object: u32) -> PlacedPages {
        let row = row(page, count, bins, Placed::Pinned, Fault::Anonymous);
        PlacedPages { home: Some(NodeId(home)), object: Some(ObjectId(object)), ..row }
    }

    /// One array of 1,000 pages, and at its addresses another one that was placed page by page.
    #[test]
    fn a_large_run_is_found_below_many_small_ones() {
        let mut rows = vec![placed(100, 1000, (0, Some(5)), 0, 1)];
        rows.extend((100..1100).map(|page| placed(page, 1, (5, None), 1, 2)));
        let subjects =
            Subjects::new(&rows, &rows, &FxHashMap::default(), (&PinningLog::default(), &Policies::default()), &[]);
        for page in [100, 500, 1099] {
            let object = |bin, home| {
                let run = subjects.run_of(ProcessId(0), Page(page), Bin(bin), Some(NodeId(home)));
                run.and_then(|run| subjects.object_of(run))
            };
            assert_eq!((object(2, 0), object(7, 1)), (Some(ObjectId(1)), Some(ObjectId(2))), "page {page}");
            assert_eq!(object(5, 0), Some(ObjectId(1)), "page {page}: the home tells, at the time of both");
        }
        assert!(subjects.run_of(ProcessId(0), Page(1100), Bin(7), None).is_none());
    }
}
