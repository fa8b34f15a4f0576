//! Advice on recorded programs: little memory stays in caches wherever it lies, and what has one cause is one finding.

use super::*;
use std::collections::BTreeSet;
use std::process::Command;

/// Builds a program that stands beside this file and records it, with its arguments.
#[track_caller]
fn record(lab: &Lab, source: &str, arguments: &[&str]) -> Recorded {
    record_with(lab, source, arguments, &[])
}

/// The same with options of `record`.
#[track_caller]
fn record_with(lab: &Lab, source: &str, arguments: &[&str], options: &[&str]) -> Recorded {
    let program = lab.build(&format!("advice/{source}"), &["-O2", "-g", "-pthread"]);
    lab.recorded(options, &[&[program.as_str()], arguments].concat()).succeeded()
}

/// The findings as text.
#[track_caller]
fn text(recorded: &Recorded) -> String {
    stdout(numalens(&["advise"]).arg(&recorded.path))
}

/// Each thread has 2 KiB: of a stack of 8 MiB, or of a block of 128 KiB that is one of 32.
#[test]
fn little_memory_is_in_caches_wherever_it_lies() {
    for mode in ["stack", "heap"] {
        let lab = Lab::exact();
        let recorded = record(&lab, "blocks.c", &[mode]);
        let local = recorded.report()["summary"]["local_share"].as_f64().unwrap();
        assert!((20.0..30.0).contains(&local), "{mode}: {local} % local, of four nodes");
        let advice = recorded.advice();
        assert_eq!(advice["nothing_to_gain"], true, "{mode}: {:#}", advice["findings"]);
        let said = text(&recorded);
        assert!(said.contains("remote to memory that its users have in their private caches"), "{mode}: {said}");
    }
}

/// Each thread has 1 MiB: a block of 128 KiB from each of eight functions that main calls.
#[test]
fn blocks_of_one_cause_are_one_finding() {
    let lab = Lab::exact();
    let recorded = record(&lab, "blocks.c", &["many"]);
    let advice = recorded.advice();
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
    let text = text(&recorded);
    let told = text.lines().skip_while(|line| !line.contains("8 of one cause")).skip(1).take(4).collect::<Vec<_>>();
    assert!(told[..3].iter().all(|line| line.contains("blocks.c:") && line.contains("heap (512 KiB)")), "{text}");
    assert!(told[3].contains("5 more"), "{text}");
}

/// One goroutine fills a slice that four read: the function and line that fill it come first, and the remedy is in Go.
#[test]
fn a_slice_that_one_goroutine_fills_is_found() {
    let lab = Lab::exact();
    let program = lab.at("filled");
    let mut build = Command::new("go");
    build.args(["build", "-o", &program]).arg(source("advice/filled.go")).env("GOCACHE", lab.at("cache"));
    match build.status() {
        Ok(status) if status.success() => {}
        other => {
            eprintln!("skipped: go: {other:?}");
            return;
        }
    }
    let recorded = lab.recorded(&[], &[&program]).succeeded();
    let advice = recorded.advice();
    let finding = &advice["findings"][0];
    assert_eq!(finding["where"]["function"], "main.fill", "{finding:#}");
    // Threads of the runtime may have filled it in turns: then its parts are to be placed where it is allocated.
    let line = if finding["pattern"] == "misplaced-blocks" { "allocated" } else { "first-touch" };
    assert_eq!(finding["where"]["line"], expected("advice/filled.go", line), "{finding:#}");
    // Go's threads have their stacks in its heap: that is no stack for that.
    assert_ne!(finding["object"]["kind"], "stack", "{finding:#}");
    let text = text(&recorded);
    assert!(text.contains("go func(") && text.contains("runtime.LockOSThread()"), "{text}");
}

