//! What tools and programs see of the machine.

use super::*;
use std::path::Path;
use std::process::Command;

#[test]
fn files_that_are_made_are_open_as_the_kernels_are() {
    let lab = Lab::exact();
    let program = lab.build("machine/modes.c", &["-O1"]);
    let native = output(&mut native(&program));
    let recorded = record(&lab, &["--machine", "4x2"], &[&program]);
    assert_eq!(recorded.said(), native.stdout);
}

#[test]
fn numactl_shows_the_machine() {
    let said = script(&["--machine", "4x4"], "numactl --hardware; numactl --show; numactl -N 1 -m 2 numactl --show");
    for line in [
        "available: 4 nodes (0-3)",
        "node 0 cpus: 0 1 2 3",
        "node 3 cpus: 12 13 14 15",
        "node   0   1   2   3 ",
        "  2:  20  20  10  20 ",
        "policy: default",
        "physcpubind: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ",
        "cpubind: 0 1 2 3 ",
        "membind: 0 1 2 3 ",
        "policy: bind",
        "physcpubind: 4 5 6 7 ",
        "nodebind: 1 ",
        "membind: 2 ",
    ] {
        assert!(said.lines().any(|found| found == line), "`{line}` in {said}");
    }
}

#[test]
fn a_preset_is_seen_with_its_distances() {
    let said = script(&["--machine", "togian"], "numactl --hardware; nproc; taskset -cp $$; getconf _NPROCESSORS_ONLN");
    for line in [
        "available: 8 nodes (0-7)",
        "node 7 cpus: 56 57 58 59 60 61 62 63",
        "node 0 size: 8192 MB",
        "  0:  10  16  16  22  16  22  16  22 ",
        "64",
    ] {
        assert!(said.lines().any(|found| found == line), "`{line}` in {said}");
    }
    assert_eq!(said.lines().filter(|&line| line == "64").count(), 2, "{said}");
    assert!(said.contains("current affinity list: 0-63"), "{said}");
}

#[test]
fn hwloc_lscpu_and_python_see_the_machine() {
    let text = "lstopo-no-graphics --no-io --of console; lscpu; taskset -c 5,9 nproc; cat /proc/self/status; grep -c ^processor /proc/cpuinfo;\n\
        cd /sys/devices/system/node && cat node2/cpulist && ls -d node?;\n\
        python3 -c 'import os; print(os.cpu_count(), sorted(os.sched_getaffinity(0))); os.sched_setaffinity(0, {6}); print(os.sched_getaffinity(0))'";
    let said = script(&["--machine", "4x4"], text);
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("NUMANode L#"), count("Package L#"), count("PU L#")), (4, 4, 16), "{said}");
    for line in [
        "NUMA node3 CPU(s):",
        "Cpus_allowed:\tffff",
        "Cpus_allowed_list:\t0-15",
        "Mems_allowed_list:\t0-3",
        "8-11",
        "node3",
        "16 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]",
        "{6}",
    ] {
        assert!(said.lines().any(|found| found.starts_with(line)), "`{line}` in {said}");
    }
    assert_eq!(said.lines().filter(|&line| line == "2").count(), 1, "nproc: {said}");
    assert_eq!(said.lines().filter(|&line| line == "16").count(), 1, "cpuinfo: {said}");
}

/// hwloc made a group of the CPUs that the host's devices are near to, which are others here.
#[test]
fn processes_are_on_their_cpus_and_devices_near_all() {
    let text = "taskset -c 6 ps -o psr= -p $$; taskset -c 6 sh -c 'cut -d \" \" -f 39 /proc/$$/stat; cut -d \" \" -f 39 /proc/thread-self/stat'\n\
        hwloc-bind pu:5 -- hwloc-bind --get-last-cpu-location\n\
        for near in /sys/bus/pci/devices/*/local_cpulist; do [ ! -e $near ] || cat $near | grep -v 0-7; done; lstopo-no-graphics --of console";
    let said = script(&["--machine", "4x2"], text);
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    // The shell is on the first node.
    assert_eq!(lines[..4], ["0", "6", "6", "0x00000020"], "{said}");
    assert!(lines[4].starts_with("Machine"), "a device that is near some only: {said}");
    assert!(!said.contains("Group"), "{said}");
}

#[test]
fn whoever_descends_comes_into_the_machine() {
    let lab = Lab::exact();
    let descend = lab.build("machine/descend.c", &["-O1"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&descend]);
    let wanted = "root: 0-3\n\
        devices: 0-7\n\
        system: 0-3\n\
        node: 2-3\n\
        up in it: 4-5\n\
        up and down: 0-7\n\
        up and up: 0-3\n\
        through a link: 0-1\n\
        through two: 0-7\n\
        past it: Linux\n\
        out of it: Linux\n\
        from elsewhere: 0-3\n\
        the same folders: 1\n\
        there: 0, not there: -1\n\
        a link: ../../cpu/cpu4\n\
        Cpus_allowed_list:\t0-7\n\
        in /sys/devices/system/cpu/cpu3, 0\n\
        below: 1\n\
        beside: 2\n\
        in /sys/devices/system, 0\n\
        again: 0-7\n\
        in /sys/devices/system/node, 0\n\
        and again: 0-3\n\
        too short: 0\n";
    assert_eq!(recorded.said(), wanted);
    let text = "find /sys/devices/system -name cpulist | sort; find /sys/devices/system/cpu -maxdepth 1 -name 'cpu?' | wc -l;\n\
        ls -R /sys/devices/system | grep -c ^cpulist; cd /sys/devices/system/node && find . -path './node?/distance' | wc -l;\n\
        cd ../cpu && cat cpu7/topology/physical_package_id && cd /proc && grep -c ^processor cpuinfo && cd self && grep Mems_allowed_list status;\n\
        python3 -c 'import os; f = os.open(\"/sys/devices\", os.O_RDONLY); print(os.read(os.open(\"system/node/online\", os.O_RDONLY, dir_fd=f), 9))'";
    let said = script(&["--machine", "4x2"], text);
    let nodes: String = (0..4).map(|node| format!("/sys/devices/system/node/node{node}/cpulist\n")).collect();
    assert_eq!(said, nodes + "8\n4\n4\n3\n8\nMems_allowed_list:\t0-3\nb'0-3\\n'\n");
}

