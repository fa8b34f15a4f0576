//! From the usage of one subject to a pattern and its remedy.

use super::program::Clusters;
use super::words as w;
use super::{Candidate, Effect, causes, evidence};
use crate::dataset::usages::Usages;
use crate::facts::code::OwnPlace;
use crate::facts::contended_lines::{self, Contended};
use crate::facts::policies::Policy;
use crate::facts::subjects::{Subject, SubjectId};
use crate::facts::usage::Usage;
use crate::model::about::Unit;
use crate::model::metrics;
use crate::model::object_group::Group;
use crate::model::report::{Field, Member, Value, Word};
use crate::model::sharing::Sharing;
use crate::model::tally::Tally;
use numalens_profile::ids::SiteId;
use numalens_profile::tables::Object;
use numalens_profile::words::{ObjectKind, Placed};
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Share of the main user from which a page, or an object, is called one node's.
const OWN: f64 = 0.7;
/// The same from which blocks are said to be: of some of them, which are wholly known.
const OWN_BLOCK: f64 = 0.9;
/// Bytes of blocks for each byte of their pages from which pages were used again.
const AGAIN: f64 = 1.5;
/// Percent of writes up to which memory counts as only read.
const RARELY: f64 = 2.0;
/// Part of a subject's bytes that one node's threads touched first: serial.
const SERIAL: f64 = 0.8;
/// Bytes up to which memory without sampled addresses may be one of lines that threads share: a page.
const FEW_LINES: u64 = 4096;
/// Bytes that one access copies at best.
const LINE: f64 = 64.0;
/// Callers of an allocation that tell it from others.
const CALLERS: usize = 3;
/// Samples, or exact accesses, of a subject below which it is not judged.
const ENOUGH: u64 = 20;

/// One subject and what is known of it.
pub(super) struct Case<'a> {
    pub(super) usages: &'a Usages<'a>,
    id: SubjectId,
    pub(super) subject: &'a Subject,
    pub(super) usage: &'a Usage,
    pub(super) users: BTreeMap<NodeId, f64>,
    pub(super) pages: Option<Sharing>,
    pub(super) huge_pages: Option<Sharing>,
    pub(super) objects: Option<Sharing>,
    pub(super) contended: Option<&'a Contended>,
    pub(super) handed_on: Option<HandedOn<'a>>,
}

/// What an allocator has put on pages that others had placed.
pub(super) struct HandedOn<'a> {
    /// Of another place; none: blocks of the same.
    pub(super) next: Option<&'a Object>,
    /// The share of a block's main node.
    pub(super) own: f64,
}

/// A subject that could be placed better, and how its traffic would be then.
pub(super) struct Judgement<'a> {
    pub(super) case: Case<'a>,
    pub(super) pattern: &'static Word,
    pub(super) remedy: &'static Word,
    after: Traffic,
}

/// What an object is used like, with what was seen of it.
pub struct Judged {
    /// Pattern and remedy; none: nothing to change, or too little was seen to say.
    pub pattern: Option<(&'static Word, &'static Word)>,
    pub evidence: Vec<Field>,
}

/// Every object that was accessed, those of one allocation stack as one; also those that concern too little for advice.
pub fn objects(usages: &Usages) -> FxHashMap<Group, Judged> {
    let contended = contended_lines::contended(usages.study.lines());
    let judged = cases(usages).filter_map(|(id, subject, usage)| {
        let example = subject.example.as_ref().filter(|_| usage.all.accesses() > 0)?;
        let case = Case::new(usages, (id, subject, usage), contended.get(&id));
        let judged = if usage.all.basis() < ENOUGH { None } else { case.judge() };
        let pattern = judged.map(|(pattern, remedy, _)| (pattern, remedy));
        Some((Group::of(example), Judged { pattern, evidence: evidence::of(&[&case]) }))
    });
    // In order: subjects may be of one group.
    judged.collect::<Vec<_>>().into_iter().collect()
}

