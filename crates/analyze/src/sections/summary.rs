//! Section `summary`: the figures of the whole program.

use crate::dataset::Dataset;
use crate::facts::cache_misses::Misses;
use crate::model::about::Unit;
use crate::model::counts::{class_fields, percent};
use crate::model::intervals;
use crate::model::metrics;
use crate::model::report::{Field, Report, Shape, Shown, Value};
use crate::sections::access_matrix::{self, Cells};
use crate::sections::exclusivity;
use numalens_profile::words::Class;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let total = dataset.facts.total();
    let cells = access_matrix::cells(dataset);
    let diagonal = cells.diagonal();
    let pinned = cells.pinned();
    // The same as `total`, but for imported matrices that leave out what had no home.
    let all = cells.all();
    let unit = dataset.about.unit;
    let mut fields = vec![
        Field::new("unit", "unit", dataset.about.unit_for_people()).only(Shown::Screen),
        Field::new("unit", "unit", Value::Text(dataset.about.meta.unit.to_string())).only(Shown::Data),
        Field::new("estimated", "estimated", Value::Flag(total.samples > 0)).only(Shown::Data),
        Field::new("samples", "samples", Value::Count(total.samples)).only(Shown::Data),
        Field::new("accesses", dataset.about.count_noun(), total.total()),
        Field::metric(&metrics::READS, Value::Count(total.reads)),
        Field::metric(&metrics::WRITES, Value::Count(total.writes)),
        Field::new("classes", "classes", Value::Record(class_fields(&total))).only(Shown::Data),
    ];
    if let Some(missed) = dataset.facts.misses.as_ref().map(Misses::total) {
        fields.push(Field::metric(&metrics::CACHE_MISSES, Value::Count(missed.accesses())));
        fields.push(Field::metric(&metrics::READ_MISSES, Value::Count(missed.reads)));
        fields.push(Field::metric(&metrics::WRITE_MISSES, Value::Count(missed.writes)));
        fields.push(Field::metric(&metrics::MISS_RATE, percent(missed.accesses(), total.accesses(), 0)));
    }
    if let Unit::Time { period_ns } = unit {
        fields.push(Field::new("sample_s", "one sample", Value::Time(period_ns)).only(Shown::Data));
    }
    let class_shares = Class::ALL.iter().filter(|class| total.class(**class) > 0).map(|class| {
        let metric = crate::model::counts::metric_of(*class);
        Field::metric(metric, total.percent(total.class(*class)))
    });
    fields.push(Field::new("class_shares", "by class", Value::Parts(class_shares.collect())));
    fields.push(Field::metric(&metrics::LOCAL_SHARE, percent(diagonal.accesses(), pinned.accesses(), pinned.samples)));
    fields.push(Field::metric(&metrics::LOCAL_SHARE_ALL, percent(diagonal.accesses(), all.accesses(), all.samples)));
    // The bar has it.
    let local_class = Field::metric(&metrics::LOCAL_CLASS_SHARE, total.percent(total.class(Class::Local)));
    fields.push(local_class.only(Shown::Data));
    fields.push(Field::metric(&metrics::HOT_REGION, hot_region(&cells, all.accesses(), all.samples)));
    fields.extend(access_rate(dataset, &cells));
    let mut doubts = dataset.access_doubts();
    if dataset.facts.sites.imported.is_some() && dataset.about.meta.run_time_ns.is_none() {
        doubts.push(
            "the NUMA access rate needs the run time of the program: import it again with --run-time SECONDS"
                .to_string(),
        );
    }
    fields.push(Field::metric(&metrics::APPLICATION_EXCLUSIVITY, exclusivity::of_application(dataset, &mut doubts)));
    fields.extend(balance(dataset, &cells));
    fields.push(Field::new("distances", "by distance", distances(dataset, &cells, all.accesses(), all.samples)));
    fields.push(first_touch(dataset));
    vec![Report::new("summary", "summary", "summary", Shape::Record(fields)).doubting(doubts)]
}

/// The node with most accesses from pinned threads of other nodes.
fn hot_region(cells: &Cells, all: u64, samples: u64) -> Value {
    let mut into: BTreeMap<NodeId, u64> = BTreeMap::new();
    for ((from, to), tally) in cells.between_nodes() {
        if from != to {
            *into.entry(to).or_default() += tally.accesses();
        }
    }
    // The first of equals, so that equal profiles give equal reports.
    match into.iter().rev().max_by_key(|(_, accesses)| **accesses) {
        Some((node, accesses)) if *accesses > 0 => Value::Record(vec![
            Field::new("node", "node", Value::Node(*node)),
            Field::metric(&metrics::SHARE, percent(*accesses, all, samples)),
        ]),
        _ => Value::Absent,
    }
}

