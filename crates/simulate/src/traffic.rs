//! Accesses between nodes, as real numbers: predictions divide counts.

use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Where accesses come from (none: an unpinned thread) and go to (none: a page without a home).
pub type Cell = (Option<NodeId>, Option<NodeId>);

/// Accesses by cell.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Traffic {
    cells: BTreeMap<Cell, f64>,
}

impl Traffic {
    /// Adds accesses to a cell; a negative number takes them away.
    pub fn add(&mut self, from: Option<NodeId>, to: Option<NodeId>, accesses: f64) {
        if accesses != 0.0 {
            *self.cells.entry((from, to)).or_default() += accesses;
        }
    }

    /// Adds all of another, `times` times.
    pub fn add_all(&mut self, other: &Traffic, times: f64) {
        for ((from, to), accesses) in &other.cells {
            self.add(*from, *to, accesses * times);
        }
    }

    /// Every cell that has accesses.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, f64)> {
        self.cells.iter().map(|(cell, accesses)| (*cell, *accesses))
    }

    /// All accesses.
    pub fn total(&self) -> f64 {
        self.cells.values().sum()
    }

    /// Accesses of cells that are `wanted`.
    pub fn sum(&self, wanted: impl Fn(Option<NodeId>, Option<NodeId>) -> bool) -> f64 {
        self.cells.iter().filter(|((from, to), _)| wanted(*from, *to)).map(|(_, accesses)| accesses).sum()
    }

    /// Accesses of pinned threads to pages of other nodes.
    pub fn remote(&self) -> f64 {
        self.sum(|from, to| from.is_some() && to.is_some() && from != to)
    }

    /// Accesses by pinned threads, by their node.
    pub fn users(&self) -> BTreeMap<NodeId, f64> {
        self.by(|(from, _)| from)
    }

    /// Accesses of all threads, by the pages' home.
    pub fn homes(&self) -> BTreeMap<NodeId, f64> {
        self.by(|(_, to)| to)
    }

    fn by(&self, end: impl Fn(Cell) -> Option<NodeId>) -> BTreeMap<NodeId, f64> {
        let mut sums = BTreeMap::new();
        for (cell, accesses) in &self.cells {
            if let Some(node) = end(*cell) {
                *sums.entry(node).or_default() += accesses;
            }
        }
        sums
    }
}
