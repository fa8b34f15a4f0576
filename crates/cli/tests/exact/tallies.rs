//! Groups that are anywhere in a table are counted page by page, while pages go and come.

use super::*;
use numalens_profile::ids::{Page, SiteId};
use numalens_profile::tables::{PageAccess, PlacedPages, SiteAccess};
use numalens_profile::words::Fault;
use numalens_topology::NodeId;
use std::collections::{BTreeMap, HashSet};

/// As in `tallies.c`.
const PAGES: u64 = 2048;
const UPDATES: u64 = 1_500_000;

#[test]
fn updates_at_random_equal_arithmetic_while_pages_go_and_come() {
    let lab = Lab::exact();
    let tallies = lab.build("exact/tallies.c", &["-O2", "-g", "-pthread"]);
    for scheme in SCHEMES {
        let options = ["--machine", "2x2", "--policy", "interleave"];
        let recorded = record_by(&lab, scheme, &options, &[&tallies]);
        let wanted: Vec<u64> = recorded.said().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let profile = recorded.profile();
        let mut by_site: BTreeMap<SiteId, BTreeMap<Option<NodeId>, [u64; 2]>> = BTreeMap::new();
        for row in profile.rows::<SiteAccess>().unwrap() {
            let [reads, writes] = by_site.entry(row.site).or_default().entry(row.home).or_default();
            (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
        }
        let most = |homes: &BTreeMap<_, [u64; 2]>| homes.values().map(|counts| counts[1]).sum::<u64>();
        let (&update, homes) = by_site.iter().max_by_key(|(_, homes)| most(homes)).unwrap();
        assert_eq!(most(homes), 9 * UPDATES, "{scheme}");
        let found: Vec<_> = homes.iter().map(|(home, counts)| (home.unwrap(), *counts)).collect();
        let wanted: Vec<_> = (0..).map(NodeId).zip(wanted.into_iter().map(|count| [count; 2])).collect();
        assert_eq!(found, wanted, "{scheme}");
        // All of the table, and each half once more; in the child; where they were moved to.
        let rows = profile.rows::<PlacedPages>().unwrap();
        let mut touched = BTreeMap::new();
        for row in rows.iter().filter(|row| row.site == Some(update)) {
            *touched.entry(row.fault).or_default() += row.count;
        }
        assert_eq!(
            touched,
            BTreeMap::from([(Fault::Anonymous, 2 * PAGES), (Fault::CopyOnWrite, PAGES), (Fault::None, PAGES)]),
            "{scheme}"
        );
        // Accesses to pages of the table are those of the update, which nothing else comes near.
        let mut pages: BTreeMap<_, [u64; 2]> = BTreeMap::new();
        for row in profile.rows::<PageAccess>().unwrap() {
            let [reads, writes] = pages.entry((row.process, row.page)).or_default();
            (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
        }
        let table: HashSet<_> = rows
            .iter()
            .filter(|row| row.site == Some(update))
            .flat_map(|row| (0..row.count).map(move |page| (row.process, Page(row.page.0 + page))))
            .collect();
        let sum =
            table.iter().filter_map(|page| pages.get(page)).fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        assert_eq!(sum, [9 * UPDATES; 2], "{scheme}");
    }
}
