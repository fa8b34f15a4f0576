//! Threads that share with each other and with nobody else.
//!
//! Two threads communicate through a page as much as the one that uses it less. Where pages have few samples each,
//! neighbouring pages stand for one: two threads that use the same array are rarely sampled on the same page of it.
//! Threads whose communication is a good part of what one of them does are one cluster. Clusters that span nodes could
//! be put on a node each, if that crowds no node more than now.

use crate::dataset::Dataset;
use crate::dataset::cells::Cells;
use crate::facts::node_occupancy::NodeOccupancy;
use crate::facts::page_sums::{NEIGHBOURS, OfPage};
use crate::facts::page_use::PageUseKey;
use crate::model::tally::{self, Tally};
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A cluster, and the node for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    pub threads: Vec<ThreadId>,
    pub node: NodeId,
}

/// Accesses that two threads make to the same pages, and those of each alone.
#[derive(Default)]
pub struct Communication {
    pub pairs: BTreeMap<(ThreadId, ThreadId), f64>,
    /// The same by the nodes that the two were on.
    pub nodes: BTreeMap<(Option<NodeId>, Option<NodeId>), f64>,
    pub threads: BTreeMap<ThreadId, f64>,
}

/// Threads of one page beyond this number are a crowd: they share with everybody, which forms no clusters.
const CROWD: usize = 64;
/// Part of a thread's accesses that makes it belong to another.
const TOGETHER: f64 = 0.3;
/// Samples that a page, or a neighbourhood of pages, should have.
const SAMPLES: u64 = 6;
/// Neighbourhoods of 2 MiB are the largest.
const WIDEST: u32 = 9;
const _: () = assert!(WIDEST <= NEIGHBOURS, "pages of a neighbourhood are side by side");

/// A thread while it was on a node.
type Place = (ThreadId, Option<NodeId>);

/// Accesses of each thread, initialisations left out.
pub fn threads(dataset: &Dataset) -> BTreeMap<ThreadId, f64> {
    match &dataset.facts.summed.rollup {
        Some(_) => summed_threads(dataset),
        None => Pages::of(dataset).threads(),
    }
}

/// The same of the profile's sums.
fn summed_threads(dataset: &Dataset) -> BTreeMap<ThreadId, f64> {
    let uses = dataset.memory_uses().filter(|(used, _)| !used.by.initial);
    by_thread(uses.map(|(used, tally)| (used.by.thread, tally.basis())))
}

fn by_thread(uses: impl Iterator<Item = (ThreadId, u64)>) -> BTreeMap<ThreadId, f64> {
    let mut threads: BTreeMap<ThreadId, u64> = BTreeMap::new();
    uses.for_each(|(thread, n)| tally::add(threads.entry(thread).or_default(), n));
    threads.into_iter().map(|(thread, n)| (thread, n as f64)).collect()
}

/// Pages without their initialisations, by themselves and by neighbourhoods.
#[derive(Default)]
struct Pages {
    users: FxHashMap<Place, u64>,
    /// Neighbourhoods of each width that were used.
    used: [u64; WIDEST as usize + 1],
    first: Option<(ProcessId, u64)>,
    last: Option<(ProcessId, u64)>,
}

/// Whether two pages are of one neighbourhood of this width.
fn alike(one: Option<(ProcessId, u64)>, other: Option<(ProcessId, u64)>, shift: u32) -> bool {
    one.zip(other).is_some_and(|((of, one), (as_of, other))| of == as_of && one >> shift == other >> shift)
}

impl Pages {
    fn of(dataset: &Dataset) -> Pages {
        dataset.facts.page_use.sums.fold_pages(Pages::default, |pages, page| pages.add(page), Pages::merge)
    }

    fn add(&mut self, page: &[(PageUseKey, Tally)]) {
        let mut is_used = false;
        for (key, tally) in page.iter().filter(|(key, _)| !key.initial) {
            is_used = true;
            *self.users.entry((key.thread, key.node)).or_default() += tally.basis();
        }
        if is_used {
            let (page, process) = page[0].0.page();
            let now = Some((process, page.0));
            for (shift, used) in (0..).zip(&mut self.used) {
                *used += u64::from(!alike(self.last, now, shift));
            }
            self.first = self.first.or(now);
            self.last = now;
        }
    }

    fn merge(mut self, other: Pages) -> Pages {
        other.users.into_iter().for_each(|(user, n)| *self.users.entry(user).or_default() += n);
        for (shift, (used, more)) in (0..).zip(self.used.iter_mut().zip(other.used)) {
            *used += more - u64::from(alike(self.last, other.first, shift));
        }
        Pages { first: self.first.or(other.first), last: other.last.or(self.last), ..self }
    }

