//! All of a huge page is where its first page was accessed first, whoever uses the others, and whatever happens around
//! them.

use super::*;
use numalens_profile::tables::PageAccess;
use numalens_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn parts_of_huge_pages_are_where_their_first_access_placed_them() {
    let lab = Lab::exact();
    let huge = lab.build("exact/huge.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(&lab, &[], &[&huge]);
    let said = recorded.said();
    if said.contains("small") {
        eprintln!("skipped: the kernel makes no huge pages");
        return;
    }
    let mut expected: BTreeMap<(u64, Option<NodeId>), [u64; 2]> = BTreeMap::new();
    for line in said.lines() {
        let [page, home, reads, writes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let page = u64::from_str_radix(page, 16).unwrap();
        let sum = expected.entry((page, home.parse().ok().map(NodeId))).or_default();
        *sum = [sum[0] + reads.parse::<u64>().unwrap(), sum[1] + writes.parse::<u64>().unwrap()];
    }
    let pages: BTreeSet<u64> = expected.keys().map(|(page, _)| *page).collect();
    let profile = recorded.profile();
    let mut found: BTreeMap<(u64, Option<NodeId>), [u64; 2]> = BTreeMap::new();
    for row in profile.rows::<PageAccess>().unwrap().into_iter().filter(|row| pages.contains(&row.page.0)) {
        let sum = found.entry((row.page.0, row.home)).or_default();
        *sum = [sum[0] + row.reads, sum[1] + row.writes];
    }
    let wrong: Vec<_> = expected.iter().filter(|&(key, counts)| found.get(key) != Some(counts)).collect();
    assert_eq!(found, expected, "wrong: {wrong:x?}");
}
