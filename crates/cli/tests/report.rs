//! `report`, `export`, `completions` and `man` as a user types them.

use assert_cmd::Command;
use numalens_profile::testing::Synthetic;
use std::path::PathBuf;
use tempfile::TempDir;

/// A directory with the synthetic profile in it.
fn profile() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&directory.path().join("app.numalens")).unwrap();
    (directory, path)
}

fn numalens() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numalens"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

fn failure(command: &mut Command, code: i32) -> String {
    String::from_utf8(command.assert().failure().code(code).get_output().stderr.clone()).unwrap()
}

#[test]
fn the_first_screen_shows_what_hurts_and_where_to_look_next() {
    let (_directory, path) = profile();
    let text = stdout(numalens().arg("report").arg(&path));
    for words in
        ["virtual machine test-3+1", "remote           41.6 %", "app.c:21 step", "app.c:9 fill", "--section NAME"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours in a pipe");
    assert!(stdout(numalens().arg("report").arg(&path).args(["--color", "always"])).contains('\x1b'));
}

#[test]
fn json_goes_to_a_file_as_to_a_pipe() {
    let (directory, path) = profile();
    let piped = stdout(numalens().arg("report").arg(&path).args(["--format", "json"]));
    let document: serde_json::Value = serde_json::from_str(&piped).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["lines"][0]["line"], 21);
    let file = directory.path().join("report.json");
    let quiet = stdout(numalens().arg("report").arg(&path).args(["--format", "json", "-o"]).arg(&file));
    assert_eq!(quiet, "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), piped);
}

#[test]
fn sections_sorting_and_length_are_the_users() {
    let (_directory, path) = profile();
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(numalens().arg("report").arg(&path).args(["--format", "json"]).args(args)))
            .unwrap()
    };
    let document = json(&["--section", "lines,machine", "--sort", "first_touch", "--top", "1"]);
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["schema", "meta", "lines", "machine", "doubts", "omitted"]);
    assert_eq!(document["lines"].as_array().unwrap().len(), 1);
    assert_eq!(document["lines"][0]["line"], 9);
    assert_eq!(document["omitted"]["lines"], 3);
    assert_eq!(json(&["--process", "1001"])["summary"]["accesses"], 10);
}

#[test]
fn mistakes_are_explained() {
    let (directory, path) = profile();
    let report = |args: &[&str]| {
        let mut command = numalens();
        command.arg("report").arg(&path).args(args);
        command
    };
    let unknown = failure(&mut report(&["--sort", "speed"]), 2);
    assert!(unknown.contains("`speed`") && unknown.contains("accesses, reads, writes"), "{unknown}");
    assert!(failure(&mut report(&["--section", "speed"]), 2).contains("first-touch"));
    assert!(failure(&mut report(&["--source-map", "nothing"]), 2).contains("OLD=NEW"));
    assert!(failure(&mut report(&["--process", "5"]), 1).contains("1001 (./app --child)"));
    let missing = directory.path().join("missing");
    assert!(failure(numalens().arg("report").arg(&missing), 1).contains("does not exist"));
    assert!(failure(&mut report(&["-o", "/nowhere/at/all"]), 1).contains("/nowhere/at/all"));
}

#[test]
fn csv_is_a_directory_that_is_not_overwritten_by_accident() {
    let (directory, path) = profile();
    let output = directory.path().join("csv");
    let export = || {
        let mut command = numalens();
        command.arg("export").arg(&path).args(["--to", "csv", "-o"]).arg(&output);
        command
    };
    export().assert().success();
    let lines = std::fs::read_to_string(output.join("lines.csv")).unwrap();
    assert!(lines.lines().next().unwrap().contains("classes.remote") && lines.contains(",app.c,21,step,"), "{lines}");
    assert!(failure(&mut export(), 1).contains("--force"));
    export().arg("--force").assert().success();
    std::fs::write(output.join("mine.txt"), "precious").unwrap();
    assert!(failure(export().arg("--force"), 1).contains("mine.txt"));
    assert_eq!(std::fs::read_to_string(output.join("mine.txt")).unwrap(), "precious");
}

#[test]
fn shells_complete_and_man_pages_render() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(numalens().args(["completions", shell])).contains("first-touch"), "{shell}");
    }
    assert!(stdout(numalens().arg("man")).contains(".TH numalens"));
    let directory = tempfile::tempdir().unwrap();
    numalens().args(["man", "-o"]).arg(directory.path().join("man1")).assert().success();
    assert!(directory.path().join("man1/numalens-report.1").exists());
}
