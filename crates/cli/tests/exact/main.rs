//! `numalens record --engine exact`: what it counts equals arithmetic, and the program notices nothing.

mod cache;
mod carried;
mod code_cache;
mod counts;
mod endless;
mod huge;
mod in_calls;
mod laps;
mod layout;
mod lines;
mod moving;
mod natives;
mod page_numbers;
mod places;
mod refused;
mod regions;
mod schemes;
mod sealed;
mod segments;
mod sums;
#[path = "../support/mod.rs"]
mod support;
mod tallies;
mod threads;
mod zeros;

use numalens_profile::Profile;
use numalens_profile::tables::CodeFetch;
use std::process::Command;
use support::*;

/// Flags of a program without a C library.
const FREESTANDING: &[&str] = &["-nostdlib", "-static"];

/// The ways to count, as NUMALENS_EXACT names them.
const SCHEMES: [&str; 4] = ["flat", "stays", "loops", "usual"];

/// Records a command and checks the profile, if there is one.
#[track_caller]
fn record(lab: &Lab, options: &[&str], command: &[&str]) -> Recorded {
    let recorded = lab.recorded(options, command);
    if recorded.path.exists() { recorded.sound() } else { recorded }
}

/// Records a command, which must succeed, with one of the ways to count.
#[track_caller]
fn record_by(lab: &Lab, scheme: &str, options: &[&str], command: &[&str]) -> Recorded {
    let recorded = lab.finished(lab.recorder(options).args(command).env("NUMALENS_EXACT", scheme));
    assert!(recorded.outcome.status.success(), "{scheme}: {:?}", recorded.outcome);
    recorded
}

/// Makes recordings whose counts are to be equal, once more if process ids have got or lost a digit meanwhile: the path
/// of the preloaded library has the recorder's, and the loader goes through it byte by byte.
fn with_ids_alike<T>(record: impl Fn() -> T) -> T {
    let digits = || {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id().ilog10()
    };
    loop {
        let before = digits();
        let recorded = record();
        if digits() == before {
            return recorded;
        }
    }
}

/// A recorder of programs whose addresses are the same each time: others change what programs do.
fn recorder_in_place(lab: &Lab, options: &[&str]) -> Command {
    let mut command = Command::new("setarch");
    command.args(["-R", NUMALENS, "record"]).args(lab.recording(options));
    command
}

impl Recorded {
    #[track_caller]
    fn reads_and_writes(&self) -> (u64, u64) {
        let report = self.report();
        let count = |what: &str| report["summary"][what].as_u64().unwrap();
        let classes: u64 =
            report["summary"]["classes"].as_object().unwrap().values().map(|one| one.as_u64().unwrap()).sum();
        assert_eq!(classes, count("accesses"), "the classes sum to the accesses");
        (count("reads"), count("writes"))
    }

    /// Instructions executed, all threads.
    fn instructions(&self) -> u64 {
        instructions(&self.profile())
    }
}

fn instructions(profile: &Profile) -> u64 {
    profile.rows::<CodeFetch>().unwrap().iter().map(|row| row.instructions).sum()
}
