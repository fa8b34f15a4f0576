//! Sampled accesses by call stack: `samples`, folded.

use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::tally::{Sums, merge};
use numalens_profile::ids::{SiteId, StackId};
use numalens_profile::tables::Sample;
use numalens_profile::words::{Access, Class};

/// Accesses of samples by where they were made.
#[derive(Default)]
pub struct StackFacts(pub Sums<(Option<StackId>, SiteId, Class)>);

impl Fold for StackFacts {
    type Facts = Self;
    const NEED: Need = Need::Stacks;

    fn merge(self, other: Self) -> Self {
        StackFacts(merge(self.0, other.0))
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<Sample> for StackFacts {
    const COLUMNS: &'static [&'static str] = &["process", "stack", "site", "access", "class", "period"];

    fn add(&mut self, row: &Sample, _: Times<'_>, of: &Context<'_>) {
        let reads = u64::from(row.access != Access::Write);
        let writes = u64::from(row.access != Access::Read);
        let tally = of.weight.tally(reads, writes, 1, row.period);
        *self.0.entry((row.stack, row.site, row.class)).or_default() += tally;
    }
}
