//! Accesses to pages of which not all is known.

use super::access_handler::AccessHandler;
use super::first_touch::place;
use super::generation::next_generation;
use super::home::{class_of, pending_home};
use super::migrate::{catch_up, count_in, renumbered};
use super::record::{counted_as, open};
use super::table::{CHUNK, Shadow};
use super::zeros::{not_written, written_by_kernel};
use super::{huge_pages, in_call, query, regions, resolve, stack};
use crate::counting::{lines, words};
use crate::machine;
use crate::state::maps::Mapping;
use crate::state::page_id::PageId;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS, raw};
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, fault, log, touch};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Reads of a page that waits for its first write, before it is taken for one that is only read. The write that comes
/// later is then no first touch; where it moves the page to another node, the collector finds that out.
pub(super) const PATIENCE: u32 = 64;

/// The entry of a page that the thread is about to access, new or known.
pub(super) fn touch(
    shadow: &Shadow,
    memory: &ProcessMemory,
    handler: &mut AccessHandler<'_>,
    run: &Run,
) -> Option<PageEntry> {
    let page = run.address >> PAGE_BITS;
    let counted = shadow.load(page);
    if is_known(run, counted) {
        // Another member of a group of which one was logged.
        if handler.logged == page {
            handler.log_access(memory, run, shadow.own_entry_of(page, counted));
        }
        return Some(counted);
    }
    let known = shadow.own_entry_of(page, counted);
    if known.slot != 0 && run.kind == Kind::Read && still_waits(memory, known) {
        return Some(counted_as(memory, known));
    }
    catch_up(shadow, runtime());
    regions::join(shadow, memory);
    let terrain = terrain(run)?;
    // A page that nobody has written may have come by a call of another thread.
    if known.slot == 0 || memory.page(PageId::of(known)).state() == open::ZERO {
        in_call::look(runtime(), page);
    }
    find_out(shadow, memory, handler, run, &terrain)
}

/// Whether nothing is to be found out about a page for this access.
fn is_known(run: &Run, entry: PageEntry) -> bool {
    entry.class > if run.kind == Kind::Read { 0 } else { PageEntry::READ_ONLY }
}

/// What is accessed was counted before, and is taken back.
fn takes_back(run: &Run) -> bool {
    (run.count as i64) < 0
}

/// The mapping that a thread accesses; none: it will fault, and then be no access.
fn terrain(run: &Run) -> Option<Mapping> {
    let page = run.address >> PAGE_BITS;
    let terrain = runtime().code.lock().env.maps.find(run.address).copied();
    let needed = if run.kind == Kind::Read { raw::PROT_READ } else { raw::PROT_WRITE };
    if terrain.is_some_and(|mapping| mapping.protection & needed == 0) {
        return None;
    }
    // What no mapping is known of can only be the stack, which the kernel extends.
    let terrain = terrain.unwrap_or(Mapping::anonymous(page << PAGE_BITS, (page + 1) << PAGE_BITS, needed));
    Some(machine::in_force(terrain, page))
}

/// The entry of a page after the kernel was asked, under the lock of the table.
fn find_out(
    shadow: &Shadow,
    memory: &ProcessMemory,
    handler: &mut AccessHandler<'_>,
    run: &Run,
    terrain: &Mapping,
) -> Option<PageEntry> {
    let page = run.address >> PAGE_BITS;
    let mut used = shadow.used.lock();
    let counted = shadow.load(page);
    if is_known(run, counted) {
        return Some(counted);
    }
    let mut known = shadow.own_entry(&used, page);
    // What is taken back was counted in a page that is known.
    if known.slot != 0 && !takes_back(run) && memory.page(PageId::of(known)).begins_generation() {
        known = next_generation(shadow, memory, &mut used, handler.thread, page, known, terrain)?;
    }
    if is_known(run, known) {
        return Some(known);
    }
    if known.slot == 0 && takes_back(run) {
        return None;
    }
    let mut copies = false;
    if known.slot != 0 {
        match ask_again(shadow, memory, handler, run, known) {
            Again::Known(entry) => return Some(regions::join_alone(shadow, memory, &mut used, page, entry)),
            Again::Migrated(entry) => {
                drop(used);
                let range = page << PAGE_BITS..(page + 1) << PAGE_BITS;
                renumbered(shadow, range, &[(page, PageId::of(known), PageId::of(entry))]);
                return Some(entry);
            }
            Again::Copied => copies = true,
            Again::Gone => {}
        }
    }
    let chunk = used.entry(page / CHUNK).or_default();
    chunk.used += u32::from(known.slot == 0);
    let (entry, record) = place(shadow, memory, handler.thread, run, terrain, copies, chunk)?;
    let leads = chunk.leader == PageId::of(entry) && chunk.used > 1;
    drop(used);
    if leads {
        // In place of a huge zero page.
        written_by_kernel(shadow, huge_pages::addresses(page / CHUNK).start, CHUNK << PAGE_BITS);
    }
    if known.slot != 0 {
        words::renumbered(runtime(), page << PAGE_BITS, PageId::of(known));
        // Read before, in place of it: whoever reads lines by their addresses has read the same ones.
        if matches!(memory.page(PageId::of(known)).state(), open::ZERO | open::SHARED) {
            lines::renumbered(memory, PageId::of(known), PageId::of(entry));
        }
    }
    if record.how.load(Relaxed) == touch::NONE {
        let stack = if handler.stopped { None } else { stack::note(memory, handler.thread, run.site) };
        record.stack.store(stack.unwrap_or(0), Relaxed);
        record.how.store(touch::FIRST, Release);
    }
    Some(entry)
}

