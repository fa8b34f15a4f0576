//! Programs that run on a runtime, in the words of their own language: the planted fault's line, object and first
//! toucher, in both engines, and counts that arithmetic knows.

#[path = "../support/mod.rs"]
mod support;

mod haskell;

use numalens_profile::tables::{Collection, Frame, Phase, SiteAccess};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

/// Elements that each of four threads reads in a turn.
const PART: u64 = 1 << 19;

/// A source of targets/.
fn target(name: &str) -> PathBuf {
    source(&format!("../../../targets/{name}"))
}

/// The line of a target that has a tag.
fn line(target: &str, tag: &str) -> u64 {
    line_of(&text_of(&format!("../../../targets/{target}")), tag)
}

/// Compiles a class of Java, and the command that runs it; none: there is no Java here.
fn java(lab: &Lab, class: &str, options: &[&str]) -> Option<Vec<String>> {
    if !installed("javac") || !installed("java") {
        eprintln!("skipped: no javac");
        return None;
    }
    let source = target(&format!("{class}.java"));
    assert!(Command::new("javac").args(["-g", "-d", &lab.at("")]).arg(source).status().unwrap().success());
    Some(words(&[&["java", "-cp", &lab.at("")], options, &[class]].concat()))
}

/// Compiles the table of Go, complete in itself.
fn go(lab: &Lab) -> Option<Vec<String>> {
    go_with(lab, "", &[])
}

/// The same with more of Go, and flags.
fn go_with(lab: &Lab, more: &str, flags: &[&str]) -> Option<Vec<String>> {
    let (program, folder) = (lab.at("table"), lab.at("go"));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(format!("{folder}/{name}"), text).unwrap();
    write("go.mod", b"module table\n\ngo 1.17\n");
    write("serial_table.go", &std::fs::read(target("serial_table.go")).unwrap());
    if !more.is_empty() {
        write("more.go", more.as_bytes());
    }
    let mut command = Command::new("go");
    command.args(["build", "-o", &program]).args(flags).current_dir(&folder).env("GOCACHE", lab.at("cache"));
    command.env("CGO_ENABLED", if more.contains("import \"C\"") { "1" } else { "0" });
    match command.status() {
        Ok(status) if status.success() => Some(vec![program]),
        other => {
            eprintln!("skipped: go: {other:?}");
            None
        }
    }
}

/// The Pythons that are here, by the programs that they are.
fn pythons() -> Vec<String> {
    let versions = ["python3", "python3.8", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13"];
    let executable = |name: &str| {
        let told = Command::new(name).args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        told.status.success().then(|| String::from_utf8(told.stdout).unwrap().trim().to_owned())
    };
    let mut all: Vec<String> = versions.into_iter().filter_map(executable).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Collections that a profile has as phases, and as such.
fn collections(profile: &numalens_profile::Profile) -> usize {
    let phases = profile.rows::<Phase>().unwrap().into_iter();
    let phases = phases.filter(|row| row.name == "garbage collection" && row.end_ns.is_some()).count();
    let led: u64 = profile.rows::<Collection>().unwrap().iter().map(|row| row.led).sum();
    assert_eq!(led, phases as u64);
    phases
}

fn recorded(lab: &Lab, options: &[&str], command: &[String], arguments: &[&str]) -> Recorded {
    let command: Vec<&str> = command.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
    let recorded = lab.recorded(options, &command).succeeded();
    let alone = output(native(command[0]).args(&command[1..]));
    assert_eq!(recorded.outcome.stdout, alone.stdout);
    assert_eq!(recorded.outcome.stderr, alone.stderr, "the machine says nothing of being watched");
    recorded.sound()
}

#[test]
fn a_table_that_one_java_thread_fills_is_found_by_both_engines() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, "SerialTable", &[]) else { return };
    let allocated = line("SerialTable.java", "[allocated]");
    for (engine, turns) in [("exact", "8"), ("sample", "800")] {
        let recorded = recorded(&lab, &["--engine", engine, "--machine", "4x1"], &command, &["serial", turns]);
        let advice = recorded.advice();
        let finding = &advice["findings"][0];
        assert!(
            ["serial-initialisation", "read-mostly"].contains(&finding["pattern"].as_str().unwrap()),
            "{engine}: {finding}"
        );
        assert_eq!(finding["object"]["name"], "long[]", "{engine}: {finding}");
        let site = &finding["object"]["site"];
        assert_eq!(
            (&site["file"], &site["line"]),
            (&"SerialTable.java".into(), &allocated.into()),
            "{engine}: {finding}"
        );
        assert!(!finding["in_code"].as_str().unwrap().contains("malloc"), "{engine}: advice is Java");
        let report = recorded.report();
        let first = &report["first_touch_lines"][0];
        assert_eq!(
            (&first["file"], &first["line"]),
            (&"SerialTable.java".into(), &allocated.into()),
            "{engine}: {first}"
        );
        let lines = report["lines"].as_array().unwrap();
        let in_java = |row: &&Value| row["file"] == "SerialTable.java";
        let hottest = lines.iter().find(in_java).unwrap();
        assert_eq!(hottest["function"], "SerialTable.sum", "{engine}: {hottest}");
    }
}

