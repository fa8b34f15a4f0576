//! The exact engine's collector: starts a program with the agent in it and reads what the agent counts.
//!
//! ```text
//!   engine           starts the command, injects, polls now and then, finishes the profile
//!   file             the session file: placement and options for the agents, extents to read
//!   heap             allocations, as the preloaded library reports them
//!   blocks           what that reports, taken in among what happens to pages: whose these are
//!   page_owners      who has had a page of several objects, and when
//!   attribution      counts of such pages, divided by sampled accesses
//!   access_sampler   accesses sampled one by one, where counters of pages do not tell enough
//!   totals           what a thread has counted
//!   pages            what the records say of pages
//!   map_changes      what is mapped and unmapped among that, and which sites were given before
//!   known_pages      pages by their numbers, until they have long gone
//!   lines            cache lines, once nobody counts there any more
//!   drain            counters and records since the last poll --> session::Session
//!   machine_files    what shows programs a virtual machine
//!   spin_wait_env    how programs wait where a virtual machine has more CPUs than there are
//!   late_processes   programs that are executed as the command ends
//!   image            the agent, laid out for memory
//!   clock            the agents' clock
//! ```
//! Programs are never stopped or asked: they count in memory that is ours as well.

mod access_sampler;
mod attribution;
mod blocks;
mod clock;
mod direct;
mod drain;
pub mod engine;
mod fetches;
mod file;
mod heap;
mod image;
mod known_pages;
mod late_processes;
mod lines;
mod machine_files;
mod map_changes;
mod namespaces;
mod new_pages;
mod page_owners;
mod pages;
mod pending_homes;
mod ranks;
mod release_memory;
mod sites;
pub mod spin_wait_env;
pub mod stale_files;
mod totals;
mod word_counts;

pub use numalens_event::exact::Geometry;
