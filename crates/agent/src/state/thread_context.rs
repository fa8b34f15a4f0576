//! The memory of one thread: what GS points at, the lookup table, the agent's stacks, the counters.
//!
//! ```text
//!  GS - ...        direct tables; counters of updates: shared memory as well
//!     + 0          the fixed part (numalens_translator::context), with our own fields from OWNER on}
//!     + 4 KiB      lookup table of indirect branches                                          }
//!     + ~2 MiB     the agent's stack in this thread, a gap below it                           } copy-on-write from
//!     + ~2.5 MiB   the signal stack, a gap below it                                           } the session's pattern
//!     + 3 MiB      which last pages are in use                                                }
//!     + 3.5 MiB    what is left of the addresses in the table of returns                      }
//!     + 3.75 MiB   which words of a line accesses cover                                       }
//!     + 4 MiB      table of returns                                                           }
//!     + 5 MiB      site counters       }
//!     + ...        last pages          } shared memory:
//!     + ...        execution counters  } the thread's extent in the session file
//!     + ...        page counters       }
//!     + ...        cache lines         }  (where they are counted)
//!     + ...        cache misses        }  (where there is a cache)
//!     + ...        words               }  (where every access is attributed to an object)
//! ```
//! Three mappings, as the kernel lets a process have some 65,000 in all, and programs have thousands of threads: so the
//! file has its parts in this order, and nothing is protected in between.

use super::own;
use crate::call;
use crate::state::session_file::{ProcessMemory, Session};
use crate::sys::{self, Errno, PAGE, arch, raw};
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use numalens_event::exact::{
    self, DirectHeader, Extent, Geometry, LINES_OF_PAGE, LastAccess, LastPageRecord, LineCounts, PageCounts,
    WORDS_OF_PAGE, log,
};
use numalens_isa::{Register, flags};
use numalens_translator::{CacheSets, DirectTable, Each, LINE_MASKS_BYTES, SiteId, context as fixed};

/// Bytes of the counters of updates, which lie below a thread context: above it, there is no room for them within reach
/// of a displacement.
pub const UPDATES_BYTES: u64 = exact::thread::UPDATES_BYTES;
/// Bytes of the direct tables, which lie below those.
pub const DIRECT_BYTES: u64 = exact::thread::DIRECT_BYTES;
/// What lies below a thread context.
const BELOW: u64 = UPDATES_BYTES + DIRECT_BYTES;
const _: () =
    assert!(DIRECT_BYTES == DirectTable::bytes(exact::DIRECT_PAGES) && DirectTable::MOST == exact::MOST_DIRECT);
const _: () = assert!(size_of::<DirectHeader>() == DirectTable::BYTES as usize && BELOW < 1 << 31);
const _: () = assert!(DirectTable::BEGUN == exact::direct::BEGUN && DirectTable::ASKED == exact::direct::ASKED);
const _: () = assert!(DirectTable::NOWHERE == exact::direct::NOWHERE);
const _: () = {
    assert!(
        offset_of!(DirectHeader, base) == DirectTable::BASE as usize
            && offset_of!(DirectHeader, row) == DirectTable::ROW as usize
    );
    assert!(
        offset_of!(DirectHeader, low) == DirectTable::LOW as usize
            && offset_of!(DirectHeader, high) == DirectTable::HIGH as usize
    );
    assert!(
        offset_of!(DirectHeader, reads) == DirectTable::READS as usize
            && offset_of!(DirectHeader, writes) == DirectTable::WRITES as usize
    );
};
/// log2 of the entries of the lookup table.
pub const LOOKUP_BITS: u8 = 18;
/// Where the lookup table is.
pub const LOOKUP: u64 = PAGE;
/// Bytes of it.
pub const LOOKUP_BYTES: u64 = 8 << LOOKUP_BITS;
const STACK: u64 = 0x21_0000;
const STACK_BYTES: u64 = 0x4_0000;
/// Where the signal stack is.
pub const SIGNAL_STACK: u64 = 0x26_0000;
/// Bytes of it: frames grow with the processor's registers.
pub const SIGNAL_STACK_BYTES: u64 = 0x4_0000;
/// Where it stands which words of a line accesses cover.
pub const LINE_MASKS: u64 = fixed::LINE_MASKS as u64;
const _: () = assert!(RETURN_TAGS + RETURN_TAGS_BYTES <= LINE_MASKS && LINE_MASKS + PAGE <= RETURNS);
const _: () = assert!(LINE_MASKS_BYTES as u64 <= PAGE);
/// Where the bytes are that tell which last pages were ever filled.
pub const TOUCHED: u64 = 0x30_0000;
const _: () = assert!(BELOW + SITES == exact::thread::SITES - exact::thread::DIRECT);
const TOUCHED_BYTES: u64 = exact::thread::LAST_PAGES_BYTES / PAGE;
/// Where the table of return addresses is.
pub const RETURNS: u64 = fixed::RETURNS as u64;
/// Bytes of it.
pub const RETURNS_BYTES: u64 = 8 << fixed::RETURNS_BITS;
/// And what is left of these addresses.
const RETURN_TAGS: u64 = fixed::RETURN_TAGS as u64;
const RETURN_TAGS_BYTES: u64 = 4 << fixed::RETURNS_BITS;
const _: () = assert!(TOUCHED + TOUCHED_BYTES <= RETURN_TAGS && RETURN_TAGS + RETURN_TAGS_BYTES <= RETURNS);
/// Where the site counters are.
pub const SITES: u64 = RETURNS + RETURNS_BYTES;

