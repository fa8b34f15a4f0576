//! The facts count the same accesses, each with other columns; so per thread their sums are equal, once the recording is
//! complete.

use super::{Checked, Failures, Found};
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use rustc_hash::FxHashMap;

/// Reads, writes, samples. Sums of many `u64` from a file do not overflow these.
type Sums = FxHashMap<(ProcessId, ThreadId), [u128; 3]>;

fn sums<T: Row>(profile: &Profile, fact: fn(&T) -> (ProcessId, ThreadId, u64, u64, u32)) -> Result<Sums, Error> {
    let add = |sums: &mut Sums, row: T| {
        let (process, thread, reads, writes, samples) = fact(&row);
        let sum = sums.entry((process, thread)).or_default();
        *sum = [sum[0] + u128::from(reads), sum[1] + u128::from(writes), sum[2] + u128::from(samples)];
    };
    let merge = |mut left: Sums, right: Sums| {
        for (key, sum) in right {
            let total = left.entry(key).or_default();
            *total = [total[0] + sum[0], total[1] + sum[1], total[2] + sum[2]];
        }
        left
    };
    profile.fold(&["process", "thread", "reads", "writes", "samples"], Sums::default, add, merge)
}

fn exact(sums: &Sums) -> bool {
    sums.values().all(|sum| sum[2] == 0)
}

/// Compares a fact with site accesses, thread by thread.
fn compare(table: &'static str, sums: &Sums, sites: &Sums) -> Option<(&'static str, String)> {
    // Absent facts claim nothing. A sampled subset beside exact counts (objects that share pages) estimates, and may differ.
    if sums.is_empty() || sites.is_empty() || exact(sums) != exact(sites) {
        return None;
    }
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
                "thread {} of process {} has {here} {what}, {by} {more} than the {there} of site_accesses",
                key.1, key.0
            )
        }));
    }
    failures.found(table)
}

pub(super) fn totals(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let sites = sums(profile, |row: &SiteAccess| (row.process, row.thread, row.reads, row.writes, row.samples))?;
    let pages = sums(profile, |row: &PageAccess| (row.process, row.thread, row.reads, row.writes, row.samples))?;
    // A recording of counts that was cut off had threads running while their counters were read, one after another.
    if !profile.meta.complete && exact(&sites) {
        return Ok(Vec::new());
    }
    let objects = sums(profile, |row: &ObjectAccess| (row.process, row.thread, row.reads, row.writes, row.samples))?;
    Ok([compare(PageAccess::TABLE, &pages, &sites), compare(ObjectAccess::TABLE, &objects, &sites)]
        .into_iter()
        .flatten()
        .collect())
}