/// The rate, and the time that it was divided by: the program's own where the user has told it, else the recorded
/// run's, which the recording may have slowed down.
fn access_rate(dataset: &Dataset, cells: &Cells) -> Vec<Field> {
    let meta = &dataset.about.meta;
    let (run_time, of) = match meta.run_time_ns {
        Some(run_time) => (run_time, "program without a profiler"),
        // Sums come with a count of cycles, whose rate nobody knows.
        None if dataset.facts.sites.imported.is_some() => (0, ""),
        None => (meta.counted_ns.unwrap_or(meta.duration_ns), "recorded run"),
    };
    let seconds = run_time as f64 / 1e9;
    if seconds <= 0.0 {
        return vec![Field::metric(&metrics::NUMA_ACCESS_RATE, Value::Absent).only(Shown::Data)];
    }
    let mut sum = 0.0;
    let mut terms = Vec::new();
    for ((from, to), tally) in cells.between_nodes() {
        let distance = f64::from(dataset.machine.distance(from, to));
        sum += distance * tally.accesses() as f64;
        if tally.samples > 0 {
            terms.push((distance * tally.accesses() as f64 / tally.samples as f64 / seconds, tally.samples));
        }
    }
    let rate = sum / seconds;
    vec![
        Field::metric(
            &metrics::NUMA_ACCESS_RATE,
            Value::Number(rate, intervals::weighted_sum(rate, terms.into_iter())),
        )
        .only(if meta.run_time_ns.is_some() { Shown::Everywhere } else { Shown::Data }),
        Field::new("run_time_s", "run time", Value::Time(run_time)).only(Shown::Data),
        Field::new("run_time_of", "run time of", Value::Text(of.to_string())).only(Shown::Data),
    ]
}

/// How evenly the nodes with memory serve accesses and hold pages.
fn balance(dataset: &Dataset, cells: &Cells) -> Vec<Field> {
    let nodes: Vec<NodeId> = dataset.machine.nodes_with_memory().map(|node| node.id).collect();
    let served: Vec<(Option<NodeId>, u64)> =
        nodes.iter().map(|node| (Some(*node), cells.to(*node).accesses())).collect();
    let samples: u64 = nodes.iter().map(|node| cells.to(*node).samples).sum();
    let mut pages: BTreeMap<NodeId, u64> = BTreeMap::new();
    for row in &dataset.memory.placed {
        if let Some(home) = row.home {
            *pages.entry(home).or_default() += crate::facts::placed::pages(row);
        }
    }
    let held: Vec<_> = nodes.iter().map(|node| (Some(*node), pages.get(node).copied().unwrap_or(0))).collect();
    let sum: u64 = served.iter().map(|(_, n)| n).sum();
    let busiest = served.iter().rev().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 0);
    let share = busiest.map_or(Value::Absent, |(_, n)| percent(*n, sum, samples));
    // max / mean - 1 is a function of the busiest node's share alone.
    let of_share = |share: f64| (share / 100.0 * nodes.len() as f64 - 1.0) * 100.0;
    let imbalance = match &share {
        Value::Percent(share, interval) => {
            Value::Percent(of_share(*share), interval.map(|(low, high)| (of_share(low).max(0.0), of_share(high))))
        }
        _ => Value::Absent,
    };
    let record = vec![
        Field::new("node", "node", busiest.and_then(|(node, _)| *node).map_or(Value::Absent, Value::Node)),
        Field::metric(&metrics::SHARE, share),
        Field::new("accesses", dataset.about.count_noun(), Value::users(served)).only(Shown::Data),
        Field::new("pages", "pages", Value::homes(&metrics::PAGES, held)).only(Shown::Data),
    ];
    vec![Field::metric(&metrics::BALANCE, Value::Record(record)), Field::metric(&metrics::IMBALANCE, imbalance)]
}

/// Accesses by distance; unpinned threads' and pages' without a home have none.
fn distances(dataset: &Dataset, cells: &Cells, all: u64, samples: u64) -> Value {
    let mut by_distance: BTreeMap<u32, u64> = BTreeMap::new();
    for ((from, to), tally) in cells.between_nodes() {
        *by_distance.entry(dataset.machine.distance(from, to)).or_default() += tally.accesses();
    }
    let known: u64 = by_distance.values().sum();
    let entry = |distance: Value, accesses: u64| {
        Value::Record(vec![
            Field::metric(&metrics::DISTANCE, distance),
            Field::new("accesses", dataset.about.count_noun(), Value::Count(accesses)).only(Shown::Data),
            Field::metric(&metrics::SHARE, percent(accesses, all, samples)),
        ])
    };
    let mut list: Vec<Value> = by_distance
        .into_iter()
        .map(|(distance, accesses)| entry(Value::Count(u64::from(distance)), accesses))
        .collect();
    if all > known {
        let undefined = Field::new("", "undefined", percent(all - known, all, samples)).only(Shown::Screen);
        let Value::Record(fields) = entry(Value::Absent, all - known) else { return Value::List(list) };
        list.push(Value::Record(fields.into_iter().map(|field| field.only(Shown::Data)).chain([undefined]).collect()));
    }
    Value::List(list)
}

fn first_touch(dataset: &Dataset) -> Field {
    let sum = dataset.first_touches();
    let record = vec![
        Field::new("pinned", "by pinned threads", Value::Count(sum.pinned)),
        Field::new("unpinned", "by unpinned threads", Value::Count(sum.unpinned)),
        Field::new("unseen", "unseen", Value::Count(sum.unseen)),
        Field::metric(&metrics::BYTES, Value::Bytes(sum.bytes)),
    ];
    Field::new("first_touch", "pages placed", Value::Record(record))
}
