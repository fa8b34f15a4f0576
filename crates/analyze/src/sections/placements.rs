//! Section `placements`: the pinning log. Where threads were allowed to run, from when on, and what made it so.

use crate::dataset::Dataset;
use crate::model::node::node;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let columns = vec![
        Column::new("time_s", "time"),
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("thread", "thread"),
        Column::new("name", "name"),
        Column::new("cpus", "CPUs"),
        Column::new("node", "node").only(Shown::Data),
        Column::new("", "node").only(Shown::Screen),
        Column::new("policy", "memory policy"),
        Column::new("cause", "cause"),
    ];
    let mut placements: Vec<_> = dataset.program.placements.iter().collect();
    placements.sort_by_key(|p| (p.time_ns, p.thread));
    let rows = placements.into_iter().map(|p| {
        vec![
            Value::Time(p.time_ns),
            Value::maybe(dataset.program.pid(p.process), |pid| Value::Id(u64::from(pid))),
            Value::Id(u64::from(p.thread.0)),
            Value::maybe(dataset.program.threads.get(&p.thread), |thread| Value::Text(thread.name.clone())),
            Value::Text(p.cpus.clone()),
            Value::maybe(p.node, Value::Node),
            node(p.node),
            Value::Text(p.policy.clone()),
            Value::Text(p.cause.clone()),
        ]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    vec![Report::new("placements", "placements", "placement of threads", Shape::Table(table))]
}
