//! Who used which page, and when: `page_accesses`, folded for questions about patterns and other placements.
//!
//! What a page's first toucher does while it touches pages is kept apart as *initial*: it would move with an
//! initialisation elsewhere, and must not pass for use.

use crate::facts::{Sums, Weight, merge};
use crate::pinning::PinningLog;
use crate::subjects::{RunId, SubjectId, Subjects};
use numalens_profile::ids::{Bin, Page, ProcessId, ThreadId};
use numalens_profile::tables::PageAccess;
use numalens_topology::NodeId;

/// Which accesses are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowKey {
    pub page: Page,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
    /// By its first toucher, at the time of the touch.
    pub initial: bool,
}

/// A subject's accesses that are not initial, over time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimeKey {
    pub subject: SubjectId,
    pub bin: Bin,
    pub node: Option<NodeId>,
}

/// The folded facts.
#[derive(Default)]
pub struct Flows {
    pub sums: Sums<FlowKey>,
    pub times: Sums<TimeKey>,
}

impl Flows {
    /// Columns that [`Flows::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "thread", "page", "reads", "writes", "samples", "period"];

    /// Adds a row.
    pub fn add(&mut self, row: &PageAccess, weight: Weight, pinning: &PinningLog, subjects: &Subjects) {
        let tally = weight.tally(row.reads, row.writes, row.samples, row.period);
        let node = pinning.at_end_of(row.thread, row.bin);
        let run = subjects.run_of(row.process, row.page, row.bin);
        let initial = run.is_some_and(|run| {
            let (toucher, bin) = subjects.toucher_of(run);
            toucher == Some(row.thread) && row.bin.0 <= bin.0.saturating_add(1)
        });
        let key = FlowKey { page: row.page, process: row.process, thread: row.thread, node, run, initial };
        *self.sums.entry(key).or_default() += tally;
        if let Some(run) = run.filter(|_| !initial) {
            *self.times.entry(TimeKey { subject: subjects.subject_of(run), bin: row.bin, node }).or_default() += tally;
        }
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        Flows { sums: merge(self.sums, other.sums), times: merge(self.times, other.times) }
    }
}
