//! Accesses that missed the private cache of their thread, of recordings with one.
//!
//! By thread and by instruction. Which object a miss belongs to is not known, so tables of objects, and figures of one
//! object, do without.

use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::tally::{MOST, sum};
use numalens_profile::ids::{SiteId, ThreadId};
use numalens_profile::tables::SiteMiss;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Reads and writes that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Missed {
    pub reads: u64,
    pub writes: u64,
}

impl Missed {
    /// Both.
    pub fn accesses(self) -> u64 {
        self.reads + self.writes
    }
}

impl std::ops::AddAssign for Missed {
    fn add_assign(&mut self, other: Self) {
        *self = Missed { reads: sum(self.reads, other.reads), writes: sum(self.writes, other.writes) };
    }
}

/// `site_misses`, summed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Misses {
    pub threads: FxHashMap<ThreadId, Missed>,
    pub sites: FxHashMap<SiteId, Missed>,
}

impl Misses {
    /// Of everything.
    pub fn total(&self) -> Missed {
        self.threads.values().fold(Missed::default(), |mut sum, missed| {
            sum += *missed;
            sum
        })
    }
}

impl Fold for Misses {
    type Facts = Self;
    const NEED: Need = Need::Sites;

    fn merge(mut self, other: Self) -> Self {
        fn add<K: Eq + Hash>(to: &mut FxHashMap<K, Missed>, from: FxHashMap<K, Missed>) {
            from.into_iter().for_each(|(key, missed)| *to.entry(key).or_default() += missed);
        }
        add(&mut self.threads, other.threads);
        add(&mut self.sites, other.sites);
        self
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<SiteMiss> for Misses {
    const COLUMNS: &'static [&'static str] = &["process", "thread", "site", "reads", "writes"];

    fn add(&mut self, row: &SiteMiss, _: Times<'_>, _: &Context<'_>) {
        let missed = Missed { reads: row.reads.min(MOST), writes: row.writes.min(MOST) };
        *self.threads.entry(row.thread).or_default() += missed;
        *self.sites.entry(row.site).or_default() += missed;
    }
}
