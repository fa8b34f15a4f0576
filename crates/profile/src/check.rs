//! What must hold in every profile, finished or not. One row in [`INVARIANTS`] each; the rules are in the files beside
//! this one.
//!
//! An invariant gives one [`Violation`] per table that breaks it: the first row that does, and how many more. Damage
//! (wrong checksums, unknown words, missing columns) is an error instead: nothing can be said about rows that cannot be
//! read.

mod classes;
mod lines;
mod misses;
mod pages;
mod references;
mod rows;
mod sums;
mod totals;

use crate::error::Error;
use crate::read::Profile;
use crate::row::{Row, Visitor};
use crate::tables;
use references::Dimensions;
use std::fmt;

/// An invariant that a profile breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// The table that breaks it.
    pub table: &'static str,
    /// Which row, by how much, and how many rows do.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: table {}: {}", self.invariant, self.table, self.detail)
    }
}

/// What an invariant looks at.
struct Checked<'a> {
    profile: &'a Profile,
    dimensions: Dimensions,
    /// `None` when the table `machine` is absent or contradicts itself, which is an invariant of its own.
    machine: Option<numalens_topology::Machine>,
}

/// Violations without their invariant's name.
type Found = Result<Vec<(&'static str, String)>, Error>;
type Invariant = (&'static str, fn(&Checked<'_>) -> Found);

/// Every invariant, in the order in which they are checked: the later ones lean on the earlier.
const INVARIANTS: &[Invariant] = &[
    ("the machine is consistent", classes::machine),
    ("ids are unique and dense", references::dense),
    ("references lead to a row", references::exist),
    ("threads belong to their process", references::owners),
    ("stacks are trees", references::stacks),
    ("frames of a site are complete", references::frames),
    ("times run forwards", rows::times),
    ("bins lie within the recording", rows::bins),
    ("periods and samples fit the counts", rows::periods),
    ("classes fit nodes and homes", classes::classes),
    ("placed pages have a size", pages::sizes),
    ("a page has one home at a time", pages::overlaps),
    ("facts count the same accesses", totals::totals),
    ("cache lines are told consistently", lines::rows),
    ("cache lines count the accesses of pages", lines::accesses),
    ("threads communicate by transitions", lines::communication),
    ("what misses a cache is accessed", misses::misses),
    ("sums are those of the facts", sums::of_threads),
    ("sums of memory fit each other", sums::of_memory),
];

/// Number of invariants that [`check`] checks; the checksums are one more.
pub const CHECKS: usize = INVARIANTS.len() + 1;

/// Checks everything that must hold in a profile: checksums of all bytes, then each invariant in turn.
///
/// # Errors
/// The profile is damaged or cannot be read.
pub fn check(profile: &Profile) -> Result<Vec<Violation>, Error> {
    for (_, files) in profile.all_files() {
        files.iter().try_for_each(|file| file.verify())?;
    }
    tables::visit(&mut Decode(profile))?;
    let machine = if profile.count::<tables::MachineNode>()? > 0 { profile.machine().ok() } else { None };
    let checked = Checked { profile, dimensions: Dimensions::read(profile)?, machine };
    let mut violations = Vec::new();
    for (invariant, test) in INVARIANTS {
        violations.extend(test(&checked)?.into_iter().map(|(table, detail)| Violation { invariant, table, detail }));
    }
    Ok(violations)
}

/// Reads every column of every table once, so that what no invariant looks at is known to be readable too.
struct Decode<'a>(&'a Profile);

impl Visitor for Decode<'_> {
    fn table<T: Row>(&mut self) -> Result<(), Error> {
        self.0.fold(T::COLUMNS, || (), |(), _: T| (), |(), ()| ())
    }
}

/// The first row that fails, and how many do.
#[derive(Default)]
struct Failures {
    first: Option<String>,
    count: u64,
}

impl Failures {
    fn add(&mut self, failure: Option<String>) {
        if let Some(failure) = failure {
            self.first.get_or_insert(failure);
            self.count += 1;
        }
    }

    fn merge(mut self, other: Failures) -> Failures {
        self.first = self.first.or(other.first);
        self.count += other.count;
        self
    }

    fn found(self, table: &'static str) -> Option<(&'static str, String)> {
        let more = self.count.saturating_sub(1);
        self.first.map(|first| (table, if more > 0 { format!("{first} (and {more} more rows)") } else { first }))
    }
}

/// What is wrong with a row. Dynamic, so that the compiler makes one loop per table and not one per invariant.
type Test<'a, T> = &'a (dyn Fn(&T) -> Option<String> + Sync);

/// Tests each row of a table by itself.
fn each_row<T: Row>(
    profile: &Profile,
    columns: &[&str],
    test: Test<'_, T>,
) -> Result<Option<(&'static str, String)>, Error> {
    let failures =
        profile.fold(columns, Failures::default, |failures, row: T| failures.add(test(&row)), Failures::merge)?;
    Ok(failures.found(T::TABLE))
}
