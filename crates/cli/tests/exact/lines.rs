//! `record --lines`: cache lines.

use super::schemes::tables;
use super::*;
use numalens_profile::tables::{CacheLine, LineCommunication};

fn lines(recorded: &Recorded) -> Vec<CacheLine> {
    recorded.profile().rows().unwrap()
}

#[test]
fn lines_of_one_thread_equal_arithmetic() {
    let lab = Lab::exact();
    let kernel = lab.build("exact/lines.S", FREESTANDING);
    let recorded = record(&lab, &["--lines"], &[&kernel]);
    assert_eq!(recorded.outcome.code(), Some(0));
    assert_eq!(recorded.reads_and_writes(), (1000 + 1, 1000 + 100));
    let rows = lines(&recorded);
    let sum = |of: fn(&CacheLine) -> u64| rows.iter().map(of).sum::<u64>();
    assert_eq!((sum(|row| row.reads), sum(|row| row.writes)), (1001, 1100));
    // Nobody shares them: they are told by page. One page is the zero page when it is read, and another when it is
    // written.
    let mut of_pages: Vec<u32> = rows.iter().map(|row| row.lines).collect();
    of_pages.sort_unstable();
    assert_eq!(of_pages, [&[3, 1000 % 64][..], &[64; 15]].concat());
    assert!(rows.iter().all(|row| row.line.is_none() && row.transitions == 0));
    assert!(lines(&record(&lab, &[], &[&kernel])).is_empty());
}

#[test]
fn turns_of_two_threads_are_told_apart() {
    let lab = Lab::exact();
    let turns = lab.build("exact/turns.c", &["-O1", "-pthread"]);
    let recorded = record(&lab, &["--lines"], &[&turns]);
    let said = recorded.said();
    let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let addresses: Vec<u64> = said.split_whitespace().map(address).collect();
    let rows = lines(&recorded);
    let of = |address: u64| -> Vec<&CacheLine> {
        let is_it = |row: &&CacheLine| row.line.map(|line| row.page.address() + 64 * u64::from(line)) == Some(address);
        rows.iter().filter(is_it).collect()
    };
    // Each thread has 100 turns, and all but the very first find the other one.
    for (address, writes, (true_sharing, false_sharing), words) in [
        (addresses[0], 100, (199, 0), [1, 1]),
        (addresses[1], 100, (0, 199), [1, 1 << 8]),
        (addresses[2], 0, (0, 0), [1, 1]),
    ] {
        let users = of(address);
        assert_eq!(users.len(), 2, "{address:#x} of {said}");
        let sum = |of: fn(&CacheLine) -> u64| users.iter().map(|row| of(row)).sum::<u64>();
        assert!(users.iter().all(|row| (row.reads, row.writes) == (100, writes)), "{users:?}");
        assert_eq!((sum(|row| row.transitions), sum(|row| row.node_transitions)), (199, 199), "{users:?}");
        assert_eq!((sum(|row| row.true_sharing), sum(|row| row.false_sharing)), (true_sharing, false_sharing));
        let accessed: Vec<u32> = users.iter().map(|row| row.words_accessed).collect();
        assert_eq!(accessed, words);
    }
    let pairs: Vec<LineCommunication> = recorded.profile().rows().unwrap();
    let between = |a: u32, b: u32| {
        let is_it = |row: &&LineCommunication| (row.thread.0, row.other.0) == (a, b);
        pairs.iter().filter(is_it).map(|row| row.accesses).sum::<u64>()
    };
    assert!(between(1, 2) >= 299 && between(2, 1) >= 298, "{pairs:?}");

    let report = recorded.report();
    assert_eq!(report["communication"]["rule"], "last accessor of a cache line");
    let line = |name: &str| {
        let rows = report["cache_lines"].as_array().unwrap();
        let found = rows.iter().find(|row| row["objects"].to_string().contains(name));
        found.unwrap_or_else(|| panic!("no line of {name} in {rows:?}"))
    };
    assert_eq!(line("same")["sharing"], "true");
    assert_eq!(line("apart")["sharing"], "false");
    assert_eq!(line("constant")["sharing"], "read");
    assert_eq!(line("apart")["users"][1]["written"], serde_json::json!([32]));
}

#[test]
fn counting_lines_changes_no_other_count() {
    let lab = Lab::exact();
    let text = lab.path().join("text");
    std::fs::write(&text, "some lines of text\n".repeat(2000)).unwrap();
    let recorded = [&["--code"][..], &["--lines"]].map(|option| {
        let output = recorder_in_place(&lab, option).args(["gzip", "-c"]).arg(&text).output().unwrap();
        (output.stdout, tables(&lab))
    });
    assert!(recorded[0].1.1.len() > 3);
    assert!(recorded[0] == recorded[1]);
}

#[test]
fn programs_notice_nothing_of_lines() {
    let lab = Lab::exact();
    for (source, flags) in [
        ("faults.c", &["-O2"][..]),
        ("traps.c", &["-O1"]),
        ("fork_threads.c", &["-O1", "-pthread"]),
        ("churn.c", &["-O1"]),
    ] {
        let program = lab.build(&format!("exact/{source}"), flags);
        let native = output(&mut native(&program));
        let recorded = record(&lab, &["--lines"], &[&program]);
        let said = &recorded.outcome.stderr;
        assert_eq!(
            (&recorded.outcome.stdout, recorded.outcome.status),
            (&native.stdout, native.status),
            "{source}: {said}"
        );
    }
    let killed = lab.build("exact/killed.S", FREESTANDING);
    let recorded = record(&lab, &["--lines"], &[&killed]);
    assert_eq!(lines(&recorded).iter().map(|row| row.reads).sum::<u64>(), 5000);
}

#[test]
fn lines_need_every_access() {
    for options in [&["--engine", "sample"][..], &["--frequency", "100"]] {
        let told = failure(numalens(&["record", "--lines"]).args(options).args(["--", "true"]), 2);
        assert!(told.contains("exact engine"));
    }
}
