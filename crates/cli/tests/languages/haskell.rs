//! GHC's collector: collections as the runtime counts them, objects as the code of the collector was executed.

use super::support::*;
use numalens_profile::Profile;
use numalens_profile::tables::{Collection, ProcessedObjects, Site, SiteAccess};
use std::collections::{BTreeMap, HashSet};
use std::process::Command;

/// Compiles the lists; none: there is no GHC here.
fn lists(lab: &Lab, options: &[&str]) -> Option<String> {
    let program = lab.at("collected");
    let mut command = Command::new("ghc");
    command.args(["-v0", "-O1", "-rtsopts", "-outputdir", &lab.at("made"), "-o", &program]).args(options);
    match command.arg(source("languages/Collected.hs")).status() {
        Ok(status) => {
            assert!(status.success());
            Some(program)
        }
        Err(error) => {
            eprintln!("skipped: ghc: {error}");
            None
        }
    }
}

/// By generation, as `+RTS -s` says.
fn said(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix("Gen "));
    rows.map(|row| {
        let mut words = row.split_whitespace();
        let generation = format!("generation {}", words.next().unwrap());
        (generation, words.next().unwrap().parse().unwrap())
    })
    .collect()
}

fn led(profile: &Profile) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for row in profile.rows::<Collection>().unwrap() {
        *kinds.entry(row.kind).or_default() += row.led;
    }
    kinds
}

/// Writes of the first instruction of functions, which saves a register: as many as calls.
fn calls(profile: &Profile, program: &str, functions: &[&str]) -> u64 {
    let symbols = String::from_utf8(Command::new("nm").arg(program).output().unwrap().stdout).unwrap();
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_one = words.len() == 3 && functions.contains(&words[2]);
        is_one.then(|| u64::from_str_radix(words[0], 16).unwrap())
    };
    let addresses: HashSet<u64> = symbols.lines().filter_map(address).collect();
    let sites = profile.rows::<Site>().unwrap().into_iter().filter(|site| addresses.contains(&site.address));
    let sites: HashSet<_> = sites.map(|site| site.site).collect();
    let rows = profile.rows::<SiteAccess>().unwrap().into_iter().filter(|row| sites.contains(&row.site));
    rows.map(|row| row.writes).sum()
}

#[test]
fn collections_of_ghc_are_those_that_it_counts_and_their_objects_those_that_were_evacuated() {
    for (options, functions, threads) in
        [(&[][..], &["evacuate"][..], &[][..]), (&["-threaded"], &["evacuate", "evacuate1"], &["-N4"])]
    {
        let lab = Lab::exact();
        let Some(program) = lists(&lab, options) else { return };
        // Without a timer the runtime does the same each time.
        let command = [&[program.as_str(), "+RTS", "-V0", "-s"], threads].concat();
        let recorded = lab.recorded(&["--machine", "4x1", "--stack"], &command).succeeded().sound();
        let profile = recorded.profile();
        let said = said(&recorded.outcome.stderr);
        assert!(said["generation 0"] >= 2 && said["generation 1"] >= 1, "{}", recorded.outcome.stderr);
        assert_eq!(led(&profile), said, "{options:?}");
        let rows = profile.rows::<ProcessedObjects>().unwrap();
        let of =
            |generation| rows.iter().filter(|row| row.generation == generation).map(|row| row.objects).sum::<u64>();
        // 3000 cells and their numbers are in the nursery when the first collection comes, and old ones at the end.
        assert!(of(Some(0)) > 6000 && of(Some(1)) > 5000 && of(None) > 0, "{rows:?}");
        let all: u64 = rows.iter().map(|row| row.objects).sum();
        assert_eq!(all, calls(&profile, &program, functions), "{options:?}");
        let report = recorded.json(&["report", "--section", "collector"]);
        assert_eq!(report["collector"]["collections"], said.values().sum::<u64>());
        let share = report["collector"]["share"].as_f64().unwrap();
        assert!(share > 30.0, "{share} % of the accesses are collections'");
    }
}
