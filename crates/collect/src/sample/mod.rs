//! The sample engine.

pub mod code_bytes;
pub mod engine;
pub mod hardware;
pub mod heap;
pub mod launch;
pub mod perf;
pub mod session;
pub(crate) mod signals;
