//! Who ran, and where: processes, their threads, and the nodes that these were bound to.

use crate::dataset::source::Only;
use crate::facts::slots;
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_profile::tables::{Collection, Phase, Placement, Process, ProcessedObjects, Thread};
use numalens_profile::{Error, PinningLog, Profile};
use rustc_hash::FxHashMap;

/// Processes and threads.
pub struct Program {
    pub processes: Vec<Process>,
    pub threads: FxHashMap<ThreadId, Thread>,
    /// All threads of the processes, as they started, those too that the filter leaves out.
    pub order: Vec<ThreadId>,
    /// The places that a virtual machine gives them, in that order.
    pub slots: Vec<u32>,
    pub placements: Vec<Placement>,
    pub pinning: PinningLog,
    pub phases: Vec<Phase>,
    pub collections: Vec<Collection>,
    pub processed_objects: Vec<ProcessedObjects>,
}

impl Program {
    /// That of the wanted ones of all `processes`.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn load(profile: &Profile, mut processes: Vec<Process>, only: &Only, bin_ns: u64) -> Result<Program, Error> {
        processes.retain(|row| only.has(row.process));
        let placements: Vec<Placement> = only.rows(profile, |row: &Placement| row.process)?;
        let mut threads = only.rows(profile, |row: &Thread| row.process)?;
        threads.sort_by_key(|row| row.thread);
        Ok(Program {
            processes,
            order: threads.iter().map(|row| row.thread).collect(),
            slots: slots::of(&threads),
            threads: threads.into_iter().map(|row| (row.thread, row)).collect(),
            pinning: PinningLog::new(&placements, bin_ns),
            placements,
            phases: only.rows(profile, |row: &Phase| row.process)?,
            collections: only.rows(profile, |row: &Collection| row.process)?,
            processed_objects: only.rows(profile, |row: &ProcessedObjects| row.process)?,
        })
    }

    /// Whether a thread had ended when another one began; not known of those that are filtered out.
    pub fn ends_before(&self, one: ThreadId, other: ThreadId) -> bool {
        let end = self.threads.get(&one).and_then(|row| row.end_ns);
        end.is_some_and(|end| self.threads.get(&other).is_some_and(|row| end <= row.start_ns))
    }

    /// Kernel's number of a process.
    pub fn pid(&self, process: ProcessId) -> Option<u32> {
        self.process(process).map(|p| p.pid)
    }

    /// A process.
    pub fn process(&self, process: ProcessId) -> Option<&Process> {
        self.processes.iter().find(|p| p.process == process)
    }
}
