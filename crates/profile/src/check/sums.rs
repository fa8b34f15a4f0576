//! Sums of `page_accesses` that are written with a profile: those of the facts, thread by thread, and of each other.

use super::{Checked, Failures, Found, each_row};
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// Reads and writes of each thread. Sums of many `u64` from a file do not overflow these.
type Sums = FxHashMap<ThreadId, [u128; 2]>;

fn sums<T: Row>(profile: &Profile, of: fn(&T) -> (ThreadId, [u64; 2])) -> Result<Sums, Error> {
    let plus = |sums: &mut Sums, thread: ThreadId, counts: [u128; 2]| {
        let sum = sums.entry(thread).or_default();
        *sum = [sum[0] + counts[0], sum[1] + counts[1]];
    };
    let add = |sums: &mut Sums, row: T| {
        let (thread, counts) = of(&row);
        plus(sums, thread, counts.map(u128::from));
    };
    let merge = |mut left: Sums, right: Sums| {
        right.into_iter().for_each(|(thread, counts)| plus(&mut left, thread, counts));
        left
    };
    profile.fold(&["thread", "reads", "writes"], Sums::default, add, merge)
}

/// A thread has as many accesses in sums as in facts.
pub(super) fn of_threads(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let summed = sums(profile, |row: &PageSum| (row.thread, [row.reads, row.writes]))?;
    // A profile without sums claims nothing.
    if summed.is_empty() {
        return Ok(Vec::new());
    }
    let facts = sums(profile, |row: &PageAccess| (row.thread, [row.reads, row.writes]))?;
    let mut threads: Vec<ThreadId> = summed.keys().chain(facts.keys()).copied().collect();
    threads.sort_unstable();
    threads.dedup();
    let mut failures = Failures::default();
    for thread in threads {
        let [here, there] = [&summed, &facts].map(|sums| sums.get(&thread).copied().unwrap_or_default());
        let differs = ["reads", "writes"].into_iter().zip(here.into_iter().zip(there)).find(|(_, (a, b))| a != b);
        failures.add(differs.map(|(what, (here, there))| {
            format!("thread {thread} has {here} {what} where page_accesses have {there}")
        }));
    }
    Ok(failures.found(PageSum::TABLE).into_iter().chain(of_pages(profile, &facts)?).collect())
}

/// Pages have as many accesses as threads make.
fn of_pages(profile: &Profile, facts: &Sums) -> Result<Option<(&'static str, String)>, Error> {
    let plus = |a: [u128; 2], b: [u128; 2]| [a[0] + b[0], a[1] + b[1]];
    let add = |sum: &mut [u128; 2], row: NodePage| *sum = plus(*sum, [row.reads, row.writes].map(u128::from));
    let here = profile.fold(&["reads", "writes"], || [0; 2], add, plus)?;
    let there = facts.values().copied().fold([0; 2], plus);
    let differs = ["reads", "writes"].into_iter().zip(here.into_iter().zip(there)).find(|(_, (a, b))| a != b);
    let is_there = profile.count::<NodePage>()? > 0;
    Ok(differs.filter(|_| is_there).map(|(what, (here, there))| {
        (NodePage::TABLE, format!("all rows have {here} {what} where page_accesses have {there}"))
    }))
}

/// No part is more than the whole, and rows are those of `pages`.
pub(super) fn of_memory(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let rows = profile.count::<PlacedPages>()?;
    let targets: FxHashSet<u32> = profile.rows::<TargetSum>()?.into_iter().map(|row| row.first_row).collect();
    let no_row = |row: u32| (u64::from(row) >= rows).then(|| format!("row {row} is none of the {rows} of pages"));
    let more = |part: u64, whole: u64, what: &str| (part > whole).then(|| format!("{part} of {whole} accesses {what}"));
    let found = [
        each_row(profile, PageSum::COLUMNS, &|row: &PageSum| {
            (row.first_row.and_then(no_row))
                .or_else(|| more(row.waiting_reads, row.reads, "read and wait"))
                .or_else(|| more(row.waiting_writes, row.writes, "write and wait"))
        })?,
        each_row(profile, TargetSum::COLUMNS, &|row: &TargetSum| {
            no_row(row.first_row)
                .or_else(|| more(row.shared, row.accesses, "are to shared pages"))
                .or_else(|| more(row.cached, row.used, "stay in caches"))
        })?,
        each_row(profile, TargetPart::COLUMNS, &|row: &TargetPart| {
            let is_known = targets.contains(&row.first_row);
            (!is_known).then(|| format!("row {} begins no memory of target_sums", row.first_row))
        })?,
        each_row(profile, ThreadPair::COLUMNS, &|row: &ThreadPair| {
            let is_sum = row.accesses.is_finite() && row.accesses >= 0.0;
            (!is_sum).then(|| format!("threads {} and {} share {} accesses", row.thread, row.other, row.accesses))
        })?,
        each_row(profile, MainUser::COLUMNS, &|row: &MainUser| more(row.own, row.accesses, "are the main user's"))?,
    ];
    Ok(found.into_iter().flatten().collect())
}
