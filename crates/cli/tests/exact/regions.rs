//! Within any budget of memory sums are the same; what is given up is which page of a region it was.

use super::*;
use numalens_profile::ids::ObjectId;
use numalens_profile::tables::{Object, ObjectAccess, PageAccess, PlacedPages, SiteAccess};
use numalens_profile::words::ObjectKind;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// As regions.c is called: so that it lasts some hundred polls.
const THREADS: u64 = 8;
const UPDATES: u64 = 300_000;

/// Reads and writes by something.
type Sums = BTreeMap<String, [u64; 2]>;

fn sums<K: Debug>(rows: impl Iterator<Item = (K, [u64; 2])>) -> Sums {
    let mut sums = Sums::new();
    for (key, counts) in rows {
        let sum = sums.entry(format!("{key:?}")).or_default();
        *sum = [sum[0] + counts[0], sum[1] + counts[1]];
    }
    sums
}

/// What does not depend on the budget.
#[derive(PartialEq, Eq, Debug)]
struct Exact {
    /// Accesses at sites that update the program's arrays, by thread, nodes and class.
    sites: Sums,
    /// Pages of the arrays, in the order of their creation, by where they are.
    placed: Sums,
}

/// What a recording knows of the program.
struct Found {
    exact: Exact,
    /// Accesses to each array.
    arrays: Sums,
    rows: usize,
    coarsened: String,
}

impl Found {
    fn of(recorded: &Recorded) -> Self {
        let profile = recorded.profile();
        let objects = profile.rows::<Object>().unwrap().into_iter();
        let arrays = objects.filter(|object| object.kind == ObjectKind::Heap && object.size >= 16 << 20);
        let mut arrays: Vec<ObjectId> = arrays.map(|object| object.object).collect();
        arrays.sort_unstable();
        let array = |object: ObjectId| arrays.iter().position(|array| *array == object);
        let accesses = profile.rows::<ObjectAccess>().unwrap();
        let sites = profile.rows::<SiteAccess>().unwrap();
        let placed = profile.rows::<PlacedPages>().unwrap();
        // What else there is of accesses is the loader's and the library's, a few thousand.
        let mut by_site: BTreeMap<_, u64> = BTreeMap::new();
        for row in &sites {
            *by_site.entry(row.site).or_default() += row.reads + row.writes;
        }
        let sites = sites.iter().filter(|row| by_site[&row.site] >= THREADS * UPDATES).map(|row| {
            let key = (row.process, row.thread, row.node, row.home, row.class);
            (key, [row.reads, row.writes])
        });
        let placed =
            placed.iter().filter_map(|row| Some(((array(row.object?)?, row.process, row.home), [row.count, 0])));
        let accesses = accesses.iter().filter_map(|row| Some((array(row.object)?, [row.reads, row.writes])));
        Found {
            exact: Exact { sites: sums(sites), placed: sums(placed) },
            arrays: sums(accesses),
            rows: profile.rows::<PageAccess>().unwrap().len(),
            coarsened: recorded.report()["meta"]["coarsened"].to_string(),
        }
    }
}

#[test]
fn sums_are_the_same_within_any_budget() {
    let lab = Lab::exact();
    let regions = lab.build("exact/regions.c", &["-O1", "-g", "-pthread"]);
    let (threads, updates) = (THREADS.to_string(), UPDATES.to_string());
    let within = |budget: &str| {
        let options = ["--policy", "interleave", "--memory-budget", budget];
        let mut command = recorder_in_place(&lab, &options);
        let recorded = lab.finished(command.args([&regions, &threads, &updates])).succeeded().sound();
        assert_eq!(recorded.said(), "0\n");
        Found::of(&recorded)
    };
    let (fine, coarse) = (within("4G"), within("1k"));
    assert!(!fine.coarsened.contains("regions"), "{}", fine.coarsened);
    assert!(coarse.coarsened.contains("known by regions of 2 MiB"), "{}", coarse.coarsened);
    assert!(coarse.rows < fine.rows, "{} rows, without regions {}", coarse.rows, fine.rows);
    assert_eq!(coarse.exact, fine.exact);
    let all = |sums: &Sums| sums.values().fold([0, 0], |all, counts| [all[0] + counts[0], all[1] + counts[1]]);
    // Rounds of all threads; the child's are reads.
    let [reads, writes] = [7 * THREADS * UPDATES, 6 * THREADS * UPDATES];
    assert_eq!(all(&fine.exact.sites)[0], reads);
    // Whose the pages at their ends are depends on when the collector looks, with and without regions.
    let is_near = |one: u64, other: u64| one.abs_diff(other) <= other / 1000;
    for (array, counts) in &fine.arrays {
        let others = coarse.arrays[array];
        assert!((0..2).all(|kind| is_near(others[kind], counts[kind])), "{array}: {counts:?}, by regions {others:?}");
    }
    let of_arrays = all(&fine.arrays);
    assert!(is_near(of_arrays[0], reads) && of_arrays[1] > writes, "{of_arrays:?}");
}

#[test]
fn pages_that_nodes_have_in_turn_do_not_share_a_region() {
    let lab = Lab::exact();
    let program = lab.build("exact/in_turn.c", &["-O1", "-g", "-pthread"]);
    let mut command = recorder_in_place(&lab, &["--memory-budget", "1k"]);
    let recorded = lab.finished(command.args([&program, "128", "8", "60"])).succeeded().sound();
    let report = recorded.report();
    assert!(report["meta"]["coarsened"].to_string().contains("known by regions of 2 MiB"), "{}", report["meta"]);
    let exclusivity = &report["summary"]["application_exclusivity"];
    assert!(exclusivity.as_f64().is_some_and(|share| share > 95.0), "{exclusivity}");
    // Though what a thread has of a region is counted as one page, it is more than a cache keeps.
    assert_eq!(report["verdict"]["pattern"], "serial-initialisation", "{}", report["verdict"]);
}
