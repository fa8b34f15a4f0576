//! What the preloaded library reports of blocks is taken in among what happens to pages: whose these are changes.

use crate::exact::heap::HeapEventQueue;
use crate::exact::known_pages::{FILLED, KnownPage};
use crate::exact::page_owners::PageOwners;
use crate::exact::process::{Life, Process, ReleasedBlock};
use crate::session::{Change, Claimed, HeapNote, Owner, Session};
use numalens_profile::ids::Page;
use std::ops::Range;

/// Whether an event can be taken in, with what is known `now`. `is_open`: what becomes of a block or mapping is not
/// known yet, as a `realloc` or `munmap` is under way; its memory may be somebody else's already.
pub fn is_ready(session: &Session, life: &Life, note: &HeapNote, is_open: bool, now: u64) -> bool {
    /// A thread that has not been met by then had ended already, and one that has not reported by then what has become
    /// of its block may have been stopped.
    const PATIENCE_NS: u64 = 2_000_000_000;
    !is_open && session.knows_thread(note) || life.last || now.saturating_sub(note.time) > PATIENCE_NS
}

/// Takes in what the library has reported of a process until `until`. `now`: how far is known what threads there are.
pub fn take_in_blocks(queue: &mut HeapEventQueue, session: &mut Session, process: &mut Process, until: u64, now: u64) {
    let pid = process.identity.pid;
    while let Some(note) = queue.next(pid, until, |note, open| is_ready(session, &process.life, note, open, now)) {
        let Some(change) = session.apply_heap_event(queue.stacks(), &note) else { continue };
        let time_ns = session.advance(note.time);
        let mut blocks = BlockChange { session, process, time_ns };
        match change {
            Change::Claimed(claimed) => blocks.claimed(note.tid, &claimed),
            Change::Released(pages) => blocks.released(note.tid, &pages),
            Change::Unmapped => {}
        }
    }
}

/// What has become of blocks at a time, since the start of the recording.
struct BlockChange<'a> {
    session: &'a mut Session,
    process: &'a mut Process,
    time_ns: u64,
}

impl BlockChange<'_> {
    /// An object has memory.
    fn claimed(&mut self, tid: u32, claimed: &Claimed) {
        // Where a block grows in its place, it has not gone.
        let gone = self.process.shared.claimed(tid, claimed, self.time_ns);
        touched_before(self.session, self.process, claimed);
        let pid = self.process.identity.pid;
        for (page, own) in self.process.pages.live_in(claimed.pages.clone()) {
            let owner = self.session.owner_by_blocks(pid, page);
            let known = &mut self.process.pages.known[own];
            let before = known.owner;
            let fresh = was_touched_for(self.session, pid, known, claimed);
            if fresh && claimed.filled && !known.moved {
                // What is copied is read elsewhere.
                let reads = if claimed.grown { 0 } else { FILLED };
                known.filled.set((claimed.tid, [reads, FILLED]));
            }
            known.owner = if fresh { owner } else { known.owner.and(owner) };
            if self.process.regions.of(own).is_some() && known.owner != before {
                self.process.regions.leave(own);
            }
            if fresh && known.owner == owner && owner != Owner::Several {
                continue;
            }
            let number = self.process.pages.number(own);
            if let (Some(gone), Owner::One(object)) = (&gone, owner)
                && self.process.shared.is_back(number, object, gone.time_ns)
            {
                continue;
            }
            self.owners_change(own, before, owner);
        }
    }

    /// What had these pages has them no more.
    fn released(&mut self, tid: u32, pages: &Range<Page>) {
        self.process.shared.released(ReleasedBlock { tid, start: pages.start, time_ns: self.time_ns });
        for (page, own) in self.process.pages.live_in(pages.clone()) {
            let owner = self.session.owner_by_blocks(self.process.identity.pid, page);
            self.owners_change(own, self.process.pages.known[own].owner, owner);
        }
    }

    /// The blocks on a page are others now. `before`: whose it was until then, as far as it was one's; `now`: by its
    /// blocks.
    fn owners_change(&mut self, own: u32, before: Owner, now: Owner) {
        if self.process.regions.of(own).is_some() {
            self.process.regions.leave(own);
        }
        let (pid, page) = (self.process.identity.pid, self.process.pages.known[own].page);
        // Blocks do not say all there.
        if self.session.records_every_object() || self.session.has_variables(pid, page) {
            return;
        }
        let session = &*self.session;
        let first = || match before {
            Owner::One(object) if session.is_block(object) => PageOwners::of_one(object),
            _ => PageOwners::default(),
        };
        // What was carved out of another block has its part of it alone.
        let (present, whole) = match now {
            Owner::One(object) => (vec![object], true),
            _ => (session.holders_on(pid, page), false),
        };
        let number = self.process.pages.number(own);
        self.process.shared.owners_change(number, first, &present, whole, self.time_ns);
    }
}

/// What the allocator has filled of fresh memory before it gave the block, it has touched for that. These pages begin a
/// generation with the block.
fn touched_before(session: &mut Session, process: &mut Process, claimed: &Claimed) {
    if !claimed.filled {
        return;
    }
    for own in process.pages.resting_in(claimed.pages.clone()) {
        was_touched_for(session, process.identity.pid, &mut process.pages.known[own], claimed);
    }
}

/// What the allocator itself has touched of fresh memory on the way, it touched for the object. Returns whether a page
/// is such.
fn was_touched_for(session: &mut Session, pid: i32, known: &mut KnownPage, claimed: &Claimed) -> bool {
    let fresh = known.begin_ns >= claimed.since_ns;
    if fresh && let Some(touch) = known.touch {
        known.touch = Some(session.touched_for(pid, known.page, touch, claimed));
    }
    fresh
}