const _: () = assert!(SITES == exact::thread::SITES_FROM_GS && PAGES == SITES + PAGES_BEHIND_SITES);
const PAGES_BEHIND_SITES: u64 = exact::thread::PAGES - exact::thread::SITES;
/// Bytes of the counters that every thread has, from the site counters on.
const COUNTERS_BYTES: u64 = PAGES_BEHIND_SITES + exact::thread::PAGES_BYTES;
/// Where the page counters are, whatever the layout.
pub const PAGES: u64 = exact::thread::PAGES_FROM_GS;

const _: () =
    assert!(PAGES.is_multiple_of(size_of::<PageCounts>() as u64) && Each::MOST_PAGES == exact::MOST_LINE_PAGES);

/// The shape that all thread contexts of a process have.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// log2 of the classes.
    pub classes_log2: u8,
    /// Most sites.
    pub sites: u32,
    /// Where stands in the session file what thread contexts begin with, up to [`SITES`].
    pub pattern: u64,
    /// Cache lines are counted.
    pub lines: bool,
    /// Accesses are looked up in a private cache of each thread.
    pub cache: Option<Geometry>,
    /// Accesses are counted by word.
    pub words: bool,
}

impl Layout {
    /// The layout that a session asks for.
    pub fn new(header: &exact::SessionHeader, pattern: u64) -> Self {
        let classes_log2 = header.classes_log2.load(Relaxed) as u8;
        Layout {
            classes_log2,
            sites: exact::sites(classes_log2.into()),
            pattern,
            lines: header.lines.load(Relaxed) != 0,
            cache: header.cache(),
            words: header.words.load(Relaxed) != 0,
        }
    }

    /// Where the last pages are.
    pub fn last_pages(&self) -> u64 {
        SITES + exact::thread::SITES_BYTES
    }

    /// Where the execution counters are.
    pub fn executions(&self) -> u64 {
        self.last_pages() + exact::thread::LAST_PAGES_BYTES
    }

    /// Where the counts of cache lines are.
    pub fn lines(&self) -> u64 {
        PAGES + exact::thread::PAGES_BYTES
    }

    /// Where the accesses are counted that found another thread's line.
    pub fn communication(&self) -> u64 {
        self.lines() + exact::thread::LINES_BYTES
    }

    /// Where the accesses are counted that missed the cache.
    pub fn misses(&self) -> u64 {
        if self.lines { self.communication() + exact::thread::COMMUNICATION_BYTES } else { self.lines() }
    }

    /// What is kept of every access; none: they are not counted by themselves.
    pub fn each(&self) -> Option<Each> {
        let sets = |Geometry { sets, ways, line_log2 }| CacheSets { sets, ways, line_log2 };
        let each = Each { lines: self.lines, cache: self.cache.map(sets), words: self.words };
        (each != Each::default()).then_some(each)
    }

