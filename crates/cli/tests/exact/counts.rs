//! Counts of whole programs equal arithmetic, what valgrind counts, and themselves.

use super::*;

#[test]
fn counts_equal_arithmetic() {
    let lab = Lab::exact();
    let kernel = lab.build("exact/kernel.S", FREESTANDING);
    let recorded = record(&lab, &[], &[&kernel]);
    assert_eq!(recorded.outcome.code(), Some(3));
    assert_eq!(recorded.outcome.stdout, "hello\n");
    // See the comments in the program.
    assert_eq!(recorded.reads_and_writes(), (1000 + 1000 + 4096 + 100 + 8, 1000 + 1000 + 4096 + 4096 + 8));
    // The loops, and each other line once.
    assert_eq!(recorded.instructions(), 1000 * 5 + 1000 * 3 + 8 * 3 + 26);
    let without = record(&lab, &["--code=off"], &[&kernel]);
    assert_eq!(without.instructions(), 0);
}

#[test]
fn what_is_counted_between_start_and_stop_equals_arithmetic() {
    let lab = Lab::exact();
    let mut flags = FREESTANDING.to_vec();
    flags.extend(["-O2", "-fno-stack-protector"]);
    let marks = lab.build("exact/marks.c", &flags);
    let program = [marks.as_str()];
    // See the program: a start, a stop, and both once more.
    let paused = record(&lab, &["--start-paused"], &program);
    assert_eq!(paused.reads_and_writes(), (300 + 5, 200 + 70));
    // A few instructions for each of them, none of the other ten thousand.
    assert!((575 * 2..575 * 8 + 100).contains(&paused.instructions()), "{}", paused.instructions());
    let from_the_start = record(&lab, &[], &program);
    assert_eq!(from_the_start.reads_and_writes(), (1000 + 300 + 5, 10 + 200 + 70));
    // Every first touch is seen, counted or not.
    let pages = |recorded: &Recorded| recorded.report()["summary"]["first_touch"]["pinned"].clone();
    assert_eq!(pages(&paused), pages(&from_the_start));
}

#[test]
fn threads_that_wait_are_counted_exactly_between_start_and_stop() {
    let lab = Lab::exact();
    let threads = lab.build("exact/marks_threads.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(&lab, &["--start-paused"], &[&threads]);
    assert!(recorded.outcome.status.success());
    let report = recorded.report();
    let work = report["functions"].as_array().unwrap().iter().find(|row| row["function"] == "work");
    assert_eq!(work.map(|row| row["reads"].as_u64().unwrap()), Some(3 * 30_000));
}

#[test]
fn what_was_counted_outlives_a_kill() {
    let lab = Lab::exact();
    let killed = lab.build("exact/killed.S", FREESTANDING);
    let recorded = record(&lab, &[], &[&killed]);
    assert_eq!(recorded.outcome.signal(), Some(9));
    assert_eq!(recorded.reads_and_writes(), (5000, 0));
}

#[test]
fn threads_that_are_killed_within_loops_leave_sums_that_are_equal() {
    let lab = Lab::exact();
    let killed = lab.build("exact/killed_threads.c", &["-O2", "-pthread"]);
    // Which checks that pages have what sites have.
    let recorded = record(&lab, &[], &[&killed]);
    let said = recorded.said();
    let signals: Vec<u32> = said.lines().map(|line| u32::from_str_radix(line, 16).unwrap() & 0x7f7f).collect();
    assert_eq!(signals, [0x700, 9, 6].repeat(4));
}

/// What each of them had counted to half when it was killed is made whole: `check`, which every recording here goes
/// through, compares the sums.
#[test]
fn threads_that_are_killed_within_their_counting_leave_equal_sums() {
    let lab = Lab::exact();
    let program = lab.build("exact/left_behind.c", &["-O1", "-pthread"]);
    let command = [program.as_str()];
    record(&lab, &[], &command);
    record(&lab, &["--stack"], &command);
    record(&lab, &["--cache", "32K"], &command);
}

#[test]
fn threads_are_counted_apart() {
    let lab = Lab::exact();
    let threads = lab.build("exact/threads.c", &["-O2", "-pthread"]);
    let native = output(&mut native(&threads));
    let recorded = record(&lab, &[], &[&threads]);
    assert_eq!(recorded.outcome.stdout, native.stdout);
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
fn a_deterministic_program_gives_the_same_counts_twice() {
    let lab = Lab::exact();
    let kernel = lab.build("exact/kernel.S", FREESTANDING);
    let facts = || {
        let recorded = record(&lab, &["--stack"], &[&kernel]);
        let report = recorded.report();
        (report["summary"]["classes"].clone(), report["summary"]["accesses"].clone(), report["lines"].clone())
    };
    assert_eq!(facts(), facts());
}

#[test]
fn counts_equal_those_of_valgrind() {
    if !installed("valgrind") {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let lab = Lab::exact();
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let program = lab.build("exact/lackey.c", &[level, "-nostdlib", "-static"]);
        let trace =
            Command::new("valgrind").args(["--tool=lackey", "--trace-mem=yes"]).arg(&program).output().unwrap().stderr;
        let lines =
            |kind: &[u8]| trace.split(|&byte| byte == b'\n').filter(|line| line.starts_with(kind)).count() as u64;
        let (loads, stores, both) = (lines(b" L "), lines(b" S "), lines(b" M "));
        // There, every element of a repeated string instruction is one more.
        let executed = lines(b"I ") - 4096 - 1000;
        assert!(loads > 0 && stores > 0, "{level}: {}", String::from_utf8_lossy(&trace[..trace.len().min(500)]));
        let recorded = record(&lab, &["--stack"], &[&program]);
        assert_eq!(recorded.reads_and_writes(), (loads + both, stores + both), "{level}");
        assert_eq!(recorded.instructions(), executed, "{level}");
    }
}
