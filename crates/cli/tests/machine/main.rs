//! A virtual machine as the program sees it, under the exact engine: tools and programs that ask get its answers, and
//! what they ask for is where threads and pages are in the profile. And the host's machine, as `doctor` sees it.

mod doctor;
mod nodes;
mod pages;
mod seen;
mod shared_memory;
#[path = "../support/mod.rs"]
mod support;
mod threads;

use support::*;

/// Records a command, which must succeed, and checks the profile.
#[track_caller]
fn record(lab: &Lab, options: &[&str], command: &[&str]) -> Recorded {
    let recorded = lab.finished(lab.recorder(options).args(command).env_remove("LC_ALL"));
    let outcome = &recorded.outcome;
    assert!(outcome.status.success(), "{command:?} {}: {}", outcome.status, outcome.stderr);
    recorded.sound()
}

impl Recorded {
    /// Accesses by the node of the thread and the home of the page.
    #[track_caller]
    fn matrix(&self) -> Vec<Vec<u64>> {
        let report = self.report();
        let rows = report["matrix"]["access"]["rows"].as_array().unwrap();
        let row =
            |row: &serde_json::Value| row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        rows.iter().map(row).collect()
    }
}

/// What a script says on a machine.
#[track_caller]
fn script(options: &[&str], text: &str) -> String {
    record(&Lab::exact(), options, &["/bin/sh", "-c", text]).outcome.stdout
}
