//! Pages that a program moves have accesses of their own on each node, by page and object as by site, whatever time
//! bins hold.

use super::*;
use serde_json::Value;

/// As in `carried.c`: bytes, and so the accesses of a pass; passes of the first process, one of which is remote. The
/// child makes one more, remote as well.
const PASS: u64 = 64 * 4096;
const PASSES: u64 = 6 + 2;

#[test]
fn what_was_accessed_before_pages_moved_was_accessed_where_they_were() {
    let lab = Lab::exact();
    let carried = lab.build("exact/carried.c", &["-O1", "-g"]);
    for options in [&[][..], &["--objects", "exact"], &["--lines"], &["--cache", "32k"]] {
        let recorded = record(&lab, options, &[&carried]);
        let of = |row: &Value, key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{options:?}, {key}: {row}"));
        let report = recorded.json(&["report", "--top", "1000"]);
        // The pages with one write to each byte in each pass.
        let mut pages = 0;
        for row in report["pages"].as_array().unwrap().iter().filter(|row| of(row, "accesses") == PASSES * 4096) {
            assert_eq!(of(row, "away"), 4096, "{options:?}: {row}");
            pages += 1;
        }
        assert_eq!(pages, 64, "{options:?}: {}", report["pages"]);
        // A section by itself says the same, also of pages that the child has from its parent.
        let alone = recorded.json(&["report", "--top", "1000", "--section", "pages"]);
        assert_eq!(alone["pages"], report["pages"], "{options:?}");
        let away: u64 = report["pages"].as_array().unwrap().iter().map(|row| of(row, "away")).sum();
        assert!((2 * PASS..2 * PASS + PASS / 10).contains(&away), "{options:?}: {away}");
        let objects = report["objects"].as_array().unwrap();
        let object = objects.iter().find(|row| of(row, "accesses") == (PASSES + 1) * PASS);
        let object = object.unwrap_or_else(|| panic!("{options:?}: {}", report["objects"]));
        assert_eq!(of(&object["classes"], "remote"), 2 * PASS, "{options:?}: {object}");
        let simulation = recorded.json(&["simulate"]);
        let first = &simulation["simulation"][0];
        assert_eq!((&first["placement"], &first["policy"]), (&"recorded".into(), &"recorded".into()));
        let local = first["local_share"].as_f64().unwrap_or_else(|| panic!("{first}"));
        let wanted = 100.0 * (PASSES - 1) as f64 / (PASSES + 1) as f64;
        assert!((local - wanted).abs() < 2.0, "{options:?}: {first}");
    }
}
