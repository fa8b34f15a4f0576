//! Section `phases`: named spans of the program, and what it accessed while they lasted.
//!
//! Counts have time bins, so a phase gets the bins that begin in it, or, of exact counts, those that [`CounterPolls`]
//! say are of it: right to a bin's width at its ends. All threads count: whose accesses they are is not kept by time.

use crate::dataset::Dataset;
use crate::facts::counter_polls::{CounterPolls, Span};
use crate::model::counts::{self, Counts};
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use numalens_profile::ids::Bin;
use numalens_profile::tables::Phase;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The time of the phases of a name, and what a reader must know of it.
///
/// # Errors
/// There is none: which there are.
pub fn span(phases: &[Phase], name: &str) -> Result<(Span, Option<String>), String> {
    let found: Vec<&Phase> = phases.iter().filter(|phase| phase.name == name).collect();
    let Some(start) = found.iter().map(|phase| phase.start_ns).min() else {
        let mut names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        return Err(match names.as_slice() {
            [] => format!("no phase `{name}`: the program named none (docs/reference/numalens-h.md says how)"),
            names => format!("no phase `{name}`; there are: {}", names.join(", ")),
        });
    };
    // One that did not end lasted to the end; one that is a moment lies in a bin.
    let end = found.iter().map(|phase| phase.end_ns).try_fold(start + 1, |last, end| Some(last.max(end?)));
    let doubt = (found.len() > 1)
        .then(|| format!("there are {} phases `{name}`: the time between them is shown too", found.len()));
    Ok(((Some(start), end), doubt))
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let (total, classes, polls) =
        (dataset.facts.total(), dataset.facts.node_times.classes(), CounterPolls::of(&dataset.about));
    let mut phases: Vec<&Phase> = dataset.program.phases.iter().collect();
    phases.sort_by_key(|phase| (phase.start_ns, phase.process, phase.phase));
    let mut columns = vec![
        Column::new("name", "phase"),
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("thread", "thread"),
        Column::new("start_s", "start"),
        Column::new("end_s", "end"),
    ];
    columns.extend(counts::columns(dataset.about.count_noun()));
    let mut short = 0;
    let rows = phases.iter().map(|phase| {
        let mut row = vec![
            Value::Text(phase.name.clone()),
            Value::maybe(dataset.program.pid(phase.process), |pid| Value::Id(u64::from(pid))),
            Value::maybe(phase.thread, |thread| Value::Id(u64::from(thread.0))),
            Value::Time(phase.start_ns),
            Value::maybe(phase.end_ns, Value::Time),
        ];
        let bins = bins(dataset, polls.as_ref(), phase);
        short += u64::from(bins.is_none() && phase.end_ns != Some(phase.start_ns));
        let counts = bins.map(|bins| during(&classes, bins)).unwrap_or_default();
        row.extend(counts::values(&counts, &total));
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let mut doubts = Vec::new();
    if dataset.program.phases.is_empty() {
        doubts.push("the program named no phases".to_string());
    } else {
        let bin_ms = dataset.about.meta.bin_ns as f64 / 1e6;
        let between =
            polls.as_ref().and_then(CounterPolls::words).map(|words| format!("; {words}")).unwrap_or_default();
        doubts.push(format!("accesses of all threads, to a time bin of {bin_ms:.1} ms{between}"));
    }
    if short > 0 {
        doubts.push(format!(
            "too short for that: {short} of {} phases, whose accesses count before or after them",
            phases.len()
        ));
    }
    vec![Report::new("phases", "phases", "phases", Shape::Table(table)).doubting(doubts)]
}

/// The bins of a phase; none: it is too short to have any.
fn bins(dataset: &Dataset, polls: Option<&CounterPolls>, phase: &Phase) -> Option<RangeInclusive<u32>> {
    if let Some(polls) = polls {
        return polls.bins((Some(phase.start_ns), phase.end_ns));
    }
    let bin = |ns: u64| u32::try_from(ns.div_ceil(dataset.about.meta.bin_ns.max(1))).unwrap_or(u32::MAX);
    let until = phase.end_ns.map_or(u32::MAX, bin);
    (bin(phase.start_ns) < until).then(|| bin(phase.start_ns)..=until - 1)
}

fn during(classes: &BTreeMap<Bin, Counts>, bins: RangeInclusive<u32>) -> Counts {
    let mut counts = Counts::default();
    for (_, of_bin) in classes.range(Bin(*bins.start())..=Bin(*bins.end())) {
        counts += *of_bin;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::ProcessId;

    fn phase(name: &str, start_ns: u64, end_ns: Option<u64>) -> Phase {
        Phase { process: ProcessId(0), phase: 0, name: name.to_owned(), thread: None, start_ns, end_ns, site: None }
    }

    #[test]
    fn phases_of_a_name_are_one_span() {
        let phases = [phase("a", 10, Some(20)), phase("b", 15, None), phase("a", 30, Some(35)), phase("c", 7, Some(7))];
        let found = |name| span(&phases, name).map(|(span, doubt)| (span, doubt.is_some()));
        assert_eq!(found("a"), Ok(((Some(10), Some(35)), true)));
        assert_eq!(found("b"), Ok(((Some(15), None), false)));
        assert_eq!(found("c"), Ok(((Some(7), Some(8)), false)));
        assert_eq!(found("d"), Err("no phase `d`; there are: a, b, c".to_owned()));
        assert!(span(&[], "d").is_err_and(|message| message.contains("named none")));
    }
}
