//! The shadow table: an entry for each page of the address space. What the entries mean is up to the rest of the
//! folder.

use crate::call;
use crate::state::failure::give_up;
use crate::state::page_id::PageId;
use crate::sys::lock::Lock;
use crate::sys::{self, PAGE_BITS, raw};
use alloc::boxed::Box;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use hashbrown::HashMap;
use numalens_translator::{Config, PageEntry};
use rustc_hash::FxBuildHasher;

/// Page numbers of the address space.
pub(super) const END: u64 = sys::USER_END >> PAGE_BITS;
/// Pages whose entries share a page of the table, and that a huge page holds.
pub(super) const CHUNK: u64 = 512;
/// The table is made writable in pieces of this size: the entries of 1 GiB.
pub(super) const PIECE: u64 = 2 << 20;
/// Bytes of the shadow table.
pub const SHADOW_BYTES: u64 = END * size_of::<PageEntry>() as u64;

/// The shadow table.
pub struct Shadow {
    /// How code reads its entries.
    config: Config,
    /// Changes in [`Shadow::move_away`] only.
    base: AtomicU64,
    /// One bit for each piece of [`PIECE`] bytes that can be written.
    writable: [AtomicU64; (SHADOW_BYTES / PIECE / 64) as usize],
    /// Chunks that hold entries: so that unmapping a vast range does not look at all of it.
    pub(super) used: Lock<Chunks>,
}

/// By their numbers.
pub(super) type Chunks = HashMap<u64, Chunk, FxBuildHasher>;

/// A chunk that holds entries, or has a leader.
#[derive(Default)]
pub(super) struct Chunk {
    /// Entries.
    pub(super) used: u32,
    /// The page whose first touch may have placed all of the chunk as one huge page (`huge_pages.rs`); 0: none.
    pub(super) leader: PageId,
    /// Pages of the chunk may have gone since: whether any is left is to be asked.
    pub(super) is_unsure: bool,
    /// Of the entries, at least so many are marked (`generation.rs`).
    pub(super) marked: u32,
    /// The numbers of its pages, where entries name regions (`regions.rs`).
    pub(super) own: Option<Box<[PageId; CHUNK as usize]>>,
}

impl Chunk {
    /// A page has another number now.
    pub(super) fn follows(&mut self, old: PageId, new: PageId) {
        if self.leader == old {
            self.leader = new;
        }
    }
}

impl Shadow {
    /// The table at `base`.
    pub fn new(base: u64, config: Config) -> Self {
        Shadow {
            base: AtomicU64::new(base),
            config,
            writable: [const { AtomicU64::new(0) }; (SHADOW_BYTES / PIECE / 64) as usize],
            used: Lock::new(HashMap::with_hasher(FxBuildHasher)),
        }
    }

    /// The word of a page, as code reads it.
    pub(super) fn word(&self, page: u64) -> &AtomicU64 {
        debug_assert!(page < END);
        // SAFETY: within the table, which is never unmapped; 8 bytes, aligned.
        unsafe { &*((self.base() + page * 8) as *const AtomicU64) }
    }

    /// The entry of a page, as code has it: it may name a region.
    pub(super) fn load(&self, page: u64) -> PageEntry {
        self.config.page_of(self.word(page).load(Relaxed))
    }

    /// Calls `found` with the address and the number of each page of a range that has one.
    pub fn numbered(&self, range: Range<u64>, mut found: impl FnMut(u64, PageId)) {
        self.each(range, |_, page, entry| {
            found(page << PAGE_BITS, PageId::of(entry));
            false
        });
    }

    /// Sets the entry of a page; with the table locked.
    pub(super) fn store(&self, page: u64, entry: PageEntry) {
        self.open(page);
        self.word(page).store(self.config.word_of(entry), Release);
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
    }

    /// Ends [`Shadow::hold`].
    ///
    /// # Safety
    /// By the thread that held it, or in its forked child.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.used.force_free() };
    }

    /// Where the table is.
    pub fn base(&self) -> u64 {
        self.base.load(Relaxed)
    }

    /// All of where it is.
    pub fn range(&self) -> Range<u64> {
        self.base()..self.base() + SHADOW_BYTES
    }

    /// Takes the table to where the agent's other memory is. Whether that was possible. While there is one thread, the
    /// caller, and no code that has the old place in it is executed any more.
    pub fn move_away(&self) -> bool {
        let used = self.used.lock();
        let Ok(to) = sys::map_private(SHADOW_BYTES, raw::PROT_READ) else { return false };
        let from = self.base.swap(to, Relaxed);
        self.writable.iter().for_each(|word| word.store(0, Relaxed));
        for page in used.keys().flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK) {
            // SAFETY: within the old table, which is mapped; 8 bytes, aligned.
            let word = unsafe { &*((from + page * 8) as *const AtomicU64) }.load(Relaxed);
            if word != 0 {
                self.open(page);
                self.word(page).store(word, Release);
            }
        }
        sys::unmap(from, SHADOW_BYTES);
        true
    }
}
