//! Pages that the kernel makes inside of a system call: they belong to the thread that makes it.
//!
//! What `read` fills, what MAP_POPULATE or `mlock` brings in, is placed as a store of that thread would place it, but
//! no access is seen. So it is looked before the call which pages of that memory are not known, and behind it which of
//! them have come:
//!
//! ```text
//!   before     all known          nothing to do: a look at the table of pages
//!              some are not       those that are there already become known, as by an access;
//!                                 the call is noted as under way
//!   meanwhile  another thread accesses one of them that has come, or the process ends: it is the caller's
//!   behind     those that have come are the caller's: first touches, with the call's instruction and call stack
//!              read before, from the zero page or a file's, and written by the call now: a copy is the caller's
//! ```
//! Calls block, so nobody holds a lock meanwhile. Behind the call generated code looks whether there is news
//! ([`fixed::NEWS`]), and comes to the agent; a signal's handler does before it begins.

use super::access_handler::AccessHandler;
use super::gone::look_again;
use super::home::{class_of, class_with, expected, may_be_huge};
use super::reconcile::reconcile;
use super::record::{new_record, open};
use super::table::{CHUNK, END, Shadow};
use super::touch::touch;
use super::{common, query, stack};
use crate::counting::lines;
use crate::counting::words;
use crate::machine;
use crate::state::maps::Maps;
use crate::state::maps::{Backing, Mapping};
use crate::state::page_id::PageId;
use crate::state::runtime::{Runtime, is_virtual, runtime};
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::state::thread_context::ThreadContext;
use crate::sys::lock::Lock;
use crate::sys::{self, PAGE_BITS, raw};
use crate::syscalls::written::{Amount, Written};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use numalens_event::exact::{PageRecord, fault, touch};
use numalens_isa::Kind;
use numalens_translator::count::Run;
use numalens_translator::{PageEntry, SiteId, context as fixed};

/// Calls under way, of all threads.
static UNDER_WAY: Lock<Vec<UnderWay>> = Lock::new(Vec::new());
/// How many they are.
static MANY: AtomicU32 = AtomicU32::new(0);
/// What [`fixed::NEWS`] leads to while the thread is in such a call.
static IS_NEWS: AtomicU64 = AtomicU64::new(1);

struct UnderWay {
    context: ThreadContext,
    call: Call,
    written: Written,
}

/// A system call that places pages.
#[derive(Clone, Copy)]
struct Call {
    /// One of [`numalens_event::exact::by`].
    by: u32,
    /// Where its call stack stands, as page records refer to it; 0: nowhere.
    stack: u32,
    /// As by writes; else only mapped.
    writes: bool,
}

impl Call {
    /// Completes the record of a page that is the thread's by this call, of which it is said already which and where it
    /// is.
    fn fill(&self, thread: &Thread, record: &PageRecord) {
        record.begin_ns.store(sys::now_ns(), Relaxed);
        record.site.store(self.by, Relaxed);
        record.thread.store(thread.extent.0, Relaxed);
        record.stack.store(self.stack, Relaxed);
        record.first_class.store(record.class.load(Relaxed), Relaxed);
        record.how.store(touch::CALL, Release);
    }
}

/// A page that has come, or was written.
struct Come {
    page: u64,
    /// Its node, where the kernel has said so.
    home: Option<u16>,
}

/// The thread is about to make a call at `ip` that has the kernel write its memory.
pub fn begin(thread: &mut Thread, ip: u64, written: Written) {
    let runtime = runtime();
    end(thread, None);
    if !written.ranges.all().iter().any(|range| has_unknown(&runtime.shadow, range)) {
        return;
    }
    let memory = runtime.process();
    look_before(thread, &written);
    let call = call(memory, thread, ip, &written);
    let mut calls = UNDER_WAY.lock();
    calls.push(UnderWay { context: thread.context, call, written });
    MANY.store(calls.len() as u32, Release);
    drop(calls);
    thread.calls.news_before = Some(thread.context.get(fixed::NEWS));
    thread.context.set(fixed::NEWS, IS_NEWS.as_ptr() as u64);
}

