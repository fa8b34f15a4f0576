//! Who used which page in which time bin: `page_accesses` again, for what asks how use changes. [`Flows`](crate::facts::flows::Flows) with time, and without all else: there may be
//! as many as the table has rows.

use crate::facts::filter::{Sieve, Use};
use crate::facts::sorted::Times;
use crate::facts::subjects::{Cursor, RunId, Subjects};
use numalens_profile::ids::{Bin, Page, ProcessId, ThreadId};
use numalens_profile::tables::PageAccess;
use numalens_topology::NodeId;

/// Accesses of one thread to one page in one bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub page: Page,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    /// Where the page was; none: nowhere, or not known.
    pub home: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
    pub bin: Bin,
    pub accesses: u64,
}

/// All of them, in any order.
#[derive(Default)]
pub struct Moments {
    all: Vec<Moment>,
    cursor: Cursor,
}

impl Moments {
    /// Columns that [`Moments::add`] reads.
    pub const COLUMNS: &'static [&'static str] =
        &["process", "bin", "thread", "node", "home", "page", "reads", "writes", "samples", "period"];

    /// Adds accesses of one key, as far as they are of the part.
    pub fn add(&mut self, row: &PageAccess, times: Times<'_>, subjects: &Subjects, sieve: &Sieve<'_>) {
        let Moments { all, cursor } = self;
        sieve.uses(row, times, subjects, cursor, |Use { node, home, run }, times| {
            let (page, process, thread) = (row.page, row.process, row.thread);
            let moments = times.iter().map(|(bin, tally)| (bin, tally.accesses()));
            all.extend(moments.map(|(bin, accesses)| Moment { page, process, thread, node, home, run, bin, accesses }));
        });
    }

    /// Both together.
    pub fn merge(mut self, other: Self) -> Self {
        self.all.extend(other.all);
        self
    }

    /// Every one.
    pub fn iter(&self) -> impl Iterator<Item = &Moment> + Clone {
        self.all.iter()
    }
}
