//! `numalens record --engine exact`: what it counts equals arithmetic, and the program notices nothing.

#[path = "exact/cache.rs"]
mod cache;
#[path = "exact/carried.rs"]
mod carried;
#[path = "exact/endless.rs"]
mod endless;
#[path = "exact/huge.rs"]
mod huge;
#[path = "exact/in_calls.rs"]
mod in_calls;
#[path = "exact/laps.rs"]
mod laps;
#[path = "exact/layout.rs"]
mod layout;
#[path = "exact/lines.rs"]
mod lines;
#[path = "exact/moving.rs"]
mod moving;
#[path = "exact/places.rs"]
mod places;
#[path = "exact/sealed.rs"]
mod sealed;
#[path = "exact/segments.rs"]
mod segments;
#[path = "exact/tallies.rs"]
mod tallies;
#[path = "exact/zeros.rs"]
mod zeros;

use numalens_profile::Profile;
use numalens_profile::ids::SiteId;
use numalens_profile::tables::{CodeFetch, PageAccess, Site, SiteAccess, Thread};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

/// Compiles a program that stands beside this file. The first flag may name a compiler.
fn program(directory: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let program = directory.join(source.split('.').next().unwrap());
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exact").join(source);
    let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let (compiler, flags) = match flags {
        ["musl-gcc", more @ ..] => ("musl-gcc", more),
        _ => ("cc", flags),
    };
    let status = Command::new(compiler).arg(from).arg("-o").arg(&program).arg(headers).args(flags).status().unwrap();
    assert!(status.success(), "{source} does not compile");
    program
}

struct Recorded {
    output: Output,
    profile: PathBuf,
}

/// Records a command and checks the profile, if there is one.
fn record(directory: &Path, options: &[&str], command: &[&str]) -> Recorded {
    let profile = directory.join("p.numalens");
    let output = numalens()
        .args(["record", "--engine", "exact", "-q", "-f", "--machine", "4x2", "-o"])
        .arg(&profile)
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    if profile.exists() {
        let checked = numalens().arg("check").arg(&profile).output().unwrap();
        assert!(checked.status.success(), "check: {}", String::from_utf8_lossy(&checked.stderr));
    }
    Recorded { output, profile }
}

impl Recorded {
    fn report(&self) -> Value {
        let report = numalens().arg("report").arg(&self.profile).args(["--format", "json"]).output().unwrap();
        assert!(report.status.success(), "report: {}", String::from_utf8_lossy(&report.stderr));
        serde_json::from_slice(&report.stdout).unwrap()
    }

    fn reads_and_writes(&self) -> (u64, u64) {
        let report = self.report();
        let count = |what: &str| report["summary"][what].as_u64().unwrap();
        let classes: u64 =
            report["summary"]["classes"].as_object().unwrap().values().map(|one| one.as_u64().unwrap()).sum();
        assert_eq!(classes, count("accesses"), "the classes sum to the accesses");
        (count("reads"), count("writes"))
    }

    /// Instructions executed, all threads.
    fn instructions(&self) -> u64 {
        instructions(&self.profile)
    }
}

fn instructions(profile: &Path) -> u64 {
    Profile::open(profile).unwrap().rows::<CodeFetch>().unwrap().iter().map(|row| row.instructions).sum()
}

const FREESTANDING: &[&str] = &["-nostdlib", "-static"];

#[test]
fn counts_equal_arithmetic() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = program(directory.path(), "kernel.S", FREESTANDING);
    let recorded = record(directory.path(), &[], &[kernel.to_str().unwrap()]);
    assert_eq!(recorded.output.status.code(), Some(3));
    assert_eq!(recorded.output.stdout, b"hello\n");
    // See the comments in the program.
    assert_eq!(recorded.reads_and_writes(), (1000 + 1000 + 4096 + 100 + 8, 1000 + 1000 + 4096 + 4096 + 8));
    // The loops, and each other line once.
    assert_eq!(recorded.instructions(), 1000 * 5 + 1000 * 3 + 8 * 3 + 26);
    let without = record(directory.path(), &["--code=off"], &[kernel.to_str().unwrap()]);
    assert_eq!(without.instructions(), 0);
}

