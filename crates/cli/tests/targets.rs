//! The planted fault of every target is found on a virtual machine, by both engines: `record`, `report`, and
//! targets/expectations.toml.
//!
//! Class shares of samples are compared with the CPU time that each thread of the target itself spent in its loops, so
//! that a busy host does not matter; those of counted accesses are what the target makes by construction. Sampling
//! needs perf events; where the kernel refuses them `record` fails, and so do these tests.

use numalens_lab::expectation;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The virtual machine, of nodes of two CPUs each: threads that share have room on one node.
const MACHINE: &str = "4x2";

fn targets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets").canonicalize().unwrap()
}

/// Builds all targets, once.
fn build() {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let built =
        BUILT.get_or_init(|| Command::new("make").args(["-s", "-C"]).arg(targets()).status().unwrap().success());
    assert!(built, "the targets do not build");
}

/// One at a time: two targets at once would halve each other's samples per second of test.
static TURN: Mutex<()> = Mutex::new(());

/// Records a target, on its own, and compares.
fn finds_the_fault(engine: &str, name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    build();
    let program = targets().join("build").join(name);
    if !program.exists() {
        eprintln!("{name} was not built here: its compiler is missing");
        return;
    }
    let expectation = expectation::of(&targets(), name).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (profile, truth) = (directory.path().join("p.numalens"), directory.path().join("truth.json"));
    // Samples take the seconds that targets run for by themselves, and memory that no cache holds; counts take none.
    // What threads do with a library must outweigh the first calls.
    let load: &[&str] = match (engine, expectation.section.as_str()) {
        ("exact", "code-matrix") => &["--size", "1", "--scale", "0.1"],
        ("exact", _) => &["--size", "16"],
        (_, "code-matrix") => &["--scale", "2"],
        _ => &[],
    };
    let native = Command::new(&program).args(load).output().unwrap();
    let recorded = numalens()
        .args(["record", "--engine", engine, "-q", "--machine", MACHINE, "-o"])
        .arg(&profile)
        .args(&expectation.record)
        .arg("--")
        .arg(&program)
        .args(load)
        .arg("--truth")
        .arg(&truth)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success(), "record: {}: {errors}", recorded.status);
    assert_eq!(recorded.stdout, native.stdout, "a recorded program prints what it prints alone");
    assert_eq!(recorded.stderr, native.stderr, "-q keeps numalens silent");
    let checked = numalens().arg("check").arg(&profile).output().unwrap();
    assert!(checked.status.success(), "check: {}", String::from_utf8_lossy(&checked.stderr));

    let report = numalens().arg("report").arg(&profile).args(["--format", "json"]).output().unwrap();
    assert!(report.status.success(), "report: {}", String::from_utf8_lossy(&report.stderr));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let mut doubts = expectation.doubts(&report, &targets()).unwrap();
    let advice = numalens().arg("advise").arg(&profile).args(["--format", "json"]).output().unwrap();
    assert!(advice.status.success(), "advise: {}", String::from_utf8_lossy(&advice.stderr));
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    doubts.extend(expectation.advice_doubts(&advice, &targets()).unwrap());
    doubts.extend(match engine {
        "sample" => expectation.virtual_shares(&report, directory.path(), expectation.record.is_empty()).unwrap(),
        _ => expectation.counted_shares(&report),
    });
    assert!(doubts.is_empty(), "{name}:\n  {}", doubts.join("\n  "));
}

/// Threads that are spread, each with a block that it touched itself: what `unpinned` is when something binds its
/// threads. Remedies applied. A program that computes.
#[test]
fn nothing_to_gain_where_there_is_no_fault() {
    for program in ["unpinned", "serial_init_pthreads_fixed", "hydro_tiles_fixed", "fork_share_within_fixed"] {
        nothing_to_gain("exact", program, &["--size", "16", "--scale", "0.2"]);
    }
    nothing_to_gain("exact", "compute_bound", &["--scale", "0.1"]);
    nothing_to_gain("sample", "unpinned", &["--size", "16"]);
    nothing_to_gain("sample", "hydro_tiles_fixed", &["--size", "16"]);
    nothing_to_gain("sample", "compute_bound", &[]);
}

fn nothing_to_gain(engine: &str, program: &str, options: &[&str]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    build();
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.numalens");
    let mut record = numalens();
    record.args(["record", "--engine", engine, "-q", "--machine", MACHINE, "-o"]).arg(&profile);
    let recorded = record.arg("--").arg(targets().join("build").join(program)).args(options).output().unwrap();
    assert!(recorded.status.success(), "record: {}", String::from_utf8_lossy(&recorded.stderr));
    let advice = numalens().arg("advise").arg(&profile).args(["--format", "json"]).output().unwrap();
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    assert_eq!(
        (&advice["nothing_to_gain"], &advice["findings"]),
        (&Value::Bool(true), &Value::Array(vec![])),
        "{program}"
    );
}

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

macro_rules! targets {
    ($($name:ident)*) => {
        mod sample {
            $(#[test] fn $name() { super::finds_the_fault("sample", stringify!($name)) })*
        }
        mod exact {
            $(#[test] fn $name() { super::finds_the_fault("exact", stringify!($name)) })*
        }

        /// No target that can be judged on a virtual machine is left out.
        #[test]
        fn every_target_is_here() {
            let here = [$(stringify!($name)),*];
            for (name, expectation) in expectation::all(&targets()).unwrap() {
                assert_eq!(here.contains(&name.as_str()), expectation.r#virtual, "{name}");
            }
        }
    };
}

targets! {
    serial_init_pthreads
    serial_init_omp
    serial_init_fortran
    serial_init_rust
    serial_init_haskell
    unpinned
    read_mostly_table
    shared_read_write
    main_allocates_private
    false_sharing
    fork_share_within
    remote_code
    hash_sieve
    hydro_tiles
    sum_euler
    big_library
}
