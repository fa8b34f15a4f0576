//! The exact engine's collector: starts a program with the agent in it and reads what the agent counts.
//!
//! ```text
//!   engine           starts the command, injects, polls now and then, finishes the profile
//!   drain            one poll: what is new in the session file --> session
//!     log_records    what a process logs
//!     events         what happens to its memory, in order of time
//!       blocks         what the preloaded library reports, taken in among it
//!       word_tables    counts by word, where every access is attributed to its object
//!     counting       what its threads have counted
//!     lines          cache lines, once nobody counts there any more
//!   directory        processes and threads, read only: whose sites and pages are which
//!     process          a process, in parts
//!     thread           a thread, in parts
//!   file             the session file: placement and options for the agents, extents to read
//!   heap             allocations, as the preloaded library reports them
//!   page_owners      who has had a page of several objects, and when
//!   attribution      counts of such pages, divided by sampled accesses
//!   access_sampler   accesses sampled one by one, where counters of pages do not say enough
//!   totals           what a thread has counted
//!   map_changes      what is mapped and unmapped among that, and which sites were given before
//!   known_pages      pages by their numbers, until they have long gone
//!   machine_files    what shows programs a virtual machine
//!   spin_wait_env    how programs wait where a virtual machine has more CPUs than there are
//!   late_processes   programs that are executed as the command ends
//!   image            the agent, laid out for memory
//!   clock            the agents' clock
//!   persisted        translations for later processes, and the next recording
//! ```
//! Programs are never stopped or asked: they count in memory that is ours as well.

mod access_sampler;
mod attribution;
mod by_number;
mod clock;
mod counting;
mod direct;
mod directory;
mod drain;
pub mod engine;
mod events;
mod fetches;
mod file;
mod heap;
mod image;
mod known_pages;
mod late_processes;
mod lines;
mod log_records;
mod machine_files;
mod map_changes;
mod namespaces;
mod new_pages;
mod pace;
mod page_class;
mod page_owners;
mod page_records;
mod page_users;
mod pending_homes;
pub mod persisted;
mod poll;
mod process;
mod ranks;
mod release_memory;
mod sharing;
pub mod spin_wait_env;
pub mod stale_files;
mod thread;
mod totals;
mod word_counts;
mod word_tables;

pub use numalens_event::exact::Geometry;
