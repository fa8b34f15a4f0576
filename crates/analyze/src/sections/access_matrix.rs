//! Section `matrix`: accesses by the thread's node and the page's home.

use crate::dataset::Dataset;
use crate::model::metrics;
use crate::model::report::{Matrix, Report, Shape};
use crate::model::tally::Tally;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Accesses by thread's node (none: unpinned) and page's home (none: unplaced).
pub struct Cells(BTreeMap<(Option<NodeId>, Option<NodeId>), Tally>);

/// Sums the accesses of a dataset by nodes.
pub fn cells(dataset: &Dataset) -> Cells {
    let mut cells: BTreeMap<_, Tally> = BTreeMap::new();
    for ((_, node, home), tally) in dataset.facts.sites.by_nodes() {
        *cells.entry((node, home)).or_default() += tally;
    }
    Cells(cells)
}

impl Cells {
    /// Those of collections of garbage.
    pub fn of_collectors(dataset: &Dataset) -> Self {
        Cells(dataset.facts.collectors.0.iter().map(|(nodes, tally)| (*nodes, *tally)).collect())
    }

    /// Cells whose distance is defined.
    pub fn between_nodes(&self) -> impl Iterator<Item = ((NodeId, NodeId), Tally)> {
        self.0.iter().filter_map(|((from, to), tally)| Some((((*from)?, (*to)?), *tally)))
    }

    /// Accesses of threads on the page's own node.
    pub fn diagonal(&self) -> Tally {
        self.sum(|from, to| from.is_some() && from == to)
    }

    /// Accesses of pinned threads.
    pub fn pinned(&self) -> Tally {
        self.sum(|from, _| from.is_some())
    }

    /// All of them.
    pub fn all(&self) -> Tally {
        self.sum(|_, _| true)
    }

    /// Accesses to a node, by all threads.
    pub fn to(&self, node: NodeId) -> Tally {
        self.sum(|_, to| to == Some(node))
    }

    /// One cell.
    pub fn at(&self, from: Option<NodeId>, to: Option<NodeId>) -> Tally {
        self.0.get(&(from, to)).copied().unwrap_or_default()
    }

    fn sum(&self, wanted: impl Fn(Option<NodeId>, Option<NodeId>) -> bool) -> Tally {
        let mut sum = Tally::default();
        self.0.iter().filter(|((from, to), _)| wanted(*from, *to)).for_each(|(_, tally)| sum += *tally);
        sum
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let cells = cells(dataset);
    let matrix = fill(dataset.nodes(), &metrics::ACCESSES, "unplaced", |from, to| cells.at(from, to).accesses());
    let title = format!(
        "access matrix: {} by threads on a node (rows) to pages on a node (columns)",
        dataset.about.count_noun()
    );
    vec![Report::new("matrix", "matrix.access", title, Shape::Matrix(matrix)).doubting(dataset.access_doubts())]
}

/// A matrix of these nodes from a function of (thread's node, page's home).
pub fn fill(
    nodes: Vec<NodeId>,
    metric: &'static metrics::Metric,
    homeless_name: &'static str,
    at: impl Fn(Option<NodeId>, Option<NodeId>) -> u64,
) -> Matrix {
    Matrix {
        rows: nodes.iter().map(|from| nodes.iter().map(|to| at(Some(*from), Some(*to))).collect()).collect(),
        unpinned: nodes.iter().map(|to| at(None, Some(*to))).collect(),
        homeless: nodes.iter().map(|from| at(Some(*from), None)).collect(),
        homeless_unpinned: at(None, None),
        nodes,
        homeless_name,
        metric,
    }
}
