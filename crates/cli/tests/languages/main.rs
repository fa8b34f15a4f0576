//! Programs that run on a runtime, in the words of their own language: the planted fault's line, object and first
//! toucher, in both engines, and counts that arithmetic knows.

#[path = "../support/mod.rs"]
mod support;

use numalens_profile::tables::{Frame, SiteAccess};
use serde_json::Value;
use std::collections::HashSet;
use std::process::Command;
use support::*;

/// Elements that each of four threads reads in a turn.
const PART: u64 = 1 << 19;

/// The line of a source that has a tag.
fn line(source: &str, tag: &str) -> u64 {
    line_of(&text_of(source), tag)
}

/// Compiles the table of Java, and the command that runs it; none: there is no Java here.
fn java(lab: &Lab, options: &[&str]) -> Option<Vec<String>> {
    if !installed("javac") || !installed("java") {
        eprintln!("skipped: no javac");
        return None;
    }
    let compiled =
        Command::new("javac").args(["-g", "-d", &lab.at("")]).arg(source("languages/SerialTable.java")).status();
    assert!(compiled.unwrap().success());
    let words = ["java", "-cp", &lab.at("")].map(str::to_owned).into_iter();
    Some(words.chain(options.iter().map(|&option| option.to_owned())).chain(["SerialTable".to_owned()]).collect())
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
    let Some(command) = java(&lab, &[]) else { return };
    let allocated = line("languages/SerialTable.java", "[allocated]");
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
    let Some(command) = java(&lab, &[]) else { return };
    let advice = recorded(&lab, &["--machine", "4x1"], &command, &["own", "8"]).advice();
    let findings = advice["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["object"]["name"] != "long[]"), "{findings:?}");
}

/// The simple compiler, at the first call, makes one read of the element and one of the array's length for each turn of
/// the loop.
#[test]
fn accesses_of_a_line_of_java_are_those_of_arithmetic() {
    let lab = Lab::exact();
    let Some(command) = java(&lab, &["-Xcomp", "-XX:TieredStopAtLevel=1"]) else { return };
    let profile = recorded(&lab, &["--machine", "4x1"], &command, &["serial", "8"]).profile();
    let wanted = line("languages/SerialTable.java", "[read]") as u32;
    let at_line = |frame: &Frame| {
        frame.depth == 0 && frame.file.as_deref() == Some("SerialTable.java") && frame.line == Some(wanted)
    };
    let sites: HashSet<_> =
        profile.rows::<Frame>().unwrap().into_iter().filter(at_line).map(|frame| frame.site).collect();
    let rows = profile.rows::<SiteAccess>().unwrap().into_iter().filter(|row| sites.contains(&row.site));
    assert_eq!(rows.map(|row| row.reads).sum::<u64>(), 4 * PART * 8 * 2);
}
