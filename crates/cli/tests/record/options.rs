//! What a user can get wrong, and what the options do.

use super::*;
use numalens_profile::Profile;
use numalens_profile::tables::{PlacedPages, Placement, Thread};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn file(lab: &Lab, name: &str, text: &str, mode: u32) -> String {
    let path = lab.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn commands_that_cannot_be_run_are_named_and_leave_nothing() {
    need_recording!();
    let lab = Lab::new();
    let cases = [
        ("no-such-command".to_owned(), 127, "not found"),
        ("/no/such/file".to_owned(), 127, "not found"),
        (lab.path().to_str().unwrap().to_owned(), 126, "directory"),
        (file(&lab, "plain", "text", 0o644), 126, "permission"),
        (file(&lab, "text", "echo hello\n", 0o755), 126, "#!"),
        (
            file(&lab, "foreign", "\x7fELF\x02\x01\x01 of a machine that nobody has built", 0o755),
            126,
            "another processor",
        ),
        (String::new(), 127, "not found"),
        (file(&lab, "orphan", "#!/no/such/interpreter\n", 0o755), 126, "interpreter"),
    ];
    for (command, code, words) in cases {
        let outcome = run(lab.recorder(&[]).arg(&command));
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (Some(code), ""), "{command}: {outcome:?}");
        assert!(outcome.stderr.contains(&command) && outcome.stderr.contains(words), "{outcome:?}");
        assert!(!lab.partial().exists() && !lab.profile().exists(), "{command} left a profile");
    }
}

#[test]
fn nonsense_is_a_mistake_in_usage() {
    let cases: [(&[&str], &str); 10] = [
        (&["--"], "COMMAND"),
        (&["--nonsense", "--", "true"], "--nonsense"),
        (&["--machine", "nonsense", "--", "true"], "nonsense"),
        (&["--frequency", "0", "--", "true"], "frequency"),
        (&["--time-bins", "0", "--", "true"], "time-bins"),
        (&["--duration", "-1", "--", "true"], "duration"),
        (&["--policy", "bind:99", "--", "true"], "99"),
        (&["--pid", "1", "--all"], "--all"),
        (&["--pid", "-1"], "pid"),
        (&["--all", "--no-follow"], "--no-follow"),
    ];
    for (args, words) in cases {
        let outcome = run(numalens(&["record"]).args(args));
        assert_eq!(outcome.code(), Some(2), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
}

#[test]
fn options_after_the_command_are_the_commands() {
    need_recording!();
    let lab = Lab::new();
    let mut command = numalens(&["record", "-q", "-o"]);
    let outcome = run(command.arg(lab.profile()).args(["sh", "-c", "echo $0 $@", "--quiet", "-o", "x"]));
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (Some(0), "--quiet -o x\n"));
}

#[test]
fn a_missing_process_is_named() {
    need_recording!();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    let outcome = run(numalens(&["record", "-q", "--pid", &pid]).current_dir(Lab::new().path()));
    assert_eq!(outcome.code(), Some(125));
    assert!(outcome.stderr.contains(&pid) && outcome.stderr.contains("does not exist"), "{outcome:?}");
}

#[test]
fn a_running_process_is_watched_with_all_its_threads_and_goes_on() {
    need_recording!();
    let mut command = Command::new(awkward());
    command.arg("serve");
    let mut served = serve(command);
    let lab = Lab::new();
    let mut recorder = numalens(&["record", "-q", "--duration", "0.3", "--pid", &served.pid.to_string(), "-o"]);
    let outcome = run(recorder.arg(lab.profile()));
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(0), ""));
    assert_eq!(lab.sound().rows::<Thread>().unwrap().len(), 4);
    assert_eq!(served.finish(), "ended\n");
    served.wait();
}

#[test]
fn watching_a_process_ends_with_it_even_if_nobody_waits_for_it() {
    need_recording!();
    let mut command = Command::new(awkward());
    command.arg("serve");
    let mut served = serve(command);
    let lab = Lab::new();
    let mut recorder = numalens(&["record", "-q", "--pid", &served.pid.to_string(), "-o"]);
    let mut recorder = recorder.arg(lab.profile()).stderr(Stdio::null()).spawn().unwrap();
    until("recording has begun", || lab.partial().exists());
    assert_eq!(served.finish(), "ended\n");
    until("it is a zombie", || state(served.pid) == Some('Z'));
    assert_eq!(wait(&mut recorder).code(), Some(0));
    lab.sound();
    served.wait();
}

#[test]
fn the_whole_system_can_be_watched() {
    need_recording!();
    if !is_root() {
        eprintln!("skipped: root only");
        return;
    }
    let lab = Lab::new();
    let outcome = run(numalens(&["record", "-q", "--all", "--duration", "0.3", "-o"]).arg(lab.profile()));
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    lab.sound();
}

/// Records a program, and looks at its profile while its folder is still there.
fn with<T>(options: &[&str], look: impl FnOnce(&Profile) -> T) -> T {
    let lab = Lab::new();
    let (_, profile) = lab.record(options, &[pages(), "thread", "2000"]);
    look(&profile)
}

#[test]
fn options_do_what_they_say() {
    need_recording!();
    assert!((1..=5).contains(&with(&["--time-bins", "5"], |profile| profile.meta.bins)));
    let nodes = with(&["--machine", "4x2", "--placement", "none"], |profile| {
        profile.rows::<Placement>().unwrap().iter().map(|row| row.node).collect::<BTreeSet<_>>()
    });
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), [None]);
    let homes = with(&["--machine", "4x2", "--policy", "interleave", "--stack"], |profile| {
        let rows = profile.rows::<PlacedPages>().unwrap();
        let mut homes = BTreeMap::<_, u64>::new();
        rows.iter()
            .filter_map(|row| Some((row.home?, row.count)))
            .for_each(|(home, count)| *homes.entry(home).or_default() += count);
        homes
    });
    assert_eq!(homes.len(), 4, "{homes:?}");
    assert!(homes.values().all(|&count| count >= 500), "{homes:?}");
}
