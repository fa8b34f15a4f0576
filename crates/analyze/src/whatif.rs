//! What if: the figures of a recording under other machines, thread placements and page policies (`numalens simulate`).
//!
//! Who accessed which page is a fact of the recording; where threads and pages are is not, so one recording can be
//! replayed anywhere. What the program would do otherwise on another machine (other numbers of threads, other
//! schedules) nobody can know.

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::LoadError;
use crate::dataset::usages;
use crate::facts::fold::Need;
use crate::facts::page_use::{PageUseKey, TimedUse};
use crate::facts::placement_targets::{RunId, TargetId};
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Table, Value};
use crate::model::tally::Tally;
use crate::sections::access_matrix;
use numalens_profile::Profile;
use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, ThreadId};
use numalens_simulate::{
    CostModel, Moment, Moments, Outcome, PageUse, Policy, Recording, Threads, Traffic, User, figures, replay,
};
use numalens_topology::{Machine, NodeId};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Combinations to try: every placement with every policy, on one machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// None: the recording's own.
    pub machine: Option<Machine>,
    pub placements: Vec<Threads>,
    pub policies: Vec<Policy>,
    /// Policies of single objects, and of those that reports show in one row with them, whatever the others have.
    pub choices: Vec<(ObjectId, Policy)>,
    /// Bytes of a page.
    pub page_size: u64,
}

/// Of a page as it is recorded.
pub const RECORDED_PAGE: u64 = Page::BYTES;

/// Time bins from which it is said that they are few.
const FEW_BINS: u32 = 10;

/// Bytes of a cache line, which is what is read and written where a page is copied.
const LINE: u64 = 64;

impl Plan {
    /// What a dataset must have been loaded with.
    pub fn needs(&self) -> &'static [Need] {
        let mut policies = self.policies.iter().chain(self.choices.iter().map(|(_, policy)| policy));
        if policies.any(|policy| policy.asks_for_time()) {
            &[Need::PageUse, Need::Sites, Need::PageUseByTime]
        } else {
            &[Need::PageUse, Need::Sites]
        }
    }
}

/// Reads a [`Plan::page_size`].
///
/// # Errors
/// It is none of those that there are.
pub fn page_size(word: &str) -> Result<u64, String> {
    match word.to_ascii_uppercase().as_str() {
        "4K" => Ok(4 << 10),
        "64K" => Ok(64 << 10),
        "2M" => Ok(2 << 20),
        _ => Err(format!("`{word}` is no size of pages; there are 4K, 64K, 2M")),
    }
}

/// Reads one of [`Plan::choices`], as in `7=interleave`.
///
/// # Errors
/// It is no object's number with a policy.
pub fn choice(word: &str) -> Result<(ObjectId, Policy), String> {
    let (object, policy) = word.split_once('=').ok_or("an object and a policy are wanted, as in 7=interleave")?;
    let object = object.parse().map_err(|_| format!("`{object}` is no object's number"))?;
    Ok((ObjectId(object), policy.parse()?))
}

/// Replays a profile. The first report is `meta`.
///
/// # Errors
/// The profile cannot be read; a process is not in it.
pub fn run(profile: &Profile, options: &Options, plan: &Plan) -> Result<Vec<Report>, LoadError> {
    Ok(of(&Dataset::load(profile, options, plan.needs())?, plan))
}

/// The same, of a dataset that was loaded with what the plan [needs](Plan::needs).
pub fn of(dataset: &Dataset, plan: &Plan) -> Vec<Report> {
    let mut reports = vec![dataset.about.report()];
    reports.extend(simulate(dataset, plan));
    reports
}

/// What the order of pages is: by first touch. A page that was moved is another one there, also within a bin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Touched {
    bin: Bin,
    process: ProcessId,
    page: Page,
    home: Option<NodeId>,
}