/// The candidates of all subjects, those of one cause as one.
pub(super) fn candidates(usages: &Usages, clusters: &Clusters) -> Vec<Candidate> {
    let contended = contended_lines::contended(usages.study.lines());
    let judged = cases(usages).filter_map(|(id, subject, usage)| {
        if !is_far(usages, usage) || usage.all.basis() < ENOUGH || clusters.explain(usage) {
            return None;
        }
        let case = Case::new(usages, (id, subject, usage), contended.get(&id));
        let (pattern, remedy, after) = case.judge()?;
        Some(Judgement { case, pattern, remedy, after }).filter(Judgement::has_place)
    });
    let groups = causes::groups(judged.collect());
    groups.iter().filter_map(|group| candidate(usages, group)).collect()
}

/// What is said of memory that is handed from thread to thread, where much is: it may lie otherwise the next time.
pub(super) fn varies(usages: &Usages) -> Option<String> {
    let much = |usage: &Usage| {
        usage.successors * 2 > usage.all.accesses() && usages.share(usage.traffic.total()).0 >= super::MUCH
    };
    let (id, subject, usage) =
        cases(usages).filter(|(.., usage)| much(usage)).max_by_key(|(.., usage)| usage.successors)?;
    let case = Case::new(usages, (id, subject, usage), None);
    let example = subject.example.as_ref().filter(|_| case.handed_on.is_some())?;
    let place = usages.study.wanted_at(example.stack, example.site)?.location;
    let share = usages.share(usage.traffic.total()).0;
    Some(format!(
        "{share:.0} % of the accesses are to blocks of {place}, which malloc hands from threads that have ended to later ones: how much of it is remote may differ from run to run"
    ))
}

/// Whether enough of it is on other nodes, or on slow ones, to matter.
fn is_far(usages: &Usages, usage: &Usage) -> bool {
    usage.traffic.remote() * 20.0 >= usage.traffic.total() || is_slow(usages, usage)
}

/// Whether most of it goes to slower memory.
fn is_slow(usages: &Usages, usage: &Usage) -> bool {
    let machine = &usages.study.machine;
    let on_slow = usage.traffic.sum(|_, to| to.is_some_and(|to| machine.is_slower_memory(to)));
    on_slow * 2.0 > usage.traffic.total()
}

/// Of subjects of one cause, the one with the most accesses first.
fn candidate(usages: &Usages, group: &[Judgement<'_>]) -> Option<Candidate> {
    let (mut before, mut after, mut worst) = (Traffic::default(), Traffic::default(), Traffic::default());
    for one in group {
        before.add_all(&one.case.usage.traffic, 1.0);
        after.add_all(&one.after, 1.0);
        worst.add_all(&one.case.worst(one.pattern).unwrap_or_else(|| one.after.clone()), 1.0);
    }
    let first = group.first().filter(|_| usages.share(before.total()).2 >= super::LEAST_SHARE)?;
    let cases: Vec<&Case<'_>> = group.iter().map(|one| &one.case).collect();
    let certain = cases.iter().all(|case| case.is_certain(first.pattern));
    let mut evidence = evidence::of(&cases);
    if !certain && first.case.contended.is_none() {
        evidence.push(evidence::unknown_words());
    }
    let name = first.example().map(|object| object.name.clone());
    Some(Candidate {
        pattern: first.pattern,
        remedy: first.remedy,
        place: first.place(),
        object: first.object(),
        name: name.filter(|name| !name.is_empty() && group.len() == 1),
        evidence,
        members: if group.len() > 1 { group.iter().map(Judgement::member).collect() } else { Vec::new() },
        effect: Effect::Traffic { before, after, worst: certain.then_some(worst) },
    })
}

/// Subjects and what they are used for.
pub(super) fn cases<'a>(
    usages: &'a Usages,
) -> impl IndexedParallelIterator<Item = (SubjectId, &'a Subject, &'a Usage)> {
    let subjects = usages.study.subjects.all.par_iter().zip(&usages.subjects).enumerate();
    subjects.map(|(index, (subject, usage))| (SubjectId(index as u32), subject, usage))
}

