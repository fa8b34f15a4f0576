//! One file per command: its arguments and how it calls the crates that do the work.

pub mod advise;
pub mod cache;
pub mod check;
pub mod completions;
pub mod ctl;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod header;
pub mod import;
mod input;
pub mod machine;
mod machine_code;
pub mod merge;
mod output;
pub mod pack;
pub mod record;
pub mod report;
pub mod simulate;
mod sums;
pub mod tell;
pub mod terms;
pub mod unpack;
pub mod usage;
pub mod view;
