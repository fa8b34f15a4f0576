//! Code that a program makes as it runs, and names in /tmp/perf-PID.map as runtimes do, has its name in the report.

use std::path::Path;
use std::process::Command;

#[test]
fn code_made_at_run_time_has_the_name_that_its_maker_gives_it() {
    let directory = tempfile::tempdir().unwrap();
    let (program, profile) = (directory.path().join("maker"), directory.path().join("p.numalens"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated_code/maker.c");
    assert!(Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status().unwrap().success());

    let numalens = || Command::new(env!("CARGO_BIN_EXE_numalens"));
    let mut record = numalens();
    record.args(["record", "--engine", "sample", "-q", "-o"]).arg(&profile).arg("--").arg(&program);
    let recorded = record.output().unwrap();
    let map = String::from_utf8_lossy(&recorded.stdout).trim().to_owned();
    if !map.is_empty() {
        std::fs::remove_file(&map).unwrap();
    }
    assert!(recorded.status.success(), "{recorded:?}");

    let report = numalens().arg("report").arg(&profile).args(["--format", "json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["functions"][0]["function"], "made_to_read", "{}", report["functions"]);
}
