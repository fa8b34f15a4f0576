//! From the usage of one subject to a pattern and its remedy.

use super::program::Clusters;
use super::words as w;
use super::{Candidate, Effect};
use crate::cache_lines::{self, Contended};
use crate::code::OwnPlace;
use crate::counts::{Tally, percent};
use crate::metrics;
use crate::objects::{Group, group};
use crate::report::{Field, Value, Word};
use crate::sharing::Sharing;
use crate::subjects::{Subject, SubjectId};
use crate::usage::{Usage, Usages, basis};
use numalens_profile::tables::Object;
use numalens_profile::words::{ObjectKind, Placed, SystemCall};
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Share of the main user from which a page, or an object, is called one node's.
const OWN: f64 = 0.7;
/// Percent of writes up to which memory counts as only read.
const RARELY: f64 = 2.0;
/// Part of a subject's bytes that one node's threads touched first: serial.
const SERIAL: f64 = 0.8;
/// Samples, or exact accesses, of a subject below which it is not judged.
const ENOUGH: u64 = 20;

/// One subject and what is known of it.
struct Case<'a> {
    usages: &'a Usages<'a>,
    id: SubjectId,
    subject: &'a Subject,
    usage: &'a Usage,
    users: BTreeMap<NodeId, f64>,
    pages: Option<Sharing>,
    huge_pages: Option<Sharing>,
    objects: Option<Sharing>,
    contended: Option<&'a Contended>,
}

/// What an object is used like, with what was seen of it.
pub struct Judged {
    /// Pattern and remedy; none: nothing to change, or too little was seen to say.
    pub pattern: Option<(&'static Word, &'static Word)>,
    pub evidence: Vec<Field>,
}

/// Every object that was accessed, those of one allocation stack as one; also those that concern too little for advice.
pub fn objects(usages: &Usages) -> FxHashMap<Group, Judged> {
    let contended = cache_lines::contended(usages.study);
    let judged = cases(usages).filter_map(|(id, subject, usage)| {
        let example = subject.example.as_ref().filter(|_| usage.all.accesses() > 0)?;
        let case = Case::new(usages, (id, subject, usage), contended.get(&id));
        let judged = if basis(&usage.all) < ENOUGH { None } else { case.judge() };
        let pattern = judged.map(|(pattern, remedy, _)| (pattern, remedy));
        Some((group(example), Judged { pattern, evidence: case.evidence() }))
    });
    // In order: subjects may be of one group.
    judged.collect::<Vec<_>>().into_iter().collect()
}

/// The candidates of all subjects.
pub(super) fn candidates(usages: &Usages, clusters: &Clusters) -> Vec<Candidate> {
    let contended = cache_lines::contended(usages.study);
    let found = cases(usages).filter_map(|(id, subject, usage)| {
        let (_, _, high) = usages.share(usage.traffic.total());
        if high < super::LEAST_SHARE || basis(&usage.all) < ENOUGH || clusters.explain(usage) {
            return None;
        }
        Case::new(usages, (id, subject, usage), contended.get(&id)).candidate()
    });
    found.collect()
}

/// Subjects and what they are used for.
fn cases<'a>(usages: &'a Usages) -> impl IndexedParallelIterator<Item = (SubjectId, &'a Subject, &'a Usage)> {
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
        Case { usages, id, subject, usage, users, pages, huge_pages, objects, contended }
    }
}

