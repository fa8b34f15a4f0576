//! Two recordings of one program, before and after a change: its figures, its lines, its objects by allocation site.
//!
//! A difference of estimates is *significant* when its 95 % interval leaves out 0. The interval comes from those of the two
//! estimates (Newcombe's method): with estimates a and b, their intervals (a1, a2) and (b1, b2),
//! `b - a - sqrt((b - b1)^2 + (a2 - a)^2)` to `b - a + sqrt((b2 - b)^2 + (a - a1)^2)`. Exact counts differ or do not.

use crate::code::OwnPlace;
use crate::counts::{Counts, estimate};
use crate::intervals::Interval;
use crate::load::{LoadError, Need, Options};
use crate::report::{Column, Report, Shape, Shown, Table, Value};
use crate::study::Study;
use crate::{metrics, summary};
use numalens_profile::Profile;
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

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

/// The answer of `diff`.
pub struct Diff {
    /// `before`, `after`, `figures`, `lines`, `objects`.
    pub reports: Vec<Report>,
    /// Those of the recording after the change, for thresholds.
    pub scalars: Vec<Scalar>,
}

const NEEDS: &[Need] = &[Need::Sites, Need::Pages, Need::Placed, Need::Objects, Need::Names];

/// Compares two profiles.
///
/// # Errors
/// One of them cannot be read; a process is not in it.
pub fn run(before: &Profile, after: &Profile, options: &Options) -> Result<Diff, LoadError> {
    let studies = (Study::load(before, options, NEEDS)?, Study::load(after, options, NEEDS)?);
    let (before, after) = (&studies.0, &studies.1);
    let mut reports =
        vec![Report { key: "before", ..before.about.report() }, Report { key: "after", ..after.about.report() }];
    let scalars = (scalars(before), scalars(after));
    reports.push(figures(&scalars.0, &scalars.1).doubting(doubts(before, after)));
    let lines = |study: &Study| {
        sums(study.sites.by_site().map(|((site, class), tally)| (study.code.own(site).location, class, tally)))
    };
    reports.push(rows("lines", "source lines", Column::new("", "line"), lines(before), lines(after), Value::Location));
    reports.push(rows(
        "objects",
        "objects by allocation site",
        Column::new("object", "object"),
        by_object(before),
        by_object(after),
        Value::Text,
    ));
    Ok(Diff { reports, scalars: scalars.1 })
}

/// What makes figures hard to compare.
fn doubts(before: &Study, after: &Study) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str, why: &str| {
        if a != b {
            doubts.push(format!("{what} differs: {a} before, {b} after: {why}"));
        }
    };
    let (a, b) = (&before.about.meta, &after.about.meta);
    differ("the unit", &a.unit, &b.unit, "only shares can be compared");
    differ("the machine", &a.machine_name, &b.machine_name, "distances and nodes are others");
    differ("the placement of threads", &a.placement, &b.placement, "it is part of the change");
    differ("the policy of pages", &a.policy, &b.policy, "it is part of the change");
    differ(
        "the period of samples",
        &a.period.to_string(),
        &b.period.to_string(),
        "counts of samples are not times alike",
    );
    doubts
}

