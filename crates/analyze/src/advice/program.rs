//! What concerns no one object: threads bound to no node, threads that share and are apart, code, crowded pages.

use super::candidate::{Candidate, Effect};
use crate::dataset::Dataset;
use crate::dataset::clusters::{self, Cluster};
use crate::dataset::usages::Usages;
use crate::facts::code::{MADE, OwnPlace};
use crate::facts::objects::pages_of;
use crate::facts::page_sums::OfPage;
use crate::facts::rollup::MemoryUse;
use crate::facts::usage::Usage;
use crate::model::counts::{Counts, percent};
use crate::model::intervals;
use crate::model::metrics;
use crate::model::patterns::{Pattern, Remedy};
use crate::model::report::{Field, Value};
use numalens_profile::ids::{ModuleId, ObjectId, Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::Object;
use numalens_profile::words::{Class, ObjectKind};
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Threads that share, and the node that each would have if they were together.
pub struct Clusters {
    found: Vec<Cluster>,
    nodes: FxHashMap<ThreadId, NodeId>,
}

impl Clusters {
    /// Whether a target's remote traffic is that of a cluster that should be together.
    pub fn explain(&self, usage: &Usage) -> bool {
        let mut of: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for (thread, tally) in &usage.threads {
            let cluster = self.found.iter().position(|cluster| cluster.threads.contains(thread));
            let whole = cluster.filter(|at| self.found[*at].threads.len() > 1);
            *of.entry(whole).or_default() += tally.accesses();
        }
        let all: u64 = of.values().sum();
        let within: u64 = of.iter().filter(|(cluster, _)| cluster.is_some()).map(|(_, n)| n).sum();
        within * 10 > all * 9
    }
}

/// The clusters of the program's threads.
pub fn clusters(dataset: &Dataset) -> Clusters {
    let found = clusters::find(dataset, &clusters::communication(dataset));
    let nodes = found.iter().flat_map(|c| c.threads.iter().map(|thread| (*thread, c.node))).collect();
    Clusters { found, nodes }
}

/// All candidates of this file.
pub fn candidates(usages: &Usages, clusters: &Clusters) -> Vec<Candidate> {
    let mut found: Vec<Candidate> =
        [unpinned(usages), apart(usages, clusters), crowded_pages(usages)].into_iter().flatten().collect();
    found.extend(code(usages));
    found
}

/// Unpinned threads are anywhere: their accesses cost the mean of all ways; pinned ones stay with their pages.
fn unpinned(usages: &Usages) -> Option<Candidate> {
    let (mut before, mut after) = (Traffic::default(), Traffic::default());
    for ((from, to), accesses) in usages.traffic.cells().filter(|((from, to), _)| from.is_none() && to.is_some()) {
        before.add(from, to, accesses);
        after.add(to, to, accesses);
    }
    let mut sites: BTreeMap<SiteId, u64> = BTreeMap::new();
    let mut all = Counts::default();
    for ((site, class), tally) in usages.dataset.facts.sites.by_site() {
        all.add(class, tally);
        if matches!(class, Class::UnpinnedThread | Class::UnpinnedBoth) {
            *sites.entry(site).or_default() += tally.accesses();
        }
    }
    let site = *sites.iter().rev().max_by_key(|(_, n)| **n)?.0;
    let threads: BTreeSet<ThreadId> = usages
        .dataset
        .memory_uses()
        .filter(|(used, _)| used.by.node.is_none())
        .map(|(used, _)| used.by.thread)
        .collect();
    let evidence = vec![
        Field::metric(&metrics::UNPINNED_SHARE, all.percent(all.unpinned())),
        Field::new("threads", "threads bound to no node", Value::Count(threads.len() as u64)),
    ];
    Some(Candidate {
        pattern: Pattern::UnpinnedThreads,
        remedy: Remedy::PinThreads,
        place: Some(usages.dataset.code.own(site)),
        object: Vec::new(),
        evidence,
        name: None,
        members: Vec::new(),
        // Where the kernel leaves threads alone there is nothing to gain.
        effect: Effect::Traffic { before, after, worst: None },
    })
}

/// Threads that share run together: then what they touched first lies where they are.
fn apart(usages: &Usages, clusters: &Clusters) -> Option<Candidate> {
    if clusters.found.is_empty() {
        return None;
    }
    let dataset = usages.dataset;
    let (mut before, mut after) = (Traffic::default(), Traffic::default());
    let mut sites: BTreeMap<SiteId, u64> = BTreeMap::new();
    for (MemoryUse { run, by }, tally) in dataset.memory_uses() {
        let (Some(node), Some(run)) = (clusters.nodes.get(&by.thread), run) else { continue };
        let toucher = dataset.memory.targets.toucher_of(run).0.and_then(|thread| clusters.nodes.get(&thread));
        let new_home = toucher.and_then(|toucher| dataset.machine.nearest_with_memory(*toucher)).or(by.home);
        before.add(by.node, by.home, tally.accesses() as f64);
        after.add(Some(*node), new_home, tally.accesses() as f64);
    }
    let together: Vec<&Cluster> = clusters.found.iter().filter(|cluster| cluster.threads.len() > 1).collect();
    for ((site, class), tally) in dataset.facts.sites.by_site() {
        if matches!(class, Class::Remote | Class::MemoryTierRemote) {
            *sites.entry(site).or_default() += tally.accesses();
        }
    }
    let site = *sites.iter().rev().max_by_key(|(_, n)| **n)?.0;
    let groups = together.iter().map(|cluster| {
        let threads = cluster.threads.iter().map(|thread| {
            let pid = dataset.program.threads.get(thread).and_then(|row| dataset.program.pid(row.process));
            format!("{thread} (pid {})", pid.map_or("?".to_string(), |pid| pid.to_string()))
        });
        Value::Record(vec![
            Field::new("threads", "threads", Value::Text(threads.collect::<Vec<_>>().join(", "))),
            Field::new("node", "to node", Value::Node(cluster.node)),
        ])
    });
    let remote = percent((before.remote() * 1e3) as u64, (before.total() * 1e3) as u64, usages.all.samples);
    let evidence = vec![
        Field::metric(&metrics::REMOTE_SHARE, remote),
        Field::new("groups", "groups", Value::List(groups.collect())),
    ];
    Some(Candidate {
        pattern: Pattern::SplitClusters,
        remedy: Remedy::CoLocateThreads,
        place: Some(dataset.code.own(site)),
        object: Vec::new(),
        evidence,
        name: None,
        members: Vec::new(),
        effect: Effect::Traffic { before, worst: Some(after.clone()), after },
    })
}

/// Code of a module that runs on other nodes than its pages lie on. Most fetches hit caches whatever the distance, so
/// the gain is between nothing and what the distance would cost if none did; the estimate is a quarter of that. Code
/// that fits in the first-level cache is fetched once.
pub fn code(usages: &Usages) -> Vec<Candidate> {
    let mut modules: BTreeMap<Option<ModuleId>, (BTreeMap<NodeId, u64>, Traffic)> = BTreeMap::new();
    let all: u64 = usages.dataset.facts.fetches.instructions.values().sum();
    let mut everything = Traffic::default();
    for (key, n) in &usages.dataset.facts.fetches.instructions {
        let (nodes, traffic) = modules.entry(key.module).or_default();
        traffic.add(key.node, key.home, *n as f64);
        everything.add(key.node, key.home, *n as f64);
        if let Some(node) = key.node {
            *nodes.entry(node).or_default() += n;
        }
    }
    let samples = if usages.dataset.about.sampled() { all } else { 0 };
    let mut found = Vec::new();
    for (module, (nodes, traffic)) in modules {
        let share = traffic.remote() * 100.0 / (all as f64).max(1.0);
        let (low, high) = intervals::share(share, samples).unwrap_or((share, share));
        let hot = usages.dataset.facts.fetches.hot_pages(module);
        if low < LEAST_REMOTE_CODE || hot <= CACHED_CODE_PAGES {
            continue;
        }
        let mut local = Traffic::default();
        traffic.cells().for_each(|((from, to), n)| local.add(from, from.filter(|_| to.is_some()).or(to), n));
        let mut changed = everything.clone();
        changed.add_all(&traffic, -1.0);
        changed.add_all(&local, 1.0);
        let most = usages.model.gain(&everything, &changed).low.max(0.0);
        let name = module.and_then(|module| usages.dataset.code.module_called(module)).unwrap_or(MADE);
        let users = nodes.iter().filter(|(_, n)| **n as f64 * 20.0 >= traffic.total()).count();
        let remote = percent(
            traffic.remote() as u64,
            traffic.total() as u64,
            if samples > 0 { traffic.total() as u64 } else { 0 },
        );
        let fetched = Value::users(nodes.iter().map(|(node, n)| (Some(*node), *n)));
        let homes = traffic.homes().into_iter().map(|(node, n)| (Some(node), n as u64));
        found.push(Candidate {
            pattern: Pattern::RemoteCode,
            remedy: if users > 1 { Remedy::ReplicateText } else { Remedy::LocalText },
            place: None,
            object: vec![
                Field::new("kind", "kind", Value::Text(ObjectKind::Code.word().to_string())),
                Field::new("name", "name", Value::Text(name.to_string())),
            ],
            evidence: vec![
                Field::new(
                    "fetch_share",
                    "fetched from another node, of all code",
                    Value::Percent(share, Some((low, high))),
                ),
                Field::metric(&metrics::REMOTE_SHARE, remote),
                Field::new("users", "run by nodes", fetched),
                Field::new("homes", "lies on nodes", Value::homes(&metrics::INSTRUCTIONS, homes)),
            ],
            name: None,
            members: Vec::new(),
            effect: Effect::Time {
                percent: most / if hot <= KEPT_CODE_PAGES { 16.0 } else { 4.0 },
                low: 0.0,
                high: most,
            },
        });
    }
    found
}

/// Pages of code that a first-level cache holds: 32 KiB.
const CACHED_CODE_PAGES: usize = 8;

/// Pages of code that half a second-level cache holds: they are fetched from memory now and then.
const KEPT_CODE_PAGES: usize = 64;

/// Percent of all fetches that code must have from another node to be worth a word.
const LEAST_REMOTE_CODE: f64 = 20.0;

/// Small objects that lie on one page each, where there are several of them on it.
fn crowds(dataset: &Dataset) -> BTreeMap<(ProcessId, Page), Vec<ObjectId>> {
    let mut pages: BTreeMap<(ProcessId, Page), Vec<ObjectId>> = BTreeMap::new();
    let is_small = |object: &&Object| object.count == 1 && object.size > 0 && object.size < Page::BYTES;
    for object in dataset.memory.objects.values().filter(is_small) {
        let (first, last) = pages_of(object).into_inner();
        if first == last {
            pages.entry((object.process, first)).or_default().push(object.object);
        }
    }
    pages.retain(|_, objects| objects.len() > 1);
    pages
}

/// Pages of several small objects whose users have them in their caches, in the order of pages.
pub(crate) fn cached_crowds(usages: &Usages) -> Vec<(ProcessId, Page)> {
    let (dataset, crowds) = (usages.dataset, crowds(usages.dataset));
    if crowds.is_empty() {
        return Vec::new();
    }
    let mut cached = Vec::new();
    dataset.facts.page_use.sums.each_page(|page_use| {
        let (page, process) = page_use[0].0.page();
        let keeps = || usages.working_sets.keep_page(&dataset.memory.targets, page_use, &usages.waiting);
        if crowds.contains_key(&(process, page)) && keeps() {
            cached.push((process, page));
        }
    });
    cached.sort_unstable();
    cached
}

/// Pages that several small objects lie on, each object used by one node, but not all by the same one. Where the users
/// have the page in their caches it does not matter.
fn crowded_pages(usages: &Usages) -> Option<Candidate> {
    let dataset = usages.dataset;
    let mut pages = crowds(dataset);
    if pages.is_empty() {
        return None;
    }
    let cached = match &dataset.facts.summed.rollup {
        Some(rollup) => rollup.cached_pages(),
        None => cached_crowds(usages),
    };
    cached.iter().for_each(|page| _ = pages.remove(page));
    let mut uses: FxHashMap<ObjectId, Traffic> = FxHashMap::default();
    for (key, tally) in &dataset.facts.by_object.sums {
        uses.entry(key.object).or_default().add(key.node, key.home, tally.accesses() as f64);
    }
    let (mut before, mut after) = (Traffic::default(), Traffic::default());
    let (mut crowded, mut moved) = (0u64, BTreeMap::<ObjectId, f64>::new());
    for objects in pages.values() {
        let owned: Vec<(ObjectId, NodeId, &Traffic)> = objects
            .iter()
            .filter_map(|id| {
                let traffic = uses.get(id)?;
                let users = traffic.users();
                let (node, most) = users.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
                (*most >= traffic.total() * OWNED && *most >= FEWEST).then_some((*id, *node, traffic))
            })
            .collect();
        if owned.iter().all(|(_, node, _)| *node == owned[0].1) {
            continue;
        }
        crowded += 1;
        for (id, node, traffic) in owned {
            before.add_all(traffic, 1.0);
            after.add(Some(node), dataset.machine.nearest_with_memory(node), traffic.total());
            moved.insert(id, traffic.remote());
        }
    }
    let (worst, _) = moved.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let object = dataset.memory.objects.get(worst)?;
    let place: Option<OwnPlace> = dataset.wanted_at(object.stack, object.site);
    Some(Candidate {
        pattern: Pattern::ObjectsSharePage,
        remedy: Remedy::AlignOrPad,
        object: vec![
            Field::new("kind", "kind", Value::Text(object.kind.word().to_string())),
            Field::new("name", "name", Value::Text(object.name.clone())),
            Field::new("size", "size", Value::Bytes(object.size)),
        ],
        place,
        evidence: vec![
            Field::metric(&metrics::PAGES, Value::Count(crowded)),
            Field::new("objects", "objects on them with one user", Value::Count(moved.len() as u64)),
        ],
        name: None,
        members: Vec::new(),
        effect: Effect::Traffic { before, worst: Some(after.clone()), after },
    })
}

/// Part of an object's accesses that makes it one node's, and accesses below which nobody knows.
const OWNED: f64 = 0.9;
const FEWEST: f64 = 10.0;
