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
use super::file::{SessionFile, Shared};
use super::heap::HeapEventQueue;
use super::process::{LoggedEvents, PageLedger, Process};
use crate::session::Session;
use numalens_event::exact::{self, Extent, PageRecord};
use numalens_event::page;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::io;

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

/// The page records of a process, from the first of its own.
struct Records {
    map: Shared,
    /// Bytes of others before them.
    skipped: usize,
    first: u32,
    given: u32,
}

impl Records {
    fn map(file: &SessionFile, extent: Extent, pages: &PageLedger, given: u32) -> io::Result<Self> {
        const SIZE: usize = size_of::<PageRecord>();
        let first = pages.first();
        let given = given.min(exact::MOST_PAGES).saturating_sub(first);
        let offset = page::begin(u64::from(first) * SIZE as u64);
        let skipped = (u64::from(first) * SIZE as u64 - offset) as usize;
        // One at least is mapped, though there may be none yet.
        let bytes = skipped + given.max(1) as usize * SIZE;
        let map = file.extent(extent, exact::process::PAGES + offset, bytes)?;
        Ok(Records { map, skipped, first, given })
    }

    /// All, by which of its own they are.
    fn all(&self) -> &[PageRecord] {
        self.map.words::<PageRecord>(self.skipped, self.given as usize)
    }

    /// The record of one of its own.
    fn own(&self, own: u32) -> &PageRecord {
        &self.all()[own as usize]
    }

    /// The record of a number; none: it is its parent's, or has not been given.
    fn get(&self, number: u32) -> Option<&PageRecord> {
        self.all().get(number.checked_sub(self.first)? as usize)
    }
}
