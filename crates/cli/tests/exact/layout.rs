//! Where the agent's memory is: out of the program's way, or refused as something that stands there, and few mappings.

use super::*;
use numalens_profile::Profile;

/// Records with what numalens says on its own.
fn record(lab: &Lab, command: &[&str]) -> Recorded {
    lab.finished(numalens(&["record", "--machine", "4x2", "-f", "-o"]).arg(lab.profile()).arg("--").args(command))
}

/// Runs a command natively and recorded: the same output and status.
#[track_caller]
fn same(lab: &Lab, command: &[&str]) {
    let native = output(native(command[0]).args(&command[1..]));
    let recorded = record(lab, command).outcome;
    assert_eq!(recorded.stdout, native.stdout, "{command:?} {}", recorded.stderr);
    assert_eq!(recorded.code(), native.code(), "{command:?} {}", recorded.stderr);
}

fn losses(lab: &Lab) -> u64 {
    Profile::open(&lab.profile()).unwrap().meta.losses.values().sum()
}

#[test]
fn the_table_of_pages_makes_way_and_nothing_of_it_is_left() {
    let lab = Lab::exact();
    let fixed = lab.build("exact/fixed.c", &["-O1", "-pthread"]);
    let fixed = &fixed;
    for how in ["map", "map-anew", "move", "attach", "unmap"] {
        same(&lab, &[fixed, how]);
        assert_eq!(losses(&lab), 0, "{how}");
    }
}

#[test]
fn what_cannot_move_is_refused_and_told() {
    let lab = Lab::exact();
    let fixed = lab.build("exact/fixed.c", &["-O1", "-pthread"]);
    for (how, told, wanted) in [
        // With a second thread, which may be in code that has the table's place in it. Who asks whether a place is free
        // is answered, and nobody is told.
        ("with-thread", 1, "map: Cannot allocate memory\nanew: File exists\n"),
        // The session's memory, of which counters are written all the time.
        (
            "over",
            4,
            "map: Cannot allocate memory\nmove: Cannot allocate memory\nprotect: Cannot allocate memory\n\
                  advise: Cannot allocate memory\nlock: Cannot allocate memory\nunmap: Success\n",
        ),
    ] {
        let recorded = record(&lab, &[&fixed, how]).outcome;
        let said = &recorded.stderr;
        assert_eq!(recorded.stdout, wanted, "{how}: {said}");
        assert!(recorded.status.success() && said.contains("refused, as memory of numalens is there"), "{said}");
        assert_eq!(losses(&lab), told, "{how}");
    }
}

#[test]
fn a_thread_takes_few_mappings() {
    const THREADS: u64 = 300;
    let lab = Lab::exact();
    let alive = lab.build("exact/alive.c", &["-O1", "-pthread"]);
    let alive = &alive;
    let lines = |outcome: Outcome| -> u64 { outcome.stdout.trim().parse().unwrap() };
    let native = |threads: &str| lines(output(native(alive).arg(threads)));
    let recorded = |threads: &str| lines(record(&lab, &[alive, threads]).outcome);
    let threads = THREADS.to_string();
    let own = recorded(&threads) - recorded("0") - (native(&threads) - native("0"));
    assert!(own <= 4 * THREADS, "{own} mappings of {THREADS} threads");
}

#[test]
fn sanitizers_and_valgrind_run() {
    let lab = Lab::exact();
    let ways: [&[&str]; 5] = [
        &["-fsanitize=address"],
        &["-fsanitize=address", "-static-libasan"],
        &["-fsanitize=thread"],
        &["-fsanitize=thread", "-static-libtsan"],
        &["-fsanitize=undefined"],
    ];
    for flags in ways {
        let flags = [flags, &["-O1", "-g", "-pthread"]].concat();
        let checked = lab.build("exact/checked.c", &flags);
        let checked = &checked;
        same(&lab, &[checked]);
        // What each of them finds; its report names addresses.
        same(&lab, &[checked, "wrong"]);
    }
    let plain = lab.build("exact/checked.c", &["-O1", "-g", "-pthread"]);
    if installed("valgrind") {
        // Its whole machinery, and no more: looking for mistakes takes ten times as long.
        same(&lab, &["valgrind", "-q", "--tool=none", &plain]);
    }
}
