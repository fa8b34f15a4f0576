//! Two recordings of one program, before and after a change: a verdict, its figures, its lines, its objects by
//! allocation site.
//!
//! ```text
//!   figures --.
//!   lines   --+--> names of both builds --> pairs of rows --> tables, the largest change of remote accesses first
//!   objects --'                                         \--> verdict (cost model)
//! ```
//!
//! A difference of estimates is *significant* when its 95 % interval leaves out 0. The interval comes from those of
//! the two estimates (Newcombe's method): with estimates a and b, their intervals (a1, a2) and (b1, b2),
//! `b - a - sqrt((b - b1)^2 + (a2 - a)^2)` to `b - a + sqrt((b2 - b)^2 + (a - a1)^2)`. Exact counts differ when it
//! matters: by [`figures::MATTERS`].

mod figures;
mod names;
mod pairs;
mod rows;
mod verdict;

pub use figures::Scalar;

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::LoadError;
use crate::dataset::usages;
use crate::facts::fold::Need;
use crate::model::metrics;
use crate::model::report::{Report, Shape, Value};
use numalens_profile::Profile;
use numalens_simulate::CostModel;

/// The same of both recordings.
#[derive(Clone, Copy, Debug, Default)]
struct Sides<T> {
    before: T,
    after: T,
}

impl<T> Sides<T> {
    fn map<U>(self, mut of: impl FnMut(T) -> U) -> Sides<U> {
        Sides { before: of(self.before), after: of(self.after) }
    }
}

/// The answer of `diff`.
pub struct Diff {
    /// `verdict`, `before`, `after`, `figures`, `lines`, `objects`.
    pub reports: Vec<Report>,
    /// Those of the recording after the change, for thresholds.
    pub scalars: Vec<Scalar>,
}

const NEEDS: &[Need] = &[Need::Sites, Need::MainUsers, Need::Placed, Need::Objects, Need::Names];

/// Compares two profiles.
///
/// # Errors
/// One of them cannot be read; a process is not in it.
pub fn run(before: &Profile, after: &Profile, options: &Options) -> Result<Diff, LoadError> {
    let loaded = Sides { before: Dataset::load(before, options, NEEDS)?, after: Dataset::load(after, options, NEEDS)? };
    let datasets = Sides { before: &loaded.before, after: &loaded.after };
    let executables = datasets.map(names::executable);
    let executable = Sides { before: executables.before.as_deref(), after: executables.after.as_deref() };
    let lines = rows::lines(datasets, executable);
    let objects = rows::objects(datasets, executable);
    let traffic = datasets.map(|dataset| usages::traffic(dataset, CostModel::new(&dataset.machine)));
    let scalars = Sides {
        before: figures::scalars(datasets.before, &traffic.before),
        after: figures::scalars(datasets.after, &traffic.after),
    };
    let reports = vec![
        verdict::report(datasets, traffic, &lines, &objects),
        Report { key: "before", ..datasets.before.about.report() },
        Report { key: "after", ..datasets.after.about.report() },
        figures::report(datasets, &scalars.before, &scalars.after).doubting(doubts(datasets)),
        rows::report("lines", "source lines", datasets, lines),
        rows::report("objects", "objects by allocation site", datasets, objects),
    ];
    Ok(Diff { reports, scalars: scalars.after })
}

impl Diff {
    /// Leaves out what does not matter to people: rows of lines and objects, whose number it says, and rates over the
    /// recorded time.
    pub fn leave_out_noise(&mut self) {
        for report in &mut self.reports {
            let Shape::Table(table) = &mut report.shape else { continue };
            let column = |key: &str| table.columns.iter().position(|column| column.key == key);
            if let Some((metric, significant)) = column("metric").zip(column("significant")) {
                let rate = Value::Text(metrics::NUMA_ACCESS_RATE.name.to_string());
                table.rows.retain(|row| row[metric] != rate || row[significant] != Value::Absent);
            }
            let Some(matters) = column(rows::MATTERS) else { continue };
            let all = table.rows.len();
            table.rows.retain(|row| row[matters] == Value::Flag(true));
            let left = all - table.rows.len();
            if left > 0 {
                report.notes.push(format!(
                    "not shown: {left} without a significant change, or with less than {} % of the accesses of either \
                     side",
                    figures::MATTERS
                ));
            }
        }
    }
}

/// What makes figures hard to compare.
fn doubts(datasets: Sides<&Dataset>) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str, why: &str| {
        if a != b {
            doubts.push(format!("{what} differs: {a} before, {b} after: {why}"));
        }
    };
    let (a, b) = (&datasets.before.about.meta, &datasets.after.about.meta);
    differ("the unit", a.unit.word(), b.unit.word(), "only shares can be compared");
    differ("the machine", &a.machine_name, &b.machine_name, "distances and nodes are others");
    differ("the placement of threads", &a.placement.to_string(), &b.placement.to_string(), "it is part of the change");
    differ("the policy of pages", &a.policy.to_string(), &b.policy.to_string(), "it is part of the change");
    differ(
        "the period of samples",
        &a.period.to_string(),
        &b.period.to_string(),
        "counts of samples are not times alike",
    );
    doubts
}
