//! First touches: giving pages their numbers and classes, and taking them back when pages go.
//!
//! The shadow table has an entry for each page of the address space. An entry without a class makes every access to its
//! page come here, *before* it is executed, so the kernel can still be asked what is there:
//!
//! ```text
//!   nothing is there   a write, or shared memory    this access places the page: its first touch
//!                      a read of private memory     the shared zero page: no home until somebody writes
//!   a page is there    in a huge page of ours       part of that one
//!                      else                         the kernel placed it, unseen
//! ```
//! On a virtual machine the policy says where a new page goes, and its class is settled. On a real one that can only be
//! asked afterwards: the first access is counted as *pending*, the entry stays *open*, and the next access asks. See
//! `resolve.rs`.
//!
//! Pages that a write would replace by a copy (the zero page, a file's pages mapped privately, a parent's after a fork)
//! stay open too, so that the write is seen. Reads of them come here every time, and patience has an end: see
//! [`PATIENCE`], and for the zero page `zeros.rs`.

mod access_handler;
mod before_string_write;
mod common;
mod fetched;
mod generation;
mod home;
mod huge_pages;
pub mod in_call;
mod inherit;
mod migrate;
mod place;
mod query;
mod reconcile;
mod resolve;
mod stack;
mod walk;
mod zeros;

use crate::allocator;
use crate::blocks;
use crate::call;
use crate::lines;
use crate::lock::Lock;
use crate::machine;
use crate::maps::{Backing, Mapping};
use crate::runtime::{give_up, is_virtual, runtime};
use crate::session_file::ProcessMemory;
use crate::sys::{self, raw};
use crate::thread::Thread;
use crate::words;
pub use access_handler::AccessHandler;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
pub use generation::may_begin_generation;
use hashbrown::HashMap;
pub use home::{class_in, expected};
use home::{class_of, class_with, may_be_huge, pending_home};
pub use inherit::Inherited;
use numalens_event::exact::{self, PageRecord, fault, log, touch};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;
pub use query::Exclusive;
pub use reconcile::reconcile_all;
use rustc_hash::FxBuildHasher;
pub use stack::copy as copy_stack;

const PAGE_BITS: u32 = 12;
/// Page numbers of the address space.
const END: u64 = sys::USER_END >> PAGE_BITS;
/// Pages whose entries share a page of the table, and that a huge page holds.
const CHUNK: u64 = 512;
/// The table is made writable in pieces of this size: the entries of 1 GiB.
const PIECE: u64 = 2 << 20;
/// Bytes of the shadow table.
pub const SHADOW_BYTES: u64 = END * size_of::<PageEntry>() as u64;
/// Reads of a page that waits for its first write, before it is taken for one that is only read. The write that comes
/// later is then no first touch; where it moves the page to another node, the collector finds that out.
const PATIENCE: u32 = 64;

/// What is still to be found out about a page ([`PageRecord::open`]).
mod open {
    /// Nothing.
    pub const SETTLED: u32 = 0;
    /// Where it is, after its first touch.
    pub const PLACED: u32 = 1;
    /// Whether it is still there (MADV_FREE).
    pub const IN_DOUBT: u32 = 2;
    /// Where it is, after somebody may have moved it on purpose.
    pub const MOVED: u32 = 5;
    /// The zero page: until it is written.
    pub const ZERO: u32 = 3;
    /// Somebody else's page: until it is written.
    pub const SHARED: u32 = 4;
}

/// The shadow table.
pub struct Shadow {
    /// Changes in [`Shadow::move_away`] only.
    base: AtomicU64,
    /// One bit for each piece of [`PIECE`] bytes that can be written.
    writable: [AtomicU64; (SHADOW_BYTES / PIECE / 64) as usize],
    /// Chunks that hold entries: so that unmapping a vast range does not look at all of it.
    used: Lock<Chunks>,
}

/// By their numbers.
type Chunks = HashMap<u64, Chunk, FxBuildHasher>;

#[derive(Default)]
struct Chunk {
    /// Entries.
    used: u32,
    /// The page whose first touch may have placed all of the chunk as one huge page (`huge_pages.rs`); 0: none.
    leader: u32,
    /// Pages of the chunk may have gone since: whether any is left is to be asked.
    is_unsure: bool,
    /// Of the entries, at least so many are marked (`generation.rs`).
    marked: u32,
}

impl Chunk {
    /// A page has another number now.
    fn follows(&mut self, old: u32, new: u32) {
        if self.leader == old {
            self.leader = new;
        }
    }
}

