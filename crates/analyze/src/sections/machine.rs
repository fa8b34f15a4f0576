//! Section `machine`: the machine in force.

use crate::dataset::Dataset;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let columns = vec![
        Column::new("node", "node"),
        Column::new("cpus", "CPUs"),
        Column::new("memory_bytes", "memory"),
        Column::new("distances", "distances"),
        Column::new("tier", "tier"),
        Column::new("huge_pages", "huge pages"),
        Column::new("latency_ns", "latency, ns").only(Shown::Data),
        Column::new("bandwidth", "bandwidth, B/s").only(Shown::Data),
    ];
    let rows = dataset.machine.nodes.iter().map(|node| {
        vec![
            Value::Node(node.id),
            Value::Text(node.cpus.to_string()),
            Value::Bytes(node.memory_bytes),
            Value::List(node.distances.iter().map(|distance| Value::Count(u64::from(*distance))).collect()),
            Value::Count(u64::from(node.tier)),
            Value::List(node.huge_page_sizes.iter().map(|size| Value::Bytes(*size)).collect()),
            Value::maybe(node.latency_ns, |ns| Value::Number(ns, None)),
            Value::maybe(node.bandwidth, |bandwidth| Value::Number(bandwidth, None)),
        ]
    });
    let kind = if dataset.machine.is_virtual { "virtual machine" } else { "machine" };
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    vec![Report::new("machine", "machine", format!("{kind} {}", dataset.machine.name), Shape::Table(table))]
}
