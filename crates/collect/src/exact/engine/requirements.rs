//! What the exact engine needs of a machine, a program, and the limits that a shell sets.

use crate::exact::file::SessionFile;
use crate::launch::RecordError;
use crate::refused::refused;
use numalens_agent::program::{self, Prospect};
use numalens_event::exact;
use numalens_topology::Machine;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// What the agent has of a program's data (`ulimit -d`) at most, unless the program makes much code.
const DATA_OF_AGENT: u64 = 1 << 30;
/// Whether the tables of the exact engine have room for a machine.
///
/// # Errors
/// What it has too many of.
pub fn check_machine(machine: &Machine) -> Result<(), String> {
    let (most_nodes, most_cpus) = (exact::MOST_NODES, exact::MOST_CPUS);
    let last = |numbers: Option<u32>| numbers.map_or(0, |last| last as usize + 1);
    let nodes = last(machine.nodes.last().map(|node| node.id.0.into()));
    let cpus = last(machine.cpus().iter().last());
    if nodes <= most_nodes && cpus <= most_cpus {
        return Ok(());
    }
    Err(format!(
        "the exact engine counts for machines with nodes 0 to {} and CPUs 0 to {} at most; {} has nodes up to {} and CPUs up to {}: choose a \
         smaller --machine, or `--engine sample`",
        most_nodes - 1,
        most_cpus - 1,
        machine.name,
        nodes.saturating_sub(1),
        cpus.saturating_sub(1)
    ))
}

/// Whether this machine can run translated code.
pub fn works_here() -> bool {
    check_processor().is_ok()
}

/// Translated code uses instructions of processors since 2013, and one that the kernel must allow (Linux 5.9).
pub fn check_processor() -> Result<(), RecordError> {
    const FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    let allowed = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    let missing = match () {
        () if !std::is_x86_feature_detected!("bmi2") => "this processor does not have BMI2",
        () if allowed & FSGSBASE == 0 => "this kernel or processor does not let programs read FS (FSGSBASE)",
        () => return Ok(()),
    };
    Err(RecordError::Unobservable(missing.to_owned()))
}

/// Refuses, before it runs, a program that could not be observed.
pub fn check_observable(path: &Path) -> Result<(), RecordError> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(()) };
    // SAFETY: a NUL-terminated path.
    match unsafe { program::prospect(libc::AT_FDCWD, name.as_ptr().cast(), 0) } {
        Prospect::Unobservable(obstacle) => Err(RecordError::Unobservable(obstacle.to_string())),
        Prospect::Observable | Prospect::NoProgram => Ok(()),
    }
}

/// The agent's tables need much address space, though little memory: a limit (`ulimit -v`) is lifted for the kernel and
/// kept by the agent.
pub fn lift_limit(file: &SessionFile, pid: i32) -> Result<(), RecordError> {
    const WHAT: libc::__rlimit_resource_t = libc::RLIMIT_AS;
    let mut given = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of our own for the answer.
    if unsafe { libc::prlimit(pid, WHAT, std::ptr::null(), &raw mut given) } != 0 {
        return Err(refused("prlimit", &std::io::Error::last_os_error()).into());
    }
    let limit = &file.header().address_space;
    limit[0].store(given.rlim_cur, Relaxed);
    limit[1].store(given.rlim_max, Relaxed);
    check_data(pid)?;
    if given.rlim_cur == libc::RLIM_INFINITY {
        return Ok(());
    }
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of our own.
    if unsafe { libc::prlimit(pid, WHAT, &raw const none, std::ptr::null_mut()) } == 0 {
        return Ok(());
    }
    Err(RecordError::Unobservable(format!(
        "its address space is limited to {} MiB (ulimit -v), and the tables of the exact engine need {} GiB of it, though little \
         memory; raise the hard limit",
        given.rlim_cur >> 20,
        exact::ADDRESS_SPACE_NEEDED >> 30,
    )))
}

/// What the agent maps for itself counts as the program's data for the kernel.
fn check_data(pid: i32) -> Result<(), RecordError> {
    let mut given = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of our own for the answer.
    if unsafe { libc::prlimit(pid, libc::RLIMIT_DATA, std::ptr::null(), &raw mut given) } != 0 {
        return Err(refused("prlimit", &std::io::Error::last_os_error()).into());
    }
    if given.rlim_cur >= DATA_OF_AGENT {
        return Ok(());
    }
    Err(RecordError::Unobservable(format!(
        "its data is limited to {} MiB (ulimit -d, RLIMIT_DATA), and what the exact engine keeps in it counts as data, {} MiB of it at most, \
         most of which is never used; raise the limit",
        given.rlim_cur >> 20,
        DATA_OF_AGENT >> 20,
    )))
}
