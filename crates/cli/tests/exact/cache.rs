//! `record --cache`: what misses.

use super::{FREESTANDING, numalens, program, record};
use numalens_profile::Profile;
use numalens_profile::tables::{PageMiss, SiteMiss};
use std::path::Path;
use std::process::Command;

/// Reads and writes that missed, by page and by site.
fn missed(profile: &Path) -> [(u64, u64); 2] {
    let profile = Profile::open(profile).unwrap();
    let sites: Vec<SiteMiss> = profile.rows().unwrap();
    let pages: Vec<PageMiss> = profile.rows().unwrap();
    [
        (pages.iter().map(|row| row.reads).sum(), pages.iter().map(|row| row.writes).sum()),
        (sites.iter().map(|row| row.reads).sum(), sites.iter().map(|row| row.writes).sum()),
    ]
}

const READS: u64 = 8 * 256 + 160 + 3;
const READ_MISSES: u64 = 256 + 160 + 2;

#[test]
fn misses_equal_arithmetic() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = program(directory.path(), "cache.S", FREESTANDING);
    let recorded = record(directory.path(), &["--cache", "32k"], &[kernel.to_str().unwrap()]);
    assert_eq!(recorded.reads_and_writes(), (READS, 101));
    assert_eq!(missed(&recorded.profile), [(READ_MISSES, 13); 2]);
    let report = recorded.report();
    assert_eq!(report["summary"]["cache_misses"], READ_MISSES + 13);
    assert_eq!(report["threads"][0]["write_misses"], 13);
    assert_eq!(report["meta"]["cache"], serde_json::json!({"bytes": 32768, "ways": 8, "line": 64}));
    // With lines twice as long half as many miss where neighbours are read; with one set of all lines, each misses
    // once.
    let recorded = record(directory.path(), &["--cache", "64k,512,128", "--lines"], &[kernel.to_str().unwrap()]);
    assert_eq!(missed(&recorded.profile), [(128 + 16 + 2, 7); 2]);
    // Without a cache nothing is said of one.
    let recorded = record(directory.path(), &[], &[kernel.to_str().unwrap()]);
    assert_eq!(missed(&recorded.profile), [(0, 0); 2]);
    assert!(recorded.report()["threads"][0]["cache_misses"].is_null());
}

#[test]
fn misses_between_start_and_stop_equal_arithmetic() {
    let directory = tempfile::tempdir().unwrap();
    let mut flags = FREESTANDING.to_vec();
    flags.extend(["-O2", "-fno-stack-protector"]);
    let marks = program(directory.path(), "marks.c", &flags);
    let program = [marks.to_str().unwrap()];
    // What fits was fetched before the start.
    let recorded = record(directory.path(), &["--start-paused", "--cache", "32k"], &program);
    assert_eq!((recorded.reads_and_writes(), missed(&recorded.profile)), ((305, 270), [(0, 0); 2]));
    // With a single line: one miss for each eight words, but for the last reads, whose line was written just before.
    let recorded = record(directory.path(), &["--start-paused", "--cache", "64,1"], &program);
    assert_eq!((recorded.reads_and_writes(), missed(&recorded.profile)), ((305, 270), [(38, 25 + 9); 2]));
}

#[test]
fn misses_equal_those_of_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // It has no operands on the stack, whose place differs.
    let kernel = program(directory.path(), "cache.S", FREESTANDING);
    for (shape, of_valgrind) in [("32k,8,64", "32768,8,64"), ("4k,2,32", "4096,2,32"), ("16k,4,128", "16384,4,128")] {
        let simulated = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes", "--LL=1048576,16,128", "--I1=32768,8,128"])
            .args([
                format!("--D1={of_valgrind}"),
                format!("--cachegrind-out-file={}", directory.path().join("out").display()),
            ])
            .arg(&kernel)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&simulated.stderr);
        let line = said.lines().find(|line| line.contains("D1  misses:")).unwrap_or_else(|| panic!("{said}"));
        let numbers: Vec<u64> = line
            .split_once("misses:")
            .map(|(_, rest)| rest.replace(',', ""))
            .unwrap()
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let recorded = record(directory.path(), &["--cache", shape], &[kernel.to_str().unwrap()]);
        let [_, (reads, writes)] = missed(&recorded.profile);
        assert_eq!([reads + writes, reads, writes], numbers[..], "{shape}");
    }
}

#[test]
fn programs_notice_nothing_of_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    for (source, flags) in [("faults.c", &["-O2"][..]), ("fork_threads.c", &["-O1", "-pthread"])] {
        let program = program(directory.path(), source, flags);
        let native = Command::new(&program).output().unwrap();
        let recorded = record(directory.path(), &["--cache", "1k,2,64"], &[program.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&recorded.output.stderr);
        assert_eq!(
            (&recorded.output.stdout, recorded.output.status),
            (&native.stdout, native.status),
            "{source}: {said}"
        );
        assert_ne!(missed(&recorded.profile)[1], (0, 0));
    }
}

#[test]
fn caches_that_cannot_be_are_refused() {
    for wrong in ["33k", "32k,0", "32k,8,48", "x", "32k,8,64,1"] {
        let output = numalens().args(["record", "--cache", wrong, "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--cache"), "{wrong}");
    }
    let output = numalens().args(["record", "--cache", "32k", "--engine", "sample", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("exact engine"));
}
