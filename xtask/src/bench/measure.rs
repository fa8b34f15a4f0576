//! One run of a program, measured.
//!
//! Elapsed time and processor time come from `wait4`, whose figures include the children that were waited for: for
//! `numalens record` these are the collector and the program together. Its `ru_maxrss` cannot tell the two apart, as it
//! is that of the largest of them. The collector's own peak is therefore read from `VmHWM` in the moment in which it
//! ends: it is traced for that one event (`PTRACE_O_TRACEEXIT`), at which its memory is still there and its peak final.
//! Being traced costs it nothing meanwhile but a detour for each signal it gets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// Whose peak memory is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measured {
    /// That of the largest process, children included.
    WholeTree,
    /// That of the process which is started, without its children.
    PeakOfFirstProcess,
}

/// What a run took.
#[derive(Debug)]
pub struct Run {
    pub elapsed_s: f64,
    /// User and system time, of the children too.
    pub processor_s: f64,
    /// `None`: the process may not be traced here.
    pub peak_kib: Option<u64>,
    /// Why its figures mean nothing.
    pub failure: Option<String>,
}

/// Runs a command in `folder`, without input, its output thrown away.
///
/// # Errors
/// It cannot be started.
pub fn run(
    command: &[String],
    folder: &Path,
    environment: &BTreeMap<String, String>,
    measured: Measured,
) -> io::Result<Run> {
    let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let complaints = folder.join("stderr.txt");
    let begin = Instant::now();
    let child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&complaints)?)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let pid = child.id() as libc::pid_t;
    let traced = measured == Measured::PeakOfFirstProcess && trace_exit(pid);
    let (status, usage, peak_at_exit) = wait(pid)?;
    let elapsed_s = begin.elapsed().as_secs_f64();
    let peak_kib = match measured {
        Measured::WholeTree => u64::try_from(usage.ru_maxrss).ok(),
        Measured::PeakOfFirstProcess => peak_at_exit.filter(|_| traced),
    };
    let failure = (!status.success()).then(|| {
        let text = fs::read_to_string(&complaints).unwrap_or_default();
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        format!("{program}: {status}: {}", text.lines().last().unwrap_or_default())
    });
    Ok(Run { elapsed_s, processor_s: seconds(usage.ru_utime) + seconds(usage.ru_stime), peak_kib, failure })
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// Asks to be told when a child ends; `false` when that is not allowed.
fn trace_exit(pid: libc::pid_t) -> bool {
    // SAFETY: PTRACE_SEIZE takes a pid, an unused address and options; it writes no memory of ours.
    unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0usize, libc::PTRACE_O_TRACEEXIT as usize) == 0 }
}

/// Lets a stopped child go on, with `signal` delivered unless it is 0.
fn go_on(pid: libc::pid_t, signal: i32) {
    // SAFETY: PTRACE_CONT takes a pid, an unused address and a signal; it writes no memory of ours. It fails only when
    // the child is gone, which the next wait tells.
    unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0usize, signal as usize) };
}

/// Waits for the end of a child; its status, what it used, and its peak memory in KiB when it is traced.
fn wait(pid: libc::pid_t) -> io::Result<(ExitStatus, libc::rusage, Option<u64>)> {
    let mut peak = None;
    loop {
        let mut status = 0;
        // SAFETY: rusage is plain numbers, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live variables of the types that wait4 fills.
        let waited = unsafe { libc::wait4(pid, &mut status, libc::__WALL, &mut usage) };
        if waited != pid {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if !libc::WIFSTOPPED(status) {
            return Ok((ExitStatus::from_raw(status), usage, peak));
        }
        match status >> 16 {
            libc::PTRACE_EVENT_EXIT => {
                peak = peak_of(pid);
                go_on(pid, 0);
            }
            0 => go_on(pid, libc::WSTOPSIG(status)),
            _ => go_on(pid, 0),
        }
    }
}

/// The most memory that a process has had so far, in KiB.
fn peak_of(pid: libc::pid_t) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// What `numalens --version` says.
///
/// # Errors
/// It cannot be run.
pub fn version(numalens: &Path) -> io::Result<String> {
    let output = Command::new(numalens).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, measured: Measured) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let command = ["sh", "-c", script].map(str::to_owned);
        run(&command, folder.path(), &BTreeMap::from([("X".to_owned(), "7".to_owned())]), measured).unwrap()
    }

    #[test]
    fn failures_are_told_with_the_last_complaint() {
        assert_eq!(shell("test $X = 7", Measured::WholeTree).failure, None);
        let failure = shell("echo one >&2; echo two >&2; exit 3", Measured::PeakOfFirstProcess).failure.unwrap();
        assert_eq!(failure, "sh: exit status: 3: two");
        assert!(shell("kill -9 $$", Measured::PeakOfFirstProcess).failure.unwrap().contains("signal: 9"));
    }

    #[test]
    fn the_peak_of_the_first_process_leaves_its_children_out() {
        // `head` buffers the one line of 64 MiB that sort holds in memory; the shell itself stays small.
        let script = "head -c 67108864 /dev/zero | sort -S 200M; true";
        let whole = shell(script, Measured::WholeTree).peak_kib.unwrap();
        assert!(whole > 60_000, "{whole}");
        if let Some(first) = shell(script, Measured::PeakOfFirstProcess).peak_kib {
            assert!(first > 100 && first < 30_000, "{first}");
        }
    }

    #[test]
    fn signals_reach_a_traced_process() {
        let run = shell("trap 'exit 5' USR1; kill -USR1 $$; exit 6", Measured::PeakOfFirstProcess);
        assert_eq!(run.failure.unwrap(), "sh: exit status: 5: ");
    }
}
