//! Where the agent's memory is: out of the program's way, or refused as something that stands there, and few mappings.

use super::{numalens, program};
use numalens_profile::Profile;
use std::path::Path;
use std::process::{Command, Output};

fn record(profile: &Path, command: &[&str]) -> Output {
    numalens().args(["record", "--machine", "4x2", "-f", "-o"]).arg(profile).arg("--").args(command).output().unwrap()
}

/// Runs a command natively and recorded: the same output and status.
fn same(directory: &Path, command: &[&str]) {
    let native = Command::new(command[0]).args(&command[1..]).output().unwrap();
    let recorded = record(&directory.join("p"), command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&recorded.stderr);
    assert_eq!(text(&recorded.stdout), text(&native.stdout), "{command:?} {said}");
    assert_eq!(recorded.status.code(), native.status.code(), "{command:?} {said}");
}

fn losses(profile: &Path) -> u64 {
    Profile::open(profile).unwrap().meta.losses.values().sum()
}

#[test]
fn the_table_of_pages_makes_way_and_nothing_of_it_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let fixed = program(directory.path(), "fixed.c", &["-O1", "-pthread"]);
    let fixed = fixed.to_str().unwrap();
    for how in ["map", "map-anew", "move", "attach", "unmap"] {
        same(directory.path(), &[fixed, how]);
        assert_eq!(losses(&directory.path().join("p")), 0, "{how}");
    }
}

#[test]
fn what_cannot_move_is_refused_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let fixed = program(directory.path(), "fixed.c", &["-O1", "-pthread"]);
    let profile = directory.path().join("p");
    for (how, wanted) in [
        // With a second thread, which may be in code that has the table's place in it.
        ("with-thread", "map: Cannot allocate memory\nanew: File exists\n"),
        // The session's memory, of which counters are written all the time.
        (
            "over",
            "map: Cannot allocate memory\nmove: Cannot allocate memory\nprotect: Cannot allocate memory\n\
                  advise: Cannot allocate memory\nlock: Cannot allocate memory\nunmap: Success\n",
        ),
    ] {
        let recorded = record(&profile, &[fixed.to_str().unwrap(), how]);
        let said = String::from_utf8_lossy(&recorded.stderr);
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), wanted, "{how}: {said}");
        assert!(recorded.status.success() && said.contains("refused, as memory of numalens is there"), "{said}");
        assert!(losses(&profile) >= 2, "{how}");
    }
}

#[test]
fn a_thread_takes_few_mappings() {
    const THREADS: u64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let alive = program(directory.path(), "alive.c", &["-O1", "-pthread"]);
    let alive = alive.to_str().unwrap();
    let lines = |output: Output| -> u64 { String::from_utf8(output.stdout).unwrap().trim().parse().unwrap() };
    let native = |threads: &str| lines(Command::new(alive).arg(threads).output().unwrap());
    let recorded = |threads: &str| lines(record(&directory.path().join("p"), &[alive, threads]));
    let threads = THREADS.to_string();
    let own = recorded(&threads) - recorded("0") - (native(&threads) - native("0"));
    assert!(own <= 4 * THREADS, "{own} mappings of {THREADS} threads");
}

#[test]
fn sanitizers_and_valgrind_run() {
    let directory = tempfile::tempdir().unwrap();
    let ways: [&[&str]; 5] = [
        &["-fsanitize=address"],
        &["-fsanitize=address", "-static-libasan"],
        &["-fsanitize=thread"],
        &["-fsanitize=thread", "-static-libtsan"],
        &["-fsanitize=undefined"],
    ];
    for flags in ways {
        let flags = [flags, &["-O1", "-g", "-pthread"]].concat();
        let checked = program(directory.path(), "checked.c", &flags);
        let checked = checked.to_str().unwrap();
        same(directory.path(), &[checked]);
        // What each of them finds; its report names addresses.
        same(directory.path(), &[checked, "wrong"]);
    }
    let plain = program(directory.path(), "checked.c", &["-O1", "-g", "-pthread"]);
    let valgrind = Command::new("valgrind").arg("--version").output();
    if valgrind.is_ok_and(|output| output.status.success()) {
        // Its whole machinery, and no more: looking for mistakes takes ten times as long.
        same(directory.path(), &["valgrind", "-q", "--tool=none", plain.to_str().unwrap()]);
    }
}
