//! Objects where the counting is paused.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// What was accessed of each block in `paused.c` while that was counted: reads and writes.
fn of_counted_parts(first: bool) -> [(&'static str, [u64; 2]); 6] {
    // In the order of the parts: that before the first start, if it is counted, and those that always are.
    let [before, mut rest] = [
        [
            ("common block", [50, 100]),
            ("lent block", [0, 7]),
            ("used block", [0, 13]),
            ("late block", [0, 0]),
            ("kept block", [0, 60]),
            ("large block", [0, 0]),
        ],
        [
            ("common block", [20 + 6, 30 + 2]),
            ("lent block", [0, 3]),
            ("used block", [4, 11]),
            ("late block", [4, 8]),
            ("kept block", [21, 10]),
            ("large block", [0, 5]),
        ],
    ];
    if first {
        rest.iter_mut().zip(before).for_each(|((_, all), (_, more))| *all = [all[0] + more[0], all[1] + more[1]]);
    }
    rest
}

/// Who paused.
const BY_USER: &str = "by a user";

#[track_caller]
fn assert_counted(recorded: &Recorded, first: bool, what: &str) {
    let found = objects(recorded, "paused.c");
    for (tag, wanted) in of_counted_parts(first) {
        let row = &found[tag];
        assert_eq!([&row["reads"], &row["writes"]].map(number), wanted, "{what}: {tag}: {row}");
    }
    // Who asks a user is on its way from one call to the next while the counters are read: a few accesses of linking.
    let most = if what == BY_USER { 16 } else { 0 };
    let unknown = found.get("objects that share a page, not told apart").map_or(0, |row| number(&row["accesses"]));
    assert!(unknown <= most, "{what}: {unknown} accesses are nobody's: {:?}", found.keys());
    let coarsened = recorded.profile().meta.coarsened;
    assert!(coarsened.is_empty(), "{what}: {coarsened:?}");
}

#[test]
fn what_was_accessed_in_pauses_is_no_objects() {
    let lab = Lab::exact();
    for linked in [&["-O1", "-g", "-pthread"][..], &["-O1", "-g", "-pthread", "-static"]] {
        for (options, first) in
            [(&["--objects", "exact"][..], true), (&["--objects", "exact", "--start-paused"], false)]
        {
            let recorded = record_with(&lab, "paused.c", linked, options, &[]);
            assert_counted(&recorded, first, &format!("{linked:?} {options:?}"));
        }
    }
}

#[test]
fn what_was_accessed_while_a_user_paused_is_no_objects() {
    let lab = Lab::exact();
    let program = lab.build("objects/paused.c", &["-O1", "-g", "-pthread"]);
    let mut recorder = lab.recorder(&["--objects", "exact", "--start-paused"]);
    recorder.args([&program, "by user"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut recording = recorder.spawn().unwrap();
    let (mut tell, hear) = (recording.stdin.take().unwrap(), recording.stdout.take().unwrap());
    let pid = recording.id().to_string();
    for asked in BufReader::new(hear).lines() {
        let asked = asked.unwrap();
        stdout(&mut numalens(&["ctl", asked.trim(), "--pid", &pid]));
        tell.write_all(b"\n").unwrap();
    }
    let recorded = lab.waited(recording).succeeded().sound();
    assert_counted(&recorded, false, BY_USER);
}
