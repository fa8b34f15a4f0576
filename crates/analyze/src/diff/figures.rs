//! Figures of the whole program, before and after, and whether they differ.

use super::Sides;
use crate::dataset::Dataset;
use crate::model::counts::estimate;
use crate::model::intervals::Interval;
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::model::tally::Tally;
use crate::sections::summary;
use numalens_simulate::{CostModel, QUEUE, Traffic};

/// Percent of the larger of two exact counts, and points between two exact shares, below which a change does not
/// matter.
pub const MATTERS: f64 = 0.1;

/// The predicted memory time, in local accesses that would take as long.
const MEMORY_COST: &str = "memory_cost";

/// A figure of the whole program under its name in `summary`; that of a record is its share: `hot_region`.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    pub name: String,
    pub title: String,
    pub value: Value,
}

impl Scalar {
    /// As a number: percent, a count, seconds.
    pub fn number(&self) -> Option<f64> {
        number(&self.value)
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Count(n) | Value::Estimate(n, _) | Value::Bytes(n) => Some(*n as f64),
        Value::Number(x, _) | Value::Percent(x, _) => Some(*x),
        Value::Time(ns) => Some(*ns as f64 / 1e9),
        _ => None,
    }
}

/// The figures of the summary that are one number each, and the memory time of all accesses, which are `traffic`.
pub fn scalars(dataset: &Dataset, (traffic, all): &(Traffic, Tally)) -> Vec<Scalar> {
    let mut found = vec![Scalar {
        name: "duration_s".to_string(),
        title: "recorded time".to_string(),
        value: Value::Time(dataset.about.meta.duration_ns),
    }];
    let total = dataset.facts.total();
    let model = CostModel::new(&dataset.machine);
    found.push(Scalar {
        name: MEMORY_COST.to_string(),
        title: "predicted memory time".to_string(),
        value: estimate(model.time(traffic, QUEUE).round() as u64, all.samples),
    });
    found.extend([(&metrics::REMOTE_SHARE, total.remote()), (&metrics::UNPINNED_SHARE, total.unpinned())].map(
        |(metric, n)| Scalar {
            name: metric.name.to_string(),
            title: metric.title.to_string(),
            value: total.percent(n),
        },
    ));
    for report in summary::run(dataset) {
        let Shape::Record(fields) = report.shape else { continue };
        for field in fields {
            let value = match field.value {
                Value::Record(inner) => inner.into_iter().find(|inner| inner.key == "share").map(|inner| inner.value),
                value => Some(value),
            };
            // How it was recorded is no figure; counts without an interval are none where others are estimates.
            let known = found.iter().any(|scalar| scalar.name == field.key)
                || ["samples", "sample_s", "run_time_s"].contains(&field.key.as_ref())
                || (total.samples > 0 && ["reads", "writes"].contains(&field.key.as_ref()));
            if let Some(value) = value.filter(|value| number(value).is_some() && field.shown != Shown::Screen && !known)
            {
                found.push(Scalar { name: field.key.into_owned(), title: field.title.into_owned(), value });
            }
        }
    }
    found
}

/// Newcombe's interval of `after - before`.
fn difference(before: f64, of_before: Interval, after: f64, of_after: Interval) -> Interval {
    let change = after - before;
    let low = ((after - of_after.0).powi(2) + (of_before.1 - before).powi(2)).sqrt();
    let high = ((of_after.1 - after).powi(2) + (before - of_before.0).powi(2)).sqrt();
    (change - low, change + high)
}

/// The difference of two figures with its interval; none where they are no numbers.
pub fn change(before: &Value, after: &Value) -> Option<(f64, Option<Interval>)> {
    let (a, b) = (number(before)?, number(after)?);
    let interval = match (before.interval(), after.interval()) {
        (None, None) => None,
        (of_a, of_b) => Some(difference(a, of_a.unwrap_or((a, a)), b, of_b.unwrap_or((b, b)))),
    };
    Some((b - a, interval))
}

