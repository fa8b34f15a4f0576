//! The sample engine.

pub mod engine;
