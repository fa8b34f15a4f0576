//! Variables of which each thread has a copy.

use super::*;

#[test]
fn thread_local_variables_are_objects() {
    let lab = Lab::exact();
    let (large, small) = (4 * 20 * (1 << 16), 4 * 100_000);
    for linked in ["-pie", "-static"] {
        let flags = ["-O1", "-g", "-pthread", linked];
        let recorded = record_with(&lab, "thread_local.c", &flags, &["--objects", "exact"], &[]);
        let rows = objects(&recorded, "thread_local.c");
        // The C library clears copies, byte by byte where it may not use vectors.
        for (name, writes, cleared) in [("large", large, 4 << 16), ("small", small, 0), ("errno", small, 0)] {
            let name = format!("{name} (thread-local)");
            let row = rows.get(&name).unwrap_or_else(|| panic!("{linked}: no {name}: {:?}", rows.keys()));
            let found = number(&row["writes"]);
            assert!(
                (writes..=writes + cleared + writes / 50).contains(&found),
                "{linked}: {name}: {found} of {writes}"
            );
            assert_eq!(row["kind"], "global", "{linked}: {name}");
        }
        // By whole pages: 15 of 16 are the variable's alone.
        let recorded = record(&lab, "thread_local.c", &flags);
        let rows = objects(&recorded, "thread_local.c");
        let [low, high] = interval(&rows["large (thread-local)"]);
        let truth = large as f64;
        assert!(truth * 0.9 <= low && low <= truth * 1.06 && truth <= high, "{linked}: {low} to {high}, not {truth}");
    }
}
