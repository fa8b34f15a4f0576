//! Accesses that missed a cache: no more than were made, and as many by page as by site.

use super::{Checked, Failures, Found, lines};
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use crate::words::Class;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Reads and writes.
type Sums<K> = FxHashMap<K, [u128; 2]>;
type ByClass = (ThreadId, SiteId, Class);

fn sums<T: Row, K: Eq + Hash + Send>(
    profile: &Profile,
    columns: &[&str],
    of: fn(&T) -> (K, [u64; 2]),
) -> Result<Sums<K>, Error> {
    let plus = |sums: &mut Sums<K>, key: K, counts: [u128; 2]| {
        let sum = sums.entry(key).or_default();
        *sum = [sum[0] + counts[0], sum[1] + counts[1]];
    };
    let add = |sums: &mut Sums<K>, row: T| {
        let (key, counts) = of(&row);
        plus(sums, key, counts.map(u128::from));
    };
    let merge = |mut left: Sums<K>, right: Sums<K>| {
        right.into_iter().for_each(|(key, counts)| plus(&mut left, key, counts));
        left
    };
    profile.fold(columns, Sums::default, add, merge)
}

pub(super) fn misses(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let by_class = ["thread", "site", "class", "reads", "writes"];
    let missed: Sums<ByClass> =
        sums(profile, &by_class, |row: &SiteMiss| ((row.thread, row.site, row.class), [row.reads, row.writes]))?;
    // While programs run, one table is read after the other.
    if missed.is_empty() || !profile.meta.complete {
        return Ok(Vec::new());
    }
    let made: Sums<ByClass> =
        sums(profile, &by_class, |row: &SiteAccess| ((row.thread, row.site, row.class), [row.reads, row.writes]))?;
    let mut failures = Failures::default();
    let mut keys: Vec<&ByClass> = missed.keys().collect();
    keys.sort_unstable();
    for key in keys {
        let made = made.get(key).copied().unwrap_or_default();
        let more = missed[key].into_iter().zip(made).find(|(missed, made)| missed > made);
        failures.add(more.map(|(missed, made)| {
            let (thread, site, class) = key;
            let class = class.word();
            format!("{missed} accesses of thread {thread} at site {site} miss, of {made} that it made ({class})")
        }));
    }
    let by_thread = ["process", "thread", "reads", "writes"];
    let sites = sums(profile, &by_thread, |row: &SiteMiss| ((row.process, row.thread), [row.reads, row.writes]))?;
    let pages = sums(profile, &by_thread, |row: &PageMiss| ((row.process, row.thread), [row.reads, row.writes]))?;
    let skip = lines::cut_off(profile)?;
    let mut differ = Failures::default();
    let mut threads: Vec<&(ProcessId, ThreadId)> = sites.keys().chain(pages.keys()).collect();
    threads.sort_unstable();
    threads.dedup();
    for key in threads.into_iter().filter(|(process, _)| !skip.contains(process)) {
        let thread = key.1;
        let [here, there] = [&pages, &sites].map(|sums| sums.get(key).copied().unwrap_or_default());
        let wrong = here.into_iter().zip(there).find(|(here, there)| here != there);
        differ.add(
            wrong.map(|(here, there)| format!("{here} accesses of thread {thread} miss by page, and {there} by site")),
        );
    }
    Ok([failures.found(SiteMiss::TABLE), differ.found(PageMiss::TABLE)].into_iter().flatten().collect())
}
