//! Advice on recorded programs: little memory stays in caches wherever it lies, and what has one cause is one finding.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

/// Records blocks.c.
fn record(directory: &Path, mode: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice/blocks.c");
    let (program, profile) = (directory.join("blocks"), directory.join("p.numalens"));
    run(Command::new("cc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source));
    let mut command = numalens();
    command.args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"]).arg(&profile);
    run(command.arg("--").arg(program).arg(mode));
    profile
}

fn json(command: &str, profile: &Path) -> Value {
    serde_json::from_str(&run(numalens().arg(command).arg(profile).args(["--format", "json"]))).unwrap()
}

/// Each thread has 2 KiB: of a stack of 8 MiB, or of a block of 128 KiB that is one of 32.
#[test]
fn little_memory_is_in_caches_wherever_it_lies() {
    for mode in ["stack", "heap"] {
        let directory = tempfile::tempdir().unwrap();
        let profile = record(directory.path(), mode);
        let local = json("report", &profile)["summary"]["local_share"].as_f64().unwrap();
        assert!((20.0..30.0).contains(&local), "{mode}: {local} % local, of four nodes");
        let advice = json("advise", &profile);
        assert_eq!(advice["nothing_to_gain"], true, "{mode}: {:#}", advice["findings"]);
    }
}

/// Each thread has 1 MiB: a block of 128 KiB from each of eight functions that main calls.
#[test]
fn blocks_of_one_cause_are_one_finding() {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "many");
    let advice = json("advise", &profile);
    let findings = advice["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(
        (&findings[0]["pattern"], &findings[0]["remedy"]),
        (&"private-elsewhere".into(), &"local-allocation".into())
    );
    let members = findings[0]["members"].as_array().unwrap();
    let functions: BTreeSet<&str> = members.iter().filter_map(|member| member["where"]["function"].as_str()).collect();
    let makers = ["charge", "density", "energy", "field", "flux", "mass", "pressure", "velocity"];
    assert_eq!((members.len(), functions), (8, BTreeSet::from(makers)));
    let share = |of: &Value| of["evidence"]["share"].as_f64().unwrap();
    for member in members {
        assert!((share(member) - 12.5).abs() < 0.5, "{member:#}");
    }
    assert!((share(&findings[0]) - members.iter().map(share).sum::<f64>()).abs() < 0.1, "{:#}", findings[0]);
    let text = run(numalens().arg("advise").arg(&profile));
    let told = text.lines().skip_while(|line| !line.contains("8 of one cause")).skip(1).take(4).collect::<Vec<_>>();
    assert!(told[..3].iter().all(|line| line.contains("blocks.c:") && line.contains("heap (512 KiB)")), "{text}");
    assert!(told[3].contains("5 more"), "{text}");
}
