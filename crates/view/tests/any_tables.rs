//! Profiles with any rows, through every analysis into every view: they answer or refuse, and no text has anything in
//! it that a terminal would obey. The fuzz target `tables` does the same for longer; what it found stays here as bytes.

use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Options, Report, advice, sections};
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use numalens_simulate::{Policy, Threads};
use numalens_view::text::{self, Look};
use numalens_view::{columns, csv, html, json};
use proptest::prelude::*;
use rayon::prelude::*;

fn show(reports: &[Report]) {
    let harmless = |text: &str| text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
    let drawn = text::render(reports, Look { width: Some(80), ..Look::PLAIN });
    assert!(harmless(&drawn), "{drawn:?}");
    let page = html::document(reports);
    assert!(harmless(&page));
    let _ = (json::document(reports).to_string(), columns::document(reports));
    for report in reports {
        let mut table = Vec::new();
        csv::write(report, &mut table).unwrap();
        assert!(harmless(&String::from_utf8(table).unwrap()), "{}", report.key);
    }
}

fn answer(bytes: &[u8]) {
    let scratch = tempfile::tempdir().unwrap();
    let example = Synthetic::example().with_lines().with_cache().with_bounds().changed(bytes);
    let Ok(path) = example.write(&scratch.path().join("a.numalens")) else { return };
    let Ok(profile) = Profile::open(&path) else { return };
    let options = Options::default();
    let _ = numalens_profile::check(&profile);
    let all: Vec<_> = sections::ALL.iter().collect();
    let policies = Policy::COMMON.to_vec();
    let plan =
        Plan { machine: None, placements: vec![Threads::Recorded], policies, choices: Vec::new(), page_size: 4096 };
    let answers = [
        sections::run(&profile, &options, &all),
        advice::run(&profile, &options),
        whatif::run(&profile, &options, &plan),
    ];
    answers.iter().flatten().for_each(|reports| show(reports));
}

/// Each column of each table, all of its rows at an edge: what no chance finds in few tries.
#[test]
fn every_column_at_its_edges() {
    (0..24u8).into_par_iter().for_each(|table| {
        for column in 0..12 {
            for value in [[0, 0], [0, 7], [2, 62]] {
                answer(&[table, 4, 0, 0, column, 0, value[0], value[1]]);
            }
        }
    });
}

/// A name of a megabyte: a table of 80 columns took the square of that.
#[test]
fn a_name_without_end() {
    answer(&[7, 4, 5, 0, 0, 0x6c, 0x6c, 4]);
}

/// Pages that are none: a row whose first page is the last number there is.
#[test]
fn no_pages() {
    answer(&[0x62, 0, 0, 0, 1, 0, 4, 0]);
}

/// Accesses by threads that are bound nowhere: objects that nobody uses.
#[test]
fn nobody_uses_anything() {
    let nowhere = |table: u8, column: u8| vec![table, 4, 0, 0, column, 0, 0, 7];
    answer(&[nowhere(10, 4), nowhere(11, 3), nowhere(12, 3), nowhere(14, 5), nowhere(3, 4)].concat());
    for columns in 0..12 {
        answer(&[nowhere(10, columns), nowhere(11, columns), nowhere(12, columns), nowhere(3, columns)].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_changes(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        answer(&bytes);
    }
}
