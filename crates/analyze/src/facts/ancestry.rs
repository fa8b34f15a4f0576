//! Which process forked which: pages that a process has not placed itself are those of the one that forked it.

use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Process;
use rustc_hash::FxHashMap;

/// Processes that pages may come down from, one after the other. Who forges a profile may go round in circles.
const MOST_GENERATIONS: usize = 64;

/// The parents of processes, as far as these are in the recording.
#[derive(Default)]
pub struct Ancestry(FxHashMap<ProcessId, ProcessId>);

impl Ancestry {
    /// Of all processes of a dataset.
    pub fn new(processes: &[Process]) -> Self {
        Ancestry(processes.iter().filter_map(|process| Some((process.process, process.parent?))).collect())
    }

    /// Whether a process has a parent in the recording.
    pub fn has_parent(&self, process: ProcessId) -> bool {
        self.0.contains_key(&process)
    }

    /// The parent, its parent, and so on.
    pub fn above(&self, process: ProcessId) -> impl Iterator<Item = ProcessId> {
        std::iter::successors(self.0.get(&process).copied(), |process| self.0.get(process).copied())
            .take(MOST_GENERATIONS)
    }
}
