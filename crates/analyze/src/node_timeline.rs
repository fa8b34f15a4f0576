//! Section `node-timeline`: the traffic of every node over time: what it serves, what its threads do, what is placed there.

use crate::counts::{Counts, Tally};
use crate::facts::{Sums, merge};
use crate::metrics;
use crate::placed;
use crate::report::{Column, Report, Shape, Table, Value};
use crate::sorted::Times;
use crate::study::Study;
use numalens_profile::ids::Bin;
use numalens_profile::tables::{ObjectAccess, SiteAccess};
use numalens_profile::words::Class;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Accesses by time, thread's node, home and class.
#[derive(Default)]
pub struct NodeTimes(Sums<(Bin, Option<NodeId>, Option<NodeId>, Class)>);

impl NodeTimes {
    /// Columns that [`NodeTimes::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "node", "home", "class", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key.
    pub fn add(&mut self, row: &SiteAccess, times: Times<'_>) {
        self.add_times((row.node, row.home, row.class), times);
    }

    /// Adds those of `object_accesses`, for figures of one object.
    pub fn add_of_object(&mut self, row: &ObjectAccess, times: Times<'_>) {
        self.add_times((row.node, row.home, row.class), times);
    }

    fn add_times(&mut self, (node, home, class): (Option<NodeId>, Option<NodeId>, Class), times: Times<'_>) {
        for (bin, tally) in times.iter() {
            *self.0.entry((bin, node, home, class)).or_default() += tally;
        }
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        NodeTimes(merge(self.0, other.0))
    }

    /// Accesses by time and class.
    pub fn classes(&self) -> BTreeMap<Bin, Counts> {
        let mut bins: BTreeMap<Bin, Counts> = BTreeMap::new();
        for ((bin, _, _, class), tally) in &self.0 {
            bins.entry(*bin).or_default().add(*class, *tally);
        }
        bins
    }
}

#[derive(Default)]
struct Cell {
    served: Tally,
    made: Tally,
    remote: Tally,
    placed: u64,
}

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let mut cells: BTreeMap<(Bin, Option<NodeId>), Cell> = BTreeMap::new();
    for ((bin, node, home, _), tally) in &study.node_times.0 {
        cells.entry((*bin, *home)).or_default().served += *tally;
        let by = cells.entry((*bin, *node)).or_default();
        by.made += *tally;
        if node.is_some() && home.is_some() && node != home {
            by.remote += *tally;
        }
    }
    for row in study.placed.iter().filter(|row| row.home.is_some()) {
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
            Value::Time(u64::from(bin.0).saturating_mul(study.about.meta.bin_ns)),
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
            .doubting(study.access_doubts()),
    ]
}