impl<'a> Case<'a> {
    fn new(
        usages: &'a Usages<'a>,
        (id, subject, usage): (SubjectId, &'a Subject, &'a Usage),
        contended: Option<&'a Contended>,
    ) -> Self {
        let (users, pages, objects) = (usage.users(), usage.page_sharing(), usage.object_sharing());
        let huge_pages = usage.huge_page_sharing();
        let mut case =
            Case { usages, id, subject, usage, users, pages, huge_pages, objects, contended, handed_on: None };
        case.handed_on = case.handed_on();
        case
    }

    /// Whether its pages are no measure of its blocks: see [`crate::facts::handed_on`].
    fn handed_on(&self) -> Option<HandedOn<'a>> {
        let example = self.subject.example.as_ref().filter(|object| object.kind == ObjectKind::Heap)?;
        let blocks = &self.usages.blocks;
        if let Some(next) = blocks.next(&self.usages.study.objects, example) {
            return Some(HandedOn { next: Some(next), own: self.of_pages() });
        }
        let again = self.subject.count > 1 && self.subject.size as f64 >= self.subject.bytes as f64 * AGAIN;
        if !again || self.users.len() < 2 {
            return None;
        }
        let own = blocks.own_share(&Group::of(example), self.users.len()).filter(|own| *own >= OWN_BLOCK)?;
        let in_turn = self.usage.successors * 2 > self.usage.all.accesses();
        (in_turn || self.of_pages() < OWN).then_some(HandedOn { next: None, own })
    }
}

impl Judgement<'_> {
    /// Of the objects that share the subject's pages, the one whose lines travel.
    fn contended_object(&self) -> Option<&Object> {
        let contended = self.case.contended.filter(|_| self.pattern.name == w::SHARED_LINE.name)?;
        let object = self.case.usages.study.objects.get(&contended.object()?)?;
        let other = self.case.subject.example.as_ref().is_none_or(|example| Group::of(example) != Group::of(object));
        other.then_some(object)
    }

    /// The object that lies on the subject's pages by now.
    fn next_object(&self) -> Option<&Object> {
        self.case.handed_on.as_ref().filter(|_| self.pattern.name == w::HANDED_ON.name)?.next
    }

    /// The one object that it is about, in place of the subject's own.
    fn other_object(&self) -> Option<&Object> {
        self.contended_object().or(self.next_object())
    }

    /// The object that it is about.
    fn example(&self) -> Option<&Object> {
        self.other_object().or(self.case.subject.example.as_ref())
    }

    /// Where to change it.
    fn place(&self) -> Option<OwnPlace> {
        let study = self.case.usages.study;
        let allocated = self.example().and_then(|o| study.wanted_at(o.stack, o.site));
        let first_touch = self.case.first_touch();
        match self.remedy.name {
            name if name == w::SPLIT_LINE.name => {
                let own = |site: &SiteId| study.code.own_frame(*site).is_some();
                let sites = self.case.contended.map(|lines| &lines.sites).into_iter().flatten();
                let hottest = sites.filter(|(site, _)| own(site)).max_by_key(|(_, n)| **n);
                hottest.map(|(site, _)| study.code.own(*site)).or(allocated).or(first_touch)
            }
            name if name == w::LOCAL_ALLOCATION.name || name == w::PARALLEL_INITIALISATION.name => {
                first_touch.or(allocated)
            }
            _ => allocated.or(first_touch),
        }
    }

    /// Of pages that nobody is known to have made there is no line to change.
    fn has_place(&self) -> bool {
        self.example().is_some() || self.place().is_some()
    }

    fn object(&self) -> Vec<Field> {
        let subject = self.case.subject;
        let of_own = self.other_object().map(|object| (object.size, 1));
        let (size, count) = of_own.unwrap_or((subject.size, subject.count));
        self.example().map_or(Vec::new(), |object| object_fields(self.case.usages, object, size, count))
    }

    fn member(&self) -> Member {
        Member {
            place: self.place().map(|place| place.location),
            object: self.object(),
            evidence: evidence::shares(&[&self.case]),
        }
    }
}

