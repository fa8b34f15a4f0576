//! The facts count the same accesses, each with other columns; so per thread, and per node that it was bound to, their
//! sums are equal, once the recording is complete.

use super::{Checked, Failures, Found};
use crate::NODES_INFERRED;
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// Who, while bound to which node.
type Key = (ProcessId, ThreadId, Option<NodeId>);
/// Reads, writes, samples. Sums of many `u64` from a file do not overflow these.
type Sums = FxHashMap<Key, [u128; 3]>;

fn sums<T: Row>(profile: &Profile, fact: fn(&T) -> (Key, u64, u64, u32)) -> Result<Sums, Error> {
    let add = |sums: &mut Sums, row: T| {
        let (key, reads, writes, samples) = fact(&row);
        let sum = sums.entry(key).or_default();
        *sum = [sum[0] + u128::from(reads), sum[1] + u128::from(writes), sum[2] + u128::from(samples)];
    };
    let merge = |mut left: Sums, right: Sums| {
        for (key, sum) in right {
            let total = left.entry(key).or_default();
            *total = [total[0] + sum[0], total[1] + sum[1], total[2] + sum[2]];
        }
        left
    };
    profile.fold(&["process", "thread", "node", "reads", "writes", "samples"], Sums::default, add, merge)
}

/// The same, whatever the node.
fn by_thread(sums: &Sums) -> Sums {
    let mut threads = Sums::default();
    for ((process, thread, _), sum) in sums {
        let total = threads.entry((*process, *thread, None)).or_default();
        *total = [total[0] + sum[0], total[1] + sum[1], total[2] + sum[2]];
    }
    threads
}

fn exact(sums: &Sums) -> bool {
    sums.values().all(|sum| sum[2] == 0)
}

/// Compares a fact with site accesses, thread by thread, and if it tells them, node by node.
fn compare(table: &'static str, sums: &Sums, sites: &Sums, tells_nodes: bool) -> Option<(&'static str, String)> {
    // Absent facts claim nothing. A sampled subset beside exact counts (objects that share pages) estimates, and may
    // differ.
    if sums.is_empty() || sites.is_empty() || exact(sums) != exact(sites) {
        return None;
    }
    let of_threads = differing(&by_thread(sums), &by_thread(sites), |_| String::new());
    let of_nodes = || {
        let node = |node: Option<NodeId>| match node {
            Some(node) => format!(" while bound to node {node}"),
            None => " while unpinned".to_owned(),
        };
        if tells_nodes { differing(sums, sites, node) } else { Failures::default() }
    };
    of_threads.found(table).or_else(|| of_nodes().found(table))
}

/// `place` says where a thread was.
fn differing(sums: &Sums, sites: &Sums, place: impl Fn(Option<NodeId>) -> String) -> Failures {
    let mut keys: Vec<_> = sums.keys().chain(sites.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let mut failures = Failures::default();
    for key in keys {
        let [here, there] = [sums, sites].map(|sums| sums.get(&key).copied().unwrap_or_default());
        let differs = ["reads", "writes", "samples"]
            .into_iter()
            .zip(here.into_iter().zip(there))
            .find(|(_, (here, there))| here != there);
        failures.add(differs.map(|(what, (here, there))| {
            let (by, more) = (here.abs_diff(there), if here > there { "more" } else { "fewer" });
            format!(
                "thread {} of process {} has {here} {what}{}, {by} {more} than the {there} of site_accesses",
                key.1,
                key.0,
                place(key.2)
            )
        }));
    }
    failures
}

pub(super) fn totals(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    macro_rules! sums_of {
        ($table:ty) => {
            sums(profile, |row: &$table| ((row.process, row.thread, row.node), row.reads, row.writes, row.samples))?
        };
    }
    let (sites, pages) = (sums_of!(SiteAccess), sums_of!(PageAccess));
    // A recording of counts that was cut off had threads running while their counters were read, one after another.
    if !profile.meta.complete && exact(&sites) {
        return Ok(Vec::new());
    }
    let objects = sums_of!(ObjectAccess);
    let of_pages = profile.has_column::<PageAccess>("node") && !profile.meta.extra.contains_key(NODES_INFERRED);
    let wrong =
        [compare(PageAccess::TABLE, &pages, &sites, of_pages), compare(ObjectAccess::TABLE, &objects, &sites, true)];
    Ok(wrong.into_iter().flatten().collect())
}
