//! Section `remote-frees`: blocks released by another thread, or on another node, than the one that allocated them.
//! Allocators keep such blocks for the releasing thread, or send them back: either way memory of one node ends in the
//! hands of another.

use crate::dataset::Dataset;
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Column, Location, Report, Shape, Table, Value};
use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Allocation;
use numalens_profile::words::Call;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Default)]
struct Row {
    frees: u64,
    threads: u64,
    nodes: u64,
    bytes: u64,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut calls: Vec<&Allocation> = dataset.facts.allocations.iter().collect();
    calls.sort_by_key(|call| call.time_ns);
    let mut live: FxHashMap<(ProcessId, u64), &Allocation> = FxHashMap::default();
    let mut rows: BTreeMap<Location, Row> = BTreeMap::new();
    for call in calls {
        let block = (call.process, call.address);
        if !matches!(call.call, Call::Free | Call::Munmap) {
            live.insert(block, call);
            continue;
        }
        let Some(made) = live.remove(&block) else { continue };
        let object = made.object.and_then(|id| dataset.memory.objects.get(&id));
        let place = object.and_then(|object| dataset.code.own_on_stack(object.stack, object.site));
        let row = rows.entry(place.map(|place| place.location).unwrap_or_else(nowhere)).or_default();
        row.frees += 1;
        if call.thread == made.thread {
            continue;
        }
        row.threads += 1;
        let (from, to) = (
            dataset.program.pinning.at(made.thread, made.time_ns),
            dataset.program.pinning.at(call.thread, call.time_ns),
        );
        if from.is_some() && to.is_some() && from != to {
            row.nodes += 1;
            row.bytes += made.weight;
        }
    }
    let mut rows: Vec<(Location, Row)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| (Reverse(row.nodes), Reverse(row.threads), Reverse(row.frees)));
    let columns = vec![
        Column::metric(&metrics::FREES),
        Column::metric(&metrics::FREED_BY_OTHERS),
        Column::metric(&metrics::FREED_ELSEWHERE),
        Column::new("elsewhere_share", "of its frees"),
        Column::at("elsewhere_bytes", &metrics::BYTES),
        Column::new("", "allocated at"),
    ];
    let rows = rows.into_iter().map(|(place, row)| {
        vec![
            Value::Count(row.frees),
            Value::Count(row.threads),
            Value::Count(row.nodes),
            percent(row.nodes, row.frees, 0),
            Value::Bytes(row.bytes),
            Value::Location(place),
        ]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let doubts = match (&table.rows[..], dataset.facts.allocations.iter().any(|call| call.weight > call.bytes)) {
        ([], _) => vec!["no releases of recorded blocks were seen".to_string()],
        (_, true) => {
            vec!["small blocks were sampled: counts are of those that were seen, bytes are estimates".to_string()]
        }
        (_, false) => Vec::new(),
    };
    vec![Report::new("remote-frees", "remote_frees", "blocks freed elsewhere", Shape::Table(table)).doubting(doubts)]
}

fn nowhere() -> Location {
    Location { function: "unknown".to_string(), ..Location::default() }
}
