//! Addresses that are only reserved.

use super::*;

#[test]
fn reserved_addresses_are_no_allocation_before_they_have_access() {
    let lab = Lab::exact();
    for (linked, engine) in [("-pie", "exact"), ("-static", "exact"), ("-pie", "sample")] {
        let recorded = record_with(&lab, "reserved.c", &["-O1", "-g", linked], &["--engine", engine], &[]);
        let mib = 1 << 20;
        let rows = recorded.profile().rows::<Allocation>().unwrap();
        let mapped: Vec<u64> = rows.iter().filter(|row| row.call == Call::Mmap).map(|row| row.bytes).collect();
        let large: Vec<u64> = mapped.into_iter().filter(|bytes| *bytes >= mib).collect();
        assert_eq!(large, [vec![mib; 64], vec![8 * mib]].concat(), "{linked}, {engine}");
        let report = recorded.report();
        let most = number(&report["residency"]["max_live"]);
        assert!((72 * mib..74 * mib).contains(&most), "{linked}, {engine}: {most}");
        // Each place is told with its own stack: what committed the memory.
        let objects = recorded.profile().rows::<Object>().unwrap();
        assert!(objects.iter().all(|object| object.size < 100 * mib), "{linked}, {engine}");
    }
}

#[test]
fn what_is_only_reserved_is_as_much_as_is_touched_of_it() {
    let lab = Lab::exact();
    let mib = 1 << 20;
    for engine in ["exact", "sample"] {
        let options = ["--engine", engine];
        let recorded = record_with(&lab, "noreserve.c", &["-O1", "-g"], &options, &[]);
        let report = recorded.report();
        for key in ["max_live", "total_allocated"] {
            let bytes = number(&report["residency"][key]);
            assert!((24 * mib..25 * mib).contains(&bytes), "{engine}: {key} is {bytes}");
        }
        let text = stdout(numalens(&["report", "--section", "allocation-matrix"]).arg(&recorded.path));
        assert!(text.contains("100 % = 24."), "{engine}: {text}");
    }
}