#[test]
fn what_is_counted_between_start_and_stop_equals_arithmetic() {
    let directory = tempfile::tempdir().unwrap();
    let mut flags = FREESTANDING.to_vec();
    flags.extend(["-O2", "-fno-stack-protector"]);
    let marks = program(directory.path(), "marks.c", &flags);
    let program = [marks.to_str().unwrap()];
    // See the program: a start, a stop, and both once more.
    let paused = record(directory.path(), &["--start-paused"], &program);
    assert_eq!(paused.reads_and_writes(), (300 + 5, 200 + 70));
    // A few instructions for each of them, none of the other ten thousand.
    assert!((575 * 2..575 * 8 + 100).contains(&paused.instructions()), "{}", paused.instructions());
    let from_the_start = record(directory.path(), &[], &program);
    assert_eq!(from_the_start.reads_and_writes(), (1000 + 300 + 5, 10 + 200 + 70));
    // Every first touch is seen, counted or not.
    let pages = |recorded: &Recorded| recorded.report()["summary"]["first_touch"]["pinned"].clone();
    assert_eq!(pages(&paused), pages(&from_the_start));
}

#[test]
fn threads_that_wait_are_counted_exactly_between_start_and_stop() {
    let directory = tempfile::tempdir().unwrap();
    let threads = program(directory.path(), "marks_threads.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(directory.path(), &["--start-paused"], &[threads.to_str().unwrap()]);
    assert!(recorded.output.status.success());
    let report = recorded.report();
    let work = report["functions"].as_array().unwrap().iter().find(|row| row["function"] == "work");
    assert_eq!(work.map(|row| row["reads"].as_u64().unwrap()), Some(3 * 30_000));
}

#[test]
fn what_was_counted_outlives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let killed = program(directory.path(), "killed.S", FREESTANDING);
    let recorded = record(directory.path(), &[], &[killed.to_str().unwrap()]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(recorded.output.status.signal(), Some(9));
    assert_eq!(recorded.reads_and_writes(), (5000, 0));
}

#[test]
fn threads_that_are_killed_within_loops_leave_sums_that_are_equal() {
    let directory = tempfile::tempdir().unwrap();
    let killed = program(directory.path(), "killed_threads.c", &["-O2", "-pthread"]);
    // Which checks that pages have what sites have.
    let recorded = record(directory.path(), &[], &[killed.to_str().unwrap()]);
    let said = String::from_utf8(recorded.output.stdout).unwrap();
    let signals: Vec<u32> = said.lines().map(|line| u32::from_str_radix(line, 16).unwrap() & 0x7f7f).collect();
    assert_eq!(signals, [0x700, 9, 6].repeat(4));
}

#[test]
fn handlers_of_signals_and_faults_change_no_count() {
    let directory = tempfile::tempdir().unwrap();
    let faults = program(directory.path(), "faults.c", &["-O2"]);
    let native = Command::new(&faults).output().unwrap();
    let recorded = record(directory.path(), &[], &[faults.to_str().unwrap()]);
    assert_eq!(recorded.output.stdout, native.stdout);
    assert_eq!(recorded.output.status, native.status);
}

#[test]
fn status_output_and_children_are_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo one; /bin/echo two | cat; (exit 4); echo $?; exit 7";
    let recorded = record(directory.path(), &[], &["/bin/sh", "-c", script]);
    assert_eq!(recorded.output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&recorded.output.stdout), "one\ntwo\n4\n");
    assert!(recorded.output.stderr.is_empty(), "{}", String::from_utf8_lossy(&recorded.output.stderr));
}

#[test]
fn threads_are_counted_apart() {
    let directory = tempfile::tempdir().unwrap();
    let threads = program(directory.path(), "threads.c", &["-O2", "-pthread"]);
    let native = Command::new(&threads).output().unwrap();
    let recorded = record(directory.path(), &[], &[threads.to_str().unwrap()]);
    assert_eq!(recorded.output.stdout, native.stdout);
    let report = recorded.report();
    let mut counts: Vec<u64> =
        report["threads"].as_array().unwrap().iter().map(|thread| thread["accesses"].as_u64().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts.len(), 9, "{counts:?}");
    // The k-th worker reads k * 100,000 elements; the first thread less than any.
    for (k, &count) in counts.iter().enumerate().skip(1) {
        let wanted = k as u64 * 100_000;
        assert!((wanted..wanted + 20_000).contains(&count), "thread {k} of {counts:?}");
    }
}

#[test]
fn a_program_that_cannot_be_observed_is_refused_before_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("foreign");
    let mut header = [0u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    header[18] = 3;
    std::fs::write(&foreign, header).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o755)).unwrap();
    let recorded = record(directory.path(), &[], &[foreign.to_str().unwrap()]);
    assert_eq!(recorded.output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&recorded.output.stderr);
    assert!(said.contains("64-bit x86") && said.contains("--engine sample"), "{said}");
    assert!(!recorded.profile.exists());
}

