//! Memory that is read before anybody writes it: reads are counted without asking each time, and the first write is
//! still seen.

use super::{numalens, program};
use serde_json::Value;

const PAGES: u64 = 16;
const WORDS: u64 = PAGES * 512;
const ROUNDS: u64 = 200;

#[test]
fn reads_of_memory_that_is_not_written_are_unplaced_until_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let zeros = program(directory.path(), "zeros.c", &["-O1", "-g"]);
    for scheme in ["flat", "stays", "loops", "usual"] {
        let profile = directory.path().join(scheme);
        let recorded = numalens()
            .args(["record", "--engine", "exact", "-q", "--machine", "4x2", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(&zeros)
            .env("NUMALENS_EXACT", scheme)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{scheme}: {recorded:?}");
        assert_eq!(recorded.stdout, b"8 0 3\n");
        let report = numalens().arg("report").arg(&profile).args(["--format", "json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
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
