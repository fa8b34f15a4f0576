//! What the preloaded library reports of blocks is taken in among what happens to pages: whose these are changes.

use super::drain::Process;
use super::heap::HeapEventQueue;
use super::known_pages::{FILLED, KnownPage};
use super::page_owners::PageOwners;
use crate::session::{Change, Claimed, HeapNote, Owner, Session};
use numalens_profile::ids::Page;

/// Whether an event can be taken in, with what is known `now`. `is_open`: what becomes of a block or mapping is not
/// known yet, as a `realloc` or `munmap` is under way; its memory may be somebody else's already.
pub fn is_ready(session: &Session, process: &Process, note: &HeapNote, is_open: bool, now: u64) -> bool {
    /// A thread that has not been met by then had ended already, and one that has not reported by then what has become
    /// of its block may have been stopped.
    const PATIENCE_NS: u64 = 2_000_000_000;
    !is_open && session.knows_thread(note) || process.last || now.saturating_sub(note.time) > PATIENCE_NS
}

/// Takes in what the library has reported of a process until `until`. `now`: how far is known what threads there are.
pub fn heap_events(queue: &mut HeapEventQueue, session: &mut Session, process: &mut Process, until: u64, now: u64) {
    while let Some(note) = queue.next(process.pid, until, |note, open| is_ready(session, process, note, open, now)) {
        let Some(change) = session.apply_heap_event(queue.stacks(), &note) else { continue };
        let time_ns = session.advance(note.time);
        let pages = match &change {
            Change::Claimed(claimed) => &claimed.pages,
            Change::Released(pages) => pages,
            Change::Unmapped => continue,
        };
        // Where a block grows in its place, it has not gone.
        let gone = process.released.take();
        let gone = gone.filter(|gone| matches!(&change, Change::Claimed(claimed) if gone.is_back(note.tid, claimed)));
        match &change {
            Change::Claimed(claimed) => {
                process.claimed_ns = time_ns;
                touched_before(session, process, claimed);
            }
            Change::Released(pages) => {
                process.released = Some(ReleasedBlock { tid: note.tid, start: pages.start, time_ns });
            }
            Change::Unmapped => {}
        }
        let live: Vec<(Page, u32)> =
            process.live_pages.range(pages.clone()).map(|(&page, &number)| (page, number)).collect();
        for (page, number) in live {
            let owner = session.owner_by_blocks(process.pid, page);
            let before = process.pages[number].owner;
            if let Change::Claimed(claimed) = &change {
                let known = &mut process.pages[number];
                let fresh = was_touched_for(session, process.pid, known, claimed);
                if fresh && claimed.filled && !known.moved {
                    // What is copied is read elsewhere.
                    let reads = if claimed.grown { 0 } else { FILLED };
                    known.filled.set((claimed.tid, [reads, FILLED]));
                }
                known.owner = if fresh { owner } else { known.owner.and(owner) };
                if fresh && known.owner == owner && owner != Owner::Several {
                    continue;
                }
            }
            let absolute = process.inherited_pages.max(1) + number;
            if let (Some(gone), Owner::One(object)) = (&gone, owner)
                && process
                    .page_owners
                    .get_mut(&absolute)
                    .is_some_and(|page_owners| page_owners.is_back(object, gone.time_ns))
            {
                continue;
            }
            if !session.records_every_object() {
                page_owners_change(session, process, number, before, owner, time_ns);
            }
        }
    }
}

/// What the allocator has filled of fresh memory before it gave the block, it has touched for that. These pages begin a
/// generation with the block.
fn touched_before(session: &mut Session, process: &mut Process, claimed: &Claimed) {
    if !claimed.filled {
        return;
    }
    for &number in process.resting_pages.range(claimed.pages.clone()).map(|(_, number)| number) {
        was_touched_for(session, process.pid, &mut process.pages[number], claimed);
    }
}

/// What the allocator itself has touched of fresh memory on the way, it touched for the object. Returns whether a page
/// is such.
fn was_touched_for(session: &mut Session, pid: i32, known: &mut KnownPage, claimed: &Claimed) -> bool {
    let fresh = known.begin_ns >= claimed.since_ns;
    if fresh && let Some(touch) = known.touch {
        known.touch = session.touched_for(pid, known.page, touch, claimed);
    }
    fresh
}

/// The block that was released last.
pub struct ReleasedBlock {
    tid: u32,
    start: Page,
    time_ns: u64,
}

impl ReleasedBlock {
    /// Whether the thread released it to have it grow, and has it again where it was.
    fn is_back(&self, tid: u32, claimed: &Claimed) -> bool {
        /// What the library does between saying so and the call.
        const SOON_NS: u64 = 10_000;
        claimed.grown
            && self.tid == tid
            && self.start == claimed.pages.start
            && claimed.since_ns <= self.time_ns + SOON_NS
    }
}

/// The blocks on a page are others now. `before`: whose it was until then, as far as it was one's; `now`: by its
/// blocks.
fn page_owners_change(session: &Session, process: &mut Process, number: u32, before: Owner, now: Owner, time_ns: u64) {
    let (page, absolute) = (process.pages[number].page, process.inherited_pages.max(1) + number);
    // Blocks do not tell all there.
    if session.has_variables(process.pid, page) {
        return;
    }
    let page_owners = process.page_owners.entry(absolute).or_insert_with(|| match before {
        Owner::One(object) if session.is_block(object) => PageOwners::of_one(object),
        _ => PageOwners::default(),
    });
    // What was carved out of another block has its part of it alone.
    let (present, whole) = match now {
        Owner::One(object) => (vec![object], true),
        _ => (session.holders_on(process.pid, page), false),
    };
    page_owners.changed(&present, whole, time_ns, process.undivided_ns);
}
