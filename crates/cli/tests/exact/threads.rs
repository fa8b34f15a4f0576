//! Threads have their names, and are where the program binds them.

use super::*;
use numalens_profile::tables::{SiteAccess, Thread};
use std::collections::BTreeMap;

/// On which nodes a thread (by its number: in the order of their beginnings) has accessed memory, from the table of
/// sites: its many accesses, not the few of its start.
fn nodes_of(recorded: &Recorded, thread: u32) -> Vec<Option<u32>> {
    let profile = recorded.profile();
    let mut counts: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for row in profile.rows::<SiteAccess>().unwrap().iter().filter(|row| row.thread.0 == thread) {
        *counts.entry(row.node.map(|node| u32::from(node.0))).or_default() += row.reads + row.writes;
    }
    counts.into_iter().filter(|&(_, count)| count > 100_000).map(|(node, _)| node).collect()
}

#[test]
fn threads_have_the_names_that_they_had_last() {
    let lab = Lab::exact();
    let program = lab.build("exact/names.c", &["-O1", "-pthread"]);
    for machine in ["4x2", "real"] {
        let recorded = lab.recorded(&["--machine", machine], &[&program]).succeeded();
        let threads = recorded.profile().rows::<Thread>().unwrap();
        let names: Vec<_> = threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["true", "first", "by itself", "by another"], "{machine}");
    }
}

#[test]
fn a_virtual_machine_has_threads_where_the_program_binds_them() {
    let lab = Lab::exact();
    let program = lab.build("exact/affinity.c", &["-O1", "-pthread"]);
    let options = ["--machine", "4x1", "--placement", "none"];
    let recorded = lab.recorded(&options, &[&program]);
    assert_eq!(recorded.said(), "done\n");
    let recorded = recorded.sound();
    for (thread, (name, node)) in
        (0..).zip([("first", None), ("by itself", Some(3)), ("heir", Some(3)), ("by another", Some(2))])
    {
        assert_eq!(nodes_of(&recorded, thread), [node], "{name}");
    }
}
