//! `numalens doctor`, on this host and on hosts made worse: with system calls refused, and as an unprivileged user.

use super::*;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn doctor() -> Command {
    numalens(&["doctor", "--format", "json"])
}

/// How the doctor ends, and its diagnosis.
#[track_caller]
fn diagnosis(command: &mut Command) -> (Option<i32>, Value) {
    let outcome = output(command);
    (outcome.code(), serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}")))
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name}: {diagnosis:#}"))
}

/// Makes `call` fail with `errno` in the program to start.
fn refuse(command: &mut Command, call: i64, errno: i32) {
    // Load the number of the call; if it is this one, the error, else go on. (struct seccomp_data begins with the
    // number.)
    let filter = [
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | errno as u32 },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: two prctl calls, safe after fork; `program` and the filter that it points to outlive them.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: `install` makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_refused_perf_event_open() {
    let mut command = doctor();
    refuse(&mut command, libc::SYS_perf_event_open, libc::EPERM);
    let (code, diagnosis) = diagnosis(&mut command);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    assert_eq!((&diagnosis["schema"], &diagnosis["can_record"]), (&1.into(), &false.into()));
    assert_eq!(diagnosis["seccomp"], true);
    for name in ["page-faults", "cpu-clock"] {
        let check = check(&diagnosis, name);
        assert_eq!((&check["verdict"], &check["errno"]), (&"fails".into(), &"EPERM".into()), "{check:#}");
        assert!(check["fix"].as_str().is_some_and(|fix| fix.contains("PERFMON")), "{check:#}");
    }
    assert_eq!(check(&diagnosis, "whole-machine")["verdict"], "limited");
}

#[test]
fn a_kernel_without_perf_events() {
    let mut command = doctor();
    refuse(&mut command, libc::SYS_perf_event_open, libc::ENOSYS);
    let (code, diagnosis) = diagnosis(&mut command);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let faults = check(&diagnosis, "page-faults");
    assert_eq!(faults["errno"], "ENOSYS");
    assert!(faults["finding"].as_str().is_some_and(|finding| finding.contains("CONFIG_PERF_EVENTS")), "{faults:#}");
}

#[test]
fn a_refused_move_pages() {
    let mut command = doctor();
    refuse(&mut command, libc::SYS_move_pages, libc::EPERM);
    let (_, diagnosis) = diagnosis(&mut command);
    let homes = check(&diagnosis, "page-homes");
    assert_eq!((&homes["verdict"], &homes["errno"]), (&"fails".into(), &"EPERM".into()));
    assert!(homes["fix"].as_str().is_some_and(|fix| fix.contains("SYS_NICE")), "{homes:#}");
}

/// The exit status says what the JSON says, and what cannot be had names a reason; text has a line for each check.
#[test]
fn this_host() {
    let (code, diagnosis) = diagnosis(&mut doctor());
    let can_record = diagnosis["can_record"].as_bool().expect("a boolean");
    assert_eq!(code, Some(i32::from(!can_record)));
    let text = output(&mut numalens(&["doctor"])).stdout;
    for check in diagnosis["checks"].as_array().expect("checks") {
        assert!(["works", "limited", "fails"].iter().any(|word| check["verdict"] == *word), "{check:#}");
        assert!(!check["finding"].as_str().expect("a sentence").is_empty(), "{check:#}");
        assert!(text.contains(check["name"].as_str().expect("a name")), "{text}");
    }
    assert!(diagnosis["settings"].get("kernel.perf_event_paranoid").is_some());
}

/// Whether a user without privileges may do something is decided by the settings alone: doctor must agree with them.
#[test]
fn an_unprivileged_user() {
    if !is_root() {
        eprintln!("not tested: needs root to become another user");
        return;
    }
    let paranoid: i64 = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(i64::MAX);
    // A copy that the other user can reach wherever the build directory is.
    let directory = tempfile::Builder::new().prefix("doctor").tempdir_in("/tmp").expect("a temporary directory");
    let binary = directory.path().join("numalens");
    std::fs::copy(NUMALENS, &binary).expect("a copy");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    let mut command = Command::new(&binary);
    command.args(["doctor", "--format", "json"]).uid(65534).gid(65534).current_dir("/");
    let (_, diagnosis) = diagnosis(&mut command);
    let whole = check(&diagnosis, "whole-machine");
    if paranoid > 0 && paranoid < i64::MAX {
        assert_eq!((&whole["verdict"], &whole["errno"]), (&"limited".into(), &"EACCES".into()), "{whole:#}");
        assert_eq!(whole["fix"], "sudo sysctl kernel.perf_event_paranoid=0");
        assert_eq!(whole["setting"]["name"], "kernel.perf_event_paranoid");
    }
    if paranoid <= 2 {
        assert_eq!(diagnosis["can_record"], true, "{diagnosis:#}");
        assert_eq!(check(&diagnosis, "page-faults")["verdict"], "works");
    }
}
