//! Code in memory that stays writable is not compared whenever it is entered, and yet no change of it is missed.

use super::{numalens, program};
use numalens_profile::Profile;
use numalens_profile::tables::PageAccess;

#[test]
fn what_is_executed_of_code_that_changes_is_what_stands_there() {
    let directory = tempfile::tempdir().unwrap();
    let sealed = program(directory.path(), "sealed.c", &["-O1", "-pthread"]);
    for arguments in [&["--machine", "2x2"][..], &["--machine", "real"], &["--lines"]] {
        let profile = directory.path().join("p");
        let mut recording = numalens();
        recording.args(["record", "-q", "-f", "-o"]).arg(&profile).args(arguments).arg("--").arg(&sealed);
        // Where all accesses leave their blocks nothing is sealed.
        if arguments != ["--lines"] {
            recording.arg("observed");
        }
        let recorded = recording.output().unwrap();
        let said = String::from_utf8_lossy(&recorded.stdout).into_owned();
        assert!(recorded.status.success(), "{arguments:?}: {said}");
        let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let &[address, calls] = numbers.as_slice() else { panic!("{said}") };
        let mut found = [0; 2];
        for row in Profile::open(&profile).unwrap().rows::<PageAccess>().unwrap() {
            if row.process.0 == 0 && row.page.address() == address {
                found = [found[0] + row.reads, found[1] + row.writes];
            }
        }
        // The program reads it once itself.
        assert_eq!(found, [calls + 1, calls], "{arguments:?}");
    }
}
