//! Sums of an imported profile, where another tool has kept nothing finer: by thread and node, by thread and class, by
//! site and class, by allocation and class. They are margins of the table that an own recording has; what joins them
//! nobody knows, so nothing here invents it.

use crate::facts::placed::FirstTouches;
use crate::model::counts::Counts;
use crate::model::tally::{Rows, Tally};
use numalens_profile::ids::{ObjectId, Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::{ClassSum, NodeAccess};
use numalens_profile::words::Class;
use numalens_profile::{Error, Profile};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// One row of `node_accesses`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub accesses: u64,
    pub allocated: u64,
    pub touched: u64,
}

/// The sums.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ImportedTotals {
    pub nodes: Vec<Cell>,
    pub threads: FxHashMap<ThreadId, ClassSum>,
    pub sites: FxHashMap<SiteId, ClassSum>,
    pub objects: FxHashMap<ObjectId, ClassSum>,
}

/// What analyses say that need more than margins.
pub const MISSING: &str = "this profile was imported from sums by thread, by node and by instruction: it does not have who used which page and when, \
                           which this needs; a recording by numalens has it";

impl ImportedTotals {
    /// Those of a profile; none: it has none.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn load(profile: &Profile, wanted: impl Fn(ProcessId) -> bool) -> Result<Option<ImportedTotals>, Error> {
        if profile.count::<ClassSum>()? == 0 {
            return Ok(None);
        }
        let mut imported = ImportedTotals::default();
        for row in profile.rows::<ClassSum>()?.into_iter().filter(|row| wanted(row.process)) {
            match (row.thread, row.site, row.object) {
                (Some(thread), ..) => add(&mut imported.threads, thread, row),
                (None, Some(site), _) => add(&mut imported.sites, site, row),
                (None, None, Some(object)) => add(&mut imported.objects, object, row),
                (None, None, None) => {}
            }
        }
        let cell = |row: NodeAccess| Cell {
            thread: row.thread,
            node: row.node,
            home: row.home,
            accesses: row.accesses,
            allocated: row.allocated,
            touched: row.touched,
        };
        let rows = profile.rows::<NodeAccess>()?.into_iter().filter(|row| wanted(row.process));
        imported.nodes = rows.map(cell).collect();
        Ok(Some(imported))
    }

    /// Key, class and accesses of sums.
    pub fn rows<K: Copy + Eq + Hash>(sums: &FxHashMap<K, ClassSum>) -> Rows<'_, (K, Class)> {
        Box::new(sums.iter().flat_map(|(key, sum)| {
            classes(sum).map(move |(class, n)| ((*key, class), Tally { reads: n, ..Tally::default() }))
        }))
    }

    /// Pages that a thread touched first. Which of them while it was pinned is what its counts of first touches say;
    /// these count a page again while it has no home, so they may be more than there are pages.
    pub fn touches(&self, thread: ThreadId) -> FirstTouches {
        let touched: u64 = self.nodes.iter().filter(|cell| cell.thread == thread).map(|cell| cell.touched).sum();
        let unpinned = self.threads.get(&thread).map_or(0, |sum| sum.unpinned_first_touch).min(touched);
        FirstTouches { pinned: touched - unpinned, unpinned, unseen: 0, bytes: touched.saturating_mul(Page::BYTES) }
    }
}

/// Adds to what there is: merged profiles share their sites.
fn add<K: Eq + Hash>(sums: &mut FxHashMap<K, ClassSum>, key: K, row: ClassSum) {
    match sums.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(row)),
        Entry::Occupied(mut entry) => {
            let sum = entry.get_mut();
            for (into, n) in [
                (&mut sum.local, row.local),
                (&mut sum.remote, row.remote),
                (&mut sum.unpinned_page, row.unpinned_page),
                (&mut sum.unpinned_thread, row.unpinned_thread),
                (&mut sum.unpinned_both, row.unpinned_both),
                (&mut sum.memory_tier_local, row.memory_tier_local),
                (&mut sum.memory_tier_remote, row.memory_tier_remote),
                (&mut sum.first_touch, row.first_touch),
                (&mut sum.unpinned_first_touch, row.unpinned_first_touch),
            ] {
                *into = into.saturating_add(n);
            }
        }
    }
}

/// A sum by class. What placed a page, or found no page at all, has none but `unplaced`.
pub fn classes(sum: &ClassSum) -> impl Iterator<Item = (Class, u64)> + use<> {
    let unplaced = sum.first_touch.saturating_add(sum.unpinned_first_touch);
    [
        (Class::Local, sum.local),
        (Class::Remote, sum.remote),
        (Class::UnpinnedPage, sum.unpinned_page),
        (Class::UnpinnedThread, sum.unpinned_thread),
        (Class::UnpinnedBoth, sum.unpinned_both),
        (Class::MemoryTierLocal, sum.memory_tier_local),
        (Class::MemoryTierRemote, sum.memory_tier_remote),
        (Class::Unplaced, unplaced),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0)
}

/// The same as counts.
pub fn counts(sum: &ClassSum) -> Counts {
    let mut counts = Counts::default();
    classes(sum).for_each(|(class, n)| counts.add(class, Tally { reads: n, ..Tally::default() }));
    counts
}
