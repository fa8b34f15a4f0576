//! Costs along call paths: what other programs' call trees and graphs are made of.
//!
//! A path is an instruction and, where it is known, how the program came there. Samples have a call stack each, and so
//! have first touches; exact counts of accesses have none, so their paths are one instruction long.

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::LoadError;
use crate::facts::fold::Need;
use crate::model::about::About;
use crate::model::metrics::{self, Metric};
use crate::model::report::Location;
use crate::model::tally::Weight;
use numalens_profile::Profile;
use numalens_profile::ids::{Bin, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{Process, Sample, SiteAccess, Thread};
use numalens_profile::words::{Access, Class, Placed};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a path costs, in this order.
pub static COSTS: [&Metric; 13] = [
    &metrics::ACCESSES,
    &metrics::REMOTE,
    &metrics::LOCAL,
    &metrics::UNPINNED_PAGE,
    &metrics::UNPINNED_THREAD,
    &metrics::UNPINNED_BOTH,
    &metrics::MEMORY_TIER_LOCAL,
    &metrics::MEMORY_TIER_REMOTE,
    &metrics::UNPLACED,
    &metrics::READS,
    &metrics::WRITES,
    &metrics::FIRST_TOUCH,
    &metrics::UNPINNED_FIRST_TOUCH,
];

/// One number for each of [`COSTS`].
pub type Costs = [u64; COSTS.len()];

/// Where the class stands in [`COSTS`].
fn place_of(class: Class) -> usize {
    match class {
        Class::Remote => 1,
        Class::Local => 2,
        Class::UnpinnedPage => 3,
        Class::UnpinnedThread => 4,
        Class::UnpinnedBoth => 5,
        Class::MemoryTierLocal => 6,
        Class::MemoryTierRemote => 7,
        Class::Unplaced => 8,
    }
}

/// Accesses of one class.
fn accesses(class: Class, reads: u64, writes: u64) -> Costs {
    let mut costs = Costs::default();
    let sum = reads.saturating_add(writes);
    (costs[0], costs[9], costs[10]) = (sum, reads, writes);
    costs[place_of(class)] = sum;
    costs
}

/// Adds costs up.
pub fn add(to: &mut Costs, costs: &Costs) {
    to.iter_mut().zip(costs).for_each(|(to, cost)| *to = to.saturating_add(*cost));
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Path of the program or library.
    pub module: Option<String>,
    /// In the module; absolute where there is none.
    pub address: u64,
    /// Inlined calls, the innermost first; the last is the function that the instruction lies in. Never empty.
    pub lines: Vec<Location>,
}

/// Costs of one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    pub thread: Option<ThreadId>,
    /// When: of a sample, or the beginning of a time bin.
    pub time_ns: u64,
    /// Of accesses.
    pub class: Option<Class>,
    /// Indexes of [`CallPaths::places`]: the instruction, its caller, the caller's caller, ...
    pub places: Vec<u32>,
    pub costs: Costs,
}

/// All paths of a recording.
pub struct CallPaths {
    pub about: About,
    pub processes: Vec<Process>,
    pub threads: FxHashMap<ThreadId, Thread>,
    pub places: Vec<Place>,
    pub paths: Vec<Path>,
}

/// How finely paths are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// Over the whole time.
    Sum,
    /// As they came.
    InTime,
}

/// What tells paths apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    thread: Option<ThreadId>,
    time_ns: u64,
    site: Option<SiteId>,
    stack: Option<StackId>,
    class: Option<Class>,
}

/// Reads all paths of a profile, in order of time.
///
/// # Errors
/// The profile cannot be read; a process is not in it.
pub fn load(profile: &Profile, options: &Options, grain: Grain) -> Result<CallPaths, LoadError> {
    let dataset = Dataset::load(profile, options, &[Need::Sites, Need::Placed, Need::Names])?;
    let wanted: FxHashSet<ProcessId> = dataset.program.processes.iter().map(|process| process.process).collect();
    let weight = dataset.about.weight();
    // Beside exact counts there may be samples of some accesses: they are not all.
    let mut sums = match dataset.about.sampled() && profile.count::<Sample>()? > 0 {
        true => samples(profile, &wanted, weight, grain)?,
        false => sites(profile, &dataset, &wanted, weight, grain)?,
    };
    for row in dataset.memory.placed.iter().filter(|row| row.placed != Placed::Unseen) {
        let time_ns = if grain == Grain::InTime { at(row.bin_from, dataset.about.meta.bin_ns) } else { 0 };
        let key = Key { thread: row.thread, time_ns, site: row.site, stack: row.stack, class: None };
        let cost = if row.placed == Placed::Pinned { 11 } else { 12 };
        sums.entry(key).or_default()[cost] += crate::facts::placed::pages(row);
    }
    let mut keys: Vec<(Key, Costs)> = sums.into_iter().collect();
    keys.sort_unstable_by_key(|(key, _)| (key.time_ns, *key));
    let mut builder = Builder { dataset: &dataset, known: FxHashMap::default(), places: Vec::new() };
    let paths = keys.into_iter().filter_map(|(key, costs)| builder.path(key, costs)).collect();
    let places = builder.places;
    Ok(CallPaths {
        about: dataset.about,
        processes: dataset.program.processes,
        threads: dataset.program.threads,
        places,
        paths,
    })
}

