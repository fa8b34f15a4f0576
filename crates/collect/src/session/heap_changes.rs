//! What the preloaded library reports beside an engine that counts every access: what memory has changed hands.

use super::heap::{HeapHandler, is_of_runtime};
use super::heap_notes::{HeapNote, HeapNotes, What};
use super::touches::ToldPlace;
use crate::heap_channel::Call;
use numalens_profile::ids::{ObjectId, Page};
use std::ops::Range;

/// Bytes that glibc has before a block in a mapping of its own.
const HEADER: u64 = 16;

/// Memory that an object has taken.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub object: ObjectId,
    pub pages: Range<Page>,
    /// The thread that took it, and since when it was about to, since the start of the recording: pages that it touched
    /// meanwhile are the object's.
    pub tid: u32,
    pub since_ns: u64,
    /// The allocator may have filled it: cleared it, or copied what was in a block that grows.
    pub filled: bool,
    /// It is a block that was there before, perhaps where it was.
    pub grown: bool,
    /// A runtime has told where in the program it was wanted: what was touched for it was touched there.
    pub told: Option<ToldPlace>,
}

/// What an event of the library has changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object has memory.
    Claimed(Claimed),
    /// What had these pages has them no more.
    Released(Range<Page>),
    /// The same, and the pages go with it, or what becomes of them is reported next.
    Unmapped,
}

impl HeapHandler<'_> {
    /// Takes in one event of the preloaded library. Where threads and pages are is not its to say: the agents know.
    /// Returns what memory has changed hands.
    pub fn apply(&mut self, notes: &HeapNotes, note: &HeapNote) -> Option<Change> {
        let time_ns = self.session.advance(note.time);
        let live = self.session.processes.get_mut(note.pid)?;
        match &note.what {
            What::Alloc { call, before, own_mapping, frames, .. } => {
                let thread = self.session.threads.at(live.id, note.tid, time_ns);
                let since_ns = if *before == 0 { time_ns } else { self.session.since_start(*before) };
                let (object, place) = self.allocated(notes, note, time_ns, thread)?;
                let of_runtime = is_of_runtime(*call, *frames);
                let end = match own_mapping {
                    _ if of_runtime => place.end,
                    0 => place.end,
                    bytes => Page::of(place.start).address().saturating_add(*bytes),
                };
                let pages = Page::of(place.start)..Page::behind(end);
                let grown = *call == Call::Realloc;
                // What is mapped is clear. Runtimes clear what they give.
                let filled = grown || of_runtime || *call == Call::Calloc && *own_mapping == 0;
                let told = of_runtime.then(|| self.session.objects.place_of(object));
                Some(Change::Claimed(Claimed { object, pages, tid: note.tid, since_ns, filled, grown, told }))
            }
            What::Free { address, inner } => {
                let pages = live.blocks.pages_at(*address);
                let is_alone = !inner && live.blocks.outer(*address).is_some_and(|(_, block)| block.whole_pages);
                self.freed(note, time_ns, *address, *inner);
                if is_alone { Some(Change::Unmapped) } else { pages.map(Change::Released) }
            }
            What::Named { address, name } => {
                self.block_named(note.pid, *address, name);
                None
            }
            &What::Parallel { call, begun, ended, of } => {
                self.session.parallel(note.pid, of, call, begun, ended);
                None
            }
            What::Unmapped { address, size } => {
                let end = address.saturating_add(*size);
                self.blocks_unmapped(note, time_ns, *address..end);
                Some(Change::Unmapped)
            }
            What::Moved { old, old_size, new, new_size } => {
                let (start, end) = (*new, new.saturating_add(*new_size));
                self.session.objects.moved(&mut live.blocks, *old..old.saturating_add(*old_size), start..end, time_ns);
                live.reserved.moved(*old..old.saturating_add(*old_size), start..end);
                // What an allocator makes smaller or larger in its place may be a block that nobody reports.
                let has_stayed = old == new && live.blocks.outer(start.saturating_add(HEADER)).is_none();
                has_stayed.then(|| Change::Released(Page::of(start)..Page::behind(end)))
            }
            What::Began => {
                self.session.processes.heap_observed(note.pid);
                None
            }
            _ => None,
        }
    }
}
