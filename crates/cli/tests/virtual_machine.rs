//! A virtual machine as the program sees it, under the exact engine: tools and programs that ask get its answers, and
//! what they ask for is where threads and pages are in the profile.

#[path = "virtual_machine/shared_memory.rs"]
mod shared_memory;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

/// Compiles a program that stands beside this file.
fn program(directory: &Path, source: &str, flags: &[&str]) -> String {
    let program = directory.join(source.split('.').next().unwrap());
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/virtual_machine").join(source);
    let status = Command::new("cc").arg(from).arg("-o").arg(&program).args(flags).status().unwrap();
    assert!(status.success(), "{source} does not compile");
    program.to_str().unwrap().to_owned()
}

struct Recorded {
    output: Output,
    profile: PathBuf,
}

/// Records a command and checks the profile.
#[track_caller]
fn record(directory: &Path, options: &[&str], command: &[&str]) -> Recorded {
    let profile = directory.join("p.numalens");
    let output = numalens()
        .args(["record", "--engine", "exact", "-q", "-f", "-o"])
        .arg(&profile)
        .args(options)
        .arg("--")
        .args(command)
        .env_remove("LC_ALL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} {}: {said}", output.status);
    let checked = numalens().arg("check").arg(&profile).output().unwrap();
    assert!(checked.status.success(), "check: {}", String::from_utf8_lossy(&checked.stderr));
    Recorded { output, profile }
}

impl Recorded {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn report(&self) -> Value {
        let report = numalens().arg("report").arg(&self.profile).args(["--format", "json"]).output().unwrap();
        assert!(report.status.success(), "report: {}", String::from_utf8_lossy(&report.stderr));
        serde_json::from_slice(&report.stdout).unwrap()
    }

    /// Accesses by the node of the thread and the home of the page.
    fn matrix(&self) -> Vec<Vec<u64>> {
        let report = self.report();
        let rows = report["matrix"]["access"]["rows"].as_array().unwrap();
        let row = |row: &Value| row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        rows.iter().map(row).collect()
    }
}

/// What a script says on a machine.
#[track_caller]
fn script(options: &[&str], text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), options, &["/bin/sh", "-c", text]).said()
}

#[test]
fn files_that_are_made_are_open_as_the_kernels_are() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "modes.c", &["-O1"]);
    let native = Command::new(&program).output().unwrap();
    let recorded = record(directory.path(), &["--machine", "4x2"], &[&program]);
    assert_eq!(recorded.said(), String::from_utf8_lossy(&native.stdout));
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

/// A machine of hwloc with nodes of these numbers: two CPUs each, usable ones and others; 1 GiB, all as far from each
/// other.
fn machine_file(directory: &Path, nodes: &[(u32, &str, &str)]) -> String {
    let mut text = String::from("<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\">");
    for (number, usable, complete) in nodes {
        let sets = format!("cpuset=\"{usable}\" complete_cpuset=\"{complete}\"");
        text += &format!(
            "<object type=\"Package\" {sets}><object type=\"NUMANode\" os_index=\"{number}\" {sets} local_memory=\"1073741824\"/></object>"
        );
    }
    let path = directory.join("machine.xml");
    std::fs::write(&path, text + "</object></topology>").unwrap();
    path.to_str().unwrap().to_owned()
}

/// As on POWER, whose nodes of graphics memory begin at 252; the last is the highest that Linux can have.
#[test]
fn nodes_have_any_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "numbers.c", &["-O1", "-lnuma"]);
    let nodes = [(0, "0x3", "0x3"), (8, "0xc", "0xc"), (252, "0x30", "0x30"), (1023, "0xc0", "0xc0")];
    let machine = machine_file(directory.path(), &nodes);
    let recorded = record(directory.path(), &["--machine", &machine], &[&program, "252", "1023"]);
    let wanted = "bound: 252\nof memory: 1023\nhomes: 252 1023, a mask of one word: refused\nmoved: 1023\nallowed: 0 8 252 1023\n";
    assert_eq!(recorded.said(), wanted);
    let matrix = recorded.matrix();
    assert!(matrix[0][3] >= 100_000, "the first thread is on node 0, its page on node 1023: {matrix:?}");
    let text = "numactl --hardware; numactl -N 8 -m 252 numactl --show";
    let said = record(directory.path(), &["--machine", &machine], &["/bin/sh", "-c", text]).said();
    for line in ["available: 4 nodes (0,8,252,1023)", "node 252 cpus: 4 5", "nodebind: 8 ", "membind: 252 "] {
        assert!(said.lines().any(|found| found == line), "`{line}` in {said}");
    }
}

