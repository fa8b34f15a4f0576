//! From an error number and the settings to the reason and the remedy. No I/O.

use super::settings::{MLOCK_KB, PARANOID, Setting, Settings};
use crate::perf::{Call, OpenError, Scope};
use nix::errno::Errno;

/// Why something failed and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// In a sentence.
    pub why: String,
    /// The setting that decides.
    pub setting: Option<Setting>,
    /// A command, where there is one.
    pub fix: Option<String>,
}

impl Advice {
    fn new(why: impl Into<String>) -> Self {
        Advice { why: why.into(), setting: None, fix: None }
    }

    fn setting(mut self, setting: Option<Setting>) -> Self {
        self.setting = setting;
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// The reason and the remedy of an event that could not be opened, in one or two sentences for an error message.
/// `paranoid` comes from [`super::perf_event_paranoid`].
pub fn explain_perf_open_failure(error: &OpenError, paranoid: Option<i64>, scope: Scope) -> String {
    let errno = Errno::from_raw(error.error.raw_os_error().unwrap_or(0));
    let settings = Settings { paranoid, ..Settings::default() };
    let advice = match (error.call, errno) {
        (Call::Open, Errno::EINVAL | Errno::ENODEV) if error.elsewhere => no_such_cpu(error.cpu),
        (Call::Open, _) => perf_open(errno, &settings, scope),
        (Call::MapRing, _) => perf_ring(errno, &settings),
    };
    match advice.fix {
        Some(fix) => format!("{} ({errno:?}). To allow it: {fix}", advice.why),
        None => format!("{} ({errno:?}). `numalens doctor` tries everything that a recording needs.", advice.why),
    }
}

/// The highest `kernel.perf_event_paranoid` at which a user without privileges may watch `scope`.
fn paranoid_allows(scope: Scope) -> i64 {
    match scope {
        Scope::FromExec(_) | Scope::Running(_) => 2,
        Scope::Everything => 0,
    }
}

const CONTAINER: &str = "docker run --cap-add PERFMON --cap-add SYS_NICE ...   (or, with podman, the same options)";

/// Why `perf_event_open` refused.
pub(super) fn perf_open(errno: Errno, settings: &Settings, scope: Scope) -> Advice {
    let allowed = paranoid_allows(scope);
    let watching = match scope {
        Scope::FromExec(_) => "a program that it starts".to_owned(),
        Scope::Running(pid) => format!("process {pid}"),
        Scope::Everything => "the whole machine".to_owned(),
    };
    match errno {
        Errno::EACCES | Errno::EPERM if settings.paranoid.is_some_and(|paranoid| paranoid > allowed) && !settings.capabilities.perfmon => {
            let paranoid = settings.paranoid.unwrap_or_default();
            Advice::new(format!(
                "the kernel does not let this user watch {watching}: {PARANOID} is {paranoid}, and above {allowed} only root (or CAP_PERFMON) may"
            ))
            .setting(settings.setting(PARANOID))
            .fix(format!("sudo sysctl {PARANOID}={allowed}"))
        }
        Errno::EACCES => match scope {
            Scope::Running(pid) => Advice::new(format!("process {pid} belongs to another user, or has more privileges than this one"))
                .fix("run numalens as the user of that process, or with sudo"),
            _ => Advice::new(format!("a security policy of the system (SELinux, AppArmor, lockdown) forbids watching {watching}"))
                .fix("sudo dmesg | grep -iE 'perf_event|lockdown|denied'   (names the policy)"),
        },
        Errno::EPERM => {
            let filter = if settings.seccomp { "the system call filter of this container" } else { "a system call filter or a security policy" };
            Advice::new(format!("{filter} refuses perf_event_open, as containers do by default")).fix(CONTAINER)
        }
        Errno::ENOSYS => Advice::new(
            "this kernel has no perf_event_open: it was built without CONFIG_PERF_EVENTS, or a sandbox (gVisor, an old container runtime) hides it",
        )
        .fix(if settings.seccomp { CONTAINER } else { "run on the host's own kernel, outside of the sandbox" }),
        Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::EOPNOTSUPP => {
            Advice::new("this event does not exist here: the processor or the virtual machine does not offer it")
        }
        Errno::EMFILE => Advice::new("too many open files: a recording needs a few for each CPU").fix("ulimit -n 65536"),
        Errno::ENFILE => Advice::new("the system has too many open files").fix("sudo sysctl fs.file-max=1000000"),
        Errno::ENOMEM => Advice::new("the kernel has no memory for the event"),
        Errno::ESRCH => Advice::new(format!("{watching} has ended")),
        Errno::EBUSY => Advice::new("another profiler holds the hardware").fix("end the other profiler, or record with the clock"),
        Errno::EINVAL | Errno::E2BIG => {
            Advice::new("this kernel does not know what was asked for; Linux 4.1 or newer is needed (uname -r tells)")
        }
        other => Advice::new(format!("perf_event_open failed: {}", other.desc())),
    }
}

/// Why an event that exists on one CPU does not on another.
fn no_such_cpu(cpu: u32) -> Advice {
    Advice::new(format!(
        "/sys/devices/system/cpu/online lists CPU {cpu}, and the kernel has none of this number: a recording shows numalens itself a virtual machine \
         (a recording in a recording), or a container shows it another host's files"
    ))
    .fix("record the program alone; in a recording with `--engine exact`; elsewhere with the host's own /sys")
}

/// Why the ring buffer of an event could not be mapped.
pub(super) fn perf_ring(errno: Errno, settings: &Settings) -> Advice {
    match errno {
        Errno::EPERM | Errno::ENOMEM => {
            let kb = settings.mlock_kb.unwrap_or(516).max(516) * 4;
            Advice::new(
                "the memory for ring buffers is used up, by other profilers of this user or by a low limit (`ulimit -l`, RLIMIT_MEMLOCK)",
            )
                .setting(settings.setting(MLOCK_KB))
                .fix(format!("sudo sysctl {MLOCK_KB}={kb}"))
        }
        other => Advice::new(format!("the ring buffer could not be mapped: {}", other.desc())),
    }
}

/// Why asking for the home of a page failed.
pub(super) fn move_pages(errno: Errno, settings: &Settings) -> Advice {
    match errno {
        Errno::ENOSYS => Advice::new(
            "this kernel was built without NUMA (CONFIG_NUMA, CONFIG_MIGRATION), or a sandbox hides move_pages",
        ),
        Errno::EPERM if settings.seccomp => Advice::new("the system call filter of this container refuses move_pages")
            .fix("docker run --cap-add SYS_NICE ..."),
        Errno::EPERM => Advice::new("the process belongs to another user")
            .fix("run numalens as the user of that process, or with sudo"),
        other => Advice::new(format!("move_pages failed: {}", other.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Capabilities;

    const OWN: Scope = Scope::FromExec(1);

    fn settings(paranoid: i64) -> Settings {
        Settings { paranoid: Some(paranoid), mlock_kb: Some(516), ..Settings::default() }
    }

    #[track_caller]
    fn check(errno: Errno, settings: &Settings, scope: Scope, why: &str, fix: Option<&str>) {
        let advice = perf_open(errno, settings, scope);
        assert!(advice.why.contains(why), "{advice:?}");
        assert_eq!(advice.fix.as_deref(), fix, "{advice:?}");
    }

    #[test]
    fn paranoid() {
        let fix = Some("sudo sysctl kernel.perf_event_paranoid=2");
        check(Errno::EACCES, &settings(4), OWN, "kernel.perf_event_paranoid is 4", fix);
        check(Errno::EACCES, &settings(3), Scope::Running(7), "watch process 7", fix);
        check(Errno::EPERM, &settings(3), OWN, "above 2 only root", fix);
        let fix = Some("sudo sysctl kernel.perf_event_paranoid=0");
        check(Errno::EACCES, &settings(2), Scope::Everything, "watch the whole machine", fix);
        let setting = perf_open(Errno::EACCES, &settings(4), OWN).setting.expect("the setting decides");
        assert_eq!((setting.name.as_str(), setting.value.as_str()), (PARANOID, "4"));
    }

    #[test]
    fn not_paranoid() {
        check(
            Errno::EACCES,
            &settings(2),
            Scope::Running(7),
            "another user",
            Some("run numalens as the user of that process, or with sudo"),
        );
        assert!(perf_open(Errno::EACCES, &settings(2), OWN).why.contains("security policy"));
        let privileged = Settings { capabilities: Capabilities { perfmon: true, ..Default::default() }, ..settings(4) };
        assert!(perf_open(Errno::EACCES, &privileged, OWN).why.contains("security policy"));
        assert_eq!(perf_open(Errno::EACCES, &privileged, OWN).setting, None);
    }

    #[test]
    fn containers() {
        let filtered = Settings { seccomp: true, ..settings(2) };
        check(Errno::EPERM, &filtered, OWN, "filter of this container", Some(CONTAINER));
        check(Errno::ENOSYS, &filtered, OWN, "no perf_event_open", Some(CONTAINER));
        assert_ne!(perf_open(Errno::ENOSYS, &settings(2), OWN).fix.as_deref(), Some(CONTAINER));
        assert!(move_pages(Errno::EPERM, &filtered).fix.is_some_and(|fix| fix.contains("SYS_NICE")));
    }

    #[test]
    fn others() {
        check(Errno::ENOENT, &settings(2), OWN, "does not exist here", None);
        check(Errno::EMFILE, &settings(2), OWN, "too many open files", Some("ulimit -n 65536"));
        check(Errno::ESRCH, &settings(2), Scope::Running(9), "process 9 has ended", None);
        check(Errno::EIO, &settings(2), OWN, "I/O error", None);
        let ring = perf_ring(Errno::EPERM, &settings(2));
        assert_eq!(ring.fix.as_deref(), Some("sudo sysctl kernel.perf_event_mlock_kb=2064"));
    }

    #[test]
    fn in_a_sentence() {
        let error = |errno, elsewhere| OpenError {
            call: Call::Open,
            what: "page faults".to_owned(),
            cpu: 2,
            elsewhere,
            gone: false,
            error: std::io::Error::from_raw_os_error(errno),
        };
        assert_eq!(
            explain_perf_open_failure(&error(libc::EACCES, false), Some(4), OWN),
            "the kernel does not let this user watch a program that it starts: kernel.perf_event_paranoid is 4, and above 2 \
             only root (or CAP_PERFMON) may (EACCES). To allow it: sudo sysctl kernel.perf_event_paranoid=2"
        );
        assert!(explain_perf_open_failure(&error(libc::ENOENT, false), None, OWN).contains("ENOENT"));
        let text = explain_perf_open_failure(&error(libc::EINVAL, true), None, OWN);
        assert!(
            text.contains("CPU 2") && text.contains("recording in a recording") && !text.contains("Linux 4.1"),
            "{text}"
        );
        let ring = OpenError { call: Call::MapRing, ..error(libc::EPERM, true) };
        assert!(ring.to_string().starts_with("mmap of the ring for page faults on CPU 2 failed"), "{ring}");
        assert!(explain_perf_open_failure(&ring, None, OWN).contains("ulimit -l"));
    }
}
