//! Variables: the pages that were placed for them, when they were accessed, and what a child does with its parent's.

use super::*;
use serde_json::Value;

/// Pages of the array, and accesses to each whenever all of it is gone through.
const PAGES: u64 = 512;
const TIMES: u64 = 512;

fn report(lab: &Lab, options: &[&str]) -> Value {
    lab.json(&[&["report"], options].concat())
}

/// What runs of pages of the array have, by pid.
fn of_table(report: &Value) -> Vec<(u64, u64)> {
    let rows = report["address_space"].as_array().unwrap().iter().filter(|row| row["name"] == "table");
    rows.map(|row| (row["pid"].as_u64().unwrap(), row["accesses"].as_u64().unwrap())).collect()
}

#[test]
fn variables_have_the_pages_that_were_placed_for_them() {
    need_recording!();
    let program = built("record/variables.c", &[]);
    for engine in ENGINES {
        let lab = Lab::new();
        lab.record(&["--engine", engine], &[program]);
        let report = report(&lab, &["--section", "objects", "--top", "1000"]);
        let rows = report["objects"].as_array().unwrap();
        let table = rows.iter().find(|row| row["name"] == "table").expect("the array");
        assert_eq!(table["first_touch"].as_u64(), Some(PAGES), "{engine}: {table}");
        let homes: u64 = table["homes"].as_array().unwrap().iter().map(|home| home["bytes"].as_u64().unwrap()).sum();
        assert_eq!(homes, PAGES * 4096, "{engine}: {table}");
    }
}

/// A page that is accessed a few hundred times and never again has its accesses when they were made; and what a child
/// reads of its parent's memory is in its address space.
#[test]
fn accesses_to_pages_have_their_times_and_children_their_parents_memory() {
    need_recording!();
    let program = built("record/variables.c", &[]);
    for objects in ["sampled", "exact"] {
        let lab = Lab::new();
        lab.record(&["--engine", "exact", "--objects", objects], &[program]);
        let whole = of_table(&report(&lab, &["--section", "address-space"]));
        assert_eq!(whole.iter().map(|(_, accesses)| *accesses).collect::<Vec<_>>(), [PAGES * TIMES; 2], "{objects}");
        assert_ne!(whole[0].0, whole[1].0, "the child's");
        let rows = report(&lab, &["--section", "objects", "--top", "1000"])["objects"].as_array().unwrap().clone();
        let number = rows.iter().find(|row| row["name"] == "table").expect("the array")["object"].to_string();
        let alone = of_table(&report(&lab, &["--object", &number, "--section", "address-space"]));
        assert_eq!(alone, whole, "{objects}: of this object alone");
        let phase = report(&lab, &["--phase", "fill", "--section", "address-space", "--section", "objects"]);
        // What the last look before its end has not found is of a later time.
        let most = PAGES * TIMES / 2..=PAGES * TIMES;
        let filled: u64 = of_table(&phase).iter().map(|(_, accesses)| accesses).sum();
        assert!(most.contains(&filled), "{objects}: {filled} accesses of pages");
        let rows = phase["objects"].as_array().unwrap();
        let object = rows.iter().find(|row| row["name"] == "table").expect("the array");
        let accesses = object["accesses"].as_u64().unwrap();
        assert!(most.contains(&accesses), "{objects}: {object}");
    }
}
