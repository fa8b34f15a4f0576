//! Collectors: from a running program to a profile.

mod checkpoints;
pub mod control;
pub mod doctor;
pub mod exact;
mod futex;
pub mod globals;
pub mod homes;
pub mod measure;
pub mod rank;
pub mod sample;
pub mod unwind;
mod refused;