/// More nodes than bits of a word: each is told from all others, and each thread has its own.
#[test]
fn machines_have_many_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "numbers.c", &["-O1", "-lnuma"]);
    let recorded = record(directory.path(), &["--machine", "300x1"], &[&program, "70", "299"]);
    let said = recorded.said();
    assert!(
        said.starts_with("bound: 70\nof memory: 299\nhomes: 70 299, a mask of one word: refused\nmoved: 299\n"),
        "{said}"
    );
    let matrix = recorded.matrix();
    assert!(matrix.len() >= 300 && matrix[0][299] >= 100_000, "{} rows: {:?}", matrix.len(), matrix[0]);
}

/// What a job may not use is no memory tier: the accesses of its threads to that node's memory are remote.
#[test]
fn a_node_that_a_job_has_no_cpus_of_is_remote() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "numbers.c", &["-O1", "-lnuma"]);
    for complete in ["0xc", "0x0"] {
        let machine = machine_file(directory.path(), &[(0, "0x3", "0x3"), (1, "0x0", complete)]);
        let recorded = record(directory.path(), &["--machine", &machine], &[&program, "1", "1"]);
        let classes = &recorded.report()["summary"]["classes"];
        let count = |class: &str| classes[class].as_u64().unwrap_or(0);
        assert!(count("remote") >= 100_000, "{classes}");
        assert_eq!(count("memory_tier_local") + count("memory_tier_remote"), 0, "{classes}");
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
    let directory = tempfile::tempdir().unwrap();
    let descend = program(directory.path(), "descend.c", &["-O1"]);
    let recorded = record(directory.path(), &["--machine", "4x2"], &[&descend]);
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
fn numa_maps_have_the_machine_s_nodes_and_policies() {
    let directory = tempfile::tempdir().unwrap();
    let maps = program(directory.path(), "maps.c", &["-O1", "-lnuma"]);
    let recorded = record(directory.path(), &["--machine", "4x2"], &["taskset", "-c", "2", &maps]);
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
    let directory = tempfile::tempdir().unwrap();
    let processor = program(directory.path(), "processor.c", &["-O1"]);
    for (nodes, cores, bits) in [(4, 2, 1), (3, 3, 2), (2, 1, 0)] {
        let recorded = record(directory.path(), &["--machine", &format!("{nodes}x{cores}")], &[&processor]);
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
    let native = Command::new(&processor).output().unwrap();
    let recorded = record(directory.path(), &["--machine", "real"], &[&processor]);
    assert_eq!(recorded.said(), String::from_utf8_lossy(&native.stdout));
}

/// They bind themselves to one CPU after the other and ask it what it is.
#[test]
fn who_asks_the_processor_sees_the_machine() {
    let hwloc = "HWLOC_COMPONENTS=x86,stop lstopo-no-graphics --no-io --of console; grep ^apicid /proc/cpuinfo";
    let said = script(&["--machine", "4x2"], hwloc);
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("Package L#"), count("Core L#"), count("PU L#"), count("apicid")), (4, 8, 8, 8), "{said}");
    let directory = tempfile::tempdir().unwrap();
    // With LLVM's runtime, which takes what the other one's compiler calls.
    let [object, places] = ["places.o", "places"].map(|name| directory.path().join(name).display().to_string());
    program(directory.path(), "places.c", &["-O1", "-fopenmp", "-c", "-o", &object]);
    let linked = Command::new("cc").args([&object, "-o", &places, "-l:libomp.so.5"]).status().unwrap();
    assert!(linked.success());
    let text = format!("KMP_AFFINITY=verbose OMP_PLACES=sockets OMP_PROC_BIND=spread {places}");
    let recorded = record(directory.path(), &["--machine", "4x2"], &["/bin/sh", "-c", &text]);
    let told = String::from_utf8_lossy(&recorded.output.stderr);
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
fn threads_are_where_they_bind_themselves() {
    let directory = tempfile::tempdir().unwrap();
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
        let seats = program(directory.path(), "seats.c", flags);
        let recorded = record(directory.path(), &["--machine", "4x2"], &[&seats]);
        assert_eq!(recorded.said(), wanted, "{flags:?}");
    }
}