#[test]
fn a_table_that_each_java_thread_has_of_its_own_is_no_fault() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, "SerialTable", &[]) else { return };
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "8"]).advice();
    let findings = advice["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["object"]["name"] != "long[]"), "{findings:?}");
}

/// The simple compiler, at the first call, makes one read of the element and one of the array's length for each turn of
/// the loop.
#[test]
fn accesses_of_a_line_of_java_are_those_of_arithmetic() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, "SerialTable", &["-Xcomp", "-XX:TieredStopAtLevel=1"]) else { return };
    let profile = recorded(&lab, &["--machine", "4x1"], &command, &["serial", "8"]).profile();
    let wanted = line("SerialTable.java", "[read]") as u32;
    let at_line = |frame: &Frame| {
        frame.depth == 0 && frame.file.as_deref() == Some("SerialTable.java") && frame.line == Some(wanted)
    };
    let sites: HashSet<_> =
        profile.rows::<Frame>().unwrap().into_iter().filter(at_line).map(|frame| frame.site).collect();
    let rows = profile.rows::<SiteAccess>().unwrap().into_iter().filter(|row| sites.contains(&row.site));
    assert_eq!(rows.map(|row| row.reads).sum::<u64>(), 4 * PART * 8 * 2);
}

/// A sample stands for what lies around it: none of these is large enough to be told by itself.
#[test]
fn small_objects_that_one_java_thread_makes_are_found_by_both_engines() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, "SmallObjects", &[]) else { return };
    let allocated = line("SmallObjects.java", "[allocated]");
    for (engine, turns) in [("exact", "60"), ("sample", "2000")] {
        let recorded = recorded(&lab, &["--engine", engine, "--machine", "4x1"], &command, &["serial", turns]);
        let advice = recorded.advice();
        let object = &advice["findings"][0]["object"];
        assert_eq!(object["name"], "SmallObjects$Particle", "{engine}: {advice}");
        assert_eq!(
            (&object["site"]["function"], &object["site"]["line"]),
            (&"SmallObjects.make".into(), &allocated.into()),
            "{engine}: {object}"
        );
        // 48 bytes each: 6 MiB.
        let bytes = object["size"].as_f64().unwrap();
        assert!((3e6..12e6).contains(&bytes), "{engine}: {object}");
    }
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "60"]).advice();
    let findings = advice["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["object"]["name"] != "SmallObjects$Particle"), "{findings:?}");
}

#[test]
fn collections_of_java_are_phases() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, "Collections", &["-XX:+UseSerialGC", "-Xlog:gc"]) else { return };
    let command: Vec<&str> = command.iter().map(String::as_str).chain(["4"]).collect();
    for engine in ["exact", "sample"] {
        let recorded = lab.recorded(&["--engine", engine], &command).succeeded().sound();
        let said = recorded.said().lines().filter(|line| line.contains(" Pause ")).count();
        assert!(said >= 4);
        assert_eq!(collections(&recorded.profile()), said, "{engine}");
    }
}

#[test]
fn a_table_that_one_thread_of_go_fills_is_found() {
    let lab = Lab::exact();
    let Some(command) = go(&lab) else { return };
    let recorded = recorded(&lab, &["--machine", "4x1"], &command, &["serial", "8", "0"]);
    let advice = recorded.advice();
    let finding = &advice["findings"][0];
    assert_eq!(finding["pattern"], "serial-initialisation", "{finding}");
    let site = &finding["object"]["site"];
    let wanted = line("serial_table.go", "[allocated]");
    assert!(site["file"].as_str().unwrap().ends_with("serial_table.go"), "{finding}");
    assert_eq!(site["line"], wanted, "{finding}");
    assert!(finding["in_code"].as_str().unwrap().contains("go func"), "{finding}");
    // Its own, with the size of a class.
    let objects = recorded.report()["objects"].clone();
    let named =
        |start: &str| objects.as_array().unwrap().iter().any(|row| row["name"].as_str().unwrap().starts_with(start));
    assert!(named("Go objects of ") && named("Go stacks"), "{objects}");
}

