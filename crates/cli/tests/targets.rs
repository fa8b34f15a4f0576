//! The planted fault of every target is found on a virtual machine, by both engines: `record`, `report`, and
//! targets/expectations.toml.
//!
//! Class shares of samples are compared with the CPU time that each thread of the target itself spent in its loops, so
//! that a busy host does not matter; those of counted accesses are what the target makes by construction. Sampling
//! needs perf events; where the kernel refuses them `record` fails, and so do these tests.

mod support;

use numalens_lab::expectation;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use support::targets::folder as targets;
use support::{Lab, native, output, targets::program};

/// The virtual machine, of nodes of two CPUs each: threads that share have room on one node.
const MACHINE: &str = "4x2";

/// One at a time: two targets at once would halve each other's samples per second of test.
static TURN: Mutex<()> = Mutex::new(());

/// Records a target, on its own, and compares.
fn finds_the_fault(engine: &str, name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(program) = program(name) else { return };
    let program = program.to_str().unwrap();
    let expectation = expectation::of(&targets(), name).unwrap();
    let lab = Lab::exact();
    // Samples take the seconds that targets run for by themselves, and memory that no cache holds; counts take none.
    // What threads do with a library must outweigh the first calls.
    let load: &[&str] = match (engine, expectation.section.as_str()) {
        ("exact", "code-matrix") => &["--size", "1", "--scale", "0.1"],
        ("exact", _) => &["--size", "16"],
        (_, "code-matrix") => &["--scale", "2"],
        _ => &[],
    };
    let native = output(native(program).args(load));
    let options = ["--engine", engine, "--machine", MACHINE].into_iter();
    let options: Vec<&str> = options.chain(expectation.record.iter().map(String::as_str)).collect();
    let mut recorder = lab.recorder(&options);
    let recorded = lab.finished(recorder.arg(program).args(load).args(["--truth", &lab.at("truth.json")])).succeeded();
    assert_eq!(recorded.outcome.stdout, native.stdout, "a recorded program prints what it prints alone");
    assert_eq!(recorded.outcome.stderr, native.stderr, "-q keeps numalens silent");
    let recorded = recorded.sound();
    let report = recorded.report();
    let mut doubts = expectation.doubts(&report, &targets()).unwrap();
    doubts.extend(expectation.advice_doubts(&recorded.advice(), &targets()).unwrap());
    doubts.extend(match engine {
        "sample" => expectation.virtual_shares(&report, lab.path(), expectation.record.is_empty()).unwrap(),
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

fn nothing_to_gain(engine: &str, name: &str, options: &[&str]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::exact();
    let program = program(name).unwrap();
    let command = [&[program.to_str().unwrap()], options].concat();
    let advice = lab.recorded(&["--engine", engine, "--machine", MACHINE], &command).succeeded().advice();
    assert_eq!(
        (&advice["nothing_to_gain"], &advice["findings"]),
        (&Value::Bool(true), &Value::Array(vec![])),
        "{name}"
    );
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
