//! Section `node-timeline`: the traffic of every node over time: what it serves, what its threads do, what is placed
//! there.

use crate::dataset::Dataset;
use crate::dataset::caveats::spread_doubts;
use crate::facts::placed;
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Table, Value};
use crate::model::tally::Tally;
use numalens_profile::ids::Bin;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

#[derive(Default)]
struct Cell {
    served: Tally,
    made: Tally,
    remote: Tally,
    placed: u64,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut cells: BTreeMap<(Bin, Option<NodeId>), Cell> = BTreeMap::new();
    let (times, longest) = dataset.facts.node_times.spread(&dataset.about);
    for ((bin, node, home, _), tally) in &times.0 {
        cells.entry((*bin, *home)).or_default().served += *tally;
        let by = cells.entry((*bin, *node)).or_default();
        by.made += *tally;
        if node.is_some() && home.is_some() && node != home {
            by.remote += *tally;
        }
    }
    for row in dataset.memory.placed.iter().filter(|row| row.home.is_some()) {
        cells.entry((row.bin_from, row.home)).or_default().placed += placed::bytes(row);
    }
    let columns = vec![
        Column::new("time_s", "time"),
        Column::new("node", "node"),
        Column::new("served", "accesses to its memory"),
        Column::new("made", "accesses by its threads"),
        Column::new("remote", "of these to other nodes"),
        Column::at("placed", &metrics::BYTES),
    ];
    let row = |((bin, node), cell): (&(Bin, Option<NodeId>), &Cell)| {
        vec![
            Value::Time(u64::from(bin.0).saturating_mul(dataset.about.meta.bin_ns)),
            Value::maybe(*node, Value::Node),
            Value::Count(cell.served.accesses()),
            Value::Count(cell.made.accesses()),
            Value::Count(cell.remote.accesses()),
            Value::Bytes(cell.placed),
        ]
    };
    let table = Table { columns, rows: cells.iter().map(row).collect(), omitted: 0 };
    vec![
        Report::new("node-timeline", "node_timeline", "nodes over time", Shape::Table(table))
            .doubting([dataset.access_doubts(), spread_doubts(dataset, longest)].concat()),
    ]
}
