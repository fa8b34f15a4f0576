//! Who used which page, and when: `page_accesses`, folded for questions about patterns and other placements.
//!
//! What a page's first toucher does while it touches pages is kept apart as *initial*: it would move with an
//! initialisation elsewhere, and must not pass for use.

use crate::facts::{Sums, merge};
use crate::filter::Sieve;
use crate::page_sums::{Adding, OfPage, PageSums};
use crate::pinning::PinningLog;
use crate::sorted::Times;
use crate::subjects::{Cursor, RunId, SubjectId, Subjects};
use numalens_profile::ids::{Bin, Page, ProcessId, ThreadId};
use numalens_profile::tables::PageAccess;
use numalens_topology::NodeId;

/// Which accesses are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

impl OfPage for FlowKey {
    fn page(&self) -> (ProcessId, Page) {
        (self.process, self.page)
    }
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
    pub sums: PageSums<FlowKey>,
    pub times: Sums<TimeKey>,
}

/// The same in the making.
#[derive(Default)]
pub struct AddingFlows {
    sums: Adding<FlowKey>,
    times: Sums<TimeKey>,
    cursor: Cursor,
}

impl AddingFlows {
    /// Columns that [`AddingFlows::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "thread", "page", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key, as far as they are of the part.
    pub fn add(
        &mut self,
        row: &PageAccess,
        times: Times<'_>,
        pinning: &PinningLog,
        subjects: &Subjects,
        sieve: &Sieve<'_>,
    ) {
        for (bin, tally) in times.iter() {
            let node = pinning.at_end_of(row.thread, bin);
            if !sieve.page_at(row, bin, node, &mut self.cursor) {
                continue;
            }
            let run = self.cursor.run_of(subjects, row.process, row.page, bin);
            let initial = run.is_some_and(|run| {
                let (toucher, touched) = subjects.toucher_of(run);
                toucher == Some(row.thread) && bin.0 <= touched.0.saturating_add(1)
            });
            let key = FlowKey { page: row.page, process: row.process, thread: row.thread, node, run, initial };
            self.sums.add(key, tally);
            if let Some(run) = run.filter(|_| !initial) {
                *self.times.entry(TimeKey { subject: subjects.subject_of(run), bin, node }).or_default() += tally;
            }
        }
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        AddingFlows {
            sums: self.sums.merge(other.sums),
            times: merge(self.times, other.times),
            cursor: self.cursor,
        }
    }

    /// What was added.
    pub fn finish(self) -> Flows {
        Flows { sums: self.sums.finish(), times: self.times }
    }
}
