//! The sample engine.

pub mod engine;
mod recorder;