    /// Where accesses are counted by word.
    pub fn words(&self) -> u64 {
        self.misses() + if self.cache.is_some() { exact::thread::MISSES_BYTES } else { 0 }
    }

    /// Bytes of a context, without what lies below it.
    fn bytes(&self) -> u64 {
        self.words() + if self.words { exact::thread::WORDS_BYTES } else { 0 }
    }
}

/// A thread's context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct ThreadContext(pub u64);

impl ThreadContext {
    /// Reserves a thread context and fills it for the extent of a thread.
    ///
    /// # Errors
    /// The kernel's: no address space or memory.
    pub fn new(layout: &Layout, session: &Session, thread: Extent) -> Result<Self, Errno> {
        let base = sys::map_private(BELOW + layout.bytes(), raw::PROT_NONE)?;
        let context = ThreadContext(base + BELOW);
        if let Err(error) = context.fill(layout, session, thread) {
            context.unmap(layout);
            return Err(error);
        }
        Ok(context)
    }

    /// Tells generated code where it finds what is kept of every access of a thread, which is called `thread` there.
    pub fn note_each(self, layout: &Layout, turns: u64, thread: u32) {
        const PAGE_COUNTERS: u64 = size_of::<PageCounts>() as u64;
        // Where the record of a page would be whose counters are at GS.
        let table = |at: u64, record: u64| at.wrapping_sub(PAGES / PAGE_COUNTERS * record);
        if layout.lines {
            let lines = table(self.0 + layout.lines(), LINES_OF_PAGE * size_of::<LineCounts>() as u64);
            self.set(fixed::LINE_COUNTS, lines);
            self.set(fixed::LINE_TURNS, table(turns, LINES_OF_PAGE * size_of::<LastAccess>() as u64));
            self.set(fixed::LINE_THREAD, thread.into());
        }
        if layout.cache.is_some() {
            let misses = self.0 + layout.misses();
            self.set(fixed::CACHE_MISSES, misses);
            // No site's.
            (0..fixed::MOST_CACHE_LATEST / 2).for_each(|two| self.set(fixed::CACHE_LATEST + 8 * two, u64::MAX));
            self.set(fixed::CACHE_PAGE_MISSES, table(misses + exact::thread::SITES_BYTES, PAGE_COUNTERS));
        }
        if layout.words {
            self.set(fixed::WORD_COUNTS, table(self.0 + layout.words(), WORDS_OF_PAGE * 8));
        }
    }

    /// Whether the latest look into the cache of this site, if it was in place, was a miss. It is forgotten.
    pub fn take_latest_look(self, site: SiteId) -> Option<bool> {
        let mut latest = (0..fixed::MOST_CACHE_LATEST as u8).map(|number| {
            // SAFETY: half a field of the fixed part, aligned to its size; as for `get`.
            unsafe { &*((self.0 + u64::from(fixed::cache_latest(number))) as *const AtomicU32) }
        });
        let latest = latest.find(|latest| latest.load(Relaxed) & !fixed::CACHE_MISSED == site.0)?;
        Some(latest.swap(u32::MAX, Relaxed) & fixed::CACHE_MISSED != 0)
    }

    /// Gives a thread context back that nobody uses any more.
    pub fn unmap(self, layout: &Layout) {
        sys::unmap(self.0 - BELOW, BELOW + layout.bytes());
    }

