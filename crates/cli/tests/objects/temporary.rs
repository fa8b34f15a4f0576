//! Blocks that live for a moment.

use super::*;
use std::path::Path;

/// However short blocks live, those that fill pages have exactly what was accessed there.
#[test]
fn blocks_of_whole_pages_have_what_arithmetic_says_however_short_they_live() {
    let lab = Lab::exact();
    for linked in ["-pie", "-static"] {
        for options in [&[][..], &["--cache", "32k"], &["--objects", "exact"]] {
            let flags = ["-O1", "-g", "-pthread", linked];
            let recorded = record_with(&lab, "temporary.c", &flags, options, &["20"]);
            let said = recorded.said();
            let rows = objects(&recorded, "temporary.c");
            for line in said.lines() {
                let [tag, reads, writes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
                let row = &rows[tag];
                let found = [&row["reads"], &row["writes"]].map(number);
                assert_eq!(found.map(|count| count.to_string()), [reads, writes], "{linked} {options:?}: {tag}: {row}");
            }
        }
    }
}

/// What an allocator clears or copies of fresh memory before it gives a block, it touches for that.
#[test]
fn blocks_have_the_pages_that_were_filled_for_them() {
    let lab = Lab::exact();
    for linked in ["-pie", "-static"] {
        let recorded = record_with(&lab, "filled.c", &["-O1", "-g", linked], &[], &[]);
        let rows = objects(&recorded, "filled.c");
        for (tag, pages) in [("copied", 1024), ("cleared", 512)] {
            let first_touches = number(&rows[tag]["first_touch"]);
            // A page at each end may be another one's as well.
            assert!((pages - 2..=pages + 1).contains(&first_touches), "{linked}: {tag}: {}", rows[tag]);
        }
    }
}

/// Pages of which a block has begun or ended may move, or go, before anybody accesses them again.
#[test]
fn blocks_have_what_arithmetic_says_though_their_pages_move_or_go() {
    assert_writes_as_said("marked.c");
}

/// A forked child has the blocks that there were when it was forked, however late it begins to run.
#[test]
fn blocks_of_a_parent_are_not_those_of_a_child_that_runs_later() {
    assert_writes_as_said("late_child.c");
}

/// Processes that are gone before they, or their children, have run keep nobody else out of the recording.
#[test]
fn blocks_of_others_are_known_though_processes_are_gone_before_they_ran() {
    assert_writes_as_said("gone_early.c");
}

/// A block has ended when the call begins that ends it, which may return long after others have its memory.
#[test]
fn blocks_have_nothing_of_those_that_have_their_memory_before_it_is_told() {
    let lab = Lab::exact();
    let library = lab.at("liblate.so");
    let flags = ["c++", "-O1", "-g", "-shared", "-fPIC", "-DLIBRARY"];
    compile("objects/told_late.c", Path::new(&library), &flags);
    for options in [&[][..], &["--objects", "exact"]] {
        let flags = ["-O1", "-g", "-pthread", "-Wl,--no-as-needed", &library];
        let recorded = record_with(&lab, "told_late.c", &flags, options, &[]);
        assert_writes(&recorded, "told_late.c");
        // What was unmapped was mapped first, by the same threads.
        let rows = recorded.profile().rows::<Allocation>().unwrap();
        let of = |call| -> Vec<(ThreadId, Option<ObjectId>)> {
            let rows = rows.iter().filter(|row| row.call == call && row.bytes == 400 << 10);
            rows.map(|row| (row.thread, row.object)).collect()
        };
        assert_eq!(of(Call::Munmap), of(Call::Mmap)[..2]);
    }
}

/// A program says how often each of its blocks is written.
#[track_caller]
fn assert_writes_as_said(name: &str) {
    let lab = Lab::exact();
    for linked in ["-pie", "-static"] {
        let recorded = record_with(&lab, name, &["-O1", "-g", linked], &[], &[]);
        assert_writes(&recorded, name);
    }
}

#[track_caller]
fn assert_writes(recorded: &Recorded, name: &str) {
    let rows = objects(recorded, name);
    for line in recorded.said().lines() {
        let (tag, writes) = line.split_once(' ').unwrap();
        assert_eq!(number(&rows[tag]["writes"]).to_string(), writes, "{tag}: {}", rows[tag]);
    }
}