impl Shadow {
    /// The table at `base`.
    pub const fn new(base: u64) -> Self {
        Shadow {
            base: AtomicU64::new(base),
            writable: [const { AtomicU64::new(0) }; (SHADOW_BYTES / PIECE / 64) as usize],
            used: Lock::new(HashMap::with_hasher(FxBuildHasher)),
        }
    }

    fn word(&self, page: u64) -> &AtomicU64 {
        debug_assert!(page < END);
        // SAFETY: within the table, which is never unmapped; 8 bytes, aligned.
        unsafe { &*((self.base() + page * 8) as *const AtomicU64) }
    }

    fn load(&self, page: u64) -> PageEntry {
        runtime().config.page_of(self.word(page).load(Relaxed))
    }

    /// Calls `found` with the address and the number of each page of a range that has one.
    pub fn numbered(&self, range: Range<u64>, mut found: impl FnMut(u64, u32)) {
        self.each(range, |_, page, entry| {
            found(page << PAGE_BITS, entry.slot / 2);
            false
        });
    }

    /// Sets the entry of a page; with the table locked.
    fn store(&self, page: u64, entry: PageEntry) {
        self.open(page);
        self.word(page).store(runtime().config.word_of(entry), Release);
    }

    /// Lets the entry of a page be written.
    fn open(&self, page: u64) {
        let piece = page * 8 / PIECE;
        let (word, bit) = (&self.writable[(piece / 64) as usize], 1 << (piece % 64));
        if word.load(Relaxed) & bit == 0 {
            let protection = raw::PROT_READ | raw::PROT_WRITE;
            // SAFETY: a piece of our own table.
            let opened = unsafe { call!(__NR_mprotect, self.base() + piece * PIECE, PIECE, protection) };
            if let Err(error) = opened {
                give_up(format_args!("there is no memory for the table of pages ({error:?})"));
            }
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Nobody else may change the table until [`Shadow::release`]: around a fork.
    pub fn hold(&self) {
        self.used.hold();
        stack::hold();
        blocks::hold();
        allocator::hold();
    }

    /// Ends [`Shadow::hold`].
    ///
    /// # Safety
    /// By the thread that held it, or in its forked child.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            allocator::release();
            blocks::release();
            stack::release();
            self.used.force_free();
        }
    }

    /// The entry of a page that the thread is about to access, new or known.
    fn touch(&self, memory: &ProcessMemory, handler: &mut AccessHandler<'_>, run: &Run) -> Option<PageEntry> {
        let page = run.address >> PAGE_BITS;
        let writes = run.kind != Kind::Read;
        let is_known = |entry: PageEntry| entry.class > if writes { PageEntry::READ_ONLY } else { 0 };
        let known = self.load(page);
        if is_known(known) {
            // Another member of a group of which one was logged.
            if handler.logged == page {
                handler.log_access(memory, run, known);
            }
            return Some(known);
        }
        if known.slot != 0 && !writes && still_waits(memory, known) {
            return Some(counted_as(memory, known));
        }
        // What is taken back was counted in a page that is known.
        let takes_back = (run.count as i64) < 0;
        self.catch_up(runtime());
        let terrain = runtime().code.lock().env.maps.find(run.address).copied();
        let needed = if writes { raw::PROT_WRITE } else { raw::PROT_READ };
        if terrain.is_some_and(|mapping| mapping.protection & needed == 0) {
            // It will fault, and then be no access.
            return None;
        }
        // What no mapping is known of can only be the stack, which the kernel extends.
        let terrain = terrain.unwrap_or(Mapping::anonymous(page << PAGE_BITS, (page + 1) << PAGE_BITS, needed));
        let terrain = machine::in_force(terrain, page);
        // A page that nobody has written may have come by a call of another thread.
        if known.slot == 0 || memory.page(known.slot / 2).state() == open::ZERO {
            in_call::look(runtime(), page);
        }
        let mut used = self.used.lock();
        let mut known = self.load(page);
        if known.slot != 0 && !takes_back && memory.page(known.slot / 2).begins_generation() {
            known = self.next_generation(memory, &mut used, handler.thread, page, known, &terrain)?;
        }
        if is_known(known) {
            return Some(known);
        }
        let mut copies = false;
        if known.slot == 0 && takes_back {
            return None;
        }
        if known.slot != 0 {
            if takes_back && resolve::is_open(memory, memory.page(known.slot / 2)) {
                return Some(PageEntry { class: pending_home(memory), ..known });
            }
            if takes_back && memory.page(known.slot / 2).begins_generation() {
                return Some(counted_as(memory, known));
            }
            if memory.page(known.slot / 2).state() == open::SETTLED && handler.is_watched(memory, run, known) {
                return Some(counted_as(memory, known));
            }
            match self.query_again(memory, handler.thread, run, known) {
                Again::Known(entry) => return Some(entry),
                Again::Migrated(entry) => {
                    drop(used);
                    let range = page << PAGE_BITS..(page + 1) << PAGE_BITS;
                    self.renumbered(range, &[(page, known.slot / 2, entry.slot / 2)]);
                    return Some(entry);
                }
                Again::Copied => copies = true,
                Again::Gone => {}
            }
        }
        let chunk = used.entry(page / CHUNK).or_default();
        chunk.used += u32::from(known.slot == 0);
        let (entry, record) = self.place(memory, handler.thread, run, &terrain, copies, chunk)?;
        let leads = chunk.leader == entry.slot / 2 && chunk.used > 1;
        drop(used);
        if leads {
            // In place of a huge zero page.
            self.written_by_kernel(huge_pages::addresses(page / CHUNK).start, CHUNK << PAGE_BITS);
        }
        if known.slot != 0 {
            words::renumbered(runtime(), page << PAGE_BITS, known.slot / 2);
            // Read before, in place of it: whoever reads lines by their addresses has read the same ones.
            if matches!(memory.page(known.slot / 2).state(), open::ZERO | open::SHARED) {
                lines::renumbered(memory, known.slot / 2, entry.slot / 2);
            }
        }
        if record.how.load(Relaxed) == touch::NONE {
            let stack = if handler.stopped { None } else { stack::note(memory, handler.thread, run.site) };
            record.stack.store(stack.unwrap_or(0), Relaxed);
            record.how.store(touch::FIRST, Release);
        }
        Some(entry)
    }