    /// Fills a reserved or used context again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(self, layout: &Layout, session: &Session, thread: Extent) -> Result<(), Errno> {
        let readable = raw::PROT_READ | raw::PROT_WRITE;
        let fresh = raw::MAP_PRIVATE | raw::MAP_FIXED | raw::MAP_NORESERVE;
        // SAFETY: within our own reservation; its thread does not run (yet, or any more).
        unsafe { call!(__NR_mmap, self.0, SITES, readable, fresh, session.descriptor, layout.pattern)? };
        self.map_counters(layout, session, thread)?;
        self.set(fixed::SELF, self.0);
        self.set(fixed::DISPATCH, crate::entry::dispatch as *const () as u64);
        self.set(fixed::LOOKUP_MISS, crate::entry::lookup_miss as *const () as u64);
        self.set(fixed::RETURN_MISS, crate::entry::return_miss as *const () as u64);
        self.set(fixed::COUNT, crate::entry::count as *const () as u64);
        self.set(fixed::FLAGS, CLEAN_FLAGS);
        self.set(own::STACK, self.0 + STACK + STACK_BYTES);
        self.set(own::SIGNAL_STACK, self.0 + SIGNAL_STACK + SIGNAL_STACK_BYTES);
        Ok(())
    }

    /// Lets the counters be those of `thread`: at the start, in the child of a fork, and where a thread's placement
    /// changes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map_counters(self, layout: &Layout, session: &Session, thread: Extent) -> Result<(), Errno> {
        let below = thread.offset() + exact::thread::DIRECT;
        let sites = thread.offset() + exact::thread::SITES;
        // SAFETY: within our own reservation; whoever counts there is this thread, which is in the agent now.
        unsafe {
            sys::map_shared_over(self.0 - BELOW, BELOW, session.descriptor, below)?;
            sys::map_shared_over(self.0 + SITES, COUNTERS_BYTES, session.descriptor, sites)?;
            if layout.lines {
                // Side by side in the file as well.
                let bytes = exact::thread::LINES_BYTES + exact::thread::COMMUNICATION_BYTES;
                let lines = thread.offset() + exact::thread::LINES;
                sys::map_shared_over(self.0 + layout.lines(), bytes, session.descriptor, lines)?;
            }
            if layout.cache.is_some() {
                let misses = thread.offset() + exact::thread::MISSES;
                sys::map_shared_over(
                    self.0 + layout.misses(),
                    exact::thread::MISSES_BYTES,
                    session.descriptor,
                    misses,
                )?;
            }
            if layout.words {
                let words = thread.offset() + exact::thread::WORDS;
                sys::map_shared_over(self.0 + layout.words(), exact::thread::WORDS_BYTES, session.descriptor, words)?;
            }
        }
        Ok(())
    }

    /// Has groups whose last page is in `pages` (addresses) look their page up again. Any thread may do it to any
    /// other: what they have counted so far remains theirs. `sites`: how many there are by now, as there are last pages
    /// for no others.
    pub fn forget(self, layout: &Layout, sites: u32, pages: &core::ops::Range<u64>) {
        const AT_ONCE: u64 = PAGE / size_of::<LastPageRecord>() as u64;
        for chunk in 0..u64::from(sites.min(layout.sites)).div_ceil(AT_ONCE * 8) {
            // SAFETY: the bytes of TOUCHED, eight at a time, aligned, mapped as long as the context. Each is stored by
            // itself; all are 0 as a rule, and programs that unmap memory all the time wait for this.
            let eight = unsafe { &*((self.0 + TOUCHED + chunk * 8) as *const AtomicU64) }.load(Relaxed).to_le_bytes();
            if eight == [0; 8] {
                continue;
            }
            let begun = (chunk * 8..).zip(eight).filter(|(_, touched)| *touched != 0);
            for (number, _) in begun {
                // SAFETY: a page of the table of last pages, which has this many; records are made of atomics.
                let records = unsafe {
                    &*((self.0 + layout.last_pages() + number * PAGE) as *const [LastPageRecord; AT_ONCE as usize])
                };
                for (number, record) in records.iter().enumerate() {
                    let page = record.page.load(Relaxed);
                    if page != 0 && pages.contains(&page) && record.class.load(Relaxed) != exact::IS_PAGE_LIMIT {
                        // Unless the thread has left the page meanwhile.
                        LastPageRecord::look_again(records, number, page);
                    }
                }
            }
        }
        let begun = (self.get(fixed::DIRECT_IN_USE) as usize).min(exact::MOST_DIRECT as usize);
        // SAFETY: the headers, side by side; made of atomics.
        let direct = unsafe { &*((self.0 - BELOW) as *const [DirectHeader; exact::MOST_DIRECT as usize]) };
        direct[..begun].iter().for_each(|direct| direct.look_again(pages));
    }

    /// A field of the fixed part.
    pub fn get(self, offset: u32) -> u64 {
        debug_assert!(offset + 8 <= fixed::END);
        // SAFETY: a thread context's fixed part is mapped as long as the context is used, and used by its own thread.
        unsafe { ((self.0 + u64::from(offset)) as *const u64).read_volatile() }
    }

    /// Sets a field of the fixed part.
    pub fn set(self, offset: u32, value: u64) {
        debug_assert!(offset + 8 <= fixed::END);
        // SAFETY: as above.
        unsafe { ((self.0 + u64::from(offset)) as *mut u64).write_volatile(value) }
    }

    /// A general register of the program, saved.
    #[inline]
    pub fn register(self, register: Register) -> u64 {
        self.get(fixed::register(register.number()))
    }

    /// Sets a general register of the program.
    #[inline]
    pub fn set_register(self, register: Register, value: u64) {
        self.set(fixed::register(register.number()), value);
    }

    /// A general register of the program that generated code has put aside.
    #[inline]
    pub fn spilled(self, register: Register) -> u64 {
        self.get(fixed::spill(register.number()))
    }

    /// Puts `code` (an address in the cache) into the lookup table, or that of returns, at the offset `entry` from GS,
    /// as `Config::lookup_entry` and `Config::return_entry` give it.
    pub fn set_lookup(self, entry: u64, code: u64) {
        // SAFETY: within these tables of the thread.
        unsafe { ((self.0 + entry) as *mut u64).write_volatile(code) }
    }

    /// Puts down what tells an address in the table of returns from others, as `Config::return_tag` gives it.
    pub fn set_return_tag(self, (at, tag): (u64, u32)) {
        // SAFETY: within this table of the thread.
        unsafe { ((self.0 + at) as *mut u32).write_volatile(tag) }
    }

    /// Has an entry of these tables lead back to the agent, at `miss`, if it names `code`. Any thread may do it that
    /// holds the lock under which [`ThreadContext::set_lookup`] is called.
    pub fn unlink_lookup(self, entry: u64, code: u64, miss: u64) {
        let at = (self.0 + entry) as *mut u64;
        // SAFETY: as above; generated code reads the entry all at once.
        unsafe {
            if at.read_volatile() == code {
                at.write_volatile(miss);
            }
        }
    }

    /// Empties both tables, whose empty entries lead to these addresses. Under the same lock.
    pub fn empty_lookup(self, lookup_miss: u64, return_miss: u64) {
        for (table, bytes, miss) in [(LOOKUP, LOOKUP_BYTES, lookup_miss), (RETURNS, RETURNS_BYTES, return_miss)] {
            for entry in (table..table + bytes).step_by(8) {
                let at = (self.0 + entry) as *mut u64;
                // SAFETY: as above. What is empty is not written: its page is shared.
                unsafe {
                    if at.read_volatile() != miss {
                        at.write_volatile(miss);
                    }
                }
            }
        }
    }

    /// Notes the base of FS of the calling thread, whose context this is, for the generated code.
    pub fn note_fs_base(self) {
        let base: u64;
        // SAFETY: reads a register; the collector makes sure that there is the instruction.
        unsafe { core::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        self.set(fixed::FS_BASE, base);
    }

    /// The same, and logs, for the collector whose process is known, where the thread has its thread-local variables.
    pub fn log_fs_base(self, memory: &ProcessMemory) {
        self.note_fs_base();
        let base = self.get(fixed::FS_BASE);
        if base != 0 {
            // Without room they are part of what they lie in.
            let _ = memory.log(log::THREAD_POINTER, &[base], &[]);
        }
    }

    /// Makes GS point here, for the calling thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(self) -> Result<(), Errno> {
        // SAFETY: the agent is the only user of GS.
        unsafe { call!(__NR_arch_prctl, arch::SET_GS, self.0) }.map(drop)
    }
}

/// Flags of a new program: interrupts on, all else clear.
pub const CLEAN_FLAGS: u64 = flags::NONE | flags::INTERRUPT;
