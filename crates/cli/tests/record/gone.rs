//! Code whose file cannot be found where it was when the recording ends: names and lines are those of what was
//! executed.

use crate::support::*;
use numalens_profile::tables;
use serde_json::Value;
use std::process::Command;

/// The line of the program that accesses.
fn expected() -> u64 {
    include_str!("gone.c").lines().position(|line| line.ends_with("// EXPECT")).unwrap() as u64 + 1
}

/// Records a program with both engines: most accesses are of one line, in a function that has its name.
fn is_named(what: &str, program: &[&str]) {
    for engine in ["exact", "sample"] {
        let lab = Lab::new();
        let (outcome, _) = lab.record(&["--engine", engine, "--machine", "4x2"], program);
        assert_eq!(outcome.stdout.trim(), (300 << 17).to_string(), "{what}, {engine}");
        let report = run(numalens(&["report", "--format", "json"]).arg(lab.profile()));
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        let first = &report["lines"][0];
        assert_eq!(first["function"], "worker", "{what}, {engine}: {first}");
        assert_eq!(first["line"].as_u64(), Some(expected()), "{what}, {engine}: {first}");
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
    let (program, library) = (built("gone", &["-ldl"]), built("gone", &["-shared", "-fPIC", "-DLIBRARY"]));
    is_named("library", &[program.to_str().unwrap(), "library", library.to_str().unwrap()]);
}

#[test]
fn a_program_that_never_had_a_name_has_names() {
    need_recording!();
    is_named("memory", &[built("gone", &["-ldl"]).to_str().unwrap(), "memory"]);
}

#[test]
fn a_program_that_is_deleted_after_it_has_run_has_names() {
    need_recording!();
    let copied = format!("cp {} x && ./x work && rm x", built("gone", &["-ldl"]).display());
    is_named("deleted", &["sh", "-c", &copied]);
}

#[test]
fn a_program_in_a_mount_namespace_of_its_own_has_names() {
    need_recording!();
    let may = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: mount namespaces are for root only here");
        return;
    }
    let program = built("gone", &["-ldl"]);
    let within = format!("mount -t tmpfs none /mnt && cp {} /mnt/x && /mnt/x work", program.display());
    is_named("mount namespace", &["unshare", "-m", "sh", "-c", &within]);
    // Its root directory is another one, where its path leads to nothing of ours.
    let chroot = format!("mount -t tmpfs none /mnt && cp {} /mnt/x && exec chroot /mnt /x work", static_gone());
    is_named("chroot", &["unshare", "-m", "sh", "-c", &chroot]);
}

fn static_gone() -> String {
    built("gone", &["-ldl", "-static"]).display().to_string()
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
    let program = built("gone", &["-ldl"]);
    let command = [&own[..], &[program.to_str().unwrap(), "work"]].concat();
    is_named("pid namespace", &command);
    let lab = Lab::new();
    let (_, profile) = lab.record(&["--engine", "exact", "--machine", "4x2"], &command);
    assert_eq!(profile.meta.notes.iter().find(|note| note.contains("still ran")), None);
    let processes = profile.rows::<tables::Process>().unwrap();
    assert!(processes.iter().all(|process| process.pid > 1), "{processes:?}");
}
