//! Cache lines: what a row says of its own, and that lines, pages and pairs of threads count the same.

use super::{Checked, Failures, Found, each_row};
use crate::LINES_LEFT_OUT;
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use rustc_hash::FxHashMap;

/// Lines of a page.
const LINES: u32 = 64;
/// Words of a line.
const WORDS: u32 = 16;

pub(super) fn rows(checked: &Checked<'_>) -> Found {
    let wrong = |row: &CacheLine| {
        let of = || format!("thread {} in page {:#x}", row.thread, row.page.0);
        if row.line.is_some_and(|line| line >= LINES || row.lines != 1) {
            return Some(format!("line {:?} of {} stands for {} lines", row.line, of(), row.lines));
        }
        if row.lines == 0 {
            return Some(format!("a row of {} stands for no line", of()));
        }
        let more = |what: &str, part: u64, all: u64| {
            (part > all).then(|| format!("{part} {what} of {}, {} more than can be", of(), part - all))
        };
        let contended = row.true_sharing.saturating_add(row.false_sharing);
        let words = row.words_accessed | row.words_written;
        more("transitions between nodes", row.node_transitions, row.transitions)
            .or_else(|| more("transitions that are true or false sharing", contended, row.transitions))
            .or_else(|| (words >> WORDS != 0).then(|| format!("words {words:#x} of {} are beyond the line", of())))
            .or_else(|| {
                let stray = row.words_written & !row.words_accessed;
                (stray != 0).then(|| format!("words {stray:#x} of {} are written and not accessed", of()))
            })
    };
    Ok(each_row(checked.profile, CacheLine::COLUMNS, &wrong)?.into_iter().collect())
}

type Sums = FxHashMap<(ProcessId, ThreadId), [u128; 2]>;

fn sums<T: Row>(
    profile: &Profile,
    columns: &[&str],
    of: fn(&T) -> (ProcessId, ThreadId, [u64; 2]),
) -> Result<Sums, Error> {
    let add = |sums: &mut Sums, row: T| {
        let (process, thread, counts) = of(&row);
        let sum = sums.entry((process, thread)).or_default();
        *sum = [sum[0] + u128::from(counts[0]), sum[1] + u128::from(counts[1])];
    };
    let merge = |mut left: Sums, right: Sums| {
        for (key, sum) in right {
            let total = left.entry(key).or_default();
            *total = [total[0] + sum[0], total[1] + sum[1]];
        }
        left
    };
    profile.fold(columns, Sums::default, add, merge)
}

/// Processes that may have been between one count and the next: they still ran when their tables were read one after
/// the other, or were killed.
pub(super) fn cut_off(profile: &Profile) -> Result<Vec<ProcessId>, Error> {
    let rows = profile.rows::<Process>()?;
    let exited = |row: &Process| row.end.starts_with("exited");
    Ok(rows.into_iter().filter(|row| !exited(row)).map(|row| row.process).collect())
}

/// The first difference between two tables.
fn compare(table: &'static str, (here, there): (&Sums, &Sums), what: [&str; 2], of: &str, skip: &[ProcessId]) -> Found {
    let mut keys: Vec<_> = here.keys().chain(there.keys()).filter(|(process, _)| !skip.contains(process)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut failures = Failures::default();
    for key in keys {
        let [here, there] = [here, there].map(|sums| sums.get(key).copied().unwrap_or_default());
        let differs = what.into_iter().zip(here.into_iter().zip(there)).find(|(_, (here, there))| here != there);
        failures.add(differs.map(|(what, (here, there))| {
            let (by, more) = (here.abs_diff(there), if here > there { "more" } else { "fewer" });
            format!("thread {} of process {} has {here} {what}, {by} {more} than the {there} of {of}", key.1, key.0)
        }));
    }
    Ok(failures.found(table).into_iter().collect())
}

pub(super) fn accesses(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let columns = ["process", "thread", "reads", "writes"];
    let lines = sums(profile, &columns, |row: &CacheLine| (row.process, row.thread, [row.reads, row.writes]))?;
    // They are told when a process ends.
    if lines.is_empty() || !profile.meta.complete || profile.meta.losses.contains_key(LINES_LEFT_OUT) {
        return Ok(Vec::new());
    }
    let pages = sums(profile, &columns, |row: &PageAccess| (row.process, row.thread, [row.reads, row.writes]))?;
    compare(CacheLine::TABLE, (&lines, &pages), ["reads", "writes"], PageAccess::TABLE, &cut_off(profile)?)
}

pub(super) fn communication(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let itself = each_row(profile, &["thread", "other"], &|row: &LineCommunication| {
        (row.thread == row.other).then(|| format!("thread {} communicates with itself", row.thread))
    })?;
    if !profile.meta.complete {
        return Ok(itself.into_iter().collect());
    }
    let lines = sums(profile, &["process", "thread", "transitions"], |row: &CacheLine| {
        (row.process, row.thread, [row.transitions, 0])
    })?;
    let pairs = sums(profile, &["process", "thread", "accesses"], |row: &LineCommunication| {
        (row.process, row.thread, [row.accesses, 0])
    })?;
    let what = ["accesses after others", ""];
    let found = compare(LineCommunication::TABLE, (&pairs, &lines), what, CacheLine::TABLE, &cut_off(profile)?)?;
    Ok(itself.into_iter().chain(found).collect())
}