/// The thread is behind its call, if it has made such a one; `result` is the kernel's word, none for a call that is to
/// be made again.
pub fn end(thread: &mut Thread, result: Option<u64>) {
    let Some(news) = thread.calls.news_before.take() else { return };
    thread.context.set(fixed::NEWS, news);
    let found = {
        let calls = UNDER_WAY.lock();
        calls
            .iter()
            .find(|under_way| under_way.context == thread.context)
            .map(|found| (found.call, found.written.clone()))
    };
    if let Some((call, written)) = found {
        settle(thread, call, &written, result);
    }
    forget(thread.context);
}

/// The thread of a context has no call under way, or is gone.
pub fn forget(context: ThreadContext) {
    let mut calls = UNDER_WAY.lock();
    calls.retain(|under_way| under_way.context != context);
    MANY.store(calls.len() as u32, Release);
}

/// Makes a call in the agent that brings pages in; `make` makes it, under whatever locks, and says what it has brought
/// in.
pub fn around(
    thread: &mut Thread,
    ip: u64,
    before: Option<Written>,
    make: impl FnOnce(&mut Thread) -> (u64, Option<Written>),
) -> u64 {
    if let Some(written) = &before {
        look_before(thread, written);
    }
    let (result, brought) = make(thread);
    if let Some(written) = brought.or(before)
        && sys::check(result).is_ok()
    {
        let call = call(runtime().process(), thread, ip, &written);
        settle(thread, call, &written, Some(result));
    }
    result
}

/// A page that is not known is about to be accessed: it may have come by a call under way.
pub(super) fn look(runtime: &Runtime, page: u64) {
    if MANY.load(Relaxed) != 0 {
        let range = page << PAGE_BITS..(page + 1) << PAGE_BITS;
        let code = runtime.code.lock();
        under_way(&runtime.shadow, runtime.process(), &code.env.maps, range);
    }
}

/// Nobody else may note calls until [`release`]: around a fork.
pub fn hold() {
    UNDER_WAY.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child, where no other thread makes a call.
pub unsafe fn release(is_child: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_child {
            UNDER_WAY.held().clear();
            MANY.store(0, Relaxed);
        }
        UNDER_WAY.force_free();
    }
}

fn call(memory: &ProcessMemory, thread: &Thread, ip: u64, written: &Written) -> Call {
    let stack = stack::note_call(memory, thread, ip).unwrap_or(0);
    Call { by: written.by, stack, writes: written.amount != Amount::Populated { writes: false } }
}

/// Finds out which pages are there already that the call may write.
fn look_before(thread: &Thread, written: &Written) {
    let runtime = runtime();
    let (shadow, memory) = (&runtime.shadow, runtime.process());
    let is_large = |range: &Range<u64>| range.end - range.start > AT_ONCE << PAGE_BITS;
    for range in written.ranges.all() {
        if thread.calls.absent.get().is_some_and(|absent| absent.0 <= range.start && range.end <= absent.1) {
            continue;
        }
        if range.end - range.start <= MOST_ABSENT {
            thread.calls.absent.set(Some((range.start, range.end)));
        }
        if is_large(range) {
            let code = runtime.code.lock();
            reconcile(shadow, memory, thread, &code.env.maps, range.clone());
            continue;
        }
        let new: Vec<u64> = pages(range).filter(|&page| shadow.load(page).slot == 0).collect();
        let handler = &mut AccessHandler::new(thread, true);
        for (page, _) in new.iter().zip(query::presences(&new)).filter(|(_, there)| there.is_some()) {
            let address = page << PAGE_BITS;
            let run = Run { site: SiteId(0), kind: Kind::Read, address, size: 0, count: 1, done: false };
            touch(shadow, memory, handler, &run);
        }
    }
}

/// Bytes of a range of which it is remembered that it has been looked through.
const MOST_ABSENT: u64 = 4 << 30;
/// Pages that are asked about one by one; more are looked for in the kernel's table.
const AT_ONCE: u64 = 1024;

fn pages(range: &Range<u64>) -> Range<u64> {
    range.start >> PAGE_BITS..range.end.div_ceil(sys::PAGE).min(END)
}

