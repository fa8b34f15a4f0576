//! What can go wrong around every command: an output that is full or exists, and what was typed but is not there.

use super::*;
use numalens_profile::testing::Synthetic;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_full_standard_output_is_told() {
    let (directory, path) = profile();
    let (zip, out) = (directory.path().join("app.zip"), directory.path().join("out.numalens"));
    output(&mut numalens(&["pack", word(&path), "-o", word(&zip)])).succeeded();
    let commands: [&[&str]; 13] = [
        &["machine", "list"],
        &["machine", "list", "--format", "json"],
        &["machine", "show"],
        &["machine", "show", "--machine", "4x8", "--format", "json"],
        &["check", word(&path)],
        &["unpack", word(&zip), "-o", word(&out)],
        &["report", word(&path)],
        &["advise", word(&path)],
        &["simulate", word(&path)],
        &["doctor"],
        &["header"],
        &["man"],
        &["completions", "bash"],
    ];
    for args in commands {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = numalens(args).stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains("cannot write to standard output") && !told.contains("panicked"), "{args:?}: {told}");
    }
}

/// What is said there is lost, and nothing else: the status, the document and the profile are what they are without it.
#[test]
fn a_full_or_closed_standard_error_changes_nothing() {
    let (directory, path) = profile();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (copy, rows, recorded, missing) = (at("copy.csv"), at("rows"), at("recorded.numalens"), at("missing"));
    let (path, exit) = (word(&path), ["record", "-f", "-o", recorded.as_str(), "--", "sh", "-c", "echo out; exit 3"]);
    let commands: [(&[&str], i32); 16] = [
        (&exit, 3),
        (&["record", "-o", &at("no/folder.numalens"), "--", "true"], 125),
        (&["record", "--machine", "nowhere", "--", "true"], 2),
        (&["record", "-f", "-o", &recorded, "--", &missing], 127),
        (&["report", path], 0),
        (&["report", path, "--sort", "nothing"], 2),
        (&["report", path, "--phase", "none"], 2),
        (&["report", path, "--thread", "99"], 2),
        (&["advise", path, "--process", "99"], 2),
        (&["export", path, "--to", "csv", "--object", "9999"], 2),
        (&["record", "-o", "/dev/null", "--", "true"], 2),
        (&["report", &missing], 1),
        (&["export", path, "--to", "csv", "-f", "-o", &rows], 0),
        (&["export", path, "--to", "callgrind", "-f", "-o", &copy], 0),
        (&["diff", path, path, "--fail-if", "accesses>1"], 1),
        (&["ctl", "start"], 2),
    ];
    for (args, code) in commands {
        let run = |standard_error: Stdio| {
            let output = numalens(args).stderr(standard_error).output().unwrap();
            (output.status.code(), output.stdout)
        };
        let told = run(Stdio::null());
        assert_eq!(told.0, Some(code), "{args:?}");
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (what, standard_error) in [("full", full.into()), ("closed", closed.into())] {
            let found = run(standard_error);
            assert!(found == told, "{args:?}, {what}: {:?}, not {:?}", found.0, told.0);
        }
    }
    assert!(Path::new(&recorded).exists());
}

#[test]
fn negative_numbers_are_told_what_is_possible() {
    let (_directory, path) = profile();
    let path = word(&path);
    let commands: [(&[&str], &str); 12] = [
        (&["report", path, "--top", "-5"], "-5 is not in 0..=4294967295"),
        (&["report", path, "--top=-5"], "-5 is not in 0..=4294967295"),
        (&["diff", path, path, "--top", "-5"], "-5 is not in 0..=4294967295"),
        (&["report", path, "--thread", "-1"], "-1 is not in 0..=4294967295"),
        (&["advise", path, "--object", "-1"], "-1 is not in 0..=4294967295"),
        (&["advise", path, "--process", "-1"], "-1 is not in 0..=4294967295"),
        (&["view", path, "--port", "-1"], "-1 is not in 0..=65535"),
        (&["simulate", path, "--page-size", "-4"], "there are 4K, 64K, 2M"),
        (&["record", "--time-bins", "-1", "--", "true"], "-1 is not in 1..=100000"),
        (&["record", "--frequency", "-1", "--", "true"], "-1 is not in 1..=100000"),
        (&["record", "--duration", "-1", "--", "true"], "no number of seconds above 0"),
        (&["import", path, "--run-time", "-1", "-o", "x"], "no number of seconds above 0"),
    ];
    for (args, told) in commands {
        let found = failure(&mut numalens(args), 2);
        assert!(found.contains(told), "{args:?}: {found}");
    }
}