/// The recording's pages, in the order of first touches as far as time bins tell it.
fn recording(dataset: &Dataset, choices: &[(ObjectId, Policy)]) -> Recording {
    let place: FxHashMap<ThreadId, u32> = dataset.program.order.iter().copied().zip(0..).collect();
    let place_of = |thread: ThreadId| place.get(&thread).copied().unwrap_or(thread.0);
    // Objects of one row have a policy together.
    let targets: Vec<Option<TargetId>> =
        choices.iter().map(|(object, _)| dataset.memory.targets.of_object(*object)).collect();
    let choice_of =
        |run: RunId| targets.iter().position(|target| *target == Some(dataset.memory.targets.target_of(run)));
    let touch_of = |run: Option<RunId>| run.map_or((None, Bin(u32::MAX)), |run| dataset.memory.targets.toucher_of(run));
    let user = |(key, tally): &(PageUseKey, Tally)| User {
        thread: place_of(key.thread),
        node: key.node,
        reads: tally.reads as f64,
        writes: tally.writes as f64,
        initial: if key.initial { tally.writes as f64 } else { 0.0 },
    };
    let mut pages: Vec<(Touched, PageUse)> = Vec::new();
    let mut parts: Vec<(Bin, Option<NodeId>, PageUseKey, User)> = Vec::new();
    dataset.facts.page_use.sums.each_page(|page| {
        parts.clear();
        parts.extend(page.iter().map(|one| (touch_of(one.0.run).1, one.0.home, one.0, user(one))));
        // Of equals the first tells what the page is.
        parts.sort_by_key(|(bin, home, ..)| (*bin, *home));
        for part in parts.chunk_by_mut(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (bin, home, key, _) = part[0];
            // By thread, so that equal profiles give equal answers.
            part.sort_by_key(|(.., user)| (user.thread, user.node, user.initial > 0.0));
            let page = PageUse {
                number: key.page.0,
                space: key.process.0,
                choice: key.run.and_then(choice_of),
                toucher: touch_of(key.run).0.map(place_of),
                toucher_node: key.run.and_then(|run| dataset.memory.targets.toucher_node_of(run)),
                home,
                users: part.iter().map(|(.., user)| *user).collect(),
            };
            pages.push((Touched { bin, process: key.process, page: key.page, home }, page));
        }
    });
    pages.par_sort_unstable_by_key(|(key, _)| *key);
    let find = |key| pages.binary_search_by_key(&key, |(key, _)| *key).ok();
    let moment = |moment: &TimedUse| {
        let (_, touched) = touch_of(moment.run);
        let TimedUse { process, page, home, .. } = *moment;
        let page = find(Touched { bin: touched, process, page, home })?;
        let (bin, thread) = (moment.bin.0, place_of(moment.thread));
        Some((page, Moment { bin, thread, node: moment.node, accesses: moment.accesses as f64 }))
    };
    let moments = Moments::new(pages.len(), dataset.facts.page_use_by_time.iter().filter_map(moment));
    let pages = pages.into_iter().map(|(_, page)| page).collect();
    // What samples stand for is not known well enough to be compared with lines that are copied.
    let copy = if dataset.about.sampled() { 0.0 } else { (2 * RECORDED_PAGE / LINE) as f64 };
    Recording { pages, moments, slots: dataset.program.slots.clone(), bin_ns: dataset.about.meta.bin_ns, copy }
}

fn simulate(dataset: &Dataset, plan: &Plan) -> Vec<Report> {
    let machine = plan.machine.as_ref().unwrap_or(&dataset.machine);
    let recording = recording(dataset, &plan.choices);
    let recording = match plan.page_size / RECORDED_PAGE {
        0 | 1 => recording,
        parts => recording.with_pages_of(parts),
    };
    let choices: Vec<Policy> = plan.choices.iter().map(|(_, policy)| *policy).collect();
    let model = CostModel::new(machine);
    // On another machine the recorded homes are no measure: first touch with the first placement is.
    let base = match &plan.machine {
        None => replay(&recording, machine, Threads::Recorded, Policy::Recorded, &[]),
        Some(_) => {
            let placement = plan.placements.first().copied().unwrap_or(Threads::Recorded);
            replay(&recording, machine, placement, Policy::AtTouch(numalens_topology::PagePolicy::FirstTouch), &[])
        }
    };
    let mut rows = Vec::new();
    if plan.machine.is_none() {
        rows.push(row(machine, &model, &base.traffic, (Threads::Recorded, Policy::Recorded), &base, plan.page_size));
    }
    let combinations: Vec<(Threads, Policy)> =
        plan.placements.iter().flat_map(|threads| plan.policies.iter().map(|policy| (*threads, *policy))).collect();
    let tried =
        combinations.par_iter().map(|(threads, policy)| replay(&recording, machine, *threads, *policy, &choices));
    let outcomes: Vec<Outcome> = tried.collect();
    for (combination, outcome) in combinations.into_iter().zip(&outcomes) {
        rows.push(row(machine, &model, &base.traffic, combination, outcome, plan.page_size));
    }
    let columns = vec![
        Column::new("placement", "threads"),
        Column::new("policy", "pages"),
        Column::metric(&metrics::MEMORY_TIME),
        Column::metric(&metrics::LOCAL_SHARE),
        Column::metric(&metrics::NUMA_ACCESSES),
        Column::metric(&metrics::IMBALANCE),
        Column::metric(&metrics::BUSIEST),
        Column::new("busiest_node", "node"),
        Column::metric(&metrics::PAGES_MOVED),
        Column::metric(&metrics::COPIES),
    ];
    let table = Table { columns, rows, omitted: 0 };
    let mut title = format!("simulation on {}", machine.name);
    if plan.page_size != RECORDED_PAGE {
        title += &format!(", pages of {} KiB", plan.page_size >> 10);
    }
    for (object, policy) in &plan.choices {
        title += &format!(", object {object} {policy}");
    }
    let mut reports =
        vec![Report::new("simulation", "simulation", title, Shape::Table(table)).doubting(doubts(dataset, plan))];
    // Of many combinations the figures tell which one to look at.
    if let [outcome] = &outcomes[..] {
        reports.push(matrix(machine, &outcome.traffic));
    }
    reports
}

