//! What is uncertain of the accesses of objects, where counts of pages were divided among them.

use super::Objects;
use crate::session::counts::Bound;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The rows of the table.
pub type Bounds = Vec<tables::ObjectBound>;

impl Objects {
    /// What is uncertain of objects, and, of variables, by the pages on which they lie.
    pub fn bound(
        &mut self,
        process: ProcessId,
        mut bounds: FxHashMap<ObjectId, Bound>,
        pages: &FxHashMap<Page, Bound>,
    ) {
        let rows = if pages.is_empty() { &[][..] } else { self.rows() };
        for row in rows.iter().filter(|row| row.process == process && row.kind == ObjectKind::Global) {
            // Only pages at its ends are not its own.
            let ends = |base: u64| [Page::of(base), Page::of(base.saturating_add(row.size.max(1) - 1))];
            let ends: BTreeSet<Page> = self.begins_of(row).into_iter().flat_map(ends).collect();
            for &bound in ends.iter().filter_map(|page| pages.get(page)) {
                bounds.entry(row.object).or_default().add(bound);
            }
        }
        let bounds = bounds.into_iter().map(|(object, bound)| tables::ObjectBound {
            process,
            object,
            divided: bound.divided,
            squares: bound.squares,
            untold: bound.untold,
            skewed: bound.skewed,
        });
        self.bounds.extend(bounds);
    }
}
