//! A thread's extent: the offsets of its tables, and where it may run.

use super::code::{MOST_SITE_COUNTERS, MOST_SITES};
use super::direct::{DIRECT_PAGES, DirectHeader, MOST_DIRECT};
use super::file::MOST_EXTENTS;
use super::last_page::LastPageRecord;
use super::line::{LINES_OF_PAGE, LineCounts, MOST_LINE_PAGES, WORDS_OF_PAGE};
use super::page::{MOST_PAGES, PageCounts};
use super::placement::{MOST_CPUS, NODE_WORDS};
use crate::page::PAGE;
use core::sync::atomic::AtomicU64;

/// The [`ThreadPlace`] that it begins with.
pub const PLACE: u64 = 1 << 38;
/// The one that another thread wants for it, on a virtual machine.
pub const WANTED: u64 = PLACE + (1 << 16);
/// The latest one that it has itself logged, at two places in turn.
const NOW: u64 = PLACE + (1 << 17);

/// Where the latest [`ThreadPlace`] of a thread stands that has changed its place so many times: see
/// [`super::DirectoryEntry::places`].
pub const fn now(changes: u32) -> u64 {
    if changes == 0 { PLACE } else { NOW + ((changes as u64 & 1) << 16) }
}

// What follows stands in the file as it does in the thread's own memory, from the lowest on, so that few mappings are
// enough there: the kernel lets a process have some 65,000. `SITES - SITES_FROM_GS` is where GS points; from there up
// to `SITES` the thread has memory of its own.

/// Direct tables: their headers; of each in turn the counters, 32 bits each; of each in turn what these count for, 64
/// bits each.
pub const DIRECT: u64 = 0;
/// Where the counters are.
pub const DIRECT_COUNTERS: u64 = DIRECT + MOST_DIRECT as u64 * size_of::<DirectHeader>() as u64;
/// Bytes of those of a direct table.
pub const DIRECT_COUNTERS_BYTES: u64 = DIRECT_PAGES as u64 * 4;
/// Where stands what they count for.
pub const DIRECT_WORDS: u64 = DIRECT_COUNTERS + MOST_DIRECT as u64 * DIRECT_COUNTERS_BYTES;
/// Bytes of that, of a direct table.
pub const DIRECT_WORDS_BYTES: u64 = DIRECT_PAGES as u64 * 8;
/// Bytes reserved for all.
pub const DIRECT_BYTES: u64 = DIRECT_WORDS + MOST_DIRECT as u64 * DIRECT_WORDS_BYTES - DIRECT;
/// Reads and writes of pages, one of each: 64 bits a page.
pub const UPDATES: u64 = DIRECT + DIRECT_BYTES;
/// Bytes reserved for them.
pub const UPDATES_BYTES: u64 = MOST_PAGES as u64 * 8;
/// Where site counters are in the thread's own memory, from the address in GS on.
pub const SITES_FROM_GS: u64 = 0x48_0000;
/// Site counters: see [`super::site_and_class`].
pub const SITES: u64 = UPDATES + UPDATES_BYTES + SITES_FROM_GS;
/// Bytes reserved for them.
pub const SITES_BYTES: u64 = MOST_SITE_COUNTERS * 8;
/// Last pages: a [`super::LastPageRecord`] each.
pub const LAST_PAGES: u64 = SITES + SITES_BYTES;
/// Bytes reserved for them.
pub const LAST_PAGES_BYTES: u64 = MOST_SITES as u64 * size_of::<LastPageRecord>() as u64;
/// Execution counters, 64 bits each.
pub const EXECUTIONS: u64 = LAST_PAGES + LAST_PAGES_BYTES;
/// Bytes reserved for them.
pub const EXECUTIONS_BYTES: u64 = MOST_SITES as u64 * 8;
/// Page counters.
pub const PAGES: u64 = EXECUTIONS + EXECUTIONS_BYTES;
/// Bytes reserved for them.
pub const PAGES_BYTES: u64 = MOST_PAGES as u64 * size_of::<PageCounts>() as u64;
/// Where they are in the thread's own memory, from the address in GS on.
pub const PAGES_FROM_GS: u64 = PAGES - (SITES - SITES_FROM_GS);
const _: () = assert!(PAGES + PAGES_BYTES <= PLACE && SITES.is_multiple_of(PAGE) && PAGES.is_multiple_of(PAGE));

/// Counts of cache lines: [`super::LINES_OF_PAGE`] records for each page.
pub const LINES: u64 = 1 << 39;
/// Bytes reserved for them.
pub const LINES_BYTES: u64 = MOST_LINE_PAGES as u64 * LINES_OF_PAGE * size_of::<LineCounts>() as u64;
/// Accesses to cache lines that another thread had accessed last: 64 bits for each thread, by its place in the order of
/// creation.
pub const COMMUNICATION: u64 = LINES + LINES_BYTES;
/// Bytes reserved for them.
pub const COMMUNICATION_BYTES: u64 = MOST_EXTENTS as u64 * 8;
/// Accesses by word: [`super::WORDS_OF_PAGE`] counters for each page.
pub const WORDS: u64 = (1 << 39) + (1 << 37);
/// Bytes reserved for them.
pub const WORDS_BYTES: u64 = MOST_LINE_PAGES as u64 * WORDS_OF_PAGE * 8;
/// Accesses that missed the thread's private cache: as [`SITES`], and behind them as [`PAGES`].
pub const MISSES: u64 = (1 << 39) + (1 << 38);
/// Bytes reserved for them.
pub const MISSES_BYTES: u64 = SITES_BYTES + PAGES_BYTES;

/// Where a thread may run, at [`PLACE`] of its first extent, from its start on; later on, at [`now`].
#[repr(C)]
#[derive(Debug)]
pub struct ThreadPlace {
    /// 1 when the rest is filled. On a virtual machine 0 stands for all CPUs and no policy.
    pub known: AtomicU64,
    /// The kernel's number of its memory policy (`MPOL_*`), on a virtual machine with its flags.
    pub policy: AtomicU64,
    /// The nodes of that policy, by the kernel's numbers, a bit each.
    pub policy_nodes: [AtomicU64; NODE_WORDS],
    /// On a virtual machine: the nodes that the program named for it, where flags let these be others.
    pub named_nodes: [AtomicU64; NODE_WORDS],
    /// Its CPUs, a bit each.
    pub cpus: [AtomicU64; MOST_CPUS / 64],
}
