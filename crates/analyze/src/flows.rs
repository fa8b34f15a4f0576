//! Who used which page, and when: `page_accesses`, folded for questions about patterns and other placements.
//!
//! What a page's first toucher does while it touches pages is kept apart as *initial*: it would move with an
//! initialisation elsewhere, and must not pass for use.

use crate::filter::Sieve;
use crate::page_sums::{Adding, OfPage, PageSums};
use crate::sorted::Times;
use crate::sorted_sums::{Entries, Recurring, RecurringSums};
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
    fn page(&self) -> (Page, ProcessId) {
        (self.page, self.process)
    }
}

/// A subject's accesses that are not initial, over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeKey {
    pub subject: SubjectId,
    pub bin: Bin,
    /// From another node than that of whoever made it.
    pub by_others: bool,
}

impl Recurring for TimeKey {
    /// A page is used for some bins in a row, an object by its maker and by others in turns.
    fn place(&self) -> u32 {
        let user = u32::from(self.by_others) << 11;
        self.bin.0.wrapping_add(user).wrapping_add(self.subject.0.wrapping_mul(STRIDE))
    }
}

/// Between the places of neighbouring subjects: odd, and no small part of a power of two.
const STRIDE: u32 = 0x9e5;

/// The folded facts.
#[derive(Default)]
pub struct Flows {
    pub sums: PageSums<FlowKey>,
    pub times: Entries<TimeKey>,
}

/// The same in the making.
#[derive(Default)]
pub struct AddingFlows {
    sums: Adding<FlowKey>,
    times: RecurringSums<TimeKey>,
    cursor: Cursor,
}

impl AddingFlows {
    /// Columns that [`AddingFlows::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "thread", "page", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key, as far as they are of the part.
    pub fn add(&mut self, row: &PageAccess, times: Times<'_>, subjects: &Subjects, sieve: &Sieve<'_>) {
        let AddingFlows { sums, times: over_time, cursor } = self;
        sieve.uses(row, times, Some(subjects), cursor, |node, run, times| {
            let key = FlowKey { page: row.page, process: row.process, thread: row.thread, node, run, initial: false };
            let touched = run.map(|run| subjects.toucher_of(run)).filter(|(toucher, _)| *toucher == Some(row.thread));
            let [initial, later] = match touched {
                Some((_, bin)) => times.split(Bin(bin.0.saturating_add(1))),
                None => [Times::default(), times],
            };
            if !initial.is_empty() {
                sums.add(FlowKey { initial: true, ..key }, initial.sum());
            }
            if !later.is_empty() {
                sums.add(key, later.sum());
            }
            if let Some(subject) = run.map(|run| subjects.subject_of(run)) {
                let by_others = subjects.is_others(subject, node);
                for (bin, tally) in later.iter() {
                    over_time.add(TimeKey { subject, bin, by_others }, tally);
                }
            }
        });
    }

    /// Both together.
    pub fn merge(self, other: Self) -> Self {
        AddingFlows { sums: self.sums.merge(other.sums), times: self.times.merge(other.times), cursor: self.cursor }
    }

    /// What was added.
    pub fn finish(self) -> Flows {
        Flows { sums: self.sums.finish(), times: self.times.finish() }
    }
}
