//! The kernel's side of the sample engine: perf events, opened and drained.
//!
//! For every CPU there is one ring buffer; each event kind is opened once per CPU (with `inherit`, so that
//! threads and children born later are followed) and writes into that CPU's ring. Records of different CPUs
//! are put in time order by [`PerfEvents::drain`], which holds back what is younger than the moment the drain
//! began: a record of another CPU may still be on its way.

mod attr;
mod open;
mod record;
mod ring;

pub use attr::{CLOCK_STACK_BYTES, EventKind, EventPlan, FAULT_STACK_BYTES};
pub use open::{Call, OpenError, PerfEvents, Scope, executed_ns, monotonic_ns};
pub use record::{Batch, Payload, Record, Sampled};