#[test]
fn commands_that_do_not_exist_fail_as_they_should() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(record(directory.path(), &[], &["/nonexistent/program"]).output.status.code(), Some(127));
    assert_eq!(record(directory.path(), &[], &["/etc/passwd"]).output.status.code(), Some(126));
    assert_eq!(record(directory.path(), &["--duration", "1"], &["/bin/true"]).output.status.code(), Some(2));
}

type SiteCounts = BTreeMap<(u32, u64, String), (u64, u64)>;

/// The whole tables of a profile: what each site has counted, by thread, address, home and class; and what each page
/// has, by thread, without its address, which the agent's own memory may shift; and executed instructions.
fn tables(path: &Path) -> (SiteCounts, Vec<(u32, u64, u64)>, u64) {
    let profile = Profile::open(path).unwrap();
    let sites: BTreeMap<SiteId, Site> =
        profile.rows::<Site>().unwrap().into_iter().map(|site| (site.site, site)).collect();
    let mut by_site = SiteCounts::new();
    for row in profile.rows::<SiteAccess>().unwrap() {
        let site = &sites[&row.site];
        let key = (row.thread.0, site.address, format!("{:?} {:?} {:?}", site.module, row.home, row.class));
        let (reads, writes) = by_site.entry(key).or_default();
        (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
    }
    let mut by_page: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for row in profile.rows::<PageAccess>().unwrap() {
        let (reads, writes) = by_page.entry((row.thread.0, row.page.0)).or_default();
        (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
    }
    let mut pages: Vec<_> = by_page.into_iter().map(|((thread, _), (reads, writes))| (thread, reads, writes)).collect();
    pages.sort_unstable();
    (by_site, pages, instructions(path))
}

#[test]
fn stays_count_what_the_flat_tables_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = |program: PathBuf| program.to_str().unwrap().to_owned();
    let kernel = path(program(directory.path(), "kernel.S", FREESTANDING));
    let text = path(directory.path().join("text"));
    let lines: String =
        (0..20_000u32).map(|i| format!("{:08x} line {}\n", i.wrapping_mul(2_654_435_761), i % 77)).collect();
    std::fs::write(&text, lines).unwrap();
    // With one thread each: others race.
    let commands: [&[&str]; 4] = [
        &[&kernel],
        &["gzip", "-6", "-c", &text],
        &["sort", "--parallel=1", &text],
        &["sed", "-e", "s/line/LINE/;/7$/d", &text],
    ];
    for command in commands {
        let recorded = ["flat", "stays", "loops", "usual"].map(|scheme| {
            let profile = directory.path().join(format!("{scheme}.numalens"));
            // Addresses that differ from run to run change what programs do.
            let output = Command::new("setarch")
                .args(["-R", env!("CARGO_BIN_EXE_numalens"), "record", "--engine", "exact", "-q", "-f", "-o"])
                .arg(&profile)
                .args(["--machine", "4x2", "--"])
                .args(command)
                .env("NUMALENS_EXACT", scheme)
                // The environment lies on the stack: of the same length, the stack's pages are used alike.
                .env("PADDING", "x".repeat(8 - scheme.len()))
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            (output.stdout, tables(&profile))
        });
        let [(flat_output, flat), others @ ..] = &recorded;
        assert!(flat.1.len() > 3, "{command:?} was recorded");
        for (output, (sites, pages, instructions)) in others {
            assert!(output == flat_output, "the output of {command:?}");
            let differ: Vec<_> = flat.0.iter().filter(|(key, counts)| sites.get(key) != Some(counts)).take(5).collect();
            assert!(sites == &flat.0, "the sites of {command:?}: {} and {}, {differ:?}", sites.len(), flat.0.len());
            assert!(pages == &flat.1, "the pages of {command:?}");
            assert_eq!(instructions, &flat.2, "executed instructions of {command:?}");
        }
    }
}

/// Output and status are those of the program alone.
#[track_caller]
fn same_as_native(source: &str, flags: &[&str], arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), source, flags);
    let native = Command::new(&program).args(arguments).output().unwrap();
    let command: Vec<&str> = [program.to_str().unwrap()].iter().chain(arguments).copied().collect();
    let recorded = record(directory.path(), &[], &command);
    let said = String::from_utf8_lossy(&recorded.output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&recorded.output.stdout),
        String::from_utf8_lossy(&native.stdout),
        "{source} {arguments:?}: {said}"
    );
    assert_eq!(recorded.output.status, native.status, "{source} {arguments:?}: {said}");
}

