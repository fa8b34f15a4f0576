//! Where the profile goes, and what if there is no room for it.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn an_existing_profile_is_replaced_only_by_force() {
    need_recording!();
    let lab = Lab::new();
    lab.record(&[], &["sh", "-c", "exit 0"]);
    lab.record(&[], &["sh", "-c", "exit 0"]);
    let second = lab.path().join("run-2.numalens");
    check(&second);
    let code = |path: &Path| numalens_profile::Profile::open(path).unwrap().meta.exit_status.clone();
    assert_eq!(run(lab.recorder(&["--force"]).args(["sh", "-c", "exit 5"])).code(), Some(5));
    assert_eq!((code(&lab.profile()).as_str(), code(&second).as_str()), ("exited 5", "exited 0"));
    std::fs::write(lab.path().join("precious.numalens"), "mine").unwrap();
    let mut command = numalens(&["record", "-q", "--force", "-o", "precious.numalens", "--", "true"]);
    assert_eq!(run(command.current_dir(lab.path())).code(), Some(125));
    assert_eq!(std::fs::read_to_string(lab.path().join("precious.numalens")).unwrap(), "mine");
}

#[test]
fn without_a_place_for_the_profile_nothing_runs() {
    need_recording!();
    let lab = Lab::new();
    let witness = lab.path().join("witness");
    let mut places = vec![lab.path().join("missing"), "/proc".into()];
    if !is_root() {
        let closed = lab.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
        places.push(closed);
    }
    for place in places {
        let output = place.join("run.numalens");
        let outcome = run(numalens(&["record", "-q", "-o"]).arg(&output).args(["--", "touch"]).arg(&witness));
        assert_eq!(outcome.code(), Some(125), "{outcome:?}");
        assert!(outcome.stderr.contains(place.to_str().unwrap()), "{outcome:?}");
        assert!(!witness.exists());
    }
}

/// A small file system of its own, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn new(kilobytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then(|| Small(folder))
    }

    /// Fills what is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while std::io::Write::write(&mut file, &[0; 4096]).is_ok_and(|written| written == 4096) {}
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_does_not_touch_the_program_and_keeps_the_last_checkpoint() {
    need_recording!();
    let Some(small) = is_root().then(|| Small::new(8192)).flatten() else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    let output = small.0.path().join("run.numalens");
    let partial = small.0.path().join("run.numalens.partial");
    let mut command = numalens(&["record", "-q", "-o"]);
    command.arg(&output).arg("--").arg(awkward()).arg("serve");
    let mut served = serve(command);
    until("there is a checkpoint", || partial.join("meta.parquet").exists());
    small.fill();
    assert_eq!(served.finish(), "ended\n");
    let (status, stderr) = served.wait();
    assert_eq!(status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("No space left") && stderr.contains(partial.to_str().unwrap()), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(!output.exists());
    check(&partial);
    let report = run(numalens(&["report"]).arg(&partial));
    assert_eq!(report.code(), Some(0), "what a reader finds out needs no room: {report:?}");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_told() {
    need_recording!();
    let Some(small) = is_root().then(|| Small::new(200)).flatten() else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    small.fill();
    let mut command = numalens(&["record", "-q", "-o"]);
    let outcome = run(command.arg(small.0.path().join("run.numalens")).args(["--", "echo", "unaffected"]));
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (Some(125), "unaffected\n"), "{outcome:?}");
    let told = ["No space left", "Nothing had been written", "the program itself exited 0"];
    assert!(told.iter().all(|words| outcome.stderr.contains(words)), "{outcome:?}");
}
