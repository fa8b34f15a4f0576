//! Any bytes as changes of the rows of a valid profile: every analysis answers or refuses, in every view, soon, in
//! bounded memory, and with nothing in its text that a terminal would obey.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Options, Report, advice, sections};
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use numalens_simulate::{Policy, Threads};
use numalens_topology::ThreadPlacement;
use numalens_view::text::{self, Look};
use numalens_view::{columns, csv, html, json};

fn show(reports: &[Report]) {
    let drawn = text::render(reports, Look { width: Some(80), ..Look::PLAIN });
    assert!(drawn.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{drawn:?}");
    let _ = json::document(reports).to_string();
    let _ = (html::document(reports), columns::document(reports));
    for report in reports {
        let _ = csv::write(report, std::io::sink());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(scratch) = tempfile::tempdir() else { return };
    let example = Synthetic::example().with_lines().with_cache().with_bounds().changed(bytes);
    let Ok(path) = example.write(&scratch.path().join("a.numalens")) else { return };
    let Ok(profile) = Profile::open(&path) else { return };
    let options = Options::default();
    let _ = numalens_profile::check(&profile);
    let all: Vec<_> = sections::ALL.iter().collect();
    let plan = Plan {
        machine: None,
        placements: vec![Threads::Recorded, Threads::Placed(ThreadPlacement::Spread)],
        policies: Policy::COMMON.to_vec(),
        choices: Vec::new(),
        page_size: 4096,
    };
    let answers = [
        sections::run(&profile, &options, &all),
        advice::run(&profile, &options),
        whatif::run(&profile, &options, &plan),
    ];
    answers.iter().flatten().for_each(|reports| show(reports));
});
