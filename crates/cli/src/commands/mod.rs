//! One file per command: its arguments and how it calls the crates that do the work.

pub mod machine;
