//! Pages of objects that move, and of memory that processes share.

use super::*;

fn bytes_of_homes(row: &Value) -> u64 {
    row["homes"].as_array().unwrap().iter().map(|home| home["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn a_block_that_has_moved_has_its_pages() {
    let lab = Lab::exact();
    let recorded = record(&lab, "moved.c", &["-O1", "-g"]);
    let grown = &objects(&recorded, "moved.c")["grown"];
    let homes = bytes_of_homes(grown);
    assert!((4 << 20..=(4 << 20) + 8192).contains(&homes), "{homes}: {grown}");
}

#[test]
fn memory_that_processes_share_is_one_object() {
    for kind in ["sysv", "memfd", "shm", "file", "anonymous"] {
        for options in [&[][..], &["--objects", "exact"], &["--engine", "sample"]] {
            // The others appear there when an access to them is sampled.
            if options.contains(&"sample") && kind != "anonymous" {
                continue;
            }
            let lab = Lab::exact();
            let file = lab.at("numalens-mapped");
            let recorded = record_with(&lab, "mapped.c", &["-O1", "-g"], options, &[kind, &file]);
            let name = match kind {
                "sysv" => "SYSV",
                "shm" => "numalens-test-mapped",
                "anonymous" => "unnamed",
                "memfd" => "numalens-test-memfd",
                _ => "numalens-mapped",
            };
            let rows = objects(&recorded, "mapped.c");
            let code = |row: &Value| row["kind"] == "code";
            let found: Vec<&Value> =
                rows.iter().filter(|(key, row)| key.contains(name) && !code(row)).map(|(_, row)| row).collect();
            let [row] = found[..] else { panic!("{kind} {options:?}: {found:?}") };
            let facts = (row["size"].as_u64(), row["count"].as_u64(), bytes_of_homes(row));
            assert_eq!(facts, (Some(256 << 10), Some(1), 256 << 10), "{kind} {options:?}: {row}");
        }
    }
}
