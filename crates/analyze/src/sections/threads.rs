//! Section `threads`: who accesses what.

use crate::dataset::Dataset;
use crate::facts::placed::FirstTouches;
use crate::model::counts::{self, Counts, percent};
use crate::model::metrics;
use crate::model::node::node;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::model::tally::Tally;
use crate::sections::misses;
use numalens_profile::ids::ThreadId;
use rustc_hash::FxHashMap;

/// Accesses to the thread's own node, and all while it was pinned.
#[derive(Default)]
struct Pinned {
    own: Tally,
    all: Tally,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let total = dataset.facts.total();
    let accesses = dataset.facts.by_thread();
    let mut pinned: FxHashMap<ThreadId, Pinned> = FxHashMap::default();
    for ((thread, node, home), tally) in dataset.facts.sites.by_nodes().filter(|((_, node, _), _)| node.is_some()) {
        let sum = pinned.entry(thread).or_default();
        sum.all += tally;
        if node == home {
            sum.own += tally;
        }
    }
    let mut touches: FxHashMap<ThreadId, FirstTouches> = FxHashMap::default();
    for row in &dataset.memory.placed {
        if let Some(thread) = row.thread {
            touches.entry(thread).or_default().add(row);
        }
    }
    if let Some(imported) = &dataset.facts.sites.imported {
        touches.extend(imported.threads.keys().map(|thread| (*thread, imported.touches(*thread))));
    }
    let mut columns = vec![
        Column::new("thread", "thread"),
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("rank", "rank").only(if dataset.program.processes.iter().any(|p| p.rank.is_some()) {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("tid", "tid").only(Shown::Data),
        Column::new("name", "name"),
        Column::new("nodes", "nodes"),
    ];
    columns.extend(counts::columns(dataset.about.count_noun()));
    columns.extend(misses::columns(dataset));
    columns.extend([
        Column::metric(&metrics::LOCAL_SHARE).only(Shown::Data),
        Column::metric(&metrics::FIRST_TOUCH),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH),
        Column::metric(&metrics::SWITCHES).only(Shown::Data),
        Column::metric(&metrics::MIGRATIONS),
        Column::new("start_s", "start").only(Shown::Data),
        Column::new("end_s", "end").only(Shown::Data),
    ]);
    let mut ids: Vec<ThreadId> =
        dataset.program.threads.keys().chain(accesses.keys()).chain(touches.keys()).copied().collect();
    ids.sort();
    ids.dedup();
    let order = total.order();
    ids.sort_by_key(|id| order(&accesses.get(id).copied().unwrap_or_default()));
    let rows = ids.into_iter().map(|id| {
        let thread = dataset.program.threads.get(&id);
        let accesses = accesses.get(&id).copied().unwrap_or_default();
        let pinned =
            pinned.get(&id).map_or(Value::Absent, |p| percent(p.own.accesses(), p.all.accesses(), p.all.samples));
        row(dataset, id, &accesses, &total, pinned, touches.get(&id).copied().unwrap_or_default(), thread)
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    vec![Report::new("threads", "threads", "threads", Shape::Table(table)).doubting(dataset.access_doubts())]
}

fn row(
    dataset: &Dataset,
    id: ThreadId,
    accesses: &Counts,
    total: &Counts,
    local_share: Value,
    touches: FirstTouches,
    thread: Option<&numalens_profile::tables::Thread>,
) -> Vec<Value> {
    let mut row = vec![
        Value::Id(u64::from(id.0)),
        Value::maybe(thread.and_then(|t| dataset.program.pid(t.process)), |pid| Value::Id(u64::from(pid))),
        Value::maybe(thread.and_then(|t| dataset.program.process(t.process)?.rank), |rank| {
            Value::Count(u64::from(rank))
        }),
        Value::maybe(thread, |t| Value::Count(u64::from(t.tid))),
        Value::maybe(thread, |t| Value::Text(t.name.clone())),
        Value::List(dataset.program.pinning.nodes(id).into_iter().map(node).collect()),
    ];
    row.extend(counts::values(accesses, total));
    row.extend(misses::values(dataset, |misses| misses.threads.get(&id).copied().unwrap_or_default()));
    row.extend([
        local_share,
        Value::Count(touches.pinned),
        Value::Count(touches.unpinned),
        Value::maybe(thread, |t| Value::Count(t.switches)),
        Value::maybe(thread, |t| Value::Count(t.migrations)),
        Value::maybe(thread, |t| Value::Time(t.start_ns)),
        Value::maybe(thread.and_then(|t| t.end_ns), Value::Time),
    ]);
    row
}