    /// Accesses of each thread.
    fn threads(&self) -> BTreeMap<ThreadId, f64> {
        by_thread(self.users.iter().map(|((thread, _), n)| (*thread, *n)))
    }

    /// Pages that stand for one, as a power of two.
    fn neighbourhood(&self) -> u32 {
        let all: u64 = self.users.values().sum();
        (0..WIDEST).find(|shift| self.used[*shift as usize] * SAMPLES <= all).unwrap_or(WIDEST)
    }
}

/// What one thread does to a neighbourhood of pages, on a node: both by their place among all that did anything.
struct Use {
    place: usize,
    n: u64,
}

/// The same on all nodes.
struct User {
    n: f64,
    /// Mostly there is one.
    place: usize,
    /// Where there are more: each with its part of all.
    places: Vec<(usize, f64)>,
}

/// Threads on nodes, in order.
struct Places {
    all: Vec<Place>,
    of: FxHashMap<Place, usize>,
}

impl Places {
    fn new(pages: &Pages) -> Places {
        let mut all: Vec<Place> = pages.users.keys().copied().collect();
        all.sort_unstable();
        Places { of: all.iter().copied().zip(0..).collect(), all }
    }

    fn thread(&self, one: &Use) -> ThreadId {
        self.all[one.place].0
    }
}

impl User {
    /// Of all parts of one thread, which are together, in order.
    fn of(parts: &[Use]) -> User {
        let n: u64 = parts.iter().map(|part| part.n).sum();
        let mut places = Vec::new();
        if parts.iter().any(|part| part.place != parts[0].place) && n > 0 {
            let of_place = |same: &[Use]| same.iter().map(|part| part.n).sum::<u64>() as f64 / n as f64;
            places.extend(parts.chunk_by(|a, b| a.place == b.place).map(|same| (same[0].place, of_place(same))));
        }
        User { n: n as f64, place: parts[0].place, places }
    }

    /// Which part of what it did was done on each node.
    fn parts(&self) -> impl Iterator<Item = (usize, f64)> {
        let only = self.places.is_empty().then_some((self.place, 1.0));
        only.into_iter().chain(self.places.iter().copied())
    }
}

/// Who shares how much with whom: there may be billions of pairs on pages.
struct Shared<'a> {
    places: &'a Places,
    /// The first of a pair is before the other.
    pairs: Cells,
    /// Of the neighbourhood that is being added.
    now: Option<(ProcessId, u64)>,
    uses: Vec<Use>,
    users: Vec<User>,
}

impl<'a> Shared<'a> {
    fn new(places: &'a Places) -> Self {
        Shared { places, pairs: Cells::new(places.all.len()), now: None, uses: Vec::new(), users: Vec::new() }
    }

    /// Adds a page, of a neighbourhood of 2^`shift`.
    fn add(&mut self, page: &[(PageUseKey, Tally)], shift: u32) {
        let (number, process) = page[0].0.page();
        let now = Some((process, number.0 >> shift));
        if now != self.now {
            self.end();
            self.now = now;
        }
        let uses = page.iter().filter(|(key, _)| !key.initial);
        let of = |key: &PageUseKey| self.places.of[&(key.thread, key.node)];
        self.uses.extend(uses.map(|(key, tally)| Use { place: of(key), n: tally.basis() }));
    }

    /// Adds what was done to the latest neighbourhood.
    fn end(&mut self) {
        let Shared { places, pairs, uses, users, .. } = self;
        uses.sort_by_key(|one| one.place);
        users.clear();
        users.extend(uses.chunk_by(|a, b| places.thread(a) == places.thread(b)).map(User::of));
        uses.clear();
        if users.len() > CROWD {
            return;
        }
        let is_simple = users.iter().all(|user| user.places.is_empty());
        for (i, a) in users.iter().enumerate() {
            let others = &users[i + 1..];
            if let Some(pairs) = pairs.of_one(a.place).filter(|_| is_simple) {
                others.iter().for_each(|b| pairs[b.place] += a.n.min(b.n));
                continue;
            }
            for b in others {
                let shared = a.n.min(b.n);
                for (from, of_a) in a.parts() {
                    b.parts().for_each(|(to, of_b)| pairs.add((from, to), shared * of_a * of_b));
                }
            }
        }
    }

    fn merge(mut self, mut other: Self) -> Self {
        self.end();
        other.end();
        self.pairs.merge(other.pairs);
        self
    }
}

