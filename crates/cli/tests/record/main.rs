//! `record` on programs that recorders trip over: whatever happens, the program must not notice, and what was collected
//! must be left in a sound profile.

/// Returns from the test, saying why, when programs cannot be recorded.
macro_rules! need_recording {
    () => {
        if let Some(why) = crate::unable() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}

mod damage;
mod ends;
mod exact;
mod generated_code;
mod gone;
mod left;
mod limits;
mod marks;
mod options;
mod programs;
mod progress;
mod ranks;
mod regions;
mod replaced;
mod served;
mod storage;
#[path = "../support/mod.rs"]
mod support;
mod variables;

use served::*;
use support::*;

/// Both engines must say the same.
const ENGINES: [&str; 2] = ["sample", "exact"];

/// Why programs cannot be recorded here, if they cannot.
fn unable() -> Option<&'static str> {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoid.trim().parse::<i32>() {
        Err(_) => Some("the kernel has no perf events"),
        Ok(level) if level > 2 && !is_root() => Some("perf events are for root only here"),
        Ok(_) => None,
    }
}

/// Programs that do odd things: `awkward KIND`.
fn awkward() -> &'static str {
    built("record/awkward.c", &[])
}

/// The same without a loader, so that nothing can be preloaded.
fn awkward_static() -> &'static str {
    built("record/awkward.c", &["-static"])
}

/// A program that touches pages: `pages KIND COUNT`.
fn pages() -> &'static str {
    built("record/pages.c", &[])
}

/// The same without a loader: nobody waits for its pages to be looked up, nobody tells of its `munmap`.
fn pages_static() -> &'static str {
    built("record/pages.c", &["-static"])
}

/// A program that says when to count: `marks KIND`.
fn marks() -> &'static str {
    built("record/marks.c", &[])
}