/// Whether a change is more than chance, or of exact figures more than `matters`.
pub fn significant((change, interval): (f64, Option<Interval>), matters: f64) -> bool {
    match interval {
        Some((low, high)) => low > 0.0 || high < 0.0,
        None => change != 0.0 && change.abs() >= matters,
    }
}

/// What changes of a figure are in.
fn unit(scalar: &Scalar, noun: &'static str) -> &'static str {
    match scalar.value {
        Value::Percent(..) => "points",
        Value::Time(_) => "s",
        Value::Bytes(_) => "bytes",
        _ if scalar.name == MEMORY_COST => "local accesses",
        _ if scalar.name == metrics::NUMA_ACCESS_RATE.name => "accesses * distance / s",
        _ => noun,
    }
}

/// Whether a figure depends on how long the recorded run took, which says nothing of the program's speed.
fn of_recorded_time(scalar: &Scalar, datasets: Sides<&Dataset>) -> bool {
    let has_run_time = |dataset: &Dataset| dataset.about.meta.run_time_ns.is_some();
    let rate = scalar.name == metrics::NUMA_ACCESS_RATE.name;
    matches!(scalar.value, Value::Time(_)) || (rate && !(has_run_time(datasets.before) && has_run_time(datasets.after)))
}

/// The table.
pub fn report(datasets: Sides<&Dataset>, before: &[Scalar], after: &[Scalar]) -> Report {
    let columns = vec![
        Column::new("metric", "figure").only(Shown::Data),
        Column::new("title", "figure").only(Shown::Screen),
        Column::new("before", "before"),
        Column::new("after", "after"),
        Column::new("change", "change"),
        Column::new("unit", ""),
        Column::new("significant", "significant"),
    ];
    let rows = after.iter().filter_map(|scalar| {
        let old = before.iter().find(|old| old.name == scalar.name)?;
        let change = change(&old.value, &scalar.value);
        let matters = match scalar.value {
            Value::Percent(..) => MATTERS,
            _ => old.number().unwrap_or(0.0).max(scalar.number().unwrap_or(0.0)) * MATTERS / 100.0,
        };
        let significant = change.filter(|_| !of_recorded_time(scalar, datasets));
        Some(vec![
            Value::Text(scalar.name.clone()),
            Value::Text(scalar.title.clone()),
            old.value.clone(),
            scalar.value.clone(),
            Value::maybe(change, |(change, interval)| Value::Number(change, interval)),
            Value::Text(unit(scalar, datasets.after.about.count_noun()).to_string()),
            Value::maybe(significant, |change| Value::Flag(self::significant(change, matters))),
        ])
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new("figures", "figures", "figures, before and after", Shape::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcombes_interval() {
        // Newcombe 1998, example (a) of method 10: 56/70 and 48/80, by Wilson's intervals.
        let wilson = |p: f64, n: u64| crate::model::intervals::share(p, n).unwrap();
        let (p, q) = (56.0 / 0.7, 48.0 / 0.8);
        let (low, high) = difference(q, wilson(q, 80), p, wilson(p, 70));
        assert!((low - 5.24).abs() < 0.02 && (high - 33.39).abs() < 0.02, "{low} {high}");
    }

    #[test]
    fn exact_figures_differ_when_it_matters() {
        let exact = |before, after| change(&Value::Count(before), &Value::Count(after)).unwrap();
        assert_eq!(exact(7, 9), (2.0, None));
        assert!(significant(exact(7, 9), 1.0) && !significant(exact(7, 9), 3.0) && !significant(exact(7, 7), 0.0));
        let noisy = |x: f64| Value::Percent(x, Some((x - 5.0, x + 5.0)));
        let of = |before: f64, after: f64| significant(change(&noisy(before), &noisy(after)).unwrap(), MATTERS);
        assert!(!of(50.0, 54.0) && of(50.0, 70.0));
        assert_eq!(change(&Value::Absent, &noisy(1.0)), None);
    }
}