/// Most accesses are of a loop that waits for other threads: they are set apart, and the fault in the rest is told.
#[test]
fn accesses_that_wait_are_set_apart() {
    let lab = Lab::exact();
    let recorded = record(&lab, "waiting.c", &[]);
    let advice = recorded.advice();
    let waiting = advice["waiting_share"].as_f64().unwrap();
    assert!(waiting > 50.0, "{waiting} % wait");
    let finding = &advice["findings"][0];
    assert_eq!(finding["pattern"], "serial-initialisation", "{finding:#}");
    assert_eq!(finding["where"]["line"], expected("advice/waiting.c", "first-touch"));
    let share = finding["evidence"]["share"].as_f64().unwrap();
    assert!(share > 90.0, "{share} % of what does not wait");
    let text = text(&recorded);
    let told = format!("barrier (waiting.c:{})", expected("advice/waiting.c", "wait"));
    assert!(text.contains("wait for other threads") && text.contains(&told), "{text}");
    // For programs too, and for the web's first page.
    let notes = advice["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains(&told)), "{notes:#?}");
}

/// The same where each thread reads all of the table at random.
#[test]
fn what_all_read_at_random_is_told_beside_those_that_wait() {
    let lab = Lab::exact();
    let advice = record(&lab, "waiting.c", &["random"]).advice();
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
    let lab = Lab::exact();
    let advice = record(&lab, "wrappers.cpp", &[]).advice();
    let findings = advice["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let first = expected("advice/wrappers.cpp", "buffers");
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
        let lab = Lab::exact();
        record_with(&lab, "handed_over.c", arguments, options).advice()
    };
    let none = advice(&[], &[]);
    assert_eq!(none["nothing_to_gain"], true, "{:#}", none["findings"]);
    let unknown = "not known whether the same words (record with --lines)";
    let own = "each thread its own words (false sharing)";
    let same = "the same words";
    // Without `--lines` what was looked at may be enough to know.
    for (counts, options, words) in
        [("own", &[][..], &[unknown, own][..]), ("own", &["--lines"], &[own]), ("same", &["--lines"], &[same])]
    {
        let advice = advice(&[counts], options);
        let finding = &advice["findings"][0];
        assert_eq!(finding["pattern"], "shared-line", "{finding:#}");
        assert_eq!(finding["object"]["name"], "counts", "{finding:#}");
        let told = finding["evidence"]["words"].as_str().unwrap();
        assert!(words.contains(&told), "{finding:#}");
    }
}

/// Guards pages of several variables: the one that was touched first gave the finding its name and line, whoever the
/// accesses are to.
#[test]
fn a_page_of_variables_is_about_the_busy_one() {
    let lab = Lab::exact();
    let advice = record(&lab, "neighbours.c", &[]).advice();
    let finding = &advice["findings"][0];
    assert_eq!(finding["pattern"], "shared-line", "{finding:#}");
    // Where no access of the line was looked at nobody knows the variable, and none is named.
    assert_ne!(finding["object"]["name"], "checked", "{finding:#}");
    assert_eq!(finding["where"]["line"], expected("advice/neighbours.c", "counts"), "{finding:#}");
    let notes = advice["notes"].to_string();
    assert!(!notes.contains("private caches"), "a line that travels is no comfort: {notes}");
}

/// Threads that have ended keep no place on a virtual machine: who is there is spread over the nodes.
#[test]
fn each_node_has_a_thread_whoever_came_before() {
    for children in ["0", "1", "3", "6"] {
        let lab = Lab::exact();
        let recorded = record(&lab, "ended_children.c", &[children]);
        let report = recorded.report();
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
        let lab = Lab::exact();
        let advice = record(&lab, "handed_on.c", &[how]).advice();
        let first = &advice["findings"][0];
        assert_eq!(first["pattern"], "handed-on", "{how}: {:#}", advice["findings"]);
        let place = &first["object"]["site"];
        assert_eq!(place["line"], expected("advice/handed_on.c", how), "{first:#}");
        assert!(place["file"].as_str().unwrap().ends_with("handed_on.c"), "{first:#}");
        if !remedied {
            continue;
        }
        // What `without_code` says.
        let mut recorder = lab.recorder(&[]);
        recorder.env("MALLOC_MMAP_THRESHOLD_", "65536").args([&lab.at("handed_on"), how]);
        let advice = lab.finished(&mut recorder).succeeded().advice();
        assert_eq!(advice["nothing_to_gain"], true, "{how}: {:#}", advice["findings"]);
    }
}

/// Who touches memory first does not say where it goes under a policy.
#[test]
fn what_a_policy_has_placed_is_told_as_placed_by_it() {
    let lab = Lab::exact();
    let advice = record(&lab, "policy.c", &["bind"]).advice();
    let first = &advice["findings"][0];
    assert_eq!(first["pattern"], "placed-by-policy", "{:#}", advice["findings"]);
    assert_eq!(first["object"]["site"]["line"], expected("advice/policy.c", "data"), "{first:#}");
    let policy = first["evidence"]["policy"].as_str().unwrap();
    assert!(policy.starts_with("bind:0, set by set_mempolicy of thread 0"), "{policy}");
    let lab = Lab::exact();
    let advice = record(&lab, "policy.c", &["default"]).advice();
    assert_eq!(advice["nothing_to_gain"], true, "{:#}", advice["findings"]);
}
