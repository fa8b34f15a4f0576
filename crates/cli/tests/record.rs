//! `record` on programs that recorders trip over: whatever happens, the program must not notice, and what was collected
//! must be left in a sound profile.

#[path = "record/support.rs"]
mod support;

#[path = "record/damage.rs"]
mod damage;
#[path = "record/ends.rs"]
mod ends;
#[path = "record/exact.rs"]
mod exact;
#[path = "record/gone.rs"]
mod gone;
#[path = "record/left.rs"]
mod left;
#[path = "record/limits.rs"]
mod limits;
#[path = "record/marks.rs"]
mod marks;
#[path = "record/options.rs"]
mod options;
#[path = "record/programs.rs"]
mod programs;
#[path = "record/progress.rs"]
mod progress;
#[path = "record/ranks.rs"]
mod ranks;
#[path = "record/regions.rs"]
mod regions;
#[path = "record/replaced.rs"]
mod replaced;
#[path = "record/storage.rs"]
mod storage;
#[path = "record/variables.rs"]
mod variables;
