//! Memory that is read before anybody writes it: reads are counted without asking each time, and the first write is
//! still seen.

use super::*;
use serde_json::Value;

const PAGES: u64 = 16;
const WORDS: u64 = PAGES * 512;
const ROUNDS: u64 = 200;

#[test]
fn reads_of_memory_that_is_not_written_are_unplaced_until_it_is() {
    let lab = Lab::exact();
    let zeros = lab.build("exact/zeros.c", &["-O1", "-g"]);
    for scheme in SCHEMES {
        let recorded = record_by(&lab, scheme, &[], &[&zeros]);
        assert_eq!(recorded.said(), "8 0 3\n");
        let report = recorded.report();
        // Reads, writes, unplaced, first touches of a function; all other accesses are local.
        let wanted = [
            ("one_after_the_other", [4 * ROUNDS * WORDS, 0, 4 * ROUNDS * WORDS, 0]),
            ("here_and_there", [ROUNDS * WORDS, 0, ROUNDS * WORDS, 0]),
            ("in_pairs", [2 * ROUNDS * (WORDS - 2), 0, 2 * ROUNDS * (WORDS - 2), 0]),
            ("copied", [WORDS, WORDS, WORDS, PAGES]),
            ("written", [0, PAGES / 2, 0, PAGES / 2]),
            ("afterwards", [WORDS, 0, WORDS / 2, 0]),
            // Placed by the kernel, in calls of another function.
            ("filled", [2 * WORDS, 0, 0, 0]),
            // An update reads first. In the parent and in the child.
            ("updated", [2 * PAGES, 2 * PAGES, 2 * PAGES, 2 * PAGES]),
        ];
        for (function, [reads, writes, unplaced, touched]) in wanted {
            let rows = report["functions"].as_array().unwrap();
            let row = rows.iter().find(|row| row["function"] == function).unwrap_or_else(|| panic!("no {function}"));
            let found = ["/reads", "/writes", "/classes/unplaced", "/classes/local", "/first_touch"]
                .map(|key| row.pointer(key).and_then(Value::as_u64).unwrap());
            assert_eq!(found, [reads, writes, unplaced, reads + writes - unplaced, touched], "{function}, {scheme}");
        }
    }
}