impl Case<'_> {
    fn candidate(&self) -> Option<Candidate> {
        let (pattern, remedy, after) = self.judge()?;
        let study = self.usages.study;
        let first_touch = self.first_touch();
        // Of the objects that share the subject's pages, the one whose lines travel.
        let contended = self.contended.filter(|_| pattern.name == w::SHARED_LINE.name).and_then(Contended::object);
        let own = contended
            .and_then(|id| study.objects.get(&id))
            .filter(|object| self.subject.example.as_ref().is_none_or(|example| group(example) != group(object)));
        let example = own.or(self.subject.example.as_ref());
        let allocated = example.and_then(|o| study.code.own_on_stack(o.stack, o.site));
        let hottest = self.contended.and_then(|lines| lines.sites.iter().max_by_key(|(_, n)| **n));
        let place = match remedy.name {
            name if name == w::SPLIT_LINE.name => {
                hottest.map(|(site, _)| study.code.own(*site)).or(allocated).or(first_touch)
            }
            name if name == w::LOCAL_ALLOCATION.name || name == w::PARALLEL_INITIALISATION.name => {
                first_touch.or(allocated)
            }
            _ => allocated.or(first_touch),
        };
        let (size, count) = own.map_or((self.subject.size, self.subject.count), |object| (object.size, 1));
        let object = example.map_or(Vec::new(), |object| object_fields(self.usages, object, size, count));
        // Pages that nobody is known to have made: there is no line to change.
        if place.is_none() && object.is_empty() {
            return None;
        }
        Some(Candidate {
            pattern,
            remedy,
            place,
            object,
            name: example.map(|object| object.name.clone()).filter(|name| !name.is_empty()),
            evidence: self.evidence(),
            effect: Effect::Traffic { before: self.usage.traffic.clone(), after, certain: true },
        })
    }

    fn judge(&self) -> Option<(&'static Word, &'static Word, Traffic)> {
        let machine = &self.usages.study.machine;
        let on_slow = self.usage.traffic.sum(|_, to| to.is_some_and(|to| machine.is_slower_memory(to)));
        if on_slow * 2.0 > self.usage.traffic.total() {
            return Some((&w::SLOW_TIER, &w::MOVE_TO_TIER, self.fast_tier()));
        }
        if self.usage.traffic.remote() * 20.0 < self.usage.traffic.total() {
            return None;
        }
        let n = self.users.len();
        if self.line_is_shared() {
            return Some((&w::SHARED_LINE, &w::SPLIT_LINE, self.all_local()));
        }
        if self.usages.working_sets.keep(self.id) {
            return None;
        }
        let of_objects = self.objects.map_or(0.0, |sharing| sharing.main_share(n));
        if n == 1 || (of_objects >= OWN && self.usage.objects.len() > 1) {
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
        if self.usage.written_while_shared() < RARELY {
            return Some((&w::READ_BY_ALL, &w::REPLICATE, self.replicated()));
        }
        self.pages.map(|_| (&w::SHARED_READ_WRITE, &w::INTERLEAVE, self.interleaved()))
    }

    fn of_pages(&self) -> f64 {
        self.pages.map_or(0.0, |sharing| sharing.main_share(self.users.len()))
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
        let used: u64 = self.usage.nodes.values().map(basis).sum();
        match self.contended {
            Some(lines) => lines.samples * 2 > if exact { lines.all } else { used },
            None => {
                self.usages.study.cache_lines.is_empty()
                    && (exact || self.usages.study.lines.0.is_empty())
                    && self.usage.writers() > 1
                    && self.writes_move_lines()
                    && self.subject.pages() < self.users.len() as u64
            }
        }
    }

    /// Whether lines could travel often enough to be felt: a write takes a line from every other node at most, so no more accesses
    /// than that many find it gone.
    fn writes_move_lines(&self) -> bool {
        let writes: u64 = self.usage.nodes.values().map(|tally| tally.writes).sum();
        let accesses: u64 = self.usage.nodes.values().map(Tally::accesses).sum();
        writes * self.users.len() as u64 * cache_lines::OFTEN >= accesses
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

    /// Reads are local; what is written is written to every copy.
    fn replicated(&self) -> Traffic {
        let writes = self.usage.all.writes as f64 / (self.usage.all.accesses() as f64).max(1.0);
        self.by_user(|node, accesses, after| {
            after.add(Some(node), self.near(node), accesses * (1.0 - writes));
            for copy in self.users.keys() {
                after.add(Some(node), self.near(*copy), accesses * writes);
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

    fn first_touch(&self) -> Option<OwnPlace> {
        let (stack, site) = *self.subject.places.iter().rev().max_by_key(|(_, bytes)| **bytes)?.0;
        self.usages.study.code.own_on_stack(stack, site)
    }

    /// The system call in which the kernel has placed most of it.
    fn placing_call(&self) -> Option<SystemCall> {
        let by_calls: u64 = self.subject.calls.values().sum();
        let most = self.subject.calls.iter().max_by_key(|(_, bytes)| **bytes);
        most.filter(|_| by_calls * 2 > self.subject.bytes).map(|(call, _)| *call)
    }

    fn evidence(&self) -> Vec<Field> {
        let study = self.usages.study;
        let (part, whole) = (&self.usage.all, &self.usages.all);
        let homed = self.usage.traffic.total();
        let remote = percent(
            (self.usage.traffic.remote() / homed.max(f64::MIN_POSITIVE) * 1e6) as u64,
            1_000_000,
            self.usage.all.samples,
        );
        let users = self.usage.nodes.iter().map(|(node, tally)| (*node, tally.accesses()));
        let homes = self.subject.homes.iter().map(|(node, bytes)| (*node, *bytes));
        let mut evidence = vec![
            Field::new("share", "part of all accesses", percent(part.accesses(), whole.accesses(), whole.samples)),
            Field::new("remote_share", "remote", remote),
            Field::metric(&metrics::READS, Value::Count(part.reads)),
            Field::metric(&metrics::WRITES, Value::Count(part.writes)),
            Field::new("users", "used by nodes", Value::users(users)),
            Field::new("homes", "lies on nodes", Value::homes(&metrics::BYTES, homes)),
        ];
        if let Some((Some((thread, node)), bytes)) = self.subject.touchers.iter().max_by_key(|(_, bytes)| **bytes) {
            let name = study.threads.get(thread).map_or("", |thread| thread.name.as_str());
            let node = node.map_or("no node".to_string(), |node| format!("node {node}"));
            let share = *bytes as f64 * 100.0 / (self.subject.bytes as f64).max(1.0);
            let mut touched = vec![
                Field::new("thread", "thread", Value::Id(u64::from(thread.0))),
                Field::new("name", "name", Value::Text(name.to_string())),
                Field::new("on", "on", Value::Text(node)),
                Field::new("bytes_share", "bytes", Value::Percent(share, None)),
            ];
            if let Some(call) = self.placing_call() {
                let words = format!("in a call of the kernel ({})", call.word());
                touched.push(Field::new("call", "how", Value::Text(words)));
            }
            evidence.push(Field::new("first_toucher", "first touched by", Value::Record(touched)));
        }
        let share = |sharing: Sharing| Value::Percent(sharing.main_share(self.users.len()) * 100.0, None);
        if self.users.len() > 1 {
            evidence.push(Field::new("page_main_user", "a page's main node", Value::maybe(self.pages, share)));
            if self.huge_pages.is_some() {
                let main_user = Value::maybe(self.huge_pages, share);
                evidence.push(Field::new("huge_page_main_user", "a huge page's main node", main_user));
            }
            evidence.push(Field::new("object_main_user", "an object's main node", Value::maybe(self.objects, share)));
            evidence.push(Field::new(
                "written_while_shared",
                "writes while shared",
                Value::Percent(self.usage.written_while_shared(), None),
            ));
        }
        if let Some(lines) = self.contended {
            let apart = lines.apart * 2 > lines.samples;
            let words = if apart { "each thread its own words (false sharing)" } else { "the same words" };
            evidence.push(Field::new("lines", "contended lines", Value::Count(lines.lines)));
            evidence.push(Field::new("threads", "threads in a line", Value::Count(lines.threads as u64)));
            if lines.transitions > 0 {
                evidence.push(Field::metric(&metrics::TRANSITIONS, Value::Count(lines.transitions)));
            }
            evidence.push(Field::new("words", "they use", Value::Text(words.to_string())));
        }
        evidence
    }
}

/// What an object is.
fn object_fields(usages: &Usages, object: &Object, size: u64, count: u64) -> Vec<Field> {
    let site = usages.study.code.own_on_stack(object.stack, object.site);
    vec![
        Field::new("kind", "kind", Value::Text(object.kind.word().to_string())),
        Field::new("name", "name", Value::Text(object.name.clone())),
        Field::new("size", "size", Value::Bytes(size)),
        Field::metric(&metrics::COUNT, Value::Count(count)),
        Field::new("site", "allocated at", Value::maybe(site, |place| Value::Location(place.location))),
    ]
}