/// Looks again at a page that has a number, for an access of which that does not say all.
fn ask_again(
    shadow: &Shadow,
    memory: &ProcessMemory,
    handler: &mut AccessHandler<'_>,
    run: &Run,
    known: PageEntry,
) -> Again {
    let record = memory.page(PageId::of(known));
    if takes_back(run) && resolve::is_open(memory, record) {
        return Again::Known(PageEntry { class: pending_home(memory), ..known });
    }
    if takes_back(run) && record.begins_generation() {
        return Again::Known(counted_as(memory, known));
    }
    if record.state() == open::SETTLED && handler.is_watched(memory, run, known) {
        return Again::Known(counted_as(memory, known));
    }
    query_again(shadow, memory, handler.thread, run, known)
}

/// Looks again at a page that was known and is open.
fn query_again(shadow: &Shadow, memory: &ProcessMemory, thread: &Thread, run: &Run, known: PageEntry) -> Again {
    let (page, writes) = (run.address >> PAGE_BITS, run.kind != Kind::Read);
    let record = memory.page(PageId::of(known));
    let waits = record.state();
    if resolve::is_open(memory, record) {
        if let Some(entry) = resolve::counted_along(memory, thread, run, known) {
            return Again::Known(entry);
        }
        match query::presence(page) {
            Some(home) => resolve::resolve(memory, record, home),
            None if waits == open::PLACED || !writes => {
                if let Some(entry) = resolve::counted_early(memory, thread, run, known) {
                    return Again::Known(entry);
                }
            }
            None => {}
        }
        if waits == open::PLACED {
            return Again::Known(settle(shadow, memory, page, known, record.class.load(Relaxed)));
        }
    }
    match waits {
        open::ZERO if !writes && query::presence(page).is_none() => {
            not_written(shadow, memory, record, page, known);
            return Again::Known(counted_as(memory, known));
        }
        // Another one's write may have placed it, with all around it.
        open::ZERO => return if writes && query::presence(page).is_none() { Again::Copied } else { Again::Gone },
        open::SHARED if writes => return Again::Copied,
        open::SHARED if record.waited.load(Relaxed) < PATIENCE => return Again::Known(counted_as(memory, known)),
        open::SHARED => return Again::Known(settle(shadow, memory, page, known, record.class.load(Relaxed))),
        _ => {}
    }
    let class = record.class.load(Relaxed);
    let Some(home) = query::presence(page) else {
        if waits == open::IN_DOUBT {
            record.end_ns.store(sys::now_ns(), Relaxed);
            if record.fault.load(Relaxed) & fault::MAY_BE_HUGE != 0 {
                memory.log(log::GONE, &[page << PAGE_BITS, (page + 1) << PAGE_BITS], &[]);
            }
            return Again::Gone;
        }
        return Again::Known(counted_as(memory, known));
    };
    if is_virtual() {
        return Again::Known(settle(shadow, memory, page, known, class));
    }
    let word = memory.header().classes[class as usize].load(Relaxed);
    let (was, pinned) = exact::class_meaning(word).unwrap_or((None, false));
    // What was moved on purpose lies where somebody wanted it.
    let now = class_of(memory, home, pinned || waits == open::MOVED && home != was);
    if now != class {
        record.set_state(open::SETTLED);
        return Again::Migrated(count_in(shadow, memory, page, PageEntry { class, ..known }, now));
    }
    Again::Known(settle(shadow, memory, page, known, now))
}

/// What was to be found out about a page is known.
pub(super) fn settle(shadow: &Shadow, memory: &ProcessMemory, page: u64, known: PageEntry, class: u32) -> PageEntry {
    let number = PageId::of(known);
    let record = memory.page(number);
    record.class.store(class, Relaxed);
    record.waited.store(0, Relaxed);
    record.set_state(open::SETTLED);
    let entry = regions::counted_in(memory, number, class);
    shadow.store(page, entry);
    entry
}

/// What became of a page that was open.
enum Again {
    /// It is counted like this.
    Known(PageEntry),
    /// It was moved, and is counted like this under another number.
    Migrated(PageEntry),
    /// This access replaces it by a copy.
    Copied,
    /// It is gone: what is there now is another page.
    Gone,
}

/// Whether a page that was read again goes on waiting for its first write. The zero page is looked for now and then:
/// the kernel may have placed a page meanwhile.
fn still_waits(memory: &ProcessMemory, known: PageEntry) -> bool {
    let record = memory.page(PageId::of(known));
    match record.state() {
        _ if resolve::is_open(memory, record) || record.begins_generation() => false,
        // It had its class already, and somebody wants it looked for.
        open::ZERO if record.class.load(Relaxed) == PageEntry::READ_ONLY => false,
        open::ZERO => !(record.waited.fetch_add(1, Relaxed) + 1).is_power_of_two(),
        open::SHARED => record.waited.fetch_add(1, Relaxed) < PATIENCE,
        _ => false,
    }
}
