//! Names in `/tmp/perf-PID.map`, which runtimes write of the code that they make: taken into the profile at the end, as
//! the file is the machine's, and may be gone tomorrow. What the preloaded library has asked a runtime to write goes
//! when the recording is over.

use super::Level;
use numalens_profile::perf_map::{Named, look_up, path_of};
use numalens_profile::place::{self, Links};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;

/// Longer ones are read so far.
const MOST_BYTES: u64 = 256 << 20;

/// The maps of the processes of a recording.
#[derive(Default)]
pub struct PerfMaps {
    /// Those that were asked for.
    asked: BTreeSet<u32>,
}

impl PerfMaps {
    /// A runtime was asked to write one.
    pub fn asked(&mut self, pid: u32) {
        self.asked.insert(pid);
    }

    /// What the map of a process calls `addresses` (sorted); as many answers.
    pub fn levels(&self, pid: u32, addresses: &[u64]) -> Vec<Option<Level>> {
        let mut text = Vec::new();
        let is_read = place::open(&path_of(pid), Links::Refuse)
            .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text))
            .is_ok();
        let found = if is_read { look_up(addresses, &text) } else { Vec::new() };
        let level = |Named { function, file, line, .. }: Named| Level { function, file, line };
        let mut levels: Vec<Option<Level>> = found.into_iter().map(|named| named.map(level)).collect();
        levels.resize_with(addresses.len(), || None);
        levels
    }
}

impl Drop for PerfMaps {
    fn drop(&mut self) {
        for path in self.asked.iter().copied().map(path_of) {
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
                // One that stays takes a little room in /tmp.
                let _ = fs::remove_file(&path);
            }
        }
    }
}
