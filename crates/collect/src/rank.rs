//! The rank of a process in its MPI program, as its launcher says.

use numalens_event::rank::RankSource;
use std::os::unix::ffi::OsStrExt;

/// The rank of the calling process; none outside of an MPI program.
pub fn own() -> Option<u32> {
    let mut source = RankSource::default();
    for (name, value) in std::env::vars_os() {
        source.look_at(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    source.rank()
}

/// The rank of a running process, from the environment that it was started with; none when it is gone, or not ours to
/// look at.
pub fn of_process(pid: i32) -> Option<u32> {
    let mut source = RankSource::default();
    // Words that end with zero bytes.
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ.split(|&byte| byte == 0).for_each(|variable| source.look_at(variable));
    source.rank()
}
