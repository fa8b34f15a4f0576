//! Programs that are executed as the command ends, in the background: they live longer than the recording.
//!
//! The preloaded library is a file of the recorder's, and goes with it. So a program is executed with it only where it
//! is still there; but the program's loader opens it some milliseconds later, and says so on standard error where it
//! cannot. So the recorder stays until no loader is under way.

use super::file::SessionFile;
use numalens_event::exact::{Extent, kind};
use std::fs;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// From the question whether the library is there until the program is in the directory.
const AT_LEAST: Duration = Duration::from_millis(30);
/// Programs that somebody has stopped, or that do not load it, are not waited for any longer.
const AT_MOST: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(2);

/// Waits until processes that go on have loaded what they were given.
pub fn let_load(file: &SessionFile) {
    let began = Instant::now();
    while began.elapsed() < AT_MOST {
        let others: Vec<String> = mappings(file).collect();
        if others.is_empty() || began.elapsed() >= AT_LEAST && !others.iter().any(|maps| is_loading(maps)) {
            return;
        }
        thread::sleep(NAP);
    }
}

/// What is mapped in each process that has not ended; zombies have nothing.
fn mappings(file: &SessionFile) -> impl Iterator<Item = String> {
    let entries = (0..file.header().extents.load(Acquire)).filter_map(|number| file.entry(Extent(number)));
    let live = entries.filter(|entry| entry.kind.load(Acquire) == kind::PROCESS && entry.end_ns.load(Acquire) == 0);
    let maps = live.map(|entry| fs::read_to_string(format!("/proc/{}/maps", entry.id.load(Relaxed))));
    maps.filter_map(Result::ok).filter(|maps| !maps.is_empty())
}

/// Whether a dynamic program of a recording has not got the library yet.
fn is_loading(maps: &str) -> bool {
    let has = |name: &str| maps.contains(name);
    has("/memfd:numalens-session") && has("/ld-") && !has("/memfd:numalens-interpose")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_loading_until_it_has_the_library() {
        let mapped = |names: &[&str]| -> String {
            names.iter().map(|name| format!("7f0000000000-7f0000001000 r--p 00000000 00:01 7   {name}\n")).collect()
        };
        let ours = "/memfd:numalens-session (deleted)";
        assert!(is_loading(&mapped(&["/usr/bin/sleep", "/usr/lib/ld-linux-x86-64.so.2", ours])));
        assert!(!is_loading(&mapped(&["/usr/lib/ld-musl-x86_64.so.1", ours, "/memfd:numalens-interpose (deleted)"])));
        // A static one; one that is not recorded.
        assert!(!is_loading(&mapped(&["/usr/bin/busybox", ours])) && !is_loading(&mapped(&["/usr/lib/ld-linux.so.2"])));
    }
}
