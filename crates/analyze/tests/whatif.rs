//! Policies that move pages while the program runs lose no access, and find what is to be found over time.

use numalens_analyze::report::{Report, Shape, Value};
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Filter, Options};
use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::testing::{Synthetic, large};
use numalens_simulate::{Policy, Threads};

fn plan(policies: &[&str], page_size: u64) -> Plan {
    let policies = policies.iter().map(|word| word.parse().unwrap()).collect();
    Plan { machine: None, placements: vec![Threads::Recorded], policies, choices: Vec::new(), page_size }
}

fn cell(reports: &[Report], row: usize, key: &str) -> f64 {
    let simulation = reports.iter().find(|report| report.key == "simulation").unwrap();
    match simulation.cell(row, key) {
        Some(Value::Percent(percent, _)) => *percent,
        Some(Value::Count(count)) => *count as f64,
        other => panic!("{key}: {other:?}"),
    }
}

fn accesses(reports: &[Report]) -> u64 {
    let of = |report: &Report| match &report.shape {
        Shape::Matrix(matrix) => Some(matrix.rows.iter().flatten().chain(&matrix.unpinned).sum()),
        _ => None,
    };
    reports.iter().find_map(of).unwrap()
}

#[test]
fn migration_keeps_every_access() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = Profile::open(&large::write(&scratch.path().join("large.numalens"), 300_000).unwrap()).unwrap();
    let part = Options { filter: Filter { threads: vec![ThreadId(3)], ..Filter::default() }, ..Options::default() };
    for options in [Options::default(), part] {
        let all = accesses(&whatif::run(&profile, &options, &plan(&["first-touch"], 4096)).unwrap());
        for page_size in [4096, 2 << 20] {
            for policy in ["numa-balancing", "kmaf"] {
                let reports = whatif::run(&profile, &options, &plan(&[policy], page_size)).unwrap();
                // The cells are rounded each.
                assert!(accesses(&reports).abs_diff(all) < 100, "{policy}, pages of {page_size}");
            }
        }
    }
    let reports = whatif::run(&profile, &Options::default(), &plan(&["first-touch", "kmaf", "local"], 4096)).unwrap();
    // Rows: as recorded, and these three. Who moves as it goes is better than who does not, and no better than who
    // knew.
    let local: Vec<f64> = (1..4).map(|row| cell(&reports, row, "local_share")).collect();
    assert!(local[0] < local[1] && local[1] < local[2], "{local:?}");
    assert!(cell(&reports, 2, "pages_moved") > 0.0);
}

#[test]
fn what_makes_migration_doubtful_is_said() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = Profile::open(&Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap()).unwrap();
    let doubts = |plan: &Plan| {
        let reports = whatif::run(&profile, &Options::default(), plan).unwrap();
        reports.iter().find(|report| report.key == "simulation").unwrap().doubts.join("\n")
    };
    // Four time bins, and samples.
    let said = doubts(&plan(&["kmaf"], 4096));
    assert!(said.contains("4 time bins of 0.01 s") && said.contains("the copying is not in the memory time"), "{said}");
    assert!(!doubts(&plan(&["local"], 4096)).contains("time bins"));
    let mut unknown = plan(&["local"], 4096);
    unknown.choices.push((ObjectId(9999), Policy::Local));
    assert!(doubts(&unknown).contains("object 9999 has no page"));
}