#[test]
fn signals_and_traps_of_all_kinds_come_as_they_should() {
    same_as_native("traps.c", &["-O1"], &[]);
    same_as_native("traps.c", &["-O1", "-static"], &[]);
    same_as_native("traps.c", &["musl-gcc", "-O1"], &[]);
}

#[test]
fn jumps_into_nowhere_are_the_programs_faults() {
    same_as_native("nowhere.c", &["-O1"], &[]);
    same_as_native("nowhere.c", &["-O1", "-static"], &[]);
}

#[test]
fn filters_of_system_calls_judge_the_program_alone() {
    for arguments in [&[][..], &["forbidden"], &["strict"]] {
        same_as_native("seccomp.c", &["-O1"], arguments);
    }
}

/// The loader of a dynamic program reads the counter, and ends natively too where that is forbidden from the beginning.
#[test]
fn programs_may_forbid_themselves_the_counter_that_times_are_read_from() {
    same_as_native("counter.c", &["-O1", "-pthread"], &[]);
    same_as_native("counter.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("counter.c", &["musl-gcc", "-O1", "-pthread"], &[]);
}

#[test]
fn limits_of_address_space_are_the_programs() {
    same_as_native("limits.c", &["-O1"], &[]);
    let directory = tempfile::tempdir().unwrap();
    let recorded =
        record(directory.path(), &[], &["/bin/sh", "-c", "ulimit -v 500000; ulimit -v; sh -c 'ulimit -v; echo on'"]);
    assert_eq!(String::from_utf8_lossy(&recorded.output.stdout), "500000\n500000\non\n");
}

#[test]
fn all_memory_can_be_locked() {
    same_as_native("locked.c", &["-O1"], &[]);
}

#[test]
fn calls_at_fixed_addresses_of_the_kernel_work() {
    same_as_native("vsyscall.c", &["-O1", "-w"], &[]);
}

#[test]
fn returns_of_all_kinds_go_where_they_should() {
    same_as_native("returns.c", &["-O1", "-mno-red-zone"], &[]);
    same_as_native("returns.c", &["-O1", "-mno-red-zone", "-no-pie"], &[]);
    same_as_native("returns.c", &["-O1", "-mno-red-zone"], &["unhandled"]);
    same_as_native("far.c", &["-O1", "-mno-red-zone"], &[]);
}

#[test]
fn what_cannot_be_observed_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "far.c", &["-O1", "-mno-red-zone"]);
    let recorded = record(directory.path(), &[], &[program.to_str().unwrap(), "32"]);
    let said = String::from_utf8_lossy(&recorded.output.stderr);
    assert_eq!(recorded.output.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot be observed: it goes on in 32-bit code"), "{said}");
}

#[test]
fn calls_of_32_bit_programs_do_what_they_do_natively() {
    same_as_native("old_calls.c", &["-O1", "-w"], &[]);
    same_as_native("old_calls.c", &["-O1", "-w", "-static"], &[]);
}

#[test]
fn clone3_makes_all_kinds_of_tasks() {
    same_as_native("clone3.c", &["-O1", "-pthread"], &[]);
    same_as_native("clone3.c", &["-O1", "-pthread", "-static"], &[]);
}

#[test]
fn flags_that_functions_hand_over_arrive() {
    same_as_native("handed_flags.c", &["-O1", "-pthread"], &[]);
    same_as_native("handed_flags.c", &["-O1", "-pthread", "-static"], &[]);
}

/// What each of them had counted to half when it was killed is made whole: `check`, which every recording here goes
/// through, compares the sums.
#[test]
fn threads_that_are_killed_within_their_counting_leave_equal_sums() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "left_behind.c", &["-O1", "-pthread"]);
    let command = [program.to_str().unwrap()];
    record(directory.path(), &[], &command);
    record(directory.path(), &["--stack"], &command);
    record(directory.path(), &["--cache", "32K"], &command);
}

