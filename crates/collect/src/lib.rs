//! Collectors: from a running program to a profile.
//!
//! ```text
//!   sample, exact        the engines: what they watch, and how they count
//!     session            who did what to which page: facts of a recording, and its profile
//!     heap_channel       what the preloaded library reports of heap blocks
//!     runtimes           what runtimes say of code that they make
//!     launch             a command that is started, its signals, how recordings are meant and end
//!     perf, hardware     events of the kernel and of the processor
//!     homes, unwind      questions about pages and call stacks
//! ```

mod checkpoints;
pub mod control;
pub mod doctor;
mod ending;
pub mod engine;
pub mod exact;
mod futex;
pub mod globals;
pub mod hardware;
pub mod heap_channel;
pub mod homes;
pub mod launch;
pub mod limits;
pub mod measure;
mod memory_file;
pub mod perf;
pub mod rank;
mod refused;
pub mod runtimes;
pub mod sample;
pub mod session;
pub mod unwind;

// Who counts, who reads the counters, who writes the profile and who describes the machine mean the same by a page.
const _: () = {
    use numalens_event::page::PAGE;
    use numalens_profile::ids::Page;
    assert!(numalens_isa::PAGE == PAGE && Page::BYTES == PAGE && numalens_topology::PAGE_BYTES == PAGE);
};
