//! The settings that decide what a user may observe.

use std::path::Path;
use std::{fmt, fs};

/// A setting with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As `sysctl` spells it: `kernel.perf_event_paranoid`.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

/// What the kernel is set to; `None` where the kernel does not have the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `kernel.perf_event_paranoid`: up to 2 users may watch their own programs, up to 0 whole CPUs.
    pub paranoid: Option<i64>,
    /// `kernel.perf_event_mlock_kb`: memory for ring buffers, per user and CPU, that needs no privilege.
    pub mlock_kb: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`
    pub max_sample_rate: Option<i64>,
    /// `kernel.perf_event_max_stack`
    pub max_stack: Option<i64>,
    /// `kernel.kptr_restrict`: whether the kernel's own functions have addresses for users.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`: from 1 on, memory of running programs may only be read by their ancestors.
    pub ptrace_scope: Option<i64>,
    /// A system call filter is in force, as in containers.
    pub seccomp: bool,
    /// What this process may do beyond other users.
    pub capabilities: Capabilities,
}

/// The privileges that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// CAP_PERFMON or CAP_SYS_ADMIN: everything of `perf_event_open`.
    pub perfmon: bool,
    /// CAP_SYS_PTRACE: any process may be looked into.
    pub ptrace: bool,
    /// CAP_SYS_NICE: pages of others may be moved.
    pub nice: bool,
}

impl Settings {
    /// Reads `/proc`.
    pub fn read() -> Self {
        Self::read_from(Path::new("/proc"))
    }

    fn read_from(proc: &Path) -> Self {
        let kernel = |name: &str| fs::read_to_string(proc.join("sys/kernel").join(name)).ok()?.trim().parse().ok();
        let status = fs::read_to_string(proc.join("self/status")).unwrap_or_default();
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
        };
        Settings {
            paranoid: kernel("perf_event_paranoid"),
            mlock_kb: kernel("perf_event_mlock_kb"),
            max_sample_rate: kernel("perf_event_max_sample_rate"),
            max_stack: kernel("perf_event_max_stack"),
            kptr_restrict: kernel("kptr_restrict"),
            ptrace_scope: kernel("yama/ptrace_scope"),
            seccomp: field("Seccomp") == "2",
            capabilities: Capabilities::of_mask(u64::from_str_radix(field("CapEff"), 16).unwrap_or(0)),
        }
    }

    /// The settings that are files, by the name that `sysctl` takes.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<i64>)> {
        [
            (PARANOID, self.paranoid),
            (MLOCK_KB, self.mlock_kb),
            ("kernel.perf_event_max_sample_rate", self.max_sample_rate),
            ("kernel.perf_event_max_stack", self.max_stack),
            ("kernel.kptr_restrict", self.kptr_restrict),
            (PTRACE_SCOPE, self.ptrace_scope),
        ]
        .into_iter()
    }

    pub(super) fn setting(&self, name: &str) -> Option<Setting> {
        let value = self.named().find(|(known, _)| *known == name)?.1?;
        Some(Setting { name: name.into(), value: value.to_string() })
    }
}

pub(super) const PARANOID: &str = "kernel.perf_event_paranoid";
pub(super) const MLOCK_KB: &str = "kernel.perf_event_mlock_kb";
pub(super) const PTRACE_SCOPE: &str = "kernel.yama.ptrace_scope";

/// `kernel.perf_event_paranoid`; `None` on kernels without perf events.
pub fn perf_event_paranoid() -> Option<i64> {
    Settings::read().paranoid
}

impl Capabilities {
    /// From the bits of `CapEff`.
    fn of_mask(mask: u64) -> Self {
        let has = |number: u32| mask >> number & 1 == 1;
        Capabilities { perfmon: has(38) || has(21), ptrace: has(19), nice: has(23) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_from_proc() {
        let proc = tempfile::tempdir().expect("a temporary directory");
        let file = |path: &str, text: &str| {
            let path = proc.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
            fs::write(path, text).expect("a file");
        };
        file("sys/kernel/perf_event_paranoid", "4\n");
        file("sys/kernel/yama/ptrace_scope", "1\n");
        file("sys/kernel/perf_event_mlock_kb", "what\n");
        file("self/status", "Name:\tcat\nCapEff:\t0000004000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n");
        let settings = Settings::read_from(proc.path());
        let capabilities = Capabilities { perfmon: true, ptrace: false, nice: false };
        let expected =
            Settings { paranoid: Some(4), ptrace_scope: Some(1), seccomp: true, capabilities, ..Settings::default() };
        assert_eq!(settings, expected);
        assert_eq!(settings.setting(PARANOID).expect("known").to_string(), "kernel.perf_event_paranoid = 4");
        assert_eq!(settings.setting(MLOCK_KB), None);
        assert_eq!(Settings::read_from(&proc.path().join("nothing")), Settings::default());
    }
}
