//! Accesses of collectors of garbage: those of a runtime's functions that collect, and of its threads that do nothing
//! else.

use crate::facts::code::{Code, NO_SITE};
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::runtime::{is_collector, is_collectors_thread};
use crate::facts::sorted::Times;
use crate::model::tally::{Sums, merge};
use numalens_profile::ids::{SiteId, ThreadId};
use numalens_profile::tables::{ObjectAccess, SiteAccess, Thread};
use numalens_topology::NodeId;
use rustc_hash::FxHashSet;

/// Instructions and threads that belong to collectors.
#[derive(Default)]
pub struct Collectors {
    sites: FxHashSet<SiteId>,
    threads: FxHashSet<ThreadId>,
}

impl Collectors {
    /// Those of a program.
    pub fn new<'a>(code: &Code, threads: impl Iterator<Item = &'a Thread>) -> Self {
        let collects = |site: &SiteId| is_collector(&code.function(*site).name);
        let managed = code.managed();
        Collectors {
            sites: code.sites().map(|(site, ..)| site).filter(collects).collect(),
            threads: threads.filter(|row| is_collectors_thread(managed, &row.name)).map(|row| row.thread).collect(),
        }
    }

    fn has(&self, thread: ThreadId, site: SiteId) -> bool {
        self.threads.contains(&thread) || self.sites.contains(&site)
    }
}

/// Their accesses, by thread's node and page's home.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CollectorFacts(pub Sums<(Option<NodeId>, Option<NodeId>)>);

impl CollectorFacts {
    fn add_if(&mut self, is_collectors: bool, cell: (Option<NodeId>, Option<NodeId>), times: Times<'_>) {
        if is_collectors {
            *self.0.entry(cell).or_default() += times.sum();
        }
    }
}

impl Fold for CollectorFacts {
    type Facts = Self;
    const NEED: Need = Need::Collectors;

    fn merge(self, other: Self) -> Self {
        CollectorFacts(merge(self.0, other.0))
    }

    fn finish(self) -> Self {
        self
    }
}

/// For figures of one object, whose exact counts know the instruction of none.
impl FoldOf<ObjectAccess> for CollectorFacts {
    const COLUMNS: &'static [&'static str] = ObjectAccess::COLUMNS;

    fn add(&mut self, row: &ObjectAccess, times: Times<'_>, of: &Context<'_>) {
        let is_collectors = of.collectors.has(row.thread, row.site.unwrap_or(NO_SITE));
        self.add_if(is_collectors, (row.node, row.home), times);
    }
}

impl FoldOf<SiteAccess> for CollectorFacts {
    const COLUMNS: &'static [&'static str] =
        &["process", "thread", "node", "site", "home", "class", "reads", "writes", "samples", "period"];

    fn add(&mut self, row: &SiteAccess, times: Times<'_>, of: &Context<'_>) {
        self.add_if(of.collectors.has(row.thread, row.site), (row.node, row.home), times);
    }
}
