//! Memory that is one thing after the other within milliseconds: all of it is accessed between two looks of the
//! collector.

use super::*;
use serde_json::Value;

const WORDS: u64 = 50_000;
const ROUNDS: u64 = 5;
/// Writes of a library to its variable, each time it is called.
const WRITES: u64 = 100_000;

#[test]
fn what_is_accessed_is_what_was_there_then() {
    let program = built("record/replaced.c", &["-ldl"]);
    let libraries =
        ["-DNAME=first", "-DNAME=second"].map(|name| built("record/replaced.c", &["-shared", "-fPIC", name]));
    for objects in ["sampled", "exact"] {
        let (lab, files) = (Lab::new(), Lab::new());
        let arguments = [program, files.path().to_str().unwrap(), libraries[0], libraries[1]];
        lab.record(&["--engine", "exact", "--objects", objects], &arguments);
        let report = lab.json(&["report", "--top", "1000"]);
        let rows = |section: &str| report[section].as_array().unwrap().clone();
        let object = |name: &str| {
            let all = rows("objects");
            all.into_iter().find(|row| row["name"].as_str().unwrap_or_default().ends_with(name)).expect(name)
        };
        let counts = |row: &Value| (row["reads"].as_u64().unwrap(), row["writes"].as_u64().unwrap());
        assert_eq!(counts(&object("/one.dat")), (2 * ROUNDS * WORDS, 0), "{objects}");
        assert_eq!(counts(&object("/two.dat")), (ROUNDS * WORDS / 2, 0), "{objects}");
        // Words of 4 bytes: eight pages, of which four and three are written again.
        let words = |pages: u64| pages * 4096 / 4;
        let blocks: Vec<(u64, u64)> = rows("objects").iter().filter(|row| row["kind"] == "heap").map(counts).collect();
        assert!(blocks.contains(&(0, words(8 + 4 + 3))), "{objects}: {blocks:?}");
        assert!(blocks.contains(&(0, words(8))), "{objects}: {blocks:?}");
        assert_eq!(counts(&object("/SYSV00000000 (deleted)")), (0, words(8)), "{objects}");
        // Both libraries' code and variables lay at the same addresses: the lines of each are its own.
        for name in ["first", "second"] {
            let lines = rows("lines").into_iter().filter(|row| row["function"] == name);
            let (modules, writes): (Vec<Value>, Vec<u64>) =
                lines.map(|row| (row["module"].clone(), counts(&row).1)).unzip();
            assert!(
                modules.iter().all(|module| *module == format!("replaced-shared-fPIC-DNAME={name}")),
                "{modules:?}"
            );
            // And what the compiler made beside it on the stack.
            let writes: u64 = writes.iter().sum();
            assert!((ROUNDS * WRITES..ROUNDS * WRITES + 100).contains(&writes), "{name}: {writes} writes, {objects}");
        }
        // Variables of one name are told as one, with their number.
        let (table, writes) = (object("table"), 2 * ROUNDS * WRITES);
        assert_eq!(table["count"], 2, "{objects}: {table}");
        if objects == "exact" {
            // The loader clears what of it lies in the last page of the file, with a few wide writes.
            let (cleared, most) = (counts(&table).1.checked_sub(writes).expect("no less"), 2 * ROUNDS * 4096 / 16);
            assert!(cleared <= most, "{cleared} more writes");
        } else {
            // What shares its first and last page with other variables is in its interval.
            let interval = &table["intervals"]["accesses"];
            let interval = interval[0].as_f64().unwrap()..=interval[1].as_f64().unwrap();
            assert!(interval.contains(&(writes as f64)), "{table}");
        }
    }
}
