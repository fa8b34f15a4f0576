//! Groups of sites that are counted page by page. A counter has begun, or is to be asked about, or has not begun.

use crate::page::PAGE;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// In place of an address: too far from all for a counter.
pub const NOWHERE: u64 = 1 << 63;
/// Counts, in the bits below.
pub const BEGUN: u32 = 1 << 31;
/// Has counted so much, in the bits below; the next access asks.
pub const ASKED: u32 = 1 << 30;
/// Direct tables of a thread.
pub const MOST_DIRECT: u32 = 256;
/// Pages that each has counters for: 1 GiB.
pub const DIRECT_PAGES: u32 = 1 << 18;

/// What it has counted.
pub fn count_of(counter: u32) -> u32 {
    match counter {
        _ if counter & BEGUN != 0 => counter & !BEGUN,
        _ if counter & ASKED != 0 => counter & !ASKED,
        _ => 0,
    }
}

/// Has the next access that it would count ask. Any process may do so while its thread runs. The thread may be counting
/// at this very moment, and go over it: so it is looked whether it has, a few times.
pub fn ask(counter: &AtomicU32) {
    let asked = |now: u32| (now & BEGUN != 0 && count_of(now) < ASKED / 2).then_some(count_of(now) | ASKED);
    for _ in 0..16 {
        if counter.fetch_update(AcqRel, Acquire, asked).is_err() {
            break;
        }
    }
}

/// What a thread knows of a direct table.
#[repr(C)]
#[derive(Debug)]
pub struct DirectHeader {
    /// The address of the first page that has a counter; [`NOWHERE`]: the next access asks.
    pub base: AtomicU64,
    /// The agent's.
    pub tables: [AtomicU64; 2],
    /// Counters that have begun are in this range, both ends included.
    pub low: AtomicU32,
    pub high: AtomicU32,
    /// The agent's.
    pub missed: AtomicU32,
    /// The row that stands for the group's sites.
    pub row: AtomicU32,
    /// How many of them read, and write.
    pub reads: AtomicU32,
    pub writes: AtomicU32,
    /// The agent's.
    pub counted: AtomicU64,
    /// Fills the record.
    pub padding: AtomicU64,
}

impl DirectHeader {
    /// The address of the first page that has a counter, and the addresses of those whose counters may have begun.
    pub fn begun(&self) -> (u64, core::ops::Range<u64>) {
        let [low, high] = [&self.low, &self.high].map(|end| u64::from(end.load(Relaxed)));
        let base = self.base.load(Relaxed);
        (base, base.saturating_add(low * PAGE)..base.saturating_add((high + 1) * PAGE))
    }

    /// Has the thread look at all of its pages again, if some of `pages` (their addresses) are among them. Any thread
    /// may do so while it runs.
    pub fn look_again(&self, pages: &core::ops::Range<u64>) {
        let (_, begun) = self.begun();
        if begun.start < pages.end && pages.start < begun.end {
            self.base.store(NOWHERE, Release);
        }
    }
}