#[test]
fn pages_are_where_policies_put_them() {
    let directory = tempfile::tempdir().unwrap();
    let policies = program(directory.path(), "policies.c", &["-O1", "-lnuma"]);
    let recorded = record(directory.path(), &["--machine", "4x2"], &["taskset", "-c", "2", &policies]);
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
fn nobody_writes_the_machines_files() {
    let text = "(echo 0 > /sys/devices/system/cpu/online) 2>&1; (: > /sys/devices/system/node/online) 2>&1\n\
        cat /sys/devices/system/cpu/online /sys/devices/system/node/online";
    let said = script(&["--machine", "4x2"], text);
    assert_eq!(said.matches("Permission denied").count(), 2, "{said}");
    assert!(said.ends_with("0-7\n0-3\n"), "{said}");
}

#[test]
fn rules_are_the_kernels() {
    let directory = tempfile::tempdir().unwrap();
    let rules = program(directory.path(), "rules.c", &["-O1", "-lnuma"]);
    let recorded = record(directory.path(), &["--machine", "4x2"], &[&rules]);
    let wanted = "in their places: 22\nwithout a policy: 0 0 2\nwith one: -1 EFAULT\nnobody: -1 ESRCH -1 ESRCH\n";
    assert_eq!(recorded.said(), wanted);
}

#[test]
fn numactl_places_threads_and_pages() {
    let directory = tempfile::tempdir().unwrap();
    let writes = program(directory.path(), "writes.c", &["-O1"]);
    const WRITES: u64 = 4 << 17;
    let matrix = |options: &[&str]| {
        let command: Vec<&str> = ["numactl"].iter().chain(options).chain([&writes.as_str()]).copied().collect();
        record(directory.path(), &["--machine", "4x4"], &command).matrix()
    };
    let apart = matrix(&["--cpunodebind=1", "--membind=2"]);
    assert!(apart[1][2] >= WRITES && apart[0][0] < WRITES && apart[2][2] == 0, "{apart:?}");
    let interleaved = matrix(&["--interleave=all", "--cpunodebind=3"]);
    assert!(interleaved[3].iter().all(|&count| count > WRITES / 4 - 20_000), "{interleaved:?}");
    let preferred = matrix(&["--preferred=3", "--physcpubind=8"]);
    assert!(preferred[2][3] >= WRITES, "{preferred:?}");
}

#[test]
fn nobody_is_lost_between_a_place_and_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let inherited = program(directory.path(), "inherited.c", &["-O1", "-pthread"]);
    let recorded = record(directory.path(), &["--machine", "4x2"], &[&inherited]);
    let wanted = "by another thread: 5\nforked: 0 wrong\nwhile policies change: 0 wrong, at last 3\nspawned: 0 wrong\n\
        ended: 0 open\nby its path alone: 6\nwith small files: 7\n";
    assert_eq!(recorded.said(), wanted);
    let spread = record(directory.path(), &["--machine", "4x2"], &[&inherited, "spread"]);
    // One after the other: who has ended keeps no place.
    assert_eq!(spread.said(), "1 1 1 1 1 1 ");
    let script = |interpreter: &str, name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("#!{interpreter}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let first = script(&format!("{inherited} show"), "first");
    let deepest = (0..4).fold(first, |before, number| script(&before, &number.to_string()));
    let said = self::script(&["--machine", "4x2"], &format!("taskset -c 4 {deepest}"));
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
    let directory = tempfile::tempdir().unwrap();
    let places = program(directory.path(), "places.c", &["-O1", "-fopenmp"]);
    let script = format!(
        "export OMP_WAIT_POLICY=passive OMP_DISPLAY_AFFINITY=true OMP_AFFINITY_FORMAT='thread %n on %A'; OMP_PLACES=cores OMP_PROC_BIND=close {places}; echo; OMP_PLACES=sockets OMP_PROC_BIND=spread {places}"
    );
    let recorded = record(directory.path(), &["--machine", "4x2"], &["/bin/sh", "-c", &script]);
    let mut affinity: Vec<String> =
        String::from_utf8_lossy(&recorded.output.stderr).lines().map(str::to_owned).collect();
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

#[test]
fn the_hosts_machine_is_as_ever() {
    let directory = tempfile::tempdir().unwrap();
    let text = "numactl --hardware | grep -v free; nproc; cat /sys/devices/system/node/online; taskset -c 0 sh -c 'numactl --show'";
    let native = Command::new("/bin/sh").args(["-c", text]).output().unwrap();
    let recorded = record(directory.path(), &["--machine", "real"], &["/bin/sh", "-c", text]);
    assert_eq!(recorded.said(), String::from_utf8_lossy(&native.stdout));
}

#[test]
fn a_measured_machine_is_read_by_hwloc_and_as_a_machine() {
    let directory = tempfile::tempdir().unwrap();
    let run = |program: &mut Command| {
        let output = program.current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&run(numalens().args(["machine"]).args(arguments).args(["--format", "json"]))).unwrap()
    };
    let before = json(&["show"])["machine"].take();
    let measured = json(&["measure", "-o", "measured.xml"]);
    let host = json(&["show"])["machine"].take();
    let nodes = host["nodes"].as_array().unwrap();
    for (number, node) in nodes.iter().enumerate().filter(|(_, node)| node["cpus"] != "") {
        assert_eq!(measured["nodes"][number], node["node"]);
        let latency = measured["latency_ns"][number][number].as_f64();
        let full =
            measured["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("free memory"));
        assert!(full || latency.is_some_and(|ns| (0.1..10_000.0).contains(&ns)), "{measured}");
    }
    let written = json(&["show", "--machine", "measured.xml"])["machine"].take();
    for (written, node) in written["nodes"].as_array().unwrap().iter().zip(nodes) {
        for what in ["node", "cpus", "tier"] {
            assert_eq!(written[what], node[what], "{what}");
        }
    }
    // A host that is a virtual machine itself may be given memory, or lose some, meanwhile.
    let memory = |machine: &Value| -> Vec<u64> {
        machine["nodes"].as_array().unwrap().iter().map(|node| node["memory_bytes"].as_u64().unwrap()).collect()
    };
    for (written, (before, after)) in memory(&written).into_iter().zip(memory(&before).into_iter().zip(memory(&host))) {
        assert!(before.min(after) <= written && written <= before.max(after), "{before} {written} {after}");
    }
    let seen = run(Command::new("lstopo-no-graphics").args(["-i", "measured.xml", "--of", "console"]));
    assert_eq!(seen.lines().filter(|line| line.contains("NUMANode L#")).count(), nodes.len(), "{seen}");
    let refused = numalens().args(["machine", "measure", "-o", "/nowhere/measured.xml"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("/nowhere/measured.xml"), "{said}");
}

#[test]
fn a_machine_that_is_too_large_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (machine, way_out) in [("1025x1", "1 to 1024 nodes"), ("2x5000", "--engine sample")] {
        let output = numalens()
            .current_dir(directory.path())
            .args(["record", "--engine", "exact", "--machine", machine, "--", "true"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(way_out), "{machine}: {said}");
    }
}

/// The process that wrote a page has placed it, and whoever reads it from another node waits.
#[test]
fn shared_memory_is_where_the_first_process_placed_it() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "common.c", &["-O1", "-g"]);
    let file = directory.path().join("common.memory");
    for (machine, how) in
        ["2x2", "real"].into_iter().flat_map(|machine| ["fork", "file", "sysv"].map(|how| (machine, how)))
    {
        let recorded = record(directory.path(), &["--machine", machine], &[&program, how, file.to_str().unwrap()]);
        assert_eq!(recorded.said(), "read\n", "{how}");
        let report = recorded.report();
        let functions = report["functions"].as_array().unwrap();
        let named = |name: &str| functions.iter().find(|row| row["function"] == name).unwrap().clone();
        let (reads, writes) = (named("read_all"), named("write_all"));
        assert_eq!((&reads["accesses"], &writes["accesses"]), (&(256 * 100).into(), &256.into()), "{machine} {how}");
        assert_eq!((&reads["first_touch"], &writes["first_touch"]), (&0.into(), &256.into()), "{machine} {how}");
        if machine != "real" {
            assert_eq!(reads["classes"]["remote"], 256 * 100, "{how}: {reads}");
            assert_eq!(writes["classes"]["local"], 256, "{how}: {writes}");
        }
    }
}
