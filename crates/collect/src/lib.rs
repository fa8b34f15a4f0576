//! Collectors: from a running program to a profile.

mod checkpoints;
pub mod control;
pub mod doctor;
mod ending;
pub mod exact;
mod futex;
pub mod globals;
pub mod homes;
pub mod limits;
pub mod measure;
pub mod rank;
mod refused;
pub mod sample;
pub mod unwind;
