//! However program and recorder end, the status is the program's and the profile is sound.

use super::*;
use numalens_profile::tables::PlacedPages;
use numalens_profile::words::Placed;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};

fn serving(lab: &Lab) -> std::process::Command {
    let mut command = lab.recorder(&[]);
    command.arg(awkward()).arg("serve");
    command
}

#[test]
fn exit_codes_are_passed_on() {
    need_recording!();
    for code in [0, 3, 255] {
        let lab = Lab::new();
        let outcome = run(lab.recorder(&[]).args(["sh", "-c", &format!("exit {code}")]));
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(code), ""));
        assert_eq!(lab.sound().meta.exit_status, format!("exited {code}"));
    }
}

#[test]
fn numalens_dies_of_what_the_program_died_of() {
    need_recording!();
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGKILL, libc::SIGTERM] {
        let lab = Lab::new();
        let outcome = run(lab.recorder(&[]).arg(awkward()).args(["die", &signal.to_string()]));
        assert_eq!((outcome.signal(), outcome.stderr.as_str()), (Some(signal), ""));
        assert!(!outcome.status.core_dumped(), "a core dump of numalens");
        assert_eq!(lab.sound().meta.exit_status, format!("killed by signal {signal}"));
    }
}

#[test]
fn ctrl_c_ends_the_program_and_finishes_the_profile() {
    need_recording!();
    let lab = Lab::new();
    let mut command = serving(&lab);
    command.process_group(0);
    // Who runs the tests in the background may have us ignore it, and it would stay ignored.
    // SAFETY: sets a default action, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut served = serve(command);
    kill(-(served.numalens.id() as i32), libc::SIGINT);
    let (status, stderr) = served.wait();
    assert_eq!((status.signal(), stderr.as_str()), (Some(libc::SIGINT), ""));
    lab.sound();
}

#[test]
fn a_signal_to_numalens_alone_is_passed_on() {
    need_recording!();
    let lab = Lab::new();
    let mut served = serve(serving(&lab));
    kill(served.numalens.id() as i32, libc::SIGTERM);
    assert_eq!(served.rest(), "asked\n");
    let (status, stderr) = served.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    lab.sound();
}

#[test]
fn a_killed_program_leaves_a_profile() {
    need_recording!();
    let lab = Lab::new();
    let mut served = serve(serving(&lab));
    served.signal(libc::SIGKILL);
    assert_eq!(served.wait().0.signal(), Some(libc::SIGKILL));
    lab.sound();
}

#[test]
fn a_stopped_program_goes_on() {
    need_recording!();
    let lab = Lab::new();
    let mut served = serve(serving(&lab));
    served.signal(libc::SIGSTOP);
    until("it stands still", || state(served.pid) == Some('T'));
    served.signal(libc::SIGCONT);
    until("it goes on", || state(served.pid) != Some('T'));
    assert_eq!(served.finish(), "ended\n");
    assert_eq!(served.wait().0.code(), Some(0));
    lab.sound();
}

#[test]
fn a_killed_recorder_leaves_the_program_alone_and_a_readable_profile() {
    need_recording!();
    for engine in ["sample", "exact"] {
        let lab = Lab::new();
        let mut command = lab.recorder(&["--engine", engine]);
        command.arg(awkward()).arg("serve");
        let mut served = serve(command);
        until("there is a checkpoint", || lab.partial().join("meta.parquet").exists());
        served.kill_numalens();
        assert_eq!(served.finish(), "ended\n", "{engine}");
        check(&lab.partial());
        let report = run(numalens(&["report"]).arg(lab.partial()));
        assert_eq!(report.code(), Some(0), "{engine}: {report:?}");
        assert!(report.stdout.contains("the recording did not finish"), "{engine}: {report:?}");
    }
}

/// The folder in memory with the files of its virtual machine that a recorder holds.
fn folder_in_memory(recorder: u32) -> PathBuf {
    let open = std::fs::read_dir(format!("/proc/{recorder}/fd")).unwrap();
    let mut paths = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    paths.find(|path| path.starts_with("/dev/shm")).expect("a folder that is held")
}

#[test]
fn what_a_killed_recorder_leaves_in_memory_goes_when_its_program_has_ended() {
    need_recording!();
    let lab = Lab::new();
    let mut command = lab.recorder(&["--engine", "exact", "--machine", "4x2"]);
    command.arg(awkward()).arg("serve");
    let mut served = serve(command);
    let folder = folder_in_memory(served.numalens.id());
    let record = || drop(Lab::new().record(&["--engine", "exact", "--machine", "4x2"], &["true"]));
    record();
    assert!(folder.join("sys").exists(), "it is in use");
    served.kill_numalens();
    record();
    assert!(folder.join("sys").exists(), "the program goes on");
    assert_eq!(served.finish(), "ended\n");
    until("the program has ended", || !Path::new(&format!("/proc/{}", served.pid)).exists());
    record();
    assert!(!folder.exists(), "{} was left", folder.display());
}

/// More first touches than the rings hold, while nobody reads them: what is missing is counted, said, and found
/// otherwise.
#[test]
fn what_is_lost_while_the_recorder_stands_still_is_counted() {
    need_recording!();
    const PAGES: u64 = 120_000;
    let lab = Lab::new();
    let (outcome, profile) = lab.record(&["--machine", "2x2"], &[awkward(), "stall", &PAGES.to_string()]);
    let lost = profile.meta.losses.get("perf records").copied().unwrap_or(0);
    let first = u64::from_str_radix(outcome.stdout.lines().next().unwrap(), 16).unwrap();
    let (mut seen, mut unseen) = (0, 0);
    for row in profile.rows::<PlacedPages>().unwrap() {
        let pages = (row.page.0 + row.count).min(first + PAGES).saturating_sub(row.page.0.max(first));
        *if row.placed == Placed::Unseen { &mut unseen } else { &mut seen } += pages;
    }
    assert_eq!(seen + unseen, PAGES);
    assert!(unseen > 0 && lost >= unseen, "{unseen} pages were not seen to be placed, {lost} records lost");
    let report = run(numalens(&["report"]).arg(lab.profile()));
    assert!(report.stdout.contains(&format!("lost: {lost} perf records")), "{report:?}");
}

#[test]
fn a_recorder_killed_early_says_so() {
    need_recording!();
    let lab = Lab::new();
    let mut served = serve(serving(&lab));
    let early = !lab.partial().join("meta.parquet").exists();
    served.kill_numalens();
    assert_eq!(served.finish(), "ended\n");
    if early && !lab.partial().join("meta.parquet").exists() {
        let report = run(numalens(&["report"]).arg(lab.profile()));
        assert_eq!(report.code(), Some(1));
        assert!(report.stderr.contains("before its first"), "{report:?}");
    }
}

#[test]
fn a_program_that_leaves_a_daemon_behind_ends_at_its_own_end() {
    need_recording!();
    let lab = Lab::new();
    let (outcome, profile) = lab.record(&[], &[awkward(), "daemon"]);
    assert!(outcome.stdout.contains("ended\n"), "{outcome:?}");
    assert_eq!(profile.meta.exit_status, "exited 0");
}