/// Who shares pages with whom, initialisations left out.
pub fn communication(dataset: &Dataset) -> Communication {
    let (pairs, threads) = match &dataset.facts.summed.rollup {
        Some(rollup) => (rollup.pairs(), summed_threads(dataset)),
        None => {
            let pages = Pages::of(dataset);
            (pairs_of(dataset, &pages), pages.threads())
        }
    };
    let mut found = Communication { threads, ..Communication::default() };
    for (((a, from), (b, to)), n) in pairs {
        *found.pairs.entry((a, b)).or_default() += n;
        *found.nodes.entry((from, to)).or_default() += n;
    }
    found
}

/// Accesses to shared pages of each pair of threads on nodes, whatever sums the profile has.
pub fn pairs(dataset: &Dataset) -> BTreeMap<(Place, Place), f64> {
    pairs_of(dataset, &Pages::of(dataset))
}

fn pairs_of(dataset: &Dataset, pages: &Pages) -> BTreeMap<(Place, Place), f64> {
    let (shift, places) = (pages.neighbourhood(), Places::new(pages));
    let sums = &dataset.facts.page_use.sums;
    let mut shared = Shared::new(&places);
    match shift {
        0 => shared = sums.fold_pages(|| Shared::new(&places), |shared, page| shared.add(page, 0), Shared::merge),
        // A neighbourhood may be cut where the work is divided. There are few accesses.
        _ => sums.each_page(|page| shared.add(page, shift)),
    }
    shared.end();
    shared.pairs.of(&places.all)
}

/// The clusters of a program and a node for each; nothing where threads share with all others or with none, where no
/// cluster spans nodes, or where the clusters fit on no nodes.
pub fn find(dataset: &Dataset, communication: &Communication) -> Vec<Cluster> {
    let all: f64 = communication.threads.values().sum();
    let active: Vec<ThreadId> =
        communication.threads.iter().filter(|(_, n)| **n * 100.0 >= all).map(|(thread, _)| *thread).collect();
    let occupancy = NodeOccupancy::of(&dataset.facts.sites, &dataset.program.pinning);
    let node = |thread: &ThreadId| occupancy.node(*thread);
    let mut clusters: Vec<Vec<ThreadId>> = active.iter().map(|thread| vec![*thread]).collect();
    // Whoever is gone before the other one begins shares nothing: memory was handed on.
    let together = |a: ThreadId, b: ThreadId| !dataset.program.ends_before(a, b) && !dataset.program.ends_before(b, a);
    for ((a, b), shared) in communication.pairs.iter().filter(|((a, b), _)| together(*a, *b)) {
        let least = communication.threads[a].min(communication.threads[b]);
        if *shared < least * TOGETHER {
            continue;
        }
        let at = |thread: &ThreadId| clusters.iter().position(|cluster| cluster.contains(thread));
        if let (Some(i), Some(j)) = (at(a), at(b))
            && i != j
        {
            let joined = clusters.swap_remove(i.max(j));
            clusters[i.min(j)].extend(joined);
        }
    }
    if clusters.len() < 2 || active.iter().any(|thread| node(thread).is_none()) {
        return Vec::new();
    }
    let spans = |cluster: &[ThreadId]| cluster.iter().any(|thread| node(thread) != node(&cluster[0]));
    if !clusters.iter().any(|cluster| spans(cluster)) {
        return Vec::new();
    }
    clusters.iter_mut().for_each(|cluster| cluster.sort());
    clusters.sort_by_key(|cluster| (Reverse(cluster.len()), cluster[0]));
    place(dataset, &occupancy, clusters, &active).unwrap_or_default()
}

/// The largest first, each where most room is left.
fn place(
    dataset: &Dataset,
    occupancy: &NodeOccupancy<'_>,
    clusters: Vec<Vec<ThreadId>>,
    active: &[ThreadId],
) -> Option<Vec<Cluster>> {
    let crowd = |at: NodeId| active.iter().filter(|thread| occupancy.node(**thread) == Some(at)).count();
    let most = dataset.machine.nodes_with_cpus().map(|node| crowd(node.id)).max()?;
    let mut free: Vec<(NodeId, usize)> =
        dataset.machine.nodes_with_cpus().map(|node| (node.id, node.cpus.len().max(most))).collect();
    let mut placed = Vec::new();
    for threads in clusters {
        // A node that it is on already, when there is a choice.
        let here = |at: NodeId| threads.iter().filter(|thread| occupancy.node(**thread) == Some(at)).count();
        let (at, room) = free.iter_mut().max_by_key(|(at, room)| (*room, here(*at), Reverse(*at)))?;
        *room = room.checked_sub(threads.len())?;
        placed.push(Cluster { node: *at, threads });
    }
    Some(placed)
}