#[test]
fn many_threads_and_many_execs_are_followed() {
    same_as_native("many_threads.c", &["-O1", "-pthread"], &[]);
    same_as_native("many_threads.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("many_threads.c", &["musl-gcc", "-O1", "-pthread"], &[]);
    same_as_native("execs.c", &["-O1"], &["30"]);
}

#[test]
fn the_environment_is_the_programs_and_starting_others_takes_no_memory() {
    same_as_native("environment.c", &["-O1", "-DLOADED"], &[]);
    same_as_native("environment.c", &["-O1", "-static"], &[]);
    same_as_native("environment.c", &["-O1", "-static-pie"], &[]);
    same_as_native("environment.c", &["musl-gcc", "-O1", "-DLOADED"], &[]);
    same_as_native("environment.c", &["musl-gcc", "-O1", "-static"], &[]);
}

#[test]
fn code_may_change_while_many_threads_execute_it() {
    same_as_native("jit.c", &["-O1", "-pthread"], &[]);
}

#[test]
fn what_is_kept_of_pages_that_are_gone_is_given_back() {
    same_as_native("churn.c", &["-O1"], &[]);
}

#[test]
fn forked_children_have_threads_of_their_own() {
    same_as_native("fork_threads.c", &["-O1", "-pthread"], &[]);
    same_as_native("fork_threads.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("fork_threads.c", &["musl-gcc", "-O1", "-pthread"], &[]);
}

#[test]
fn alignment_checks_are_for_the_programs_own_accesses() {
    same_as_native("alignment.c", &["-O1"], &[]);
}

/// On which nodes a thread (by its number: in the order of their beginnings) has accessed memory, from the table of
/// sites: its many accesses, not the few of its start.
fn nodes_of(profile: &Path, thread: u32) -> Vec<Option<u32>> {
    let profile = Profile::open(profile).unwrap();
    let mut counts: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for row in profile.rows::<SiteAccess>().unwrap().iter().filter(|row| row.thread.0 == thread) {
        *counts.entry(row.node.map(|node| u32::from(node.0))).or_default() += row.reads + row.writes;
    }
    counts.into_iter().filter(|&(_, count)| count > 100_000).map(|(node, _)| node).collect()
}

#[test]
fn threads_have_the_names_that_they_had_last() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "names.c", &["-O1", "-pthread"]);
    for machine in ["4x2", "real"] {
        let profile = directory.path().join(machine);
        let mut recording = numalens();
        recording.args(["record", "--engine", "exact", "-q", "--machine", machine, "-o"]).arg(&profile);
        assert!(recording.arg("--").arg(&program).status().unwrap().success());
        let threads = Profile::open(&profile).unwrap().rows::<Thread>().unwrap();
        let names: Vec<_> = threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["true", "first", "by itself", "by another"], "{machine}");
    }
}

#[test]
fn a_virtual_machine_has_threads_where_the_program_binds_them() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "affinity.c", &["-O1", "-pthread"]);
    let profile = directory.path().join("p.numalens");
    let output = numalens()
        .args(["record", "--engine", "exact", "-q", "--machine", "4x1", "--placement", "none", "-o"])
        .arg(&profile)
        .arg("--")
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let checked = numalens().arg("check").arg(&profile).output().unwrap();
    assert!(checked.status.success(), "check: {}", String::from_utf8_lossy(&checked.stderr));
    for (thread, (name, node)) in
        (0..).zip([("first", None), ("by itself", Some(3)), ("heir", Some(3)), ("by another", Some(2))])
    {
        assert_eq!(nodes_of(&profile, thread), [node], "{name}");
    }
}

#[test]
fn a_deterministic_program_gives_the_same_counts_twice() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = program(directory.path(), "kernel.S", FREESTANDING);
    let facts = || {
        let recorded = record(directory.path(), &["--stack"], &[kernel.to_str().unwrap()]);
        let report = recorded.report();
        (report["summary"]["classes"].clone(), report["summary"]["accesses"].clone(), report["lines"].clone())
    };
    assert_eq!(facts(), facts());
}

#[test]
fn counts_equal_those_of_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let program = program(directory.path(), "lackey.c", &[level, "-nostdlib", "-static"]);
        let trace =
            Command::new("valgrind").args(["--tool=lackey", "--trace-mem=yes"]).arg(&program).output().unwrap().stderr;
        let lines =
            |kind: &[u8]| trace.split(|&byte| byte == b'\n').filter(|line| line.starts_with(kind)).count() as u64;
        let (loads, stores, both) = (lines(b" L "), lines(b" S "), lines(b" M "));
        // There, every element of a repeated string instruction is one more.
        let executed = lines(b"I ") - 4096 - 1000;
        assert!(loads > 0 && stores > 0, "{level}: {}", String::from_utf8_lossy(&trace[..trace.len().min(500)]));
        let recorded = record(directory.path(), &["--stack"], &[program.to_str().unwrap()]);
        assert_eq!(recorded.reads_and_writes(), (loads + both, stores + both), "{level}");
        assert_eq!(recorded.instructions(), executed, "{level}");
    }
}
