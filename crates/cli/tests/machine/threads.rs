//! Threads are where they bind themselves, and whoever comes from them.

use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn threads_are_where_they_bind_themselves() {
    let lab = Lab::exact();
    let wanted = "first: cpus 0 1 2 3 4 5 6 7, on 0 of node 0, all say\n\
        bound: cpus 6 7, on 6 of node 3, all say\n\
        heir: cpus 6 7, on 7 of node 3, all say\n\
        bound by another: cpus 2 3, on 2 of node 1, all say\n\
        heir: cpus 5, on 5 of node 2, all say\n\
        a CPU that is not there: -1, errno 22\n\
        too short a mask: -1, no thread: -1\n\
        as before: cpus 6 7, on 6 of node 3, all say\n\
        everywhere: cpus 0 1 2 3 4 5 6 7, on 0 of node 0, all say\n\
        CPUs: 8\n";
    for flags in [&["-O1", "-pthread"][..], &["-O1", "-pthread", "-static"]] {
        let seats = lab.build("machine/seats.c", flags);
        let recorded = record(&lab, &["--machine", "4x2"], &[&seats]);
        assert_eq!(recorded.said(), wanted, "{flags:?}");
    }
}

#[test]
fn nobody_is_lost_between_a_place_and_the_next() {
    let lab = Lab::exact();
    let inherited = lab.build("machine/inherited.c", &["-O1", "-pthread"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&inherited]);
    let wanted = "by another thread: 5\nforked: 0 wrong\nwhile policies change: 0 wrong, at last 3\nspawned: 0 wrong\n\
        ended: 0 open\nby its path alone: 6\nwith small files: 7\n";
    assert_eq!(recorded.said(), wanted);
    let spread = record(&lab, &["--machine", "4x2"], &[&inherited, "spread"]);
    // One after the other: who has ended keeps no place.
    assert_eq!(spread.said(), "1 1 1 1 1 1 ");
    let script = |interpreter: &str, name: &str| {
        let path = lab.at(name);
        std::fs::write(&path, format!("#!{interpreter}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let first = script(&format!("{inherited} show"), "first");
    let deepest = (0..4).fold(first, |before, number| script(&before, &number.to_string()));
    let said = super::script(&["--machine", "4x2"], &format!("taskset -c 4 {deepest}"));
    assert!(said.ends_with("first: 4\n"), "{said}");
}

#[test]
fn where_there_are_more_cpus_than_the_host_has_runtimes_are_told_to_wait_patiently() {
    let more = std::thread::available_parallelism().unwrap().get().div_ceil(4) + 1;
    let text = "echo $OMP_WAIT_POLICY,$OMPI_MCA_mpi_yield_when_idle";
    assert_eq!(script(&["--machine", &format!("4x{more}")], text), "passive,1\n");
    assert_eq!(script(&["--machine", "1x1"], text), ",\n");
}

#[test]
fn openmp_threads_land_in_their_places() {
    let lab = Lab::exact();
    let places = lab.build("machine/places.c", &["-O1", "-fopenmp"]);
    let script = format!(
        "export OMP_WAIT_POLICY=passive OMP_DISPLAY_AFFINITY=true OMP_AFFINITY_FORMAT='thread %n on %A'; OMP_PLACES=cores OMP_PROC_BIND=close {places}; echo; OMP_PLACES=sockets OMP_PROC_BIND=spread {places}"
    );
    let recorded = record(&lab, &["--machine", "4x2"], &["/bin/sh", "-c", &script]);
    let mut affinity: Vec<String> = recorded.outcome.stderr.lines().map(str::to_owned).collect();
    affinity.sort();
    affinity.dedup();
    let wanted = [
        "thread 0 on 0",
        "thread 0 on 0,1",
        "thread 1 on 1",
        "thread 1 on 2,3",
        "thread 2 on 2",
        "thread 2 on 4,5",
        "thread 3 on 3",
        "thread 3 on 6,7",
    ];
    assert_eq!(affinity.iter().map(|line| line.replace('-', ",")).collect::<Vec<_>>(), wanted, "{affinity:?}");
    assert_eq!(recorded.said(), "8 places of 1 CPUs, 8 CPUs\n\n4 places of 2 CPUs, 8 CPUs\n");
    // Two threads each on nodes 0 and 1, then one on each node; each with its own memory.
    const WRITES: u64 = 1 << 17;
    let matrix = recorded.matrix();
    for (node, threads) in [3, 3, 1, 1].into_iter().enumerate() {
        let own = matrix[node][node];
        // The shell and the loaders run on some of them.
        assert!((threads * WRITES..(threads + 1) * WRITES).contains(&own), "node {node}: {matrix:?}");
    }
}
