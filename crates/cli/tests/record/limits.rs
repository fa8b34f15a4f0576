//! Limits of the shell: raised for the recorder as far as they may be, kept for the program, found before it runs
//! otherwise. And what else a shell may have set that a recorder stumbles over.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// `command`, started by a shell that has executed `setup`.
fn after(setup: &str, command: &Command) -> Command {
    let mut shell = native("sh");
    shell.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[test]
fn soft_limits_are_the_programs() {
    need_recording!();
    const SETUP: &str = "ulimit -S -n 16; ulimit -S -f 4; ulimit -S -s 64; ulimit -S -l 0; ulimit -S -t 100";
    const SHOW: &str =
        "ulimit -S -n; ulimit -S -f; ulimit -S -s; ulimit -S -l; ulimit -S -t; ulimit -H -n; ulimit -H -f";
    let alone = run(&mut after(SETUP, native("sh").args(["-c", SHOW])));
    assert!(alone.stdout.starts_with("16\n4\n64\n"), "{alone:?}");
    for engine in ENGINES {
        let lab = Lab::new();
        let recorded = run(&mut after(SETUP, lab.recorder(&["--engine", engine]).args(["sh", "-c", SHOW])));
        assert_eq!(alone, recorded, "{engine}");
        lab.sound();
        // Whoever passes one is told so as natively: by the signal.
        let lab = Lab::new();
        let writes = ["head", "-c", "9999", "/dev/zero"];
        let mut shell = after("ulimit -S -f 4; exec > large", lab.recorder(&["--engine", engine]).args(writes));
        let outcome = run(&mut shell);
        assert_eq!(outcome.signal(), Some(libc::SIGXFSZ), "{engine}: {outcome:?}");
        assert_eq!(lab.sound().meta.exit_status, format!("killed by signal {}", libc::SIGXFSZ));
    }
}

/// Limits hard ones as well, in a process that may not raise them, root's included.
fn limit(command: &mut Command, resource: libc::__rlimit_resource_t, value: u64) {
    const CAP_SYS_RESOURCE: libc::c_ulong = 24;
    // SAFETY: two system calls, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            // Not allowed to who has not got it anyway.
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0u64, 0u64, 0u64);
            let both = libc::rlimit { rlim_cur: value, rlim_max: value };
            if libc::setrlimit(resource, &both) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

#[test]
fn what_cannot_be_raised_is_found_before_the_program_runs() {
    need_recording!();
    let limits = [
        (libc::RLIMIT_FSIZE, 16 << 10, "RLIMIT_FSIZE", "ulimit -Hf"),
        (libc::RLIMIT_NOFILE, 16, "RLIMIT_NOFILE", "ulimit -Hn"),
        (libc::RLIMIT_AS, 200 << 20, "RLIMIT_AS", "ulimit -Hv"),
    ];
    for (resource, value, call, way_out) in limits {
        for engine in ENGINES {
            let lab = Lab::new();
            let mut command = lab.recorder(&["--engine", engine]);
            limit(command.args(["touch", "witness"]), resource, value);
            let outcome = run(&mut command);
            assert_eq!(outcome.code(), Some(125), "{engine}: {outcome:?}");
            for words in [call, way_out, "Nothing was run"] {
                assert!(outcome.stderr.contains(words), "{engine}: {words}: {outcome:?}");
            }
            nothing_is_left(&lab, engine);
        }
    }
}

#[track_caller]
fn nothing_is_left(lab: &Lab, what: &str) {
    let left: Vec<_> = std::fs::read_dir(lab.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
}

/// Has the kernel refuse a system call to a process and all that it starts.
fn refuse(command: &mut Command, number: libc::c_long) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: two system calls, which are async-signal-safe, with a program that lives as long as the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1u64, 0u64, 0u64, 0u64);
            match libc::prctl(libc::PR_SET_SECCOMP, u64::from(libc::SECCOMP_MODE_FILTER), &raw const program) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[test]
fn where_memory_files_are_refused_the_profile_says_what_it_lacks() {
    need_recording!();
    let lab = Lab::new();
    let mut command = lab.recorder(&["--engine", "sample"]);
    refuse(command.args(["echo", "unaffected"]), libc::SYS_memfd_create);
    let outcome = run(&mut command);
    assert_eq!((outcome.code(), outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "unaffected\n", ""));
    let unobserved = lab.sound().meta.unobserved.join("\n");
    for words in ["heap blocks of all programs", "memfd_create failed", "filter"] {
        assert!(unobserved.contains(words), "{words}: {unobserved}");
    }
    let report = run(numalens(&["report"]).arg(lab.profile()));
    assert!(report.stdout.contains("not observed: heap blocks of all programs"), "{report:?}");
    let lab = Lab::new();
    let mut command = lab.recorder(&["--engine", "exact"]);
    refuse(command.args(["touch", "witness"]), libc::SYS_memfd_create);
    let outcome = run(&mut command);
    assert_eq!(outcome.code(), Some(125), "{outcome:?}");
    for words in ["memfd_create failed", "Operation not permitted", "filter"] {
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
    }
    nothing_is_left(&lab, "exact");
}

#[test]
fn a_program_without_the_library_is_named() {
    need_recording!();
    let lab = Lab::new();
    let script = format!("{} fork; /bin/echo ended", awkward_static());
    let (_, profile) = lab.record(&[], &["sh", "-c", &script]);
    let unobserved = &profile.meta.unobserved;
    // The static program and its four children.
    assert_eq!(unobserved.len(), 5, "{unobserved:?}");
    assert!(unobserved.iter().all(|line| line.starts_with("heap blocks of process ")), "{unobserved:?}");
    let (_, profile) = Lab::new().record(&[], &["sh", "-c", "/bin/echo one; /bin/echo two"]);
    assert!(profile.meta.unobserved.is_empty(), "{:?}", profile.meta.unobserved);
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn profiles_are_their_users_alone_whatever_the_umask() {
    need_recording!();
    for engine in ENGINES {
        for umask in ["0000", "0777"] {
            let lab = Lab::new();
            let mut command = lab.recorder(&["--engine", engine]);
            let outcome = run(&mut after(&format!("umask {umask}"), command.args(["sh", "-c", "umask"])));
            assert_eq!((outcome.code(), outcome.stdout), (Some(0), format!("{umask}\n")), "{engine}");
            lab.sound();
            assert_eq!(mode(&lab.profile()), 0o700, "{engine} {umask}");
            for entry in std::fs::read_dir(lab.profile()).unwrap() {
                let path = entry.unwrap().path();
                assert_eq!(mode(&path), 0o600, "{}", path.display());
            }
            let packed = lab.path().join("run.zip");
            let mut pack = numalens(&["pack", "-o"]);
            assert_eq!(
                run(&mut after(&format!("umask {umask}"), pack.arg(&packed).arg(lab.profile()))).code(),
                Some(0)
            );
            assert_eq!(mode(&packed), 0o600);
        }
    }
}

#[test]
fn a_machines_files_find_another_place_where_memory_has_no_room() {
    need_recording!();
    let mounts = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !mounts || !is_root() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let lab = Lab::new();
    let recorder = lab.recorder(&["--engine", "exact", "--machine", "4x2"]);
    let setup = "mount -t tmpfs -o size=16k tmpfs /dev/shm";
    let inner = after(
        setup,
        in_order(Command::new(recorder.get_program()))
            .args(recorder.get_args())
            .args(["cat", "/sys/devices/system/node/online"]),
    );
    let mut outer = native("unshare");
    outer.arg("-m").arg(inner.get_program()).args(inner.get_args()).current_dir(lab.path());
    let outcome = run(&mut outer);
    assert_eq!((outcome.code(), outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "0-3\n", ""));
    assert!(lab.sound().meta.notes.is_empty());
}