/// Logs the pages that have come by a call.
fn settle(thread: &Thread, call: Call, written: &Written, result: Option<u64>) {
    const EAGAIN: i32 = linux_raw_sys::errno::EAGAIN as i32;
    let result = result.map(sys::check);
    if matches!(result, Some(Err(sys::Errno(EAGAIN)))) {
        return;
    }
    let done = matches!(result, Some(Ok(_)));
    let mut left = match (written.amount, result) {
        (Amount::Result, Some(Ok(bytes))) => bytes,
        _ => u64::MAX,
    };
    let runtime = runtime();
    for range in written.ranges.all() {
        let range = range.start..range.end.min(range.start.saturating_add(left));
        left -= range.end - range.start;
        if range.is_empty() {
            continue;
        }
        // What a call says that it has written, or brought in for writing, it has copied.
        let copies = done && call.writes && written.amount != Amount::Unknown;
        placed_in_call(&runtime.shadow, runtime, thread, call, range, copies);
    }
}

/// Whether pages of a range are not known, or have not been written.
fn has_unknown(shadow: &Shadow, range: &Range<u64>) -> bool {
    pages(range).any(|page| shadow.load(page).class <= PageEntry::READ_ONLY)
}

/// The pages of a range that have come by a call of the thread.
fn placed_in_call(shadow: &Shadow, runtime: &Runtime, thread: &Thread, call: Call, range: Range<u64>, copies: bool) {
    const PIECE: u64 = CHUNK << 6;
    let memory = runtime.process();
    let mut mappings: Vec<Mapping> = runtime.code.lock().env.maps.overlapping(range.clone()).to_vec();
    if mappings.is_empty() {
        // What no mapping is known of can only be the stack, which the kernel extends.
        let all = pages(&range);
        let protection = raw::PROT_READ | raw::PROT_WRITE;
        mappings.push(Mapping::anonymous(all.start << PAGE_BITS, all.end << PAGE_BITS, protection));
    }
    let mut seen = Seen { first: range.start, chunk: None };
    for terrain in mappings {
        let part = pages(&(range.start.max(terrain.start)..range.end.min(terrain.end)));
        for from in part.clone().step_by(PIECE as usize) {
            for come in come(shadow, memory, &terrain, from..part.end.min(from + PIECE), copies) {
                place_in_call(shadow, memory, thread, call, &terrain, &come, &mut seen);
            }
        }
    }
}

/// Those of some pages of a mapping that are there and not known, or known from reads and written now.
fn come(shadow: &Shadow, memory: &ProcessMemory, terrain: &Mapping, pages: Range<u64>, copies: bool) -> Vec<Come> {
    let can_copy = copies && terrain.protection & raw::PROT_WRITE != 0 && terrain.backing != Backing::Shared;
    let wanted = |page: u64| match shadow.load(page) {
        entry if entry.class > PageEntry::READ_ONLY => false,
        entry if entry.slot == 0 => true,
        entry => match memory.page(PageId::of(entry)).state() {
            open::ZERO => true,
            open::SHARED => can_copy,
            _ => false,
        },
    };
    let all = pages.end - pages.start > AT_ONCE;
    let mut some: Vec<u64> = Vec::new();
    match all.then(query::Scan::open).flatten() {
        Some(scan) => scan.each(pages.start << PAGE_BITS..pages.end << PAGE_BITS, |page, _| some.push(page)),
        None => some.extend(pages),
    }
    some.retain(|&page| wanted(page));
    let homes = query::presences(&some);
    some.into_iter().zip(homes).filter_map(|(page, home)| Some(Come { page, home: home? })).collect()
}

