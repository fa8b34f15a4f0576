//! Pages are where policies put them, and who asks is told so.

use super::*;

#[test]
fn numa_maps_have_the_machine_s_nodes_and_policies() {
    let lab = Lab::exact();
    let maps = lab.build("machine/maps.c", &["-O1", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &["taskset", "-c", "2", &maps]);
    let wanted = "before: [0 default] [4 bind:2] [8 interleave:1,3] [16 default]\n\
        touched: [0 default anon=4 dirty=4 N1=4 kernelpagesize_kB=4] [4 bind:2 anon=4 dirty=4 N2=4 kernelpagesize_kB=4] \
        [8 interleave:1,3 anon=8 dirty=8 N1=4 N3=4 kernelpagesize_kB=4] [16 default anon=2 dirty=2 N1=2 kernelpagesize_kB=4]\n\
        moved: [0 prefer:2 anon=4 dirty=4 N1=4 kernelpagesize_kB=4] [4 bind:2 anon=10 dirty=10 N2=10 kernelpagesize_kB=4] \
        [16 prefer:2 anon=2 dirty=2 N1=2 kernelpagesize_kB=4]\n\
        of another: [0 prefer:2 anon=4 dirty=4 N1=4 kernelpagesize_kB=4] [4 bind:2 anon=10 dirty=10 N2=10 kernelpagesize_kB=4] \
        [16 prefer:2 anon=2 dirty=2 N1=2 kernelpagesize_kB=4]\n\
        its nodes: 0, 1 -2 2 2 1\n\
        moving them: 0, -13\n";
    assert_eq!(recorded.said(), wanted);
}

#[test]
fn numastat_shows_where_a_process_has_its_memory() {
    let said = script(&["--machine", "4x2"], "numactl --cpunodebind=3 sh -c 'numastat -p $$; true'");
    let total = said.lines().find(|line| line.starts_with("Total")).unwrap_or_else(|| panic!("{said}"));
    let amounts: Vec<f64> = total.split_whitespace().skip(1).map(|amount| amount.parse().unwrap()).collect();
    // Of the shell's memory nearly all is where it runs.
    assert!(amounts.len() == 5 && amounts[3] > 0.0 && amounts[3] > 0.9 * amounts[4], "{said}");
}

#[test]
fn pages_are_where_policies_put_them() {
    let lab = Lab::exact();
    let policies = lab.build("machine/policies.c", &["-O1", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &["taskset", "-c", "2", &policies]);
    let wanted = "not there: -2 -2 -2 -2 -2 -2 -2 -2\n\
        first touch: 1 1 1 1 1 1 1 1\n\
        bound: 3 3 3 3 3 3 3 3\n\
        preferred: 2 2 2 2 2 2 2 2\n\
        local: 1 1 1 1 1 1 1 1\n\
        interleaved memory: in turn\n\
        preferred, many: 1 1 1 1 1 1 1 1\n\
        its policy: mode 5, nodes 0xa\n\
        interleaved thread: in turn\n\
        the thread's policy: mode 3, nodes 0xf\n\
        bound thread: 2 2 2 2 2 2 2 2\n\
        the thread's policy: mode 0x8002, nodes 0x4\n\
        allowed: 0xf\n\
        moved by mbind: 1 1 1 1 1 1 1 1\n\
        strict: -1 Input/output error\n\
        moved one by one: 0 1 2 3 0 1 2 3\n\
        migrated: 0\n\
        migrated: 3 3 3 3 3 3 3 3\n\
        still there: 3 3 3 3 3 3 3 3\n\
        a node that is not there: -1 No such device, -1 Invalid argument, -1 Invalid argument\n\
        a mode that is not there: -1 Invalid argument\n\
        memory that is not there: -1 Bad address\n\
        a home: 0, -1 Operation not supported\n\
        libnuma: 4 nodes, 8 CPUs, CPU 5 on 2, distance 20, 10\n\
        allocated on node 1: 1 1 1 1 1 1 1 1\n\
        allocated interleaved: in turn\n\
        moved by libnuma: 2 2 2 2 2 2 2 2\n";
    assert_eq!(recorded.said(), wanted);
    // All of it by a thread on node 1; the many writes after the migration go to node 3.
    let matrix = recorded.matrix();
    assert!(matrix[1][3] > 1 << 17, "{matrix:?}");
    assert!([0, 2, 3].iter().all(|&node: &usize| matrix[node].iter().sum::<u64>() < 1 << 17), "{matrix:?}");
}

#[test]
fn rules_are_the_kernels() {
    let lab = Lab::exact();
    let rules = lab.build("machine/rules.c", &["-O1", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&rules]);
    let wanted = "in their places: 22\nwithout a policy: 0 0 2\nwith one: -1 EFAULT\nnobody: -1 ESRCH -1 ESRCH\n";
    assert_eq!(recorded.said(), wanted);
}

#[test]
fn numactl_places_threads_and_pages() {
    let lab = Lab::exact();
    let writes = lab.build("machine/writes.c", &["-O1"]);
    const WRITES: u64 = 4 << 17;
    let matrix = |options: &[&str]| {
        let command: Vec<&str> = ["numactl"].iter().chain(options).chain([&writes.as_str()]).copied().collect();
        record(&lab, &["--machine", "4x4"], &command).matrix()
    };
    let apart = matrix(&["--cpunodebind=1", "--membind=2"]);
    assert!(apart[1][2] >= WRITES && apart[0][0] < WRITES && apart[2][2] == 0, "{apart:?}");
    let interleaved = matrix(&["--interleave=all", "--cpunodebind=3"]);
    assert!(interleaved[3].iter().all(|&count| count > WRITES / 4 - 20_000), "{interleaved:?}");
    let preferred = matrix(&["--preferred=3", "--physcpubind=8"]);
    assert!(preferred[2][3] >= WRITES, "{preferred:?}");
}
