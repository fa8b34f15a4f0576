//! `record --cache`: what misses.

use super::*;
use numalens_profile::tables::{PageMiss, SiteMiss};
use std::process::Command;

/// Reads and writes that missed, by page and by site.
fn missed(recorded: &Recorded) -> [(u64, u64); 2] {
    let profile = recorded.profile();
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
    let lab = Lab::exact();
    let kernel = lab.build("exact/cache.S", FREESTANDING);
    let recorded = record(&lab, &["--cache", "32k"], &[&kernel]);
    assert_eq!(recorded.reads_and_writes(), (READS, 101));
    assert_eq!(missed(&recorded), [(READ_MISSES, 13); 2]);
    let report = recorded.report();
    assert_eq!(report["summary"]["cache_misses"], READ_MISSES + 13);
    assert_eq!(report["threads"][0]["write_misses"], 13);
    assert_eq!(report["meta"]["cache"], serde_json::json!({"bytes": 32768, "ways": 8, "line": 64}));
    // With lines twice as long half as many miss where neighbours are read; with one set of all lines, each misses
    // once.
    let recorded = record(&lab, &["--cache", "64k,512,128", "--lines"], &[&kernel]);
    assert_eq!(missed(&recorded), [(128 + 16 + 2, 7); 2]);
    // Without a cache nothing is said of one.
    let recorded = record(&lab, &[], &[&kernel]);
    assert_eq!(missed(&recorded), [(0, 0); 2]);
    assert!(recorded.report()["threads"][0]["cache_misses"].is_null());
}

#[test]
fn misses_between_start_and_stop_equal_arithmetic() {
    let lab = Lab::exact();
    let mut flags = FREESTANDING.to_vec();
    flags.extend(["-O2", "-fno-stack-protector"]);
    let marks = lab.build("exact/marks.c", &flags);
    let program = [marks.as_str()];
    // What fits was fetched before the start.
    let recorded = record(&lab, &["--start-paused", "--cache", "32k"], &program);
    assert_eq!((recorded.reads_and_writes(), missed(&recorded)), ((305, 270), [(0, 0); 2]));
    // With a single line: one miss for each eight words, but for the last reads, whose line was written just before.
    let recorded = record(&lab, &["--start-paused", "--cache", "64,1"], &program);
    assert_eq!((recorded.reads_and_writes(), missed(&recorded)), ((305, 270), [(38, 25 + 9); 2]));
}

#[test]
fn misses_equal_those_of_valgrind() {
    if !installed("valgrind") {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let lab = Lab::exact();
    // It has no operands on the stack, whose place differs.
    let kernel = lab.build("exact/cache.S", FREESTANDING);
    for (shape, of_valgrind) in [("32k,8,64", "32768,8,64"), ("4k,2,32", "4096,2,32"), ("16k,4,128", "16384,4,128")] {
        let simulated = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes", "--LL=1048576,16,128", "--I1=32768,8,128"])
            .args([format!("--D1={of_valgrind}"), format!("--cachegrind-out-file={}", lab.at("out"))])
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
        let recorded = record(&lab, &["--cache", shape], &[&kernel]);
        let [_, (reads, writes)] = missed(&recorded);
        assert_eq!([reads + writes, reads, writes], numbers[..], "{shape}");
    }
}

#[test]
fn programs_notice_nothing_of_the_cache() {
    let lab = Lab::exact();
    for (source, flags) in [("faults.c", &["-O2"][..]), ("fork_threads.c", &["-O1", "-pthread"])] {
        let program = lab.build(&format!("exact/{source}"), flags);
        let native = output(&mut native(&program));
        let recorded = record(&lab, &["--cache", "1k,2,64"], &[&program]);
        let said = &recorded.outcome.stderr;
        assert_eq!(
            (&recorded.outcome.stdout, recorded.outcome.status),
            (&native.stdout, native.status),
            "{source}: {said}"
        );
        assert_ne!(missed(&recorded)[1], (0, 0));
    }
}

#[test]
fn caches_that_cannot_be_are_refused() {
    for wrong in ["33k", "32k,0", "32k,8,48", "x", "32k,8,64,1"] {
        let told = failure(&mut numalens(&["record", "--cache", wrong, "--", "true"]), 2);
        assert!(told.contains("--cache"), "{wrong}");
    }
    let told = failure(&mut numalens(&["record", "--cache", "32k", "--engine", "sample", "--", "true"]), 2);
    assert!(told.contains("exact engine"));
}
