//! A thread that goes to and fro between nodes: what it counts on each is what arithmetic says, by site, page and
//! object, and the pinning log has every change.

use super::*;
use numalens_profile::Profile;
use numalens_profile::ids::{SiteId, ThreadId};
use numalens_profile::tables::{ObjectAccess, PageAccess, PlacedPages, Placement, SiteAccess, Thread};
use std::collections::BTreeMap;

/// As in `places.c`.
const TURNS: u64 = 600;
const WORDS: u64 = 512;
const INHERITED: u64 = 3000;
/// The page that is mapped for each turn of the first thread.
const MAPPED: u64 = 0x42_0000_0000 >> 12;

/// Writes by node.
type Writes = BTreeMap<Option<u8>, u64>;

fn add(to: &mut Writes, node: Option<numalens_topology::NodeId>, writes: u64) {
    if writes > 0 {
        *to.entry(node.map(|node| node.0 as u8)).or_default() += writes;
    }
}

/// `three` turns of four on node 0, the others on node 3.
fn to_and_fro(on_0: u64, on_3: u64) -> Writes {
    BTreeMap::from([(Some(0), on_0), (Some(3), on_3)])
}

fn recorded(lab: &Lab, program: &str, options: &[&str], how: Option<&str>) -> Profile {
    let mut recorder = lab.recorder(&[&["--placement", "none"], options].concat());
    if let Some(how) = how {
        recorder.env("NUMALENS_EXACT", how);
    }
    lab.finished(recorder.arg(program)).succeeded().sound().profile()
}

#[test]
fn a_thread_that_goes_to_and_fro_counts_on_each_node_what_it_does_there() {
    let lab = Lab::exact();
    let program = lab.build("exact/places.c", &["-O1", "-g", "-pthread", "-fno-tree-loop-distribute-patterns"]);
    for (how, options) in [(None, &[][..]), (Some("stays"), &[]), (Some("flat"), &[]), (None, &["--objects", "exact"])]
    {
        let profile = recorded(&lab, &program, options, how);
        let case = format!("{how:?} {options:?}");
        let quarter = TURNS / 4 * WORDS;
        // Each function has one store, which all its writes come from.
        let mut by_site: BTreeMap<(SiteId, ThreadId), Writes> = BTreeMap::new();
        for row in profile.rows::<SiteAccess>().unwrap() {
            add(by_site.entry((row.site, row.thread)).or_default(), row.node, row.writes);
        }
        let having = |expected: &Writes| by_site.values().filter(|writes| *writes == expected).count();
        // The first thread, whose page has two more turns on node 3, and in the page of each turn; the other
        // one, in both.
        assert_eq!(having(&to_and_fro(3 * quarter, quarter + 2 * WORDS)), 1, "{case}: {by_site:?}");
        assert_eq!(having(&to_and_fro(3 * quarter, quarter)), 3, "{case}: {by_site:?}");
        // The child of the fork, and what it executes, are where their parent was.
        assert_eq!(having(&BTreeMap::from([(Some(3), INHERITED)])), 2, "{case}: {by_site:?}");

        let mut by_page: BTreeMap<(u32, u64), Writes> = BTreeMap::new();
        let mut away = 0;
        for row in profile.rows::<PageAccess>().unwrap() {
            let page = row.page.0;
            add(by_page.entry((row.process.0, page)).or_default(), row.node, row.writes);
            away += if page == MAPPED && row.node != row.home { row.reads + row.writes } else { 0 };
        }
        assert_eq!(by_page[&(0, MAPPED)], to_and_fro(3 * quarter, quarter), "{case}");
        assert_eq!(away, 0, "{case}: each page is written where it was placed, by whoever placed it");
        let first = by_page.values().filter(|writes| **writes == to_and_fro(3 * quarter, quarter + 2 * WORDS));
        assert_eq!(first.count(), 1, "{case}: {by_page:?}");
        let placed = profile.rows::<PlacedPages>().unwrap().into_iter().filter(|row| row.page.0 == MAPPED);
        assert_eq!(placed.count() as u64, TURNS, "{case}: each turn has its page");

        let mut by_object = Writes::new();
        for row in profile.rows::<ObjectAccess>().unwrap().iter().filter(|row| row.process.0 == 0) {
            add(&mut by_object, row.node, row.writes);
        }
        let all = profile.rows::<PageAccess>().unwrap().into_iter().filter(|row| row.process.0 == 0).fold(
            Writes::new(),
            |mut all, row| {
                add(&mut all, row.node, row.writes);
                all
            },
        );
        assert_eq!(by_object, all, "{case}: objects have what pages have, on each node");
        every_change_is_in_the_pinning_log(&profile, &case);
    }
}

fn every_change_is_in_the_pinning_log(profile: &Profile, case: &str) {
    let placements = profile.rows::<Placement>().unwrap();
    let of = |thread: ThreadId| placements.iter().filter(|row| row.thread == thread).collect::<Vec<_>>();
    let threads = profile.rows::<Thread>().unwrap();
    for thread in threads.iter().filter(|thread| thread.process.0 == 0) {
        let log = of(thread.thread);
        assert!(log.is_sorted_by_key(|row| row.time_ns), "{case}");
        let is_first = thread.thread == threads[0].thread;
        // Where it began; its turns, none of which leaves it where it was; three policies.
        let changes = 1 + TURNS as usize + if is_first { 3 } else { 0 };
        assert_eq!(log.len(), changes, "{case}");
        let turn = |turn: usize| turn + if is_first { 0 } else { 2 };
        for (number, row) in log[1..=TURNS as usize].iter().enumerate() {
            let (cpu, node) = if turn(number) % 4 == 3 { (7, 3) } else { (turn(number) % 2, 0) };
            assert_eq!(
                (row.cpus.as_str(), row.node.map(|node| node.0)),
                (cpu.to_string().as_str(), Some(node)),
                "{case}"
            );
            assert_eq!(row.cause, "sched_setaffinity", "{case}");
        }
        let policies: Vec<&str> = log[TURNS as usize + 1..].iter().map(|row| row.policy.as_str()).collect();
        let told = ["prefer:0", "prefer:1", log[TURNS as usize].policy.as_str()];
        assert_eq!(policies, if is_first { &told[..] } else { &[] }, "{case}");
    }
}
