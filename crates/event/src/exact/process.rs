//! A process's extent: its header, and the offsets of the rest.

use super::line::{LINES_OF_PAGE, LastAccess, MOST_LINE_PAGES};
use super::page_numbers::PageNumbers;
use super::placement::MOST_CLASSES;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The log.
pub const LOG: u64 = 1 << 20;
/// Most bytes of the log: what a process says in its life, of which memory holds what has not been read. What does not
/// fit is not said; [`ProcessHeader::log_bytes`] counts it.
pub const LOG_BYTES: u64 = 32 << 30;
/// What threads begin with in their own memory, as at [`super::PATTERN_OFFSET`].
pub const LOOKUP: u64 = 1 << 36;
/// Policies of its mappings, on a virtual machine: the agents' ([`MOST_PUBLISHED_POLICIES`] of 296 bytes, and 24
/// bytes).
pub const POLICIES: u64 = (1 << 36) + (1 << 35);
/// How many mappings.
pub const MOST_PUBLISHED_POLICIES: usize = 4096;
/// Site records.
pub const SITES: u64 = 1 << 37;
/// Segment records.
pub const SEGMENTS: u64 = (1 << 37) + (1 << 36);
/// Page records.
pub const PAGES: u64 = 1 << 38;
/// Who accessed cache lines last: [`super::LINES_OF_PAGE`] records for each page.
pub const LINES: u64 = 1 << 39;
/// Bytes reserved for them.
pub const LINES_BYTES: u64 = MOST_LINE_PAGES as u64 * LINES_OF_PAGE * size_of::<LastAccess>() as u64;

/// Address space that the tables of a program with some tens of threads take.
pub const ADDRESS_SPACE_NEEDED: u64 = 400 << 30;

/// Numbers that a forked process has from its parent: those below.
#[repr(C)]
#[derive(Debug)]
pub struct Inherited {
    pub sites: AtomicU32,
    pub segments: AtomicU32,
    /// Except those with a record of their own.
    pub pages: AtomicU32,
    /// How many regions.
    pub regions: AtomicU32,
}

/// The header of a process's extent.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessHeader {
    /// Sites given.
    pub sites: AtomicU32,
    /// Segments given.
    pub segments: AtomicU32,
    /// The numbers of its pages.
    pub pages: PageNumbers,
    /// Bytes of the log.
    pub log_bytes: AtomicU64,
    /// 1: there are pages whose cache lines are not counted, as there are too many.
    pub lines_left_out: AtomicU32,
    /// Not 0: pages were touched of which words are not counted.
    pub words_left_out: AtomicU32,
    /// The program's rank in its MPI program, as its environment says, plus one; 0: it has none, or is a fork's child.
    pub rank: AtomicU32,
    /// After a fork: what is the parent's.
    pub inherited: Inherited,
    /// Regions that the collector has named, from [`super::FIRST_REGION`] on; their records, and what their pages are
    /// assigned to, were written before.
    pub regions: AtomicU32,
    /// Where the table of pages is in the process: an entry of 8 bytes for each page, whose lower half tells its class,
    /// 0: none. Setting that to 0 makes the agent ask for the page's home again. By [`ProcessHeader::with_shadow`]
    /// only: it may move, and go. 0: there is none.
    pub shadow: AtomicU64,
    /// Not 0: the collector writes to it.
    pub shadow_in_use: AtomicU32,
    /// What each class means, from 1: see [`super::class_word`]; 0 while it is not in use.
    pub classes: [AtomicU32; MOST_CLASSES],
    /// The program's limit of address space (soft, hard), in bytes, as it set it or inherited it.
    pub address_space: [AtomicU64; 2],
    /// How often other processes have moved pages of this one ([`super::PageRecord::move_to`]).
    pub moved: AtomicU64,
    /// Why the agent gave up, as text, when it did.
    pub failure: [AtomicU8; 256],
    /// Sites that have counted much, by the collector's word, in a ring: how many it has named, and how many of them
    /// the agent has seen.
    pub tier_ups: AtomicU32,
    pub tier_ups_seen: AtomicU32,
    pub tier_up_sites: [AtomicU32; TIER_UPS],
}

/// Sites that the collector may name before the agent has seen them; what is more is forgotten.
pub const TIER_UPS: usize = 1024;

impl ProcessHeader {
    /// Calls `write` with the place of the table of pages, which stays there meanwhile; `None`: there is no table. For
    /// the collector.
    pub fn with_shadow<T>(&self, write: impl FnOnce(u64) -> T) -> Option<T> {
        self.shadow_in_use.store(1, SeqCst);
        let table = self.shadow.load(SeqCst);
        let written = (table != 0).then(|| write(table));
        self.shadow_in_use.store(0, SeqCst);
        written
    }

    /// Takes the table away from the collector, and calls `wait` as long as that writes to it and `wait` returns
    /// `true`. Whether nobody writes there any more. For the agent, before the memory there becomes the program's, or
    /// another program's.
    pub fn withdraw_shadow(&self, mut wait: impl FnMut() -> bool) -> bool {
        self.shadow.store(0, SeqCst);
        while self.shadow_in_use.load(SeqCst) != 0 {
            if !wait() {
                return false;
            }
        }
        true
    }

    /// Names a site that has counted much. For one caller at a time.
    pub fn request_tier_up(&self, site: u32) {
        let number = self.tier_ups.load(Relaxed);
        self.tier_up_sites[number as usize % TIER_UPS].store(site, Relaxed);
        self.tier_ups.store(number.wrapping_add(1), Release);
    }

    /// Whether sites have been named that have not been seen.
    #[inline]
    pub fn has_tier_ups(&self) -> bool {
        self.tier_ups.load(Relaxed) != self.tier_ups_seen.load(Relaxed)
    }

    /// Calls `found` for each site that has been named and not seen. For one caller at a time.
    #[inline]
    pub fn each_tier_up(&self, mut found: impl FnMut(u32)) {
        let (named, seen) = (self.tier_ups.load(Acquire), self.tier_ups_seen.load(Relaxed));
        let new = named.wrapping_sub(seen).min(TIER_UPS as u32);
        if new != 0 {
            (named.wrapping_sub(new)..named)
                .for_each(|number| found(self.tier_up_sites[number as usize % TIER_UPS].load(Relaxed)));
            self.tier_ups_seen.store(named, Relaxed);
        }
    }
}
