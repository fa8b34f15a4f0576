//! Targets and their twins with the remedy applied: what `diff` sees agrees with what `advise` predicted.
//!
//! Gains are predicted for memory time. Of counted accesses on a virtual machine the part of it that does not depend on queues is known: the mean
//! distance of all accesses. So the prediction's direction must be right, and where the cost model gains by distance alone the size too.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn targets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets").canonicalize().unwrap()
}

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

#[track_caller]
fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[track_caller]
fn json(command: &str, profiles: &[&Path]) -> Value {
    serde_json::from_slice(&run(numalens().arg(command).args(profiles).args(["--format", "json"]))).unwrap()
}

/// The mean distance of the accesses of pinned threads.
fn mean_distance(report: &Value) -> f64 {
    let rows = report["summary"]["distances"].as_array().unwrap();
    let known = || rows.iter().filter_map(|row| Some((row["distance"].as_f64()?, row["accesses"].as_f64()?)));
    known().map(|(distance, n)| distance * n).sum::<f64>() / known().map(|(_, n)| n).sum::<f64>()
}

/// What the twins differ in.
enum Change {
    /// Accesses come nearer.
    Distance,
    /// The busiest node is relieved.
    Balance,
}

/// `scale`: of rounds. A table must be read for longer than it took to write it, or it is not read-mostly.
fn twins(name: &str, remedy: &str, scale: &str, change: Change) {
    run(Command::new("make").args(["-s", "-C"]).arg(targets()));
    let directory = tempfile::tempdir().unwrap();
    let record = |twin: &str| {
        let profile = directory.path().join(format!("{twin}.numalens"));
        let program = targets().join("build").join(twin);
        let mut command = numalens();
        command
            .args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(program);
        let printed = run(command.args(["--size", "8", "--scale", scale]));
        (profile, printed)
    };
    let (before, printed) = record(name);
    let (after, printed_fixed) = record(&format!("{name}_fixed"));
    assert_eq!(printed, printed_fixed, "the twins compute the same");

    let advice = json("advise", &[&before]);
    let finding = &advice["findings"][0];
    assert_eq!(finding["remedy"], remedy, "{advice:#}");
    let figures = json("diff", &[&before, &after]);
    let figure = |metric: &str, which: &str| {
        let rows = figures["figures"].as_array().unwrap();
        rows.iter().find(|row| row["metric"] == metric).and_then(|row| row[which].as_f64()).unwrap()
    };
    let fixed = json("advise", &[&after]);
    let still = fixed["findings"].as_array().unwrap().iter().any(|finding| finding["remedy"] == remedy);
    assert!(!still, "{fixed:#}");
    match change {
        Change::Distance => {
            assert!(figure("remote_share", "before") > 60.0 && figure("remote_share", "after") < 20.0, "{figures:#}");
            let [was, is] = [&before, &after].map(|profile| mean_distance(&json("report", &[profile])));
            let gained = (1.0 - is / was) * 100.0;
            let gain = |key: &str| finding["gain"][key].as_f64().unwrap();
            // Making copies, or touching in parallel, costs accesses that the prediction does not know.
            assert!(gained > gain("low") - 10.0 && gained < gain("high") + 10.0, "{gained} against {finding:#}");
        }
        Change::Balance => {
            assert!(figure("imbalance", "before") > 200.0 && figure("imbalance", "after") < 100.0, "{figures:#}");
        }
    }
    // A script that guards the remedy: the bound holds of the one and not of the other.
    let guard = |first: &Path, second: &Path| {
        let bound = match change {
            Change::Distance => "local_share<70",
            Change::Balance => "imbalance>100",
        };
        numalens().arg("diff").args([first, second]).args(["--fail-if", bound]).output().unwrap().status.code()
    };
    assert_eq!((guard(&before, &after), guard(&after, &before)), (Some(0), Some(1)));
}

#[test]
fn initialising_in_parallel() {
    twins("serial_init_pthreads", "parallel-initialisation", "0.1", Change::Distance);
}

#[test]
fn allocating_where_it_is_used() {
    twins("main_allocates_private", "local-allocation", "0.1", Change::Distance);
}

#[test]
fn a_replica_for_everyone() {
    twins("read_mostly_table", "replicate", "1", Change::Distance);
}

#[test]
fn interleaving() {
    twins("shared_read_write", "interleave", "0.1", Change::Balance);
}

#[test]
fn a_line_for_each_counter() {
    twins("false_sharing", "split-line", "0.1", Change::Distance);
}
