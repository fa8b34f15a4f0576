//! Code in memory that stays writable is not compared whenever it is entered, and yet no change of it is missed.

use super::*;
use numalens_profile::tables::PageAccess;

#[test]
fn what_is_executed_of_code_that_changes_is_what_stands_there() {
    let lab = Lab::exact();
    let sealed = lab.build("exact/sealed.c", &["-O1", "-pthread"]);
    for options in [&["--machine", "2x2"][..], &["--machine", "real"], &["--machine", "default", "--lines"]] {
        let mut command = vec![sealed.as_str()];
        // Where all accesses leave their blocks nothing is sealed.
        if !options.contains(&"--lines") {
            command.push("observed");
        }
        let recorded = lab.recorded(options, &command);
        let said = recorded.said();
        assert!(recorded.outcome.status.success(), "{options:?}: {said}");
        let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let &[address, calls] = numbers.as_slice() else { panic!("{said}") };
        let mut found = [0; 2];
        for row in recorded.profile().rows::<PageAccess>().unwrap() {
            if row.process.0 == 0 && row.page.address() == address {
                found = [found[0] + row.reads, found[1] + row.writes];
            }
        }
        // The program reads it once itself.
        assert_eq!(found, [calls + 1, calls], "{options:?}");
    }
}