    /// Looks again at a page that was known and is open.
    fn query_again(&self, memory: &ProcessMemory, thread: &Thread, run: &Run, known: PageEntry) -> Again {
        let (page, writes) = (run.address >> PAGE_BITS, run.kind != Kind::Read);
        let record = memory.page(known.slot / 2);
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
                return Again::Known(self.settle(record, page, known, record.class.load(Relaxed)));
            }
        }
        match waits {
            open::ZERO if !writes && query::presence(page).is_none() => {
                self.not_written(memory, record, page, known);
                return Again::Known(counted_as(memory, known));
            }
            // Another one's write may have placed it, with all around it.
            open::ZERO => return if writes && query::presence(page).is_none() { Again::Copied } else { Again::Gone },
            open::SHARED if writes => return Again::Copied,
            open::SHARED if record.waited.load(Relaxed) < PATIENCE => return Again::Known(counted_as(memory, known)),
            open::SHARED => return Again::Known(self.settle(record, page, known, record.class.load(Relaxed))),
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
            return Again::Known(self.settle(record, page, known, class));
        }
        let word = memory.header().classes[class as usize].load(Relaxed);
        let (was, pinned) = exact::class_meaning(word).unwrap_or((None, false));
        // What was moved on purpose lies where somebody wanted it.
        let now = class_of(memory, home, pinned || waits == open::MOVED && home != was);
        if now != class {
            record.set_state(open::SETTLED);
            return Again::Migrated(self.count_in(memory, page, PageEntry { class, ..known }, now));
        }
        Again::Known(self.settle(record, page, known, now))
    }

    fn settle(&self, record: &PageRecord, page: u64, known: PageEntry, class: u32) -> PageEntry {
        record.class.store(class, Relaxed);
        record.waited.store(0, Relaxed);
        record.set_state(open::SETTLED);
        let entry = PageEntry { class, ..known };
        self.store(page, entry);
        entry
    }

    /// Gives a page that has none (any more) a number and a class. The record of a first touch is complete when its
    /// call stack is in it and `how` is set.
    fn place(
        &self,
        memory: &ProcessMemory,
        thread: &Thread,
        run: &Run,
        terrain: &Mapping,
        copies: bool,
        chunk: &mut Chunk,
    ) -> Option<(PageEntry, &'static PageRecord)> {
        let page = run.address >> PAGE_BITS;
        let writes = run.kind != Kind::Read;
        let private = terrain.backing != Backing::Shared;
        let there = if copies { None } else { query::presence(page) };
        let leader = chunk.leader;
        let whole = may_be_huge(terrain, page);
        let pinned = thread.node >= 0 || terrain.bound;
        let placed = common::placed(thread, terrain, page, there.is_some(), pinned);
        let before = placed.is_some_and(|placed| placed.before);
        let (how, fault) = match there {
            _ if before && is_virtual() => (touch::UNSEEN, fault::ANOTHERS),
            Some(_) if leader != 0 && terrain.backing == Backing::Anonymous => (touch::HUGE, fault::NONE),
            // A private copy of a file's page, unless the kernel itself has made one.
            Some(_) if writes && terrain.backing == Backing::PrivateFile && query::is_files(page) => {
                (touch::FIRST, fault::COPY_ON_WRITE)
            }
            // Repeated string instructions come here when they are done.
            Some(_) if run.done && writes => (touch::FIRST, fault::ANONYMOUS),
            Some(_) => (touch::UNSEEN, fault::NONE),
            None if copies || writes && terrain.backing == Backing::PrivateFile => (touch::FIRST, fault::COPY_ON_WRITE),
            None if writes && private => (touch::FIRST, fault::ANONYMOUS),
            None if terrain.backing == Backing::Anonymous => (touch::ZERO, fault::NONE),
            None if before => (touch::FIRST, fault::FILE | fault::ANOTHERS),
            None => (touch::FIRST, fault::FILE),
        };
        let (number, record) = new_record(memory)?;
        let class = match (placed, how, there.flatten()) {
            (Some(placed), ..) if is_virtual() => class_with(memory, placed.class_word),
            (_, touch::ZERO, _) => class_of(memory, None, pinned),
            (_, touch::HUGE, _) if is_virtual() => memory.page(leader).class.load(Relaxed),
            (_, touch::HUGE | touch::UNSEEN, Some(home)) if !is_virtual() => class_of(memory, Some(home), pinned),
            (_, touch::FIRST, Some(home)) if run.done && !is_virtual() => class_of(memory, Some(home), pinned),
            _ => class_of(memory, expected(page, thread, terrain), pinned),
        };
        let waits = match how {
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
        };
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
        let offset = (run.address as u32 & 0xfff) << fault::OFFSET_SHIFT;
        record.fault.store(fault | if whole { fault::MAY_BE_HUGE } else { 0 } | offset, Relaxed);
        record.origin.store(if how == touch::HUGE { leader } else { 0 }, Relaxed);
        record.open.store(waits, Relaxed);
        if how != touch::FIRST {
            record.how.store(how, Release);
        }
        let slot = number * 2;
        self.store(page, PageEntry { class: if waits == open::SETTLED { class } else { 0 }, slot });
        Some((PageEntry { class: counted, slot }, record))
    }

    /// Forgets the pages of a range: they are unmapped, or their contents were given up.
    pub fn clear(&self, memory: &ProcessMemory, range: Range<u64>) {
        let (mut gone, mut is_led, mut may_be_huge) = (false, false, false);
        let now = sys::now_ns();
        // Of a huge page, others than those with entries go too.
        let look_at = |_, chunk: &mut Chunk| {
            is_led |= chunk.leader != 0;
            true
        };
        let mut used = self.used.lock();
        self.walk_chunks(&mut used, range.clone(), look_at, |page, entry| {
            let record = memory.page(entry.slot / 2);
            gone = true;
            may_be_huge |= record.fault.load(Relaxed) & fault::MAY_BE_HUGE != 0;
            record.end_ns.store(now, Relaxed);
            self.store(page, PageEntry::default());
            true
        });
        self.left_by(&mut used, &range, true);
        drop(used);
        if gone {
            self.forget(range.clone());
        }
        if is_led || may_be_huge {
            memory.log(log::GONE, &[range.start, range.end], &[]);
        }
    }

    /// The entries of pages in a range have changed: threads that stay there look again.
    pub fn forget(&self, range: Range<u64>) {
        let runtime = runtime();
        let sites = runtime.process().header().sites.load(Acquire);
        let threads = runtime.threads.lock();
        crate::placement::FORGOTTEN.fetch_add(1, Relaxed);
        for (_, context) in threads.iter() {
            context.forget(&runtime.layout, sites, &range);
        }
    }

    /// The pages of a range may have gone (MADV_FREE) or been `moved` to other nodes: each is asked for at its next
    /// access.
    pub fn doubt(&self, memory: &ProcessMemory, range: Range<u64>, moved: bool) {
        let mut changed = false;
        if !moved {
            self.left_by(&mut self.used.lock(), &range, false);
        }
        self.each(range.clone(), |shadow, page, entry| {
            let record = memory.page(entry.slot / 2);
            let is_marked = record.begins_generation() && record.state() == open::SETTLED;
            if entry.class > PageEntry::READ_ONLY || is_marked {
                changed = true;
                record.class.store(entry_class(record, entry), Relaxed);
                record.set_state(if moved { open::MOVED } else { open::IN_DOUBT });
                shadow.store(page, PageEntry { class: 0, ..entry });
            }
            false
        });
        if changed {
            self.forget(range);
        }
    }

    /// The pages of a range moved to `to`: the same homes, other addresses.
    pub fn moved(&self, memory: &ProcessMemory, range: Range<u64>, to: u64) {
        let first = range.start >> PAGE_BITS;
        let now = sys::now_ns();
        let mut arrived = Vec::new();
        let mut leaders = self.leaders(&range);
        self.each(range.clone(), |shadow, page, entry| {
            let old = memory.page(entry.slot / 2);
            shadow.store(page, PageEntry::default());
            let new_page = (to >> PAGE_BITS) + page - first;
            let class = entry_class(old, entry);
            if let Some((number, record)) = continuing(memory, entry.slot / 2, new_page, class, now) {
                record.open.store(old.open.load(Relaxed), Relaxed);
                record.how.store(touch::MOVED, Release);
                leaders.iter_mut().filter(|led| led.leader == entry.slot / 2).for_each(|led| led.leader = number);
                arrived.push((new_page, PageEntry { class: entry.class, slot: number * 2 }));
            }
            old.end_ns.store(now, Relaxed);
            true
        });
        self.forget(range.clone());
        self.left_by(&mut self.used.lock(), &range, true);
        let mut used = self.used.lock();
        for (page, entry) in arrived {
            if page < END {
                used.entry(page / CHUNK).or_default().used += 1;
                self.store(page, entry);
            }
        }
        drop(used);
        self.led_elsewhere(memory, leaders, to.wrapping_sub(range.start));
    }
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