#[test]
fn machines_and_policies_that_are_none_are_mistakes_in_usage_everywhere() {
    let (_directory, path) = profile();
    let path = word(&path);
    let commands: [&[&str]; 8] = [
        &["record", "--machine", "nowhere", "--", "true"],
        &["machine", "show", "--machine", "nowhere"],
        &["simulate", path, "--machine", "nowhere"],
        &["import", path, "--machine", "nowhere", "-o", "x"],
        &["record", "--policy", "nowhere", "--", "true"],
        &["simulate", path, "--policy", "nowhere"],
        &["record", "--machine", "4x2", "--policy", "bind:77", "--", "true"],
        &["simulate", path, "--policy", "bind:77"],
    ];
    for args in commands {
        let told = failure(&mut numalens(args), 2);
        assert!(told.contains("nowhere") || told.contains("77"), "{args:?}: {told}");
    }
}

#[test]
fn threads_and_objects_that_are_not_there_are_told() {
    let (_directory, path) = profile();
    for command in ["report", "advise"] {
        for (what, number) in [("thread", "99"), ("object", "99999")] {
            let told = failure(&mut numalens(&[command, word(&path), &format!("--{what}"), number]), 2);
            assert!(told.contains(&format!("no {what} {number}")), "{told}");
        }
        output(&mut numalens(&[command, word(&path), "--thread", "1", "--object", "0"])).succeeded();
    }
}

#[test]
fn no_profile_is_counted_twice() {
    let (directory, path) = profile();
    let again = directory.path().join("./app.numalens/");
    let merged = directory.path().join("merged.numalens");
    for args in [&["report"][..], &["advise"], &["merge", "-o", word(&merged)]] {
        let told = failure(numalens(args).args([&path, &again]), 1);
        assert!(told.contains("named twice"), "{told}");
    }
    assert!(!merged.exists());
    let copy = Synthetic::example().write(&directory.path().join("copy.numalens")).unwrap();
    output(numalens(&["report"]).args([&path, &copy])).succeeded();
}

#[test]
fn packed_profiles_and_directories_are_replaced_by_force() {
    let (directory, path) = profile();
    let (zip, out) = (directory.path().join("app.zip"), directory.path().join("out.numalens"));
    let pack = ["pack", word(&path), "-o", word(&zip)];
    let unpack = ["unpack", word(&zip), "-o", word(&out)];
    for args in [pack, unpack] {
        output(&mut numalens(&args)).succeeded();
        assert!(failure(&mut numalens(&args), 1).contains("--force"));
        output(numalens(&args).arg("--force")).succeeded();
        output(numalens(&args).arg("-f")).succeeded();
    }
    output(&mut numalens(&["check", word(&out)])).succeeded();
    let mut names: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["app.numalens", "app.zip", "out.numalens"]);
    // Nothing but what it would have made itself.
    let letter = directory.path().join("letter.txt");
    std::fs::write(&letter, "dear").unwrap();
    failure(&mut numalens(&["pack", word(&path), "-f", "-o", word(&letter)]), 1);
    failure(&mut numalens(&["unpack", word(&zip), "-f", "-o", word(&letter)]), 1);
    failure(&mut numalens(&["pack", word(&path), "-f", "-o", word(&out)]), 1);
    assert_eq!(std::fs::read_to_string(&letter).unwrap(), "dear");
    let told = failure(&mut numalens(&["unpack", word(&path)]), 1);
    assert!(told.contains("is a directory, which every command reads as it is"), "{told}");
}

#[test]
fn a_profile_goes_into_no_folder_without_a_name() {
    let directory = tempfile::tempdir().unwrap();
    for output in [".", "..", "folder", "folder/"] {
        let _ = std::fs::create_dir(directory.path().join("folder"));
        let mut command = numalens(&["record", "-q", "-o", output, "--", "true"]);
        let told = failure(command.current_dir(&directory), 2);
        assert!(told.contains("app.numalens"), "{told}");
    }
    let entries = std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(entries, 1, "nothing but the folder");
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    for (args, words) in [
        (&["--machine", "real", "--policy", "interleave"][..], "--policy"),
        (&["--machine", "real", "--placement", "compact"], "--placement"),
        (&["--machine", "real", "--placement", "spread"], "--placement"),
        (&["--engine", "exact", "--frequency", "100"], "--frequency"),
    ] {
        let told = failure(numalens(&["record", "-q"]).args(args).args(["--", "true"]), 2);
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn what_is_no_number_is_no_bound() {
    let (_directory, path) = profile();
    for bound in ["local_share<nan", "local_share>NaN", "local_share<inf"] {
        assert!(failure(&mut numalens(&["diff", word(&path), word(&path), "--fail-if", bound]), 2).contains("number"));
    }
}

#[test]
fn nothing_is_left_of_a_profile_that_had_no_room() {
    let (directory, path) = profile();
    let copy = Synthetic::example().write(&directory.path().join("copy.numalens")).unwrap();
    let merged = directory.path().join("merged.numalens");
    let mut shell = Command::new("sh");
    // A limit on files stands for a full disk; who ignores its signal gets an error.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" merge \"$1\" \"$2\" -o \"$3\"", NUMALENS]);
    let told = failure(shell.args([&path, &copy, &merged]), 1);
    assert!(told.contains("File too large"), "{told}");
    let partial = directory.path().join("merged.numalens.partial");
    assert!(!merged.exists() && !partial.exists());
}
