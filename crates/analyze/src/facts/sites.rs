//! Accesses by thread, node, home and class, and by instruction: `site_accesses`, folded.

use crate::facts::code::NO_SITE;
use crate::facts::divided::Division;
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::imported_totals::{Cell, ImportedTotals};
use crate::facts::sorted::Times;
use crate::facts::sorted_sums::{Entries, SortedSums, merged};
use crate::model::tally::{Rows, Sums, Tally, merge};
use numalens_profile::ids::{SiteId, ThreadId};
use numalens_profile::tables::{ObjectAccess, SiteAccess};
use numalens_profile::words::Class;
use numalens_topology::NodeId;

/// `site_accesses`, summed in two ways: what joins them no analysis asks for, and it would be as many sums as there are
/// rows. An imported profile may have nothing finer either, and less ([`ImportedTotals`]).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SiteFacts {
    /// Few, and asked for by thread and by nodes.
    who: Sums<Who>,
    sites: Entries<(SiteId, Class)>,
    pub imported: Option<ImportedTotals>,
    /// How many accesses that were looked at tell the instruction of counts that do not know it; 0: counts know it.
    pub divided_by: u64,
}

/// Who accesses, its node, the page's home, and the class.
type Who = (ThreadId, Option<NodeId>, Option<NodeId>, Class);

/// The same in the making.
#[derive(Default)]
pub struct AddingSites {
    who: Sums<Who>,
    /// The sum of the latest rows: neighbours are mostly alike.
    latest: Option<(Who, Tally)>,
    sites: SortedSums<(SiteId, Class)>,
}

impl SiteFacts {
    /// By thread and class; several rows may have the same.
    pub fn by_thread(&self) -> Rows<'_, (ThreadId, Class)> {
        match &self.imported {
            Some(imported) => ImportedTotals::rows(&imported.threads),
            None => Box::new(self.who.iter().map(|((thread, _, _, class), tally)| ((*thread, *class), *tally))),
        }
    }

    /// By site and class, in the order of sites unless the profile has but sums.
    pub fn by_site(&self) -> Rows<'_, (SiteId, Class)> {
        match &self.imported {
            Some(imported) => ImportedTotals::rows(&imported.sites),
            None => Box::new(self.sites.iter().copied()),
        }
    }

    /// By thread, its node, and the page's home; several rows may have the same.
    pub fn by_nodes(&self) -> Rows<'_, (ThreadId, Option<NodeId>, Option<NodeId>)> {
        match &self.imported {
            Some(imported) => {
                let tally = |n: u64| Tally { reads: n, ..Tally::default() };
                let cell = move |cell: &Cell| ((cell.thread, cell.node, cell.home), tally(cell.accesses));
                Box::new(imported.nodes.iter().map(cell))
            }
            None => Box::new(self.who.iter().map(|((thread, node, home, _), tally)| ((*thread, *node, *home), *tally))),
        }
    }

    /// Divides accesses that do not know their instruction by those that were looked at.
    pub fn divide_unknown(&mut self, division: &Division<SiteId>) {
        self.divided_by = division.seen();
        let unknown = self.sites.split_off(self.sites.partition_point(|((site, _), _)| *site < NO_SITE));
        let mut sums = SortedSums::default();
        for ((_, class), tally) in unknown {
            let parts = division.divide(class, tally, NO_SITE).into_iter();
            parts.for_each(|(site, part)| sums.add((site, class), part));
        }
        self.sites = merged(std::mem::take(&mut self.sites), sums.finish());
    }

    /// Whether there are no accesses.
    pub fn is_empty(&self) -> bool {
        self.who.is_empty() && self.imported.is_none()
    }
}

impl AddingSites {
    fn add_times(&mut self, who: Who, site: SiteId, times: Times<'_>) {
        let sum = times.sum();
        match &mut self.latest {
            Some((latest, total)) if *latest == who => *total += sum,
            _ => {
                self.end_run();
                self.latest = Some((who, sum));
            }
        }
        self.sites.add((site, who.3), sum);
    }

    fn end_run(&mut self) {
        if let Some((who, sum)) = self.latest.take() {
            *self.who.entry(who).or_default() += sum;
        }
    }
}

impl Fold for AddingSites {
    type Facts = SiteFacts;
    const NEED: Need = Need::Sites;

    fn merge(mut self, mut other: Self) -> Self {
        self.end_run();
        other.end_run();
        AddingSites { who: merge(self.who, other.who), latest: None, sites: self.sites.merge(other.sites) }
    }

    fn finish(mut self) -> SiteFacts {
        self.end_run();
        SiteFacts { who: self.who, sites: self.sites.finish(), imported: None, divided_by: 0 }
    }
}

impl FoldOf<SiteAccess> for AddingSites {
    const COLUMNS: &'static [&'static str] =
        &["process", "thread", "node", "site", "home", "class", "reads", "writes", "samples", "period"];

    fn add(&mut self, row: &SiteAccess, times: Times<'_>, _: &Context<'_>) {
        self.add_times((row.thread, row.node, row.home, row.class), row.site, times);
    }
}

/// For figures of one object.
impl FoldOf<ObjectAccess> for AddingSites {
    const COLUMNS: &'static [&'static str] = ObjectAccess::COLUMNS;

    fn add(&mut self, row: &ObjectAccess, times: Times<'_>, _: &Context<'_>) {
        self.add_times((row.thread, row.node, row.home, row.class), row.site.unwrap_or(NO_SITE), times);
    }
}
