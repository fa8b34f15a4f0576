//! Numbers of pages that have gone are given again, and what is counted under them is the page's that has them then.

use super::*;
use numalens_profile::tables::{PageAccess, PlacedPages};
use std::collections::BTreeMap;

/// As page_numbers.c is called, and what it does.
const ROUNDS: u64 = 60;
const THREADS: u64 = 2;
const PAGES: u64 = 4096;
const KEPT: u64 = 0x6000_0000_0000 / 4096;

#[test]
fn a_program_may_touch_more_pages_than_there_are_numbers() {
    let lab = Lab::exact();
    let program = lab.build("exact/page_numbers.c", &["-O1", "-g", "-pthread"]);
    let mut command = recorder_in_place(&lab, &[]);
    let command = command.env("NUMALENS_EXACT", "few-pages").args([&program, &ROUNDS.to_string()]);
    let recorded = lab.finished(command).succeeded().sound();
    assert_eq!(recorded.said(), "done\n");
    // More than there are numbers: 262,144.
    let touched = THREADS * ROUNDS * (PAGES + 1);
    let profile = recorded.profile();
    let placed: u64 = profile.rows::<PlacedPages>().unwrap().iter().map(|row| row.count).sum();
    assert!((touched..touched + 1000).contains(&placed), "{placed} of {touched} pages were touched first");
    let meta = &recorded.report()["meta"];
    assert!(!meta.to_string().contains("are not counted"), "{meta}");
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    for row in profile.rows::<PageAccess>().unwrap() {
        if (KEPT..KEPT + THREADS * ROUNDS).contains(&row.page.0) {
            *kept.entry(row.page.0 - KEPT).or_default() += row.writes;
        }
    }
    let expected: BTreeMap<u64, u64> = (0..THREADS * ROUNDS).map(|page| (page, 1000)).collect();
    assert_eq!(kept, expected);
}
