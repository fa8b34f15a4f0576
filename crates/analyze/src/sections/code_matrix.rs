//! Section `code-matrix`: instructions by the thread's node and the home of their code page.

use crate::dataset::Dataset;
use crate::model::metrics;
use crate::model::report::{Report, Shape};
use crate::sections::access_matrix::fill;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut cells: BTreeMap<(Option<NodeId>, Option<NodeId>), u64> = BTreeMap::new();
    for (key, instructions) in &dataset.facts.fetches.instructions {
        *cells.entry((key.node, key.home)).or_default() += instructions;
    }
    let matrix = fill(dataset.nodes(), &metrics::INSTRUCTIONS, "unplaced", |from, to| {
        cells.get(&(from, to)).copied().unwrap_or(0)
    });
    let noun = if dataset.about.sampled() { "samples of code" } else { "instructions" };
    let title =
        format!("code fetch matrix: {noun} executed by threads on a node (rows) from code pages on a node (columns)");
    let doubts = if cells.is_empty() { vec![dataset.about.none("code fetches")] } else { Vec::new() };
    vec![Report::new("code-matrix", "matrix.code", title, Shape::Matrix(matrix)).doubting(doubts)]
}
