//! Pages that become another object's: what is accessed there next is counted under another number.
//!
//! Whose a page is the collector knows, by what the preloaded library reports of blocks, with the times. When a block
//! that has whole pages begins or is about to end, these are only marked, which the log says, and lose their classes;
//! so the next access comes here:
//!
//! ```text
//!   block       |      malloc ===================== free                  malloc =====
//!   marked      |      x                            x                     x
//!   page 7      |  number 7     | number 12                       | number 13 | number 20
//!   accesses    |  ..           ...  ...... ...                   .           .. ...
//! ```
//! What was counted under a number was counted before the mark that ended it, so it is the one's who had the page then;
//! a number that begins belongs to whoever has the page at its first access. Memory that nobody uses between its blocks
//! takes no numbers.

use super::gone::look_again;
use super::home::class_of;
use super::record::{continuing, entry_class, open};
use super::table::{CHUNK, Chunk, Chunks, Shadow};
use crate::state::maps::Mapping;
use crate::state::page_id::PageId;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use numalens_event::exact::{log, touch};
use numalens_translator::PageEntry;

/// Numbers that are left to pages that come.
const LEFT: u32 = 1 << 20;
/// Numbers that may be given so in each span of time, as the collector takes a microsecond or two for each.
const MOST_IN_SPAN: u32 = 1 << 20;
const SPAN_NS: u64 = 20_000_000_000;

/// What has been given.
struct Given {
    span_began_ns: AtomicU64,
    /// Since then.
    in_span: AtomicU32,
}

static GIVEN: Given = Given { span_began_ns: AtomicU64::new(0), in_span: AtomicU32::new(0) };

/// Whether more pages may begin a generation. Blocks that begin when they may not have what their pages' numbers tell,
/// as smaller ones.
pub fn may_begin_generation(memory: &ProcessMemory) -> bool {
    let now = sys::now_ns();
    if now.saturating_sub(GIVEN.span_began_ns.load(Relaxed)) > SPAN_NS {
        GIVEN.span_began_ns.store(now, Relaxed);
        GIVEN.in_span.store(0, Relaxed);
    }
    memory.header().pages.left() >= LEFT && GIVEN.in_span.load(Relaxed) < MOST_IN_SPAN
}

/// The pages that a range has as a whole are another object's from now on. Those of which is still to be found out
/// where they are go on as they are.
pub fn begin_generation(shadow: &Shadow, memory: &ProcessMemory, range: Range<u64>) {
    let whole = range.start.next_multiple_of(sys::PAGE)..range.end & !(sys::PAGE - 1);
    let mut used = shadow.used.lock();
    let mut marked: Vec<(u64, PageEntry)> = Vec::new();
    // Vast blocks of which little is used come and go as well.
    let is_wanted = |_, chunk: &mut Chunk| chunk.marked < chunk.used;
    shadow.walk_chunks(&mut used, whole.clone(), is_wanted, |page, entry| {
        let record = memory.page(PageId::of(entry));
        let is_known = matches!(record.state(), open::SETTLED | open::ZERO);
        if is_known && !record.begins_generation() && record.moved_to().is_none() {
            marked.push((page, entry));
        }
        false
    });
    marked.sort_unstable_by_key(|(page, _)| *page);
    for run in marked.chunk_by(|before, after| before.0 + 1 == after.0) {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { continue };
        if memory.log(log::NEXT_GENERATION, &[first << PAGE_BITS, (last + 1) << PAGE_BITS], &[]).is_none() {
            // No room: the rest goes on as it is.
            break;
        }
        for &(page, entry) in run {
            let record = memory.page(PageId::of(entry));
            record.class.store(entry_class(record, entry), Relaxed);
            record.begin_generation();
            if let Some(chunk) = used.get_mut(&(page / CHUNK)) {
                chunk.marked += 1;
            }
            shadow.store(page, PageEntry { class: 0, ..entry });
        }
    }
    drop(used);
    if !marked.is_empty() {
        look_again(whole);
    }
}

/// Counts a page that is marked under another number, as a thread is about to access it; with the table locked.
/// Returns its entry; none: there are no more numbers.
pub(super) fn next_generation(
    shadow: &Shadow,
    memory: &ProcessMemory,
    used: &mut Chunks,
    thread: &Thread,
    page: u64,
    marked: PageEntry,
    terrain: &Mapping,
) -> Option<PageEntry> {
    let (number, old) = (PageId::of(marked), memory.page(PageId::of(marked)));
    let state = old.state();
    let class = match state {
        // Looked for again from the beginning: the kernel may have written it meanwhile.
        open::ZERO => class_of(memory, None, thread.node >= 0 || terrain.bound),
        _ => old.class.load(Relaxed),
    };
    let (new, record) = continuing(memory, number, page, class, sys::now_ns())?;
    GIVEN.in_span.fetch_add(1, Relaxed);
    record.fault.store(old.fault.load(Relaxed), Relaxed);
    record.set_state(state);
    record.how.store(touch::NEXT_GENERATION, Release);
    old.go_on(record, class);
    if let Some(chunk) = used.get_mut(&(page / CHUNK)) {
        chunk.follows(number, new);
        chunk.marked = chunk.marked.saturating_sub(1);
    }
    let entry = new.entry(if state == open::SETTLED { class } else { 0 });
    shadow.store(page, entry);
    Some(entry)
}