/// What strip takes away Go's runtime has as well; and a program with code in C loads libraries.
#[test]
fn go_without_symbols_and_with_code_in_c_is_told_alike() {
    let lab = Lab::exact();
    let with_c = "package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nvar one = C.one()\n";
    for (more, flags) in [("", &["-ldflags=-s -w"][..]), (with_c, &[]), (with_c, &["-ldflags=-s -w"])] {
        let Some(command) = go_with(&lab, more, flags) else { return };
        let recorded = recorded(&lab, &["--machine", "4x1"], &command, &["serial", "8", "0"]);
        let advice = recorded.advice();
        let finding = &advice["findings"][0];
        assert_eq!(finding["pattern"], "serial-initialisation", "{flags:?}: {finding}");
        let site = &finding["object"]["site"];
        assert_eq!(
            (&site["function"], &site["line"]),
            (&"main.allocate".into(), &line("serial_table.go", "[allocated]").into()),
            "{flags:?}: {finding}"
        );
        let hottest = recorded.report()["lines"][0].clone();
        assert_eq!(hottest["function"], "main.sum", "{flags:?}: {hottest}");
        assert!(hottest["file"].as_str().unwrap().ends_with("serial_table.go"), "{flags:?}: {hottest}");
    }
}

/// By the clock its objects are not told: the heap has its name, and the line that filled it is the finding's place.
#[test]
fn a_table_of_go_is_found_by_the_clock() {
    let lab = Lab::exact();
    let Some(command) = go_with(&lab, "", &["-ldflags=-s -w"]) else { return };
    let options = ["--engine", "sample", "--machine", "4x1"];
    let recorded = recorded(&lab, &options, &command, &["serial", "800", "0"]);
    let advice = recorded.advice();
    let finding = &advice["findings"][0];
    assert_eq!(finding["where"]["function"], "main.fill", "{finding}");
    let report = recorded.report();
    let first = &report["objects"][0];
    assert_eq!(first["name"], "Go heap", "{first}");
}

#[test]
fn a_table_that_each_thread_of_go_has_of_its_own_is_no_fault() {
    let lab = Lab::exact();
    let Some(command) = go(&lab) else { return };
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "8", "0"]).advice();
    assert_eq!(advice["findings"], Value::Array(vec![]));
}

#[test]
fn collections_of_go_are_phases() {
    let lab = Lab::exact();
    let Some(command) = go(&lab) else { return };
    let mut recorder = lab.recorder(&[]);
    recorder.args(&command).args(["own", "1", "5"]).env("GODEBUG", "gctrace=1");
    let recorded = lab.finished(&mut recorder).succeeded().sound();
    let said = recorded.outcome.stderr.lines().filter(|line| line.starts_with("gc ")).count();
    assert!(said >= 5, "{}", recorded.outcome.stderr);
    assert_eq!(collections(&recorded.profile()), said);
}

#[test]
fn a_table_that_one_thread_of_python_fills_is_found_by_both_engines() {
    let lab = Lab::exact();
    let table = target("serial_table.py");
    let wanted = line("serial_table.py", "[allocated]");
    for python in pythons() {
        for (engine, turns) in [("exact", "200"), ("sample", "2000")] {
            let command = words(&[&python, table.to_str().unwrap()]);
            let recorded = recorded(&lab, &["--engine", engine, "--machine", "4x1"], &command, &["serial", turns]);
            let advice = recorded.advice();
            let finding = &advice["findings"][0];
            assert_eq!(finding["pattern"], "serial-initialisation", "{python}, {engine}: {finding}");
            let site = &finding["object"]["site"];
            assert_eq!(site["line"], wanted, "{python}, {engine}: {finding}");
            assert_eq!(site["function"], "make", "{python}, {engine}: {finding}");
            assert_eq!(finding["object"]["called_from"], serde_json::json!(["main", "<module>"]), "{python}, {engine}");
            assert!(finding["in_code"].as_str().unwrap().contains("np.empty"), "{python}, {engine}: {finding}");
            // What the interpreter and the C library access is the line's.
            let lines = recorded.report()["lines"].clone();
            let read = line("serial_table.py", "[read]");
            let first = &lines[0];
            assert_eq!(
                (&first["line"], &first["function"]),
                (&read.into(), &"work".into()),
                "{python}, {engine}: {first}"
            );
            let share = first["share"].as_f64().unwrap();
            assert!(share > 50.0, "{python}, {engine}: {first}");
        }
    }
}

