//! Sampled accesses by call stack: `samples`, folded.

use crate::model::tally::{Sums, Weight, merge};
use numalens_profile::ids::{SiteId, StackId};
use numalens_profile::tables::Sample;
use numalens_profile::words::{Access, Class};

/// Accesses of samples by where they were made.
#[derive(Default)]
pub struct StackFacts(pub Sums<(Option<StackId>, SiteId, Class)>);

impl StackFacts {
    /// Columns that [`StackFacts::add`] reads.
    pub const COLUMNS: &'static [&'static str] = &["process", "stack", "site", "access", "class", "period"];

    /// Adds a sample.
    pub fn add(&mut self, row: &Sample, weight: Weight) {
        let reads = u64::from(row.access != Access::Write);
        let writes = u64::from(row.access != Access::Read);
        let tally = weight.tally(reads, writes, 1, row.period);
        *self.0.entry((row.stack, row.site, row.class)).or_default() += tally;
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        StackFacts(merge(self.0, other.0))
    }
}
