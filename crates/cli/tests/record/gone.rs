//! Code whose file cannot be found where it was when the recording ends: names and lines are those of what was
//! executed.

use super::*;
use numalens_profile::tables;
use std::process::Command;

fn gone() -> &'static str {
    built("record/gone.c", &["-ldl"])
}

/// With the sample engine a process waits at its end until its files have been looked at.
const WAITING: &[&str] = &["sample"];

/// Records a program with some engines: most accesses are of one line, in a function that has its name.
fn is_named(what: &str, engines: &[&str], program: &[&str]) {
    for engine in engines {
        let lab = Lab::new();
        let (outcome, _) = lab.record(&["--engine", engine, "--machine", "4x2"], program);
        assert_eq!(outcome.stdout.trim(), (3000u64 << 17).to_string(), "{what}, {engine}");
        let first = &lab.json(&["report"])["lines"][0];
        assert_eq!(first["function"], "worker", "{what}, {engine}: {first}");
        assert_eq!(first["line"].as_u64(), Some(expected("record/gone.c", "")), "{what}, {engine}: {first}");
        assert!(first["file"].as_str().is_some_and(|file| file.ends_with("gone.c")), "{what}, {engine}: {first}");
    }
}

#[test]
fn a_library_that_is_unlinked_once_it_is_loaded_has_names() {
    need_recording!();
    if !is_root() {
        eprintln!("skipped: what is unlinked at once is read by root only");
        return;
    }
    let library = built("record/gone.c", &["-shared", "-fPIC", "-DLIBRARY"]);
    is_named("library", &ENGINES, &[gone(), "library", library]);
}

#[test]
fn a_program_that_never_had_a_name_has_names() {
    need_recording!();
    is_named("memory", &ENGINES, &[gone(), "memory"]);
}

#[test]
fn a_program_that_is_deleted_after_it_has_run_has_names() {
    need_recording!();
    let copied = format!("cp {} x && ./x work && rm x", gone());
    is_named("deleted", WAITING, &["sh", "-c", &copied]);
}

#[test]
fn a_program_in_a_mount_namespace_of_its_own_has_names() {
    need_recording!();
    let may = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mount namespaces are for root only here");
        return;
    }
    let within = format!("mount -t tmpfs none /mnt && cp {} /mnt/x && /mnt/x work", gone());
    is_named("mount namespace", WAITING, &["unshare", "-m", "sh", "-c", &within]);
}

/// The process is number 1 in its namespace, as is somebody else here.
#[test]
fn a_process_in_a_pid_namespace_of_its_own_is_none_of_ours() {
    need_recording!();
    let own = ["unshare", "-pf", "--mount-proc"];
    if !Command::new(own[0]).args(&own[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: pid namespaces are for root only here");
        return;
    }
    let command = [&own[..], &[gone(), "work"]].concat();
    is_named("pid namespace", &ENGINES, &command);
    let lab = Lab::new();
    let (_, profile) = lab.record(&["--engine", "exact", "--machine", "4x2"], &command);
    assert_eq!(profile.meta.notes.iter().find(|note| note.contains("still ran")), None);
    let processes = profile.rows::<tables::Process>().unwrap();
    assert!(processes.iter().all(|process| process.pid > 1), "{processes:?}");
}
