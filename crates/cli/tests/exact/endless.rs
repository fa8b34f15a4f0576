//! Programs that make code all the time: translations are given up and their memory is used again, while threads go on,
//! and no count is lost.

use super::*;
use numalens_profile::ids::Page;
use numalens_profile::tables::PageAccess;
use std::collections::BTreeMap;

/// In each of two rounds.
const FUNCTIONS: u64 = 10_000;

/// What the process may grow by in the second round, in KiB. Translations of so many functions take some 18 MiB.
const GROWTH: i64 = 10 << 10;

fn keeps_little(how: &str) {
    let lab = Lab::exact();
    let program = lab.build("exact/endless.c", &["-O1", "-pthread"]);
    let mut recorder = lab.recorder(&["--machine", "default"]);
    recorder.args([&program, how, &FUNCTIONS.to_string()]).env("NUMALENS_CODE_CACHE", "2");
    let recorded = lab.finished(&mut recorder).succeeded();
    let calls = 2 * FUNCTIONS;
    assert_eq!(recorded.said(), format!("{calls} calls, right\n"));
    let grown: i64 = recorded.outcome.stderr.trim().parse().unwrap();
    assert!(grown < GROWTH, "{how}: grown by {grown} KiB");

    // Each call reads and writes the cell twice, and it is read twice at the end. It is alone on its page.
    let mut pages: BTreeMap<Page, (u64, u64)> = BTreeMap::new();
    for row in recorded.profile().rows::<PageAccess>().unwrap() {
        let sum = pages.entry(row.page).or_default();
        *sum = (sum.0 + row.reads, sum.1 + row.writes);
    }
    let cell = pages.values().filter(|&&counts| counts == (2 * calls + 2, 2 * calls)).count();
    assert_eq!(cell, 1, "{how}: no page was read {} times", 2 * calls + 2);
}

#[test]
fn code_that_is_written_over_is_not_kept() {
    keeps_little("over");
}

#[test]
fn code_that_is_unmapped_is_not_kept() {
    keeps_little("unmap");
}

#[test]
fn of_too_much_code_the_oldest_is_given_up() {
    keeps_little("keep");
}

#[test]
fn a_limit_that_is_none_is_refused() {
    let mut recorder = numalens(&["record", "--engine", "exact", "--", "/bin/true"]);
    let told = failure(recorder.env("NUMALENS_CODE_CACHE", "much"), 125);
    assert!(told.contains("NUMALENS_CODE_CACHE"), "{told}");
}