#[test]
fn a_table_that_each_thread_of_python_has_of_its_own_is_no_fault() {
    let lab = Lab::exact();
    let Some(python) = pythons().pop() else { return };
    let command = words(&[&python, target("serial_table.py").to_str().unwrap()]);
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "200"]).advice();
    let of_table = |finding: &&Value| finding["object"]["site"]["function"] == "make";
    assert_eq!(advice["findings"].as_array().unwrap().iter().find(of_table), None);
}

/// Each process has the file mapped somewhere else; the first has had a block there.
#[test]
fn shared_memory_that_one_process_fills_is_found_by_both_engines() {
    let lab = Lab::exact();
    let Some(python) = pythons().pop() else { return };
    let command = words(&[&python, target("shared_table.py").to_str().unwrap()]);
    for (engine, turns) in [("exact", "1000"), ("sample", "2000")] {
        let recorded = recorded(&lab, &["--engine", engine, "--machine", "4x1"], &command, &["serial", turns]);
        let advice = recorded.advice();
        let finding = &advice["findings"][0];
        assert_eq!(finding["pattern"], "serial-initialisation", "{engine}: {finding}");
        let object = &finding["object"];
        assert_eq!(object["kind"], "file", "{engine}: {finding}");
        assert!(object["name"].as_str().unwrap().starts_with("/dev/shm/table"), "{engine}: {finding}");
        assert_eq!(object["size"], 16 << 20, "{engine}: {finding}");
        let filled = line("shared_table.py", "[filled]");
        assert_eq!(
            (&finding["where"]["line"], &finding["where"]["function"]),
            (&filled.into(), &"fill".into()),
            "{engine}: {finding}"
        );
        // Workers are looked at as soon as they are forked; few of a busy machine may be missed in a tenth of a second.
        let lines = recorded.report()["lines"].clone();
        let read = line("shared_table.py", "[read]");
        let share = |row: &Value| row["share"].as_f64().unwrap();
        let read: f64 = lines.as_array().unwrap().iter().filter(|row| row["line"] == read).map(share).sum();
        assert!(read > 20.0, "{engine}: {lines}");
    }
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "200"]).advice();
    assert_eq!(advice["findings"], Value::Array(vec![]));
}

/// With five isolates, whose code lies within gigabytes that V8 has reserved.
#[test]
fn a_table_that_one_thread_of_node_fills_is_found_by_both_engines() {
    if !installed("node") {
        eprintln!("skipped: no node");
        return;
    }
    let lab = Lab::exact();
    let command = words(&["node", target("serial_table.js").to_str().unwrap()]);
    for (engine, turns) in [("exact", "100"), ("sample", "2000")] {
        let recorded = recorded(&lab, &["--engine", engine, "--machine", "4x1"], &command, &["serial", turns]);
        // A worker that V8 has not optimised yet allocates each number that it adds: that may come first.
        let advice = recorded.advice();
        let is_of_table = |finding: &&Value| finding["object"]["name"] == "JavaScript array buffers";
        let finding = advice["findings"].as_array().unwrap().iter().find(is_of_table).unwrap();
        assert_eq!(finding["pattern"], "serial-initialisation", "{engine}: {finding}");
        assert!(finding["in_code"].as_str().unwrap().contains("SharedArrayBuffer"), "{engine}: {finding}");
        let hottest = recorded.report()["lines"][0].clone();
        assert_eq!(
            (&hottest["function"], &hottest["line"]),
            (&"sum".into(), &line("serial_table.js", "[read]").into()),
            "{engine}: {hottest}"
        );
        let process = recorded.report()["processes"][0]["pid"].clone();
        assert!(!Path::new(&format!("/tmp/perf-{process}.map")).exists(), "{process}");
    }
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "100"]).advice();
    let findings = advice["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["object"]["name"] != "JavaScript array buffers"), "{findings:?}");
}

/// By the package of Python, which loads nothing else for it.
#[test]
fn phases_and_marks_of_python_are_in_the_profile() {
    let lab = Lab::exact();
    let program = "import sys, numalens\n\
        with numalens.phase('training'):\n    numalens.mark('epoch 3')\n    sum(range(10000))\n\
        print('pyarrow' in sys.modules)";
    let package = source("../../../python");
    for engine in ["exact", "sample"] {
        let mut recorder = lab.recorder(&["--engine", engine]);
        recorder.args(["python3", "-c", program]).env("PYTHONPATH", &package);
        let recorded = lab.finished(&mut recorder).succeeded().sound();
        assert_eq!(recorded.outcome.stdout.trim(), "False", "{engine}");
        let phases = recorded.profile().rows::<Phase>().unwrap();
        let names: Vec<&str> = phases.iter().map(|row| &*row.name).collect();
        assert!(names.contains(&"training") && names.contains(&"epoch 3"), "{engine}: {names:?}");
    }
}
