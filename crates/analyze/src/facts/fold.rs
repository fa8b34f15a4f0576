//! How a table becomes facts: added to row by row, by several threads in parts, which merge by addition in any order.
//!
//! A new fold is a type with [`Fold`] and, for each table that it reads, [`FoldOf`]; a field of `Facts`, and a row of
//! `LOADERS` in `dataset/facts.rs`.

use crate::facts::collectors::Collectors;
use crate::facts::filter::{FilteredRow, RowFilter};
use crate::facts::placement_targets::PlacementTargets;
use crate::facts::sorted::Times;
use crate::model::tally::Weight;

/// A table that some sections need and others do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Sites,
    Objects,
    Pages,
    Fetches,
    Placed,
    Allocations,
    Names,
    /// Accesses by page and thread, and whose memory the pages are.
    PageUse,
    /// What follows from these for the whole program: of the profile's sums of them, where it has any.
    PageSums,
    /// How far pages are one node's, the same way.
    MainUsers,
    /// The same over time.
    PageUseByTime,
    /// Accesses by cache line, and sampled addresses.
    CacheLines,
    /// Accesses by thread, and by who accessed the cache line last.
    LinePairs,
    /// Sampled accesses by call stack.
    Stacks,
    /// Single accesses by instruction and object.
    Uses,
    /// Accesses by time, thread's node, home and class.
    NodeTimes,
    /// Accesses of collectors of garbage.
    Collectors,
    /// The first accesses to objects, and of threads, one by one.
    ObjectEvents,
    ThreadEvents,
}

/// What folds know beside the rows.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub row_filter: &'a RowFilter<'a>,
    /// Whose the pages are.
    pub targets: &'a PlacementTargets,
    pub weight: Weight,
    /// Known where somebody asks for [`Need::Collectors`].
    pub collectors: &'a Collectors,
}

/// Facts in the making.
pub trait Fold: Default + Send {
    /// What was made.
    type Facts: Default + 'static;
    /// Who asks for it.
    const NEED: Need;

    /// Merges two partial sums.
    fn merge(self, other: Self) -> Self;

    /// The facts, when all is added.
    fn finish(self) -> Self::Facts;
}

/// A fold that adds rows of a table.
pub trait FoldOf<T: FilteredRow>: Fold {
    /// Columns that [`FoldOf::add`] reads, and the process. Whoever filters reads all.
    const COLUMNS: &'static [&'static str];

    /// Adds a row. Of tables of accesses it stands for all rows that differ in time and counts alone: `times` has
    /// those. Of other tables `times` is empty.
    fn add(&mut self, row: &T, times: Times<'_>, of: &Context<'_>);
}