type Sums = FxHashMap<Key, Costs>;

fn at(bin: Bin, bin_ns: u64) -> u64 {
    u64::from(bin.0).saturating_mul(bin_ns)
}

fn merge(mut left: Sums, right: Sums) -> Sums {
    if left.is_empty() {
        return right;
    }
    right.iter().for_each(|(key, costs)| add(left.entry(*key).or_default(), costs));
    left
}

fn samples(profile: &Profile, wanted: &FxHashSet<ProcessId>, weight: Weight, grain: Grain) -> Result<Sums, LoadError> {
    let columns = ["process", "time_ns", "thread", "site", "stack", "access", "class", "period"];
    let add_row = |sums: &mut Sums, row: Sample| {
        if !wanted.contains(&row.process) {
            return;
        }
        let time_ns = if grain == Grain::InTime { row.time_ns } else { 0 };
        let key =
            Key { thread: Some(row.thread), time_ns, site: Some(row.site), stack: row.stack, class: Some(row.class) };
        let (reads, writes) = match row.access {
            Access::Read => (1, 0),
            Access::Write => (0, 1),
            Access::ReadWrite => (1, 1),
        };
        let tally = weight.tally(reads, writes, 1, row.period);
        add(sums.entry(key).or_default(), &accesses(row.class, tally.reads, tally.writes));
    };
    Ok(profile.fold(&columns, Sums::default, add_row, merge)?)
}

fn sites(
    profile: &Profile,
    dataset: &Dataset,
    wanted: &FxHashSet<ProcessId>,
    weight: Weight,
    grain: Grain,
) -> Result<Sums, LoadError> {
    let key = |thread, time_ns, site, class| Key { thread, time_ns, site: Some(site), stack: None, class: Some(class) };
    if dataset.facts.sites.imported.is_some() {
        let mut sums = Sums::default();
        for ((site, class), tally) in dataset.facts.sites.by_site() {
            add(sums.entry(key(None, 0, site, class)).or_default(), &accesses(class, tally.reads, tally.writes));
        }
        return Ok(sums);
    }
    let bin_ns = dataset.about.meta.bin_ns;
    let columns = ["process", "bin", "thread", "site", "class", "reads", "writes", "samples", "period"];
    let add_row = |sums: &mut Sums, row: SiteAccess| {
        if wanted.contains(&row.process) {
            let time_ns = if grain == Grain::InTime { at(row.bin, bin_ns) } else { 0 };
            let tally = weight.tally(row.reads, row.writes, row.samples, row.period);
            let costs = accesses(row.class, tally.reads, tally.writes);
            add(sums.entry(key(Some(row.thread), time_ns, row.site, row.class)).or_default(), &costs);
        }
    };
    Ok(profile.fold(&columns, Sums::default, add_row, merge)?)
}

struct Builder<'a> {
    dataset: &'a Dataset,
    known: FxHashMap<SiteId, u32>,
    places: Vec<Place>,
}

impl Builder<'_> {
    /// None: nothing is known of where.
    fn path(&mut self, key: Key, costs: Costs) -> Option<Path> {
        let mut sites: Vec<SiteId> = key.stack.map(|stack| self.dataset.code.walk(stack).collect()).unwrap_or_default();
        if let Some(site) = key.site.filter(|site| sites.first() != Some(site)) {
            sites.insert(0, site);
        }
        let places: Vec<u32> = sites.into_iter().map(|site| self.place(site)).collect();
        let path = Path { thread: key.thread, time_ns: key.time_ns, class: key.class, places, costs };
        (!path.places.is_empty()).then_some(path)
    }

    fn place(&mut self, site: SiteId) -> u32 {
        *self.known.entry(site).or_insert_with(|| {
            let code = &self.dataset.code;
            let (module, address) = code.address_of(site);
            let place = Place { module: module.map(str::to_owned), address, lines: code.lines(site) };
            self.places.push(place);
            (self.places.len() - 1) as u32
        })
    }
}
