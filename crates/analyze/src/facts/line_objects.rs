//! Single accesses by instruction and object: `samples`, folded.

use crate::facts::divided::Division;
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::tally::{Sums, merge};
use numalens_profile::ids::{ObjectId, SiteId};
use numalens_profile::tables::Sample;
use numalens_profile::words::{Access, Class};

/// Accesses that were looked at one by one, by instruction and object.
#[derive(Default)]
pub struct UseFacts(pub Sums<(SiteId, Option<ObjectId>, Class)>);

impl UseFacts {
    /// What divides accesses whose instruction is not known.
    pub fn by_site(&self) -> Division<SiteId> {
        let mut division = Division::default();
        for ((site, _, class), tally) in &self.0 {
            division.add(*site, *class, *tally);
        }
        division
    }
}

impl Fold for UseFacts {
    type Facts = Self;
    const NEED: Need = Need::Uses;

    fn merge(self, other: Self) -> Self {
        UseFacts(merge(self.0, other.0))
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<Sample> for UseFacts {
    const COLUMNS: &'static [&'static str] = &["process", "site", "access", "object", "class", "period"];

    fn add(&mut self, row: &Sample, _: Times<'_>, of: &Context<'_>) {
        let reads = u64::from(row.access != Access::Write);
        let writes = u64::from(row.access != Access::Read);
        let tally = of.weight.tally(reads, writes, 1, row.period);
        *self.0.entry((row.site, row.object, row.class)).or_default() += tally;
    }
}
