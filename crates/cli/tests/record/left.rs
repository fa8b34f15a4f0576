//! Processes that the command leaves in the background: named when the recording ends without them, recorded to their
//! end with `--wait-all`.

use super::*;
use numalens_profile::Profile;
use numalens_profile::tables::Process;

/// `awkward lingers`, whose command has ended by now.
fn lingering(lab: &Lab, engine: &str, options: &[&str]) -> Served {
    let mut command = lab.recorder(&[&["--engine", engine], options].concat());
    command.arg(awkward()).arg("lingers");
    serve(command)
}

/// How the process in the background has ended, as the profile says.
fn end_of(profile: &Profile, pid: i32) -> String {
    let processes = profile.rows::<Process>().unwrap();
    processes.into_iter().find(|row| row.pid == pid as u32).expect("the process in the background").end
}

fn notes(profile: &Profile) -> String {
    profile.meta.notes.join("\n")
}

#[test]
fn a_recording_ends_with_the_command_and_says_who_is_left() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        let mut served = lingering(&lab, engine, &[]);
        assert_eq!(served.wait().0.code(), Some(0), "{engine}");
        let profile = lab.sound();
        let notes = notes(&profile);
        assert!(
            notes.contains("1 process of the command still ran") && notes.contains("--wait-all"),
            "{engine}: {notes}"
        );
        assert_eq!(end_of(&profile, served.pid), "running", "{engine}");
        assert_eq!(served.finish(), "ended\n", "{engine}");
    }
}

#[test]
fn all_that_a_command_leaves_is_recorded_to_its_end() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        let mut served = lingering(&lab, engine, &["--wait-all"]);
        assert_eq!(served.finish(), "ended\n", "{engine}");
        let (status, stderr) = served.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{engine}");
        let profile = lab.sound();
        assert_eq!(notes(&profile), "", "{engine}");
        assert_eq!(profile.meta.exit_status, "exited 0");
        assert_ne!(end_of(&profile, served.pid), "running", "{engine}");
    }
}

#[test]
fn a_user_ends_a_recording_that_waits() {
    need_recording!();
    for engine in ENGINES {
        for by_signal in [true, false] {
            let lab = Lab::new();
            let mut served = lingering(&lab, engine, &["--wait-all"]);
            let recorder = served.numalens.id() as i32;
            if by_signal {
                // The command has been waited for: the signal is the recording's.
                kill(recorder, libc::SIGTERM);
            } else {
                let ctl = run(numalens(&["ctl", "end", "--pid"]).arg(recorder.to_string()));
                assert_eq!((ctl.code(), ctl.stdout.as_str()), (Some(0), "the recording ends\n"), "{engine}: {ctl:?}");
            }
            assert_eq!(served.wait().0.code(), Some(0), "{engine}: the command's");
            let profile = lab.sound();
            let notes = notes(&profile);
            assert!(notes.contains("1 process of the command still ran"), "{engine}: {notes}");
            assert_eq!(served.finish(), "ended\n", "{engine}: it is not disturbed");
        }
    }
}

#[test]
fn the_exact_engine_ends_with_the_command_at_the_earliest() {
    need_recording!();
    let lab = Lab::new();
    let mut command = lab.recorder(&["--engine", "exact"]);
    command.arg(awkward()).arg("serve");
    let mut served = serve(command);
    let ctl = run(numalens(&["ctl", "end", "--pid"]).arg(served.numalens.id().to_string()));
    assert_eq!(ctl.code(), Some(1), "{ctl:?}");
    assert!(ctl.stderr.contains("ctl stop"), "{ctl:?}");
    assert_eq!(served.finish(), "ended\n");
    assert_eq!(served.wait().0.code(), Some(0));
}
