//! The collector's end of the preload library: a channel that target processes write to, and its reader.
//!
//! ```text
//!   HeapChannel::create            memory files: the channel, the library
//!   HeapChannel::environment  ---> variables of the program to start
//!   wait / drain              <--- records of all its processes and threads
//!   acknowledge               ---> a process that waits before its exit or exec goes on
//! ```
//! - Records of one thread come in order; those of different threads are ordered only by their time. A release is
//!   stamped before it happens and an allocation after, so at one address times never contradict what happened.
//! - Not every release is seen (a library may have its own way), so an allocation at an address that is still alive
//!   means that the older one is gone.
//! - Both files are named through `/proc/PID/fd`: nothing is left behind on disk, whatever happens, and a child that
//!   outlives the collector is started without the library, silently, because the library looks first.
//! - What is read from shared memory is copied, clamped and then believed only as far as it cannot hurt.

mod channel;
mod event;
mod pace;
mod reader;
#[cfg(test)]
mod tests;

pub use channel::{Bell, HeapChannel, HeapOptions};
pub use event::HeapEvent;
pub use numalens_event::record::Call;
pub use reader::{DrainSummary, HeapLosses};
