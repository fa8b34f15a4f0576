//! First touches: what places a page, and where.

use super::common;
use super::home::{class_of, class_with, expected, may_be_huge, pending_home};
use super::query;
use super::record::{new_record, open};
use super::table::{Chunk, Shadow};
use crate::state::maps::{Backing, Mapping};
use crate::state::page_id::PageId;
use crate::state::runtime::is_virtual;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS, raw};
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{PageRecord, fault, touch};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Gives a page that has none (any more) a number and a class. The record of a first touch is complete when its
/// call stack is in it and `how` is set.
pub(super) fn place(
    shadow: &Shadow,
    memory: &ProcessMemory,
    thread: &Thread,
    run: &Run,
    terrain: &Mapping,
    copies: bool,
    chunk: &mut Chunk,
) -> Option<(PageEntry, &'static PageRecord)> {
    let page = run.address >> PAGE_BITS;
    let there = if copies { None } else { query::presence(page) };
    let leader = chunk.leader;
    let whole = may_be_huge(terrain, page);
    let pinned = thread.node >= 0 || terrain.bound;
    let placed = common::placed(thread, terrain, page, there.is_some(), pinned);
    let came = Came { there: there.is_some(), leader, before: placed.is_some_and(|placed| placed.before), copies };
    let (how, fault) = came.how(terrain, run);
    let (number, record) = new_record(memory)?;
    let class = match (placed, how, there.flatten()) {
        (Some(placed), ..) if is_virtual() => class_with(memory, placed.class_word),
        (_, touch::ZERO, _) => class_of(memory, None, pinned),
        (_, touch::HUGE, _) if is_virtual() => memory.page(leader).class.load(Relaxed),
        (_, touch::HUGE | touch::UNSEEN, Some(home)) if !is_virtual() => class_of(memory, Some(home), pinned),
        (_, touch::FIRST, Some(home)) if run.done && !is_virtual() => class_of(memory, Some(home), pinned),
        _ => class_of(memory, expected(page, thread, terrain), pinned),
    };
    let waits = waits_for(how, fault, terrain, run);
    let is_pending = how == touch::FIRST && !is_virtual() && !run.done;
    let counted = if is_pending { pending_home(memory) } else { class };
    if how == touch::FIRST && whole {
        chunk.led_by(page, number);
    }
    record.page.store(page, Relaxed);
    record.begin_ns.store(sys::now_ns(), Relaxed);
    record.site.store(run.site.0, Relaxed);
    record.thread.store(thread.extent.0, Relaxed);
    record.class.store(class, Relaxed);
    record.first_class.store(counted, Relaxed);
    let offset = ((run.address % sys::PAGE) as u32) << fault::OFFSET_SHIFT;
    record.fault.store(fault | if whole { fault::MAY_BE_HUGE } else { 0 } | offset, Relaxed);
    record.origin.store(if how == touch::HUGE { leader.0 } else { 0 }, Relaxed);
    record.open.store(waits, Relaxed);
    if how != touch::FIRST {
        record.how.store(how, Release);
    }
    shadow.store(page, number.entry(if waits == open::SETTLED { class } else { 0 }));
    Some((number.entry(counted), record))
}

/// How a page has come about that has no number.
struct Came {
    /// It is there.
    there: bool,
    /// The page whose first touch may have placed all of its chunk; 0: none.
    leader: PageId,
    /// Another process has placed it.
    before: bool,
    /// The access replaces it by a copy.
    copies: bool,
}

impl Came {
    /// How it has come about, and what kind of access placed it.
    fn how(&self, terrain: &Mapping, run: &Run) -> (u32, u32) {
        let writes = run.kind != Kind::Read;
        let private = terrain.backing != Backing::Shared;
        match (self.there, run.address >> PAGE_BITS) {
            _ if self.before && is_virtual() => (touch::UNSEEN, fault::ANOTHERS),
            (true, _) if self.leader.is_some() && terrain.backing == Backing::Anonymous => (touch::HUGE, fault::NONE),
            // A private copy of a file's page, unless the kernel itself has made one.
            (true, page) if writes && terrain.backing == Backing::PrivateFile && query::is_files(page) => {
                (touch::FIRST, fault::COPY_ON_WRITE)
            }
            // Repeated string instructions come here when they are done.
            (true, _) if run.done && writes => (touch::FIRST, fault::ANONYMOUS),
            (true, _) => (touch::UNSEEN, fault::NONE),
            _ if self.copies || writes && terrain.backing == Backing::PrivateFile => {
                (touch::FIRST, fault::COPY_ON_WRITE)
            }
            _ if writes && private => (touch::FIRST, fault::ANONYMOUS),
            _ if terrain.backing == Backing::Anonymous => (touch::ZERO, fault::NONE),
            _ if self.before => (touch::FIRST, fault::FILE | fault::ANOTHERS),
            _ => (touch::FIRST, fault::FILE),
        }
    }
}

/// What is still to be found out about a page that has come about so.
fn waits_for(how: u32, fault: u32, terrain: &Mapping, run: &Run) -> u32 {
    let writes = run.kind != Kind::Read;
    match how {
        touch::ZERO => open::ZERO,
        _ if fault & fault::KIND == fault::FILE || how == touch::UNSEEN && !writes => {
            if terrain.backing == Backing::PrivateFile && terrain.protection & raw::PROT_WRITE != 0 {
                open::SHARED
            } else if how == touch::FIRST && !is_virtual() {
                open::PLACED
            } else {
                open::SETTLED
            }
        }
        touch::FIRST if !is_virtual() && !run.done => open::PLACED,
        _ => open::SETTLED,
    }
}