impl Case<'_> {
    /// Pattern, remedy, and how its traffic would be then.
    fn judge(&self) -> Option<(&'static Word, &'static Word, Traffic)> {
        let (pattern, remedy, after) = self.judge_use()?;
        let by_touch = [w::MISPLACED_BLOCKS.name, w::PRIVATE_ELSEWHERE.name].contains(&pattern.name);
        // Where one node touched all of it first, it would lie there without the policy.
        if by_touch && self.policy().is_some() && self.serial_share() < SERIAL {
            return Some((&w::PLACED_BY_POLICY, &w::DROP_POLICY, after));
        }
        Some((pattern, remedy, after))
    }

    /// The policy under which most of it was placed, unless that leaves pages to who touches them.
    pub(super) fn policy(&self) -> Option<&Policy> {
        let most = self.subject.policies.iter().max_by_key(|(_, bytes)| **bytes);
        most.filter(|(_, bytes)| **bytes * 2 > self.subject.bytes).map(|(policy, _)| policy)
    }

    fn judge_use(&self) -> Option<(&'static Word, &'static Word, Traffic)> {
        if is_slow(self.usages, self.usage) {
            return Some((&w::SLOW_TIER, &w::MOVE_TO_TIER, self.fast_tier()));
        }
        if !is_far(self.usages, self.usage) {
            return None;
        }
        let n = self.users.len();
        if self.line_is_shared() {
            return Some((&w::SHARED_LINE, &w::SPLIT_LINE, self.all_local()));
        }
        if self.usages.working_sets.keep(self.id) {
            return None;
        }
        if let Some(handed_on) = &self.handed_on {
            return Some((&w::HANDED_ON, &w::FRESH_PAGES, self.mostly_local(handed_on.own)));
        }
        let of_objects = self.objects.map_or(0.0, |sharing| sharing.main_share(n));
        if (n == 1 && !self.lies_with_its_user()) || (of_objects >= OWN && self.usage.objects.len() > 1) {
            return Some((
                &w::PRIVATE_ELSEWHERE,
                self.made_locally(),
                self.mostly_local(of_objects.max(self.of_pages())),
            ));
        }
        // Placement by pages is about pages: fewer than users cannot be divided.
        if self.of_pages() >= OWN && self.subject.pages() >= n as u64 {
            // Whoever touches a huge page first, most of it is others'.
            if self.huge_pages.is_some_and(|sharing| sharing.main_share(n) < OWN) {
                return Some((&w::HUGE_PAGE_SPLIT, &w::ALIGN_TO_HUGE_PAGES, self.mostly_local(self.of_pages())));
            }
            return Some(self.blocks());
        }
        if self.usage.written_while_shared(self.subject.bytes) < RARELY {
            return Some((&w::READ_BY_ALL, &w::REPLICATE, self.replicated(1.0 / LINE)));
        }
        self.pages.map(|_| (&w::SHARED_READ_WRITE, &w::INTERLEAVE, self.interleaved()))
    }

    fn of_pages(&self) -> f64 {
        self.pages.map_or(0.0, |sharing| sharing.main_share(self.users.len()))
    }

    /// Of one user, whether most of it is on that node: then the far accesses are of others, which have few.
    fn lies_with_its_user(&self) -> bool {
        let home = self.subject.homes.iter().max_by_key(|(_, bytes)| **bytes).and_then(|(node, _)| *node);
        home.is_some_and(|home| self.users.contains_key(&home))
    }

    /// Disjoint parts: who touched them says what went wrong.
    fn blocks(&self) -> (&'static Word, &'static Word, Traffic) {
        let after = self.mostly_local(self.of_pages());
        let unseen = self.subject.placed.get(&Placed::Unseen).copied().unwrap_or(0);
        let by_kernel = unseen * 2 > self.subject.bytes || self.subject.kind == Some(ObjectKind::File);
        match (self.serial_share() >= SERIAL, by_kernel) {
            (true, false) => (&w::SERIAL_INITIALISATION, &w::PARALLEL_INITIALISATION, after),
            // Objects of one line that are each small: one line allocates for all.
            (false, false) if self.subject.count > self.users.len() as u64 => {
                (&w::PRIVATE_ELSEWHERE, self.made_locally(), after)
            }
            _ => (&w::MISPLACED_BLOCKS, &w::BLOCK_PLACEMENT, after),
        }
    }

    /// How its user is the one who makes it. Nobody allocates a stack.
    fn made_locally(&self) -> &'static Word {
        if self.subject.kind == Some(ObjectKind::Stack) { &w::LOCAL_STACK } else { &w::LOCAL_ALLOCATION }
    }

    /// The largest part of its bytes that threads of one node touched first.
    fn serial_share(&self) -> f64 {
        let mut nodes: BTreeMap<Option<NodeId>, u64> = BTreeMap::new();
        for (toucher, bytes) in &self.subject.touchers {
            *nodes.entry(toucher.and_then(|(_, node)| node)).or_default() += bytes;
        }
        let most = nodes.iter().filter(|(node, _)| node.is_some()).map(|(_, bytes)| *bytes).max().unwrap_or(0);
        most as f64 / (self.subject.bytes as f64).max(1.0)
    }

    /// Its lines are contended, as counted or sampled; without addresses, several nodes write to fewer pages than they are.
    fn line_is_shared(&self) -> bool {
        // Beside exact counts a few accesses are looked at, where they are drawn: those of the subject say how it divides.
        let exact = self.usage.all.samples == 0;
        let used: u64 = self.usage.nodes.values().map(Tally::basis).sum();
        match self.contended {
            Some(lines) => lines.samples * 2 > if exact { lines.all } else { used },
            None => {
                self.usages.study.cache_lines.is_empty()
                    && (exact || self.usages.study.lines.0.is_empty())
                    && self.usage.writers() > 1
                    && self.writes_move_lines()
                    && self.subject.pages() < self.users.len() as u64
                    // Parts of more are likely to be divided in the middle of a few lines only.
                    && self.subject.size <= FEW_LINES
            }
        }
    }

    /// Whether it was seen, and does not only follow from how small it is.
    fn is_certain(&self, pattern: &Word) -> bool {
        pattern.name != w::SHARED_LINE.name || self.contended.is_some_and(|lines| lines.often * 2 > lines.samples)
    }

    /// Whether lines could travel often enough to be felt: a write takes a line from every other node at most, so no more accesses
    /// than that many find it gone.
    fn writes_move_lines(&self) -> bool {
        let writes: u64 = self.usage.nodes.values().map(|tally| tally.writes).sum();
        let accesses: u64 = self.usage.nodes.values().map(Tally::accesses).sum();
        writes * self.users.len() as u64 * contended_lines::OFTEN >= accesses
    }

    /// Accesses by users, those of the initialisation among them as the users have the memory.
    fn by_user(&self, what: impl Fn(NodeId, f64, &mut Traffic)) -> Traffic {
        let mut after = Traffic::default();
        let pinned: f64 = self.users.values().sum();
        let all = self.usage.traffic.sum(|from, to| from.is_some() && to.is_some());
        for (node, part) in &self.users {
            what(*node, all * part / pinned.max(f64::MIN_POSITIVE), &mut after);
        }
        // What has no node or no home stays where it is.
        for ((from, to), accesses) in self.usage.traffic.cells() {
            if from.is_none() || to.is_none() {
                after.add(from, to, accesses);
            }
        }
        after
    }

    fn all_local(&self) -> Traffic {
        self.by_user(|node, accesses, after| after.add(Some(node), self.near(node), accesses))
    }

    /// `own` of each user's accesses to its own node, the rest to the other users'.
    fn mostly_local(&self, own: f64) -> Traffic {
        let own = if self.users.len() < 2 { 1.0 } else { own };
        let sum: f64 = self.users.values().sum();
        self.by_user(|node, accesses, after| {
            after.add(Some(node), self.near(node), accesses * own);
            for (other, part) in self.users.iter().filter(|(other, _)| **other != node) {
                let rest = accesses * (1.0 - own) * part / (sum - self.users[&node]).max(f64::MIN_POSITIVE);
                after.add(Some(node), self.near(*other), rest);
            }
        })
    }

    /// The traffic where the remedy costs as much as it can.
    fn worst(&self, pattern: &Word) -> Option<Traffic> {
        (pattern.name == w::READ_BY_ALL.name).then(|| self.replicated(1.0))
    }

    /// Reads are local; what is written while it is shared is written to every copy, and who wrote it before did so where
    /// it lies. To make a copy is to read all of it from there, with so many accesses for each byte: what a node reads
    /// once, it need not copy. Of time nobody knows how long that takes.
    fn replicated(&self, of_byte: f64) -> Traffic {
        let shared = self.usage.written_while_shared(self.subject.bytes) / 100.0;
        let writes = self.usage.all.writes as f64 / (self.usage.all.accesses() as f64).max(1.0);
        let made = ((writes - shared) / (1.0 - shared).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let counted = self.usages.study.about.unit == Unit::Accesses;
        let homes = self.usage.traffic.homes();
        let homed: f64 = homes.values().sum();
        let copied = if counted && homed > 0.0 { self.subject.touched() as f64 * of_byte } else { 0.0 };
        self.by_user(|node, accesses, after| {
            let maker = self.subject.maker.flatten().unwrap_or(node);
            after.add(Some(maker), self.near(maker), accesses * made);
            let used = accesses * (1.0 - made);
            let reads = used * (1.0 - shared);
            let copied = copied.min(reads);
            after.add(Some(node), self.near(node), reads - copied);
            for (home, n) in &homes {
                after.add(Some(node), Some(*home), copied * n / homed);
            }
            for copy in self.users.keys() {
                after.add(Some(node), self.near(*copy), used * shared);
            }
        })
    }

    fn interleaved(&self) -> Traffic {
        let machine = &self.usages.study.machine;
        let nodes: Vec<NodeId> =
            machine.nodes_with_memory().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
        self.by_user(|node, accesses, after| {
            nodes.iter().for_each(|to| after.add(Some(node), Some(*to), accesses / nodes.len() as f64));
        })
    }

    fn fast_tier(&self) -> Traffic {
        let machine = &self.usages.study.machine;
        let near = |from: Option<NodeId>| {
            let fast = machine.nodes_with_memory().filter(|node| !node.cpus.is_empty());
            fast.min_by_key(|node| from.map_or(0, |from| machine.distance(from, node.id))).map(|node| node.id)
        };
        let mut after = Traffic::default();
        for ((from, to), accesses) in self.usage.traffic.cells() {
            after.add(from, if to.is_some_and(|to| machine.is_slower_memory(to)) { near(from) } else { to }, accesses);
        }
        after
    }

    fn near(&self, node: NodeId) -> Option<NodeId> {
        self.usages.study.machine.nearest_with_memory(node)
    }

    pub(super) fn first_touch(&self) -> Option<OwnPlace> {
        let (stack, site) = *self.subject.places.iter().rev().max_by_key(|(_, bytes)| **bytes)?.0;
        self.usages.study.wanted_at(stack, site)
    }
}

/// What an object is.
fn object_fields(usages: &Usages, object: &Object, size: u64, count: u64) -> Vec<Field> {
    let site = usages.study.wanted_at(object.stack, object.site);
    let callers = |place: &OwnPlace| match object.stack {
        Some(stack) => usages.study.code.callers(stack, place.site, CALLERS),
        None => Vec::new(),
    };
    let called_from: Vec<Value> = site.as_ref().map(callers).unwrap_or_default().into_iter().map(Value::Text).collect();
    let via = site.as_ref().and_then(|place| place.via.clone()).filter(|_| object.kind == ObjectKind::Heap);
    let mut fields = vec![
        Field::new("kind", "kind", Value::Text(object.kind.word().to_string())),
        Field::new("name", "name", Value::Text(object.name.clone())),
        Field::new("size", "size", Value::Bytes(size)),
        Field::metric(&metrics::COUNT, Value::Count(count)),
        Field::new("site", "allocated at", Value::maybe(site, |place| Value::Location(place.location))),
    ];
    fields.extend(via.map(|via| Field::new("via", "by", Value::Text(via))));
    if !called_from.is_empty() {
        fields.push(Field::new("called_from", "called from", Value::List(called_from)));
    }
    fields
}