/// A page is the thread's, by its call.
fn place_in_call(
    shadow: &Shadow,
    memory: &ProcessMemory,
    thread: &Thread,
    call: Call,
    terrain: &Mapping,
    come: &Come,
    seen: &mut Seen,
) {
    let page = come.page;
    let terrain = machine::in_force(*terrain, page);
    let pinned = thread.node >= 0 || terrain.bound;
    let mut used = shadow.used.lock();
    let known = shadow.load(page);
    // It has replaced one that was read before.
    let copied = known.slot != 0 && matches!(memory.page(PageId::of(known)).state(), open::ZERO | open::SHARED);
    // Another thread has come first meanwhile.
    if known.class > PageEntry::READ_ONLY || known.slot != 0 && !copied {
        return;
    }
    let placed = common::placed(thread, &terrain, page, true, pinned);
    let is_anothers = placed.is_some_and(|placed| placed.before);
    let kind = match terrain.backing {
        _ if copied => fault::COPY_ON_WRITE,
        Backing::PrivateFile if call.writes && !query::is_files(page) => fault::COPY_ON_WRITE,
        Backing::Shared if is_anothers => fault::FILE | fault::ANOTHERS,
        Backing::Shared | Backing::PrivateFile => fault::FILE,
        Backing::Anonymous => fault::ANONYMOUS,
    };
    let class = match placed {
        Some(placed) if is_virtual() => class_with(memory, placed.class_word),
        _ if is_virtual() => class_of(memory, expected(page, thread, &terrain), pinned),
        _ => class_of(memory, come.home, pinned),
    };
    let chunk = used.entry(page / CHUNK).or_default();
    let is_huge = known.slot == 0 && seen.is_huge(&terrain, page);
    if is_huge && chunk.leader.is_some() && chunk.used > 0 {
        // Part of one that is known.
        memory.page(chunk.leader).fault.fetch_or(fault::IS_HUGE, Relaxed);
        return;
    }
    let Some((number, record)) = new_record(memory) else { return };
    if is_huge {
        (chunk.leader, chunk.is_unsure) = (number, false);
    }
    chunk.used += u32::from(known.slot == 0);
    if copied && memory.page(PageId::of(known)).begins_generation() {
        chunk.marked = chunk.marked.saturating_sub(1);
    }
    let huge = if is_huge { fault::MAY_BE_HUGE | fault::IS_HUGE } else { 0 };
    let offset = if page == seen.first >> PAGE_BITS { (seen.first % sys::PAGE) as u32 } else { 0 };
    let waits =
        kind == fault::FILE && terrain.backing == Backing::PrivateFile && terrain.protection & raw::PROT_WRITE != 0;
    record.page.store(page, Relaxed);
    record.fault.store(kind | huge | offset << fault::OFFSET_SHIFT, Relaxed);
    record.class.store(class, Relaxed);
    record.set_state(if waits { open::SHARED } else { open::SETTLED });
    call.fill(thread, record);
    shadow.store(page, number.entry(if waits { 0 } else { class }));
    drop(used);
    if known.slot != 0 {
        words::renumbered(runtime(), page << PAGE_BITS, PageId::of(known));
        lines::renumbered(memory, PageId::of(known), number);
        look_again(page << PAGE_BITS..(page + 1) << PAGE_BITS);
    }
}

/// Pages of a range that are there, not known, and have come by calls that are still under way: they are the
/// callers'. With the map locked.
pub(super) fn under_way(shadow: &Shadow, memory: &ProcessMemory, mappings: &Maps, range: Range<u64>) {
    if MANY.load(Relaxed) == 0 {
        return;
    }
    let calls = UNDER_WAY.lock();
    for under_way in calls.iter() {
        // SAFETY: the thread is in the kernel, or on its way to wait for this lock, and changes nothing of itself
        // before it has taken its call out of the list.
        let thread = unsafe { Thread::of(under_way.context) };
        for written in under_way.written.ranges.all() {
            let both = written.start.max(range.start)..written.end.min(range.end);
            if both.start >= both.end {
                continue;
            }
            for terrain in mappings.overlapping(both.clone()) {
                let part = both.start.max(terrain.start)..both.end.min(terrain.end);
                let mut seen = Seen { first: written.start, chunk: None };
                for come in come(shadow, memory, terrain, pages(&part), false) {
                    place_in_call(shadow, memory, thread, under_way.call, terrain, &come, &mut seen);
                }
            }
        }
    }
}

/// What has been seen of a range on the way through it.
struct Seen {
    /// Where it begins.
    first: u64,
    /// The chunk that was asked about last, and whether it is one huge page.
    chunk: Option<(u64, bool)>,
}

impl Seen {
    /// Whether a page that is there is part of a huge one.
    fn is_huge(&mut self, terrain: &Mapping, page: u64) -> bool {
        if let Some((_, is_huge)) = self.chunk.filter(|(chunk, _)| *chunk == page / CHUNK) {
            return is_huge;
        }
        let is_huge = may_be_huge(terrain, page) && query::is_huge(page);
        self.chunk = Some((page / CHUNK, is_huge));
        is_huge
    }
}