#[test]
fn the_machine_has_the_memory_of_its_nodes() {
    let text = "cat /sys/devices/system/node/node*/meminfo | sed -n 's/.*MemTotal: *//p'; sed -n 's/^MemTotal: *//p' /proc/meminfo;\n\
        grep -c . /proc/meminfo; python3 -c 'import os; print(os.sysconf(\"SC_PHYS_PAGES\") * os.sysconf(\"SC_PAGE_SIZE\") // 1024)'";
    for machine in ["togian", "4x2"] {
        let said = script(&["--machine", machine], text);
        let mut amounts = said.lines().map(|line| line.trim_end_matches(" kB").parse::<u64>().unwrap()).rev();
        let (pages, lines, total) = (amounts.next().unwrap(), amounts.next().unwrap(), amounts.next().unwrap());
        assert_eq!((total, pages / 4), (amounts.sum(), total / 4), "{said}");
        let host = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert_eq!(lines, host.lines().count() as u64);
    }
}

#[test]
fn the_processor_tells_the_machine() {
    let lab = Lab::exact();
    let processor = lab.build("machine/processor.c", &["-O1"]);
    for (nodes, cores, bits) in [(4, 2, 1), (3, 3, 2), (2, 1, 0)] {
        let recorded = record(&lab, &["--machine", &format!("{nodes}x{cores}")], &[&processor]);
        let said = recorded.said();
        assert_eq!(said.lines().count(), nodes * cores, "{said}");
        for (cpu, line) in said.lines().enumerate() {
            let (package, core) = (cpu / cores, cpu % cores);
            let (id, several) = (package << bits | core, u32::from(cores > 1));
            let told = format!("{cpu}: id {id}, several {several}, limit {:#x}", package << 12 | cpu);
            let levels = format!(", core {core} of {cores} in package {package}");
            assert!(line == told || line == told.clone() + &levels, "`{line}` is not `{told}{levels}`");
        }
    }
    let native = output(&mut native(&processor));
    let recorded = record(&lab, &["--machine", "real"], &[&processor]);
    assert_eq!(recorded.said(), native.stdout);
}

/// They bind themselves to one CPU after the other and ask it what it is.
#[test]
fn who_asks_the_processor_sees_the_machine() {
    let hwloc = "HWLOC_COMPONENTS=x86,stop lstopo-no-graphics --no-io --of console; grep ^apicid /proc/cpuinfo";
    let said = script(&["--machine", "4x2"], hwloc);
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("Package L#"), count("Core L#"), count("PU L#"), count("apicid")), (4, 8, 8, 8), "{said}");
    let lab = Lab::exact();
    // With LLVM's runtime, which takes what the other one's compiler calls.
    let [object, places] = ["places.o", "places"].map(|name| lab.at(name));
    compile("machine/places.c", Path::new(&object), &["-O1", "-fopenmp", "-c"]);
    let linked = Command::new("cc").args([&object, "-o", &places, "-l:libomp.so.5"]).status().unwrap();
    assert!(linked.success());
    let text = format!("KMP_AFFINITY=verbose OMP_PLACES=sockets OMP_PROC_BIND=spread {places}");
    let recorded = record(&lab, &["--machine", "4x2"], &["/bin/sh", "-c", &text]);
    let told = &recorded.outcome.stderr;
    for text in [
        "4 sockets x 2 cores/socket x 1 thread/core (8 total cores)",
        "OS proc 5 maps to socket 2 core 1 thread 0",
        "bound to OS proc set 6,7",
    ] {
        assert!(told.contains(text), "`{text}` in {told}");
    }
    assert_eq!(recorded.said(), "4 places of 2 CPUs, 8 CPUs\n");
}

#[test]
fn nobody_writes_the_machines_files() {
    let text = "(echo 0 > /sys/devices/system/cpu/online) 2>&1; (: > /sys/devices/system/node/online) 2>&1\n\
        cat /sys/devices/system/cpu/online /sys/devices/system/node/online";
    let said = script(&["--machine", "4x2"], text);
    assert_eq!(said.matches("Permission denied").count(), 2, "{said}");
    assert!(said.ends_with("0-7\n0-3\n"), "{said}");
}

#[test]
fn the_hosts_machine_is_as_ever() {
    let lab = Lab::exact();
    let text = "numactl --hardware | grep -v free; nproc; cat /sys/devices/system/node/online; taskset -c 0 sh -c 'numactl --show'";
    let native = output(native("/bin/sh").args(["-c", text]));
    let recorded = record(&lab, &["--machine", "real"], &["/bin/sh", "-c", text]);
    assert_eq!(recorded.said(), native.stdout);
}