/// A page's class: that of its entry, or, while it is open, of its record.
fn entry_class(record: &PageRecord, entry: PageEntry) -> u32 {
    if entry.class == 0 { record.class.load(Relaxed) } else { entry.class }
}

fn counted_as(memory: &ProcessMemory, open: PageEntry) -> PageEntry {
    PageEntry { class: memory.page(open.slot / 2).class.load(Relaxed), ..open }
}

/// Whether a page that was read again goes on waiting for its first write. The zero page is looked for now and then:
/// the kernel may have placed a page meanwhile.
fn still_waits(memory: &ProcessMemory, known: PageEntry) -> bool {
    let record = memory.page(known.slot / 2);
    match record.state() {
        _ if resolve::is_open(memory, record) || record.begins_generation() => false,
        // It had its class already, and somebody wants it looked for.
        open::ZERO if record.class.load(Relaxed) == PageEntry::READ_ONLY => false,
        open::ZERO => !(record.waited.fetch_add(1, Relaxed) + 1).is_power_of_two(),
        open::SHARED => record.waited.fetch_add(1, Relaxed) < PATIENCE,
        _ => false,
    }
}

/// A new record, of a page that continues the one `number`. Its state is still to be set, and how it came into being,
/// last.
fn continuing(
    memory: &ProcessMemory,
    number: u32,
    page: u64,
    class: u32,
    begin_ns: u64,
) -> Option<(u32, &'static PageRecord)> {
    let (new, record) = new_record(memory)?;
    record.page.store(page, Relaxed);
    record.begin_ns.store(begin_ns, Relaxed);
    record.class.store(class, Relaxed);
    record.first_class.store(class, Relaxed);
    record.origin.store(number, Relaxed);
    Some((new, record))
}

fn new_record(memory: &ProcessMemory) -> Option<(u32, &'static PageRecord)> {
    let number = memory.header().pages.fetch_add(1, AcqRel);
    if number == exact::MOST_PAGES {
        let text = b"a process has touched 512 GiB, page by page: its accesses to pages that it touched after that are not counted";
        memory.log(log::NOTE, &[], text);
    }
    (number < exact::MOST_PAGES).then(|| (number, memory.page(number)))
}
