//! Section `phases`: named spans of the program, and what it accessed while they lasted.
//!
//! Counts have time bins, so a phase gets the bins that begin in it: right to a bin's width at its ends. All threads count: whose accesses they are is not
//! kept by time.

use crate::counts::{self, Counts};
use crate::report::{Column, Report, Shape, Shown, Table, Value};
use crate::study::Study;
use numalens_profile::tables::Phase;

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let total = study.total();
    let mut phases: Vec<&Phase> = study.phases.iter().collect();
    phases.sort_by_key(|phase| (phase.start_ns, phase.process, phase.phase));
    let mut columns = vec![
        Column::new("name", "phase"),
        Column::new("pid", "pid").only(if study.processes.len() > 1 { Shown::Everywhere } else { Shown::Data }),
        Column::new("thread", "thread"),
        Column::new("start_s", "start"),
        Column::new("end_s", "end"),
    ];
    columns.extend(counts::columns(study.about.count_noun()));
    let rows = phases.iter().map(|phase| {
        let mut row = vec![
            Value::Text(phase.name.clone()),
            Value::maybe(study.pid(phase.process), |pid| Value::Count(u64::from(pid))),
            Value::maybe(phase.thread, |thread| Value::Count(u64::from(thread.0))),
            Value::Time(phase.start_ns),
            Value::maybe(phase.end_ns, Value::Time),
        ];
        row.extend(counts::values(&during(study, phase), &total));
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let doubts = match study.phases.is_empty() {
        true => vec!["the program named no phases".to_string()],
        false => {
            vec![format!("accesses of all threads, to a time bin of {:.1} ms", study.about.meta.bin_ns as f64 / 1e6)]
        }
    };
    vec![Report::new("phases", "phases", "phases", Shape::Table(table)).doubting(doubts)]
}

fn during(study: &Study, phase: &Phase) -> Counts {
    let mut counts = Counts::default();
    let end = phase.end_ns.unwrap_or(u64::MAX);
    for (bin, of_bin) in &study.sites.bins {
        let begins = u64::from(bin.0).saturating_mul(study.about.meta.bin_ns);
        if begins >= phase.start_ns && begins < end {
            counts += *of_bin;
        }
    }
    counts
}
