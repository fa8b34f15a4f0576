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

/// Builds a program of tests/advice and records it, with its arguments.
fn record(directory: &Path, source: &str, arguments: &[&str]) -> PathBuf {
    record_with(directory, source, arguments, &[])
}

/// The same with options of `record`.
fn record_with(directory: &Path, source: &str, arguments: &[&str], options: &[&str]) -> PathBuf {
    let (stem, extension) = source.split_once('.').unwrap();
    let compiler = if extension == "c" { "cc" } else { "c++" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice").join(source);
    let (program, profile) = (directory.join(stem), directory.join("p.numalens"));
    run(Command::new(compiler).args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source));
    let mut command = numalens();
    command.args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"]).arg(&profile);
    command.args(options);
    run(command.arg("--").arg(program).args(arguments));
    profile
}

/// The line of a source of tests/advice that says EXPECT and this word.
fn expected(source: &str, word: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice").join(source);
    let text = std::fs::read_to_string(path).unwrap();
    let at = text.lines().position(|line| line.contains(&format!("EXPECT {word}"))).unwrap();
    at as u64 + 1
}

fn json(command: &str, profile: &Path) -> Value {
    serde_json::from_str(&run(numalens().arg(command).arg(profile).args(["--format", "json"]))).unwrap()
}

/// Each thread has 2 KiB: of a stack of 8 MiB, or of a block of 128 KiB that is one of 32.
#[test]
fn little_memory_is_in_caches_wherever_it_lies() {
    for mode in ["stack", "heap"] {
        let directory = tempfile::tempdir().unwrap();
        let profile = record(directory.path(), "blocks.c", &[mode]);
        let local = json("report", &profile)["summary"]["local_share"].as_f64().unwrap();
        assert!((20.0..30.0).contains(&local), "{mode}: {local} % local, of four nodes");
        let advice = json("advise", &profile);
        assert_eq!(advice["nothing_to_gain"], true, "{mode}: {:#}", advice["findings"]);
        let said = run(numalens().arg("advise").arg(&profile));
        assert!(said.contains("remote to memory that its users have in their private caches"), "{mode}: {said}");
    }
}

/// Each thread has 1 MiB: a block of 128 KiB from each of eight functions that main calls.
#[test]
fn blocks_of_one_cause_are_one_finding() {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "blocks.c", &["many"]);
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

/// One goroutine fills a slice that four read: the function and line that fill it come first, and the remedy is in Go.
#[test]
fn a_slice_that_one_goroutine_fills_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (program, profile) = (directory.path().join("filled"), directory.path().join("p.numalens"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice/filled.go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source).env("GOCACHE", directory.path().join("cache"));
    match build.status() {
        Ok(status) if status.success() => {}
        other => {
            eprintln!("skipped: go: {other:?}");
            return;
        }
    }
    let mut command = numalens();
    command.args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"]).arg(&profile);
    run(command.arg("--").arg(&program));
    let advice = json("advise", &profile);
    let finding = &advice["findings"][0];
    assert_eq!(finding["where"]["function"], "main.fill", "{finding:#}");
    assert_eq!(finding["where"]["line"], expected("filled.go", "first-touch"), "{finding:#}");
    // Go's threads have their stacks in its heap: that is no stack for that.
    assert_ne!(finding["object"]["kind"], "stack", "{finding:#}");
    let text = run(numalens().arg("advise").arg(&profile));
    assert!(text.contains("go func(") && text.contains("runtime.LockOSThread()"), "{text}");
}

/// Most accesses are of a loop that waits for other threads: they are set apart, and the fault in the rest is told.
#[test]
fn accesses_that_wait_are_set_apart() {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "waiting.c", &[]);
    let advice = json("advise", &profile);
    let waiting = advice["waiting_share"].as_f64().unwrap();
    assert!(waiting > 50.0, "{waiting} % wait");
    let finding = &advice["findings"][0];
    assert_eq!(finding["pattern"], "serial-initialisation", "{finding:#}");
    assert_eq!(finding["where"]["line"], expected("waiting.c", "first-touch"));
    let share = finding["evidence"]["share"].as_f64().unwrap();
    assert!(share > 90.0, "{share} % of what does not wait");
    let text = run(numalens().arg("advise").arg(&profile));
    let told = format!("barrier (waiting.c:{})", expected("waiting.c", "wait"));
    assert!(text.contains("wait for other threads") && text.contains(&told), "{text}");
    // For programs too, and for the web's first page.
    let notes = advice["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains(&told)), "{notes:#?}");
}

/// The same where each thread reads all of the table at random.
#[test]
fn what_all_read_at_random_is_told_beside_those_that_wait() {
    let directory = tempfile::tempdir().unwrap();
    let advice = json("advise", &record(directory.path(), "waiting.c", &["random"]));
    let waiting = advice["waiting_share"].as_f64().unwrap();
    assert!(waiting > 50.0, "{waiting} % wait");
    let finding = &advice["findings"][0];
    assert_eq!((&finding["pattern"], &finding["object"]["name"]), (&"read-by-all".into(), &"table".into()));
    let share = finding["evidence"]["share"].as_f64().unwrap();
    assert!(share > 90.0, "{share} % of what does not wait");
}

/// A class allocates and fills its own memory: the line is that of whoever wants it, and says by what.
#[test]
fn the_line_is_that_of_whoever_wants_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let advice = json("advise", &record(directory.path(), "wrappers.cpp", &[]));
    let findings = advice["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let first = expected("wrappers.cpp", "buffers");
    let members = findings[0]["members"].as_array().unwrap();
    let lines: BTreeSet<u64> = members.iter().filter_map(|member| member["where"]["line"].as_u64()).collect();
    assert_eq!(lines, (first..first + 4).collect(), "{members:#?}");
    let object = &findings[0]["object"];
    assert_eq!(object["site"]["function"], "Buffers::Buffers()", "{object:#}");
    assert!(object["via"].as_str().unwrap().contains("Matrix<double>::allocate"), "{object:#}");
}

/// What one thread writes and the others read is the program's communication. Counters are not: those of one line, and
/// the same one.
#[test]
fn lines_that_are_handed_over_are_no_fault_and_counters_are() {
    let advice = |arguments: &[&str], options: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        json("advise", &record_with(directory.path(), "handed_over.c", arguments, options))
    };
    let none = advice(&[], &[]);
    assert_eq!(none["nothing_to_gain"], true, "{:#}", none["findings"]);
    let unknown = "not known whether the same words (record with --lines)";
    let own = "each thread its own words (false sharing)";
    for (counts, options, words) in
        [("own", &[][..], unknown), ("own", &["--lines"], own), ("same", &["--lines"], "the same words")]
    {
        let advice = advice(&[counts], options);
        let finding = &advice["findings"][0];
        assert_eq!(finding["pattern"], "shared-line", "{finding:#}");
        assert_eq!(finding["object"]["name"], "counts", "{finding:#}");
        assert_eq!(finding["evidence"]["words"], words, "{finding:#}");
    }
}

