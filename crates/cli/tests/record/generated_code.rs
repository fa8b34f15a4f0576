//! Code that a program makes as it runs, and names in /tmp/perf-PID.map as runtimes do, has its name in the report.

use super::*;

#[test]
fn code_made_at_run_time_has_the_name_that_its_maker_gives_it() {
    let lab = Lab::new();
    let maker = lab.build("record/maker.c", &["-O1"]);
    let recorded = lab.recorded(&[], &[&maker]);
    let map = recorded.said().trim();
    if !map.is_empty() {
        std::fs::remove_file(map).unwrap();
    }
    let report = recorded.succeeded().report();
    assert_eq!(report["functions"][0]["function"], "made_to_read", "{}", report["functions"]);
}
