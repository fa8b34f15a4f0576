//! What happened to the memory of a process becomes rows of the profile, in the order of time.
//!
//! ```text
//!   page records    begins and ends of pages   --.
//!   the log         maps, accesses, generations   |  collect: until all is known,   apply: one by one, with
//!   threads         ends                       --'  in order                         what the library reports of
//!   the library     blocks                    ------------------------------------>  blocks between them
//! ```
//! A record is read once, and again for its end. Where a new page landed on a real machine the agent may not know yet:
//! all new ones of a poll are asked for in one call. See `pending_homes.rs` for the accesses that placed them.

mod apply;
mod blocks;
mod collect;
mod owners;
mod placed;

use super::access_sampler::AccessSampler;
use super::directory::Directory;
use super::file::SessionFile;
use super::heap::HeapEventQueue;
use super::process::{LoggedEvents, Process};
use crate::session::Session;
use numalens_event::exact::Extent;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;

/// Takes in what happened to the memory of a process.
pub struct Reader<'a> {
    pub directory: &'a Directory,
    pub sampler: &'a AccessSampler,
    pub queue: &'a mut HeapEventQueue,
    pub file: &'a SessionFile,
    pub session: &'a mut Session,
    pub extent: Extent,
    pub process: &'a mut Process,
    /// Until when to read, on the clock of the records: so far is known what threads there are.
    pub until: u64,
}

/// What happened to pages, in the order of time, ends first: a page that comes again has another number. Pages are
/// those of the process's own; what else happened, by an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An access is known to have placed a huge page.
    Huge(u32),
    End(u32),
    /// A range has gone.
    Gone(usize),
    /// Something was mapped or unmapped.
    Map(usize),
    Begin(u32),
    /// An access was logged.
    Access(usize),
    /// Words changed hands.
    Words(usize),
    /// A thread counts no more.
    Ended(usize),
    /// What is accessed in a range from now on is another one's.
    Rest(usize),
}

/// What happened until a time.
struct Collected {
    /// On the clock of the records: all is known that happened by then.
    until: u64,
    events: Vec<(u64, Event)>,
    logged: LoggedEvents,
    /// Threads that count no more, with the times.
    ended: Vec<(u64, Extent)>,
    /// Where new pages are, by the kernel's word: indices of nodes.
    homes: FxHashMap<Page, u16>,
}