/// Guards pages of several variables: the one that was touched first gave the finding its name and line, whoever the
/// accesses are to.
#[test]
fn a_page_of_variables_is_about_the_busy_one() {
    let directory = tempfile::tempdir().unwrap();
    let advice = json("advise", &record(directory.path(), "neighbours.c", &[]));
    let finding = &advice["findings"][0];
    assert_eq!(finding["pattern"], "shared-line", "{finding:#}");
    // Where no access of the line was looked at nobody knows the variable, and none is named.
    assert_ne!(finding["object"]["name"], "checked", "{finding:#}");
    assert_eq!(finding["where"]["line"], expected("neighbours.c", "counts"), "{finding:#}");
    let notes = advice["notes"].to_string();
    assert!(!notes.contains("private caches"), "a line that travels is no comfort: {notes}");
}

/// Threads that have ended keep no place on a virtual machine: who is there is spread over the nodes.
#[test]
fn each_node_has_a_thread_whoever_came_before() {
    for children in ["0", "1", "3", "6"] {
        let directory = tempfile::tempdir().unwrap();
        let profile = record(directory.path(), "ended_children.c", &[children]);
        let report = json("report", &profile);
        let rows = report["matrix"]["access"]["rows"].as_array().unwrap();
        let all: u64 = rows.iter().flat_map(|row| row.as_array().unwrap()).map(|cell| cell.as_u64().unwrap()).sum();
        for (node, row) in rows.iter().enumerate() {
            let local = row[node].as_u64().unwrap() * 100 / all;
            assert!((20..30).contains(&local), "{children} children: node {node} has {local} % of {rows:?}");
        }
    }
}

/// Pages say nothing of blocks that lie on them one after the other.
#[test]
fn blocks_on_pages_of_earlier_blocks_are_told_as_handed_on() {
    for (how, remedied) in [("steps", true), ("ended", true), ("next", false)] {
        let directory = tempfile::tempdir().unwrap();
        let advice = json("advise", &record(directory.path(), "handed_on.c", &[how]));
        let first = &advice["findings"][0];
        assert_eq!(first["pattern"], "handed-on", "{how}: {:#}", advice["findings"]);
        let place = &first["object"]["site"];
        assert_eq!(place["line"], expected("handed_on.c", how), "{first:#}");
        assert!(place["file"].as_str().unwrap().ends_with("handed_on.c"), "{first:#}");
        if !remedied {
            continue;
        }
        // What `without_code` says.
        let program = directory.path().join("handed_on");
        let after = directory.path().join("after.numalens");
        let mut record = numalens();
        record.args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"]).arg(&after);
        run(record.env("MALLOC_MMAP_THRESHOLD_", "65536").arg("--").arg(program).arg(how));
        let advice = json("advise", &after);
        assert_eq!(advice["nothing_to_gain"], true, "{how}: {:#}", advice["findings"]);
    }
}

/// Who touches memory first does not say where it goes under a policy.
#[test]
fn what_a_policy_has_placed_is_told_as_placed_by_it() {
    let directory = tempfile::tempdir().unwrap();
    let advice = json("advise", &record(directory.path(), "policy.c", &["bind"]));
    let first = &advice["findings"][0];
    assert_eq!(first["pattern"], "placed-by-policy", "{:#}", advice["findings"]);
    assert_eq!(first["object"]["site"]["line"], expected("policy.c", "data"), "{first:#}");
    let policy = first["evidence"]["policy"].as_str().unwrap();
    assert!(policy.starts_with("bind:0, set by set_mempolicy of thread 0"), "{policy}");
    let directory = tempfile::tempdir().unwrap();
    let advice = json("advise", &record(directory.path(), "policy.c", &["default"]));
    assert_eq!(advice["nothing_to_gain"], true, "{:#}", advice["findings"]);
}