/// The figures of the summary that are one number each.
pub fn scalars(study: &Study) -> Vec<Scalar> {
    let mut found = vec![Scalar {
        name: "duration_s".to_string(),
        title: "duration".to_string(),
        value: Value::Time(study.about.meta.duration_ns),
    }];
    let total = study.total();
    found.extend([(&metrics::REMOTE_SHARE, total.remote()), (&metrics::UNPINNED_SHARE, total.unpinned())].map(
        |(metric, n)| Scalar {
            name: metric.name.to_string(),
            title: metric.title.to_string(),
            value: total.percent(n),
        },
    ));
    for report in summary::run(study) {
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

/// The difference of two figures, and whether it is significant.
fn change(before: &Value, after: &Value) -> (Value, Value) {
    let (Some(a), Some(b)) = (number(before), number(after)) else { return (Value::Absent, Value::Absent) };
    let interval = match (before.interval(), after.interval()) {
        (None, None) => None,
        (of_a, of_b) => Some(difference(a, of_a.unwrap_or((a, a)), b, of_b.unwrap_or((b, b)))),
    };
    let significant = match (before, interval) {
        // One run's time says nothing about another's.
        (Value::Time(_), _) => Value::Absent,
        (_, interval) => Value::Flag(interval.map_or(a != b, |(low, high)| low > 0.0 || high < 0.0)),
    };
    (Value::Number(b - a, interval), significant)
}

fn figures(before: &[Scalar], after: &[Scalar]) -> Report {
    let columns = vec![
        Column::new("metric", "figure").only(Shown::Data),
        Column::new("title", "figure").only(Shown::Screen),
        Column::new("before", "before"),
        Column::new("after", "after"),
        Column::new("change", "change"),
        Column::new("significant", "significant"),
    ];
    let rows = after.iter().filter_map(|scalar| {
        let old = before.iter().find(|old| old.name == scalar.name)?;
        let (change, significant) = change(&old.value, &scalar.value);
        Some(vec![
            Value::Text(scalar.name.clone()),
            Value::Text(scalar.title.clone()),
            old.value.clone(),
            scalar.value.clone(),
            change,
            significant,
        ])
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new("figures", "figures", "figures, before and after", Shape::Table(table))
}

type Sums<K> = BTreeMap<K, Counts>;

fn sums<K: Ord>(rows: impl Iterator<Item = (K, numalens_profile::words::Class, crate::counts::Tally)>) -> Sums<K> {
    let mut sums: Sums<K> = BTreeMap::new();
    rows.for_each(|(key, class, tally)| sums.entry(key).or_default().add(class, tally));
    sums
}

/// Objects by what both recordings call alike: kind, name, and the place of the allocation.
fn by_object(study: &Study) -> Sums<String> {
    let name = |id| match study.objects.get(id) {
        Some(object) => {
            let place: Option<OwnPlace> = study.code.own_on_stack(object.stack, object.site);
            let mut words = vec![object.kind.word().to_string()];
            words.extend(Some(object.name.clone()).filter(|name| !name.is_empty()));
            words.extend(place.filter(|_| object.kind == ObjectKind::Heap).map(|place| place.location.to_string()));
            words.join(" ")
        }
        None => "unknown".to_string(),
    };
    let mut names: FxHashMap<_, String> = FxHashMap::default();
    sums(study.by_object.sums.iter().map(|(key, tally)| {
        let name = names.entry(key.object).or_insert_with(|| name(&key.object)).clone();
        (name, key.class, *tally)
    }))
}

/// One table: rows of both, the largest change first.
fn rows<K: Ord + Clone>(
    key: &'static str,
    title: &str,
    what: Column,
    before: Sums<K>,
    after: Sums<K>,
    show: impl Fn(K) -> Value,
) -> Report {
    let mut keys: Vec<K> = before.keys().chain(after.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let of = |sums: &Sums<K>, key: &K| sums.get(key).copied().unwrap_or_default();
    let moved = |key: &K| of(&before, key).accesses().abs_diff(of(&after, key).accesses());
    keys.sort_by_key(|key| Reverse(moved(key)));
    let columns = vec![
        Column::new("before", "before"),
        Column::new("after", "after"),
        Column::new("change", "change"),
        Column::new("significant", "significant"),
        Column::new("remote_before", "remote before"),
        Column::new("remote_after", "remote after"),
        Column::new("state", ""),
        what,
    ];
    let rows = keys.into_iter().map(|key| {
        let (old, new) = (of(&before, &key), of(&after, &key));
        let sampled = old.samples + new.samples > 0;
        let value = |counts: &Counts| match (sampled, counts.samples) {
            // No sample is an estimate too: at most 3.7 with 95 % confidence.
            (true, 0) => Value::Estimate(0, (0.0, NONE_SEEN)),
            _ => estimate(counts.accesses(), counts.samples),
        };
        let (change, significant) = change(&value(&old), &value(&new));
        let state = match (before.contains_key(&key), after.contains_key(&key)) {
            (true, false) => Value::Text("gone".to_string()),
            (false, true) => Value::Text("new".to_string()),
            _ => Value::Absent,
        };
        let remote = |counts: &Counts| counts.percent(counts.remote());
        vec![value(&old), value(&new), change, significant, remote(&old), remote(&new), state, show(key)]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new(key, key, title, Shape::Table(table))
}

/// The upper end of the exact 95 % interval of a Poisson count of 0, in samples.
const NONE_SEEN: f64 = 3.689;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcombes_interval() {
        // Newcombe 1998, example (a) of method 10: 56/70 and 48/80, by Wilson's intervals.
        let wilson = |p: f64, n: u64| crate::intervals::share(p, n).unwrap();
        let (p, q) = (56.0 / 0.7, 48.0 / 0.8);
        let (low, high) = difference(q, wilson(q, 80), p, wilson(p, 70));
        assert!((low - 5.24).abs() < 0.02 && (high - 33.39).abs() < 0.02, "{low} {high}");
    }

    #[test]
    fn exact_figures_differ_or_do_not() {
        let (difference, significant) = change(&Value::Count(7), &Value::Count(9));
        assert_eq!((difference, significant), (Value::Number(2.0, None), Value::Flag(true)));
        assert_eq!(change(&Value::Count(7), &Value::Count(7)).1, Value::Flag(false));
        let noisy = |x: f64| Value::Percent(x, Some((x - 5.0, x + 5.0)));
        assert_eq!(change(&noisy(50.0), &noisy(54.0)).1, Value::Flag(false));
        assert_eq!(change(&noisy(50.0), &noisy(70.0)).1, Value::Flag(true));
        assert_eq!(change(&Value::Absent, &noisy(1.0)).0, Value::Absent);
    }
}
