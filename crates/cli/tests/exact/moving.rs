//! A thread that goes to another node has accesses of its own on each, by page as by site, whatever time bins hold.

use super::*;
use serde_json::Value;

/// As in `moving.c`: writes to each half.
const WRITES: u64 = 4 * 2 * (256 << 10);

#[test]
fn what_a_thread_did_before_it_moved_is_its_former_nodes() {
    let lab = Lab::exact();
    let moving = lab.build("exact/moving.c", &["-O1", "-g"]);
    let recorded = record(&lab, &[], &[&moving]);
    let report = recorded.report();
    // Each half: written to by the node that it lies on, which made it.
    let of = |row: &Value, key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
    let users = |row: &Value| -> Vec<(u64, u64)> {
        let users = row["users"].as_array().unwrap();
        users.iter().map(|user| (of(user, "node"), of(user, "accesses"))).collect()
    };
    let mut halves = Vec::new();
    for row in report["address_space"].as_array().unwrap() {
        halves.extend(users(row).into_iter().filter(|(_, accesses)| *accesses >= WRITES / 2));
    }
    halves.sort_unstable();
    assert_eq!(halves.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1], "{}", report["address_space"]);
    let away: u64 = report["pages"].as_array().unwrap().iter().map(|row| of(row, "away")).sum();
    assert!(away < WRITES / 100, "{away} accesses from elsewhere");
    let advice = recorded.advice();
    assert_eq!(advice["findings"].as_array().map(Vec::len), Some(0), "{}", advice["findings"]);
    let simulation = recorded.json(&["simulate"]);
    let first = &simulation["simulation"][0];
    assert_eq!((&first["placement"], &first["policy"]), (&"recorded".into(), &"recorded".into()));
    let local = first["local_share"].as_f64().unwrap_or_else(|| panic!("{first}"));
    assert!(local > 99.0, "{first}");
}