/// Who would access what, of the one combination that was asked for.
fn matrix(machine: &Machine, traffic: &Traffic) -> Report {
    let cells: BTreeMap<_, f64> = traffic.cells().collect();
    let nodes = machine.nodes.iter().map(|node| node.id).collect();
    let at = |from, to| cells.get(&(from, to)).map_or(0, |accesses| accesses.round() as u64);
    let title = "predicted access matrix: by threads on a node (rows) to pages on a node (columns)";
    let matrix = access_matrix::fill(nodes, &metrics::ACCESSES, "unplaced", at);
    Report::new("simulation", "matrix.simulated", title, Shape::Matrix(matrix))
}

fn doubts(dataset: &Dataset, plan: &Plan) -> Vec<String> {
    let mut doubts = Vec::new();
    let (mut all, mut samples) = (0, 0);
    dataset
        .facts
        .page_use
        .sums
        .iter()
        .for_each(|(_, tally)| (all, samples) = (all + tally.accesses(), samples + tally.samples));
    if let Some(missing) = dataset.facts.sums_only() {
        return vec![missing];
    }
    if all == 0 {
        doubts.push(dataset.about.none("accesses to pages"));
        return doubts;
    }
    if samples > 0 {
        doubts.push(format!(
            "estimated from {samples} samples: policies that know the main user of a page (local, parallel-first-touch, mixed, balance, replicate) look too good where pages have few samples"
        ));
    }
    for (object, _) in plan.choices.iter().filter(|(object, _)| dataset.memory.targets.of_object(*object).is_none()) {
        doubts.push(format!("object {object} has no page in this part of the recording: its policy changes nothing"));
    }
    if plan.policies.iter().any(|policy| policy.asks_for_time()) {
        let (bins, bin_s) = (dataset.about.meta.bins, dataset.about.meta.bin_ns as f64 / 1e9);
        if bins < FEW_BINS {
            doubts.push(format!(
                "the recording has {bins} time bins of {bin_s} s: policies that move pages while the program runs (numa-balancing, kmaf) see little of when they were used"
            ));
        }
        if samples > 0 {
            doubts.push("of policies that move pages while the program runs the copying is not in the memory time: what a sample stands for is not known".to_string());
        }
    }
    let homeless: u64 = dataset
        .facts
        .page_use
        .sums
        .iter()
        .filter(|(key, _)| key.home.is_none())
        .map(|(_, tally)| tally.accesses())
        .sum();
    if homeless * 100 > all {
        let percent = homeless as f64 * 100.0 / all as f64;
        doubts.push(format!("{percent:.1} % of the accesses went to pages without a home; they stay out of it"));
    }
    if !usages::matters(dataset) {
        doubts.push("the machine has one node: every placement is the same; try --machine 4x2".to_string());
    }
    doubts
}

fn row(
    machine: &Machine,
    model: &CostModel,
    base: &Traffic,
    (placement, policy): (Threads, Policy),
    outcome: &Outcome,
    page_size: u64,
) -> Vec<Value> {
    let figures = figures(&outcome.traffic, machine);
    let mut after = outcome.traffic.clone();
    after.add_all(&outcome.copying, 1.0);
    let gain = model.gain(base, &after);
    // Of three numbers with rounding: the estimate lies within.
    let time = 100.0 - gain.estimate;
    let interval = (100.0 - gain.high, 100.0 - gain.low);
    vec![
        Value::Text(placement.to_string()),
        Value::Text(policy.to_string()),
        Value::Percent(time, Some((interval.0.min(time), interval.1.max(time)))),
        Value::maybe(figures.local_share, |share| Value::Percent(share, None)),
        Value::Count(figures.weighted.round() as u64),
        Value::Percent(figures.imbalance, None),
        Value::maybe(figures.busiest, |(_, share)| Value::Percent(share, None)),
        Value::maybe(figures.busiest, |(node, _)| Value::Node(node)),
        Value::Count(outcome.moved),
        Value::Bytes(outcome.copies * page_size),
    ]
}
