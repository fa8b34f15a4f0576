//! Reading what the preloaded library reports.

use crate::exact::heap::{Heap, HeapEventQueue};
use std::time::Duration;

/// How often is waited for records to be filled: twice as long each time.
pub const RECORDS_FILLED: u32 = 8;

/// What the preloaded library reports, as far as it was read.
#[derive(Default)]
pub struct HeapFeed {
    /// None: that could not be set up.
    heap: Option<Heap>,
    /// What it has reported, until it is taken in.
    pub queue: HeapEventQueue,
    /// Threads have been waited for in this poll that are kept from filling their records.
    is_behind: bool,
    /// Until when all is known that was reported of blocks.
    known_until: u64,
}

impl HeapFeed {
    /// Of a library, unless that could not be set up.
    pub fn new(heap: Option<Heap>) -> Self {
        HeapFeed { heap, ..HeapFeed::default() }
    }

    /// The library's end.
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()
    }

    /// Has libraries report nothing any more.
    pub fn close(&mut self) {
        self.heap = None;
    }

    /// Until when all is known that was reported of blocks; none: nothing is.
    pub fn horizon(&self) -> Option<u64> {
        self.heap.as_ref().map(|_| self.known_until)
    }

    /// Whether less is known than what was reported by then.
    pub fn is_before(&self, time: u64) -> bool {
        self.known_until < time
    }

    /// A poll begins: reads what has been reported by now.
    pub fn poll_begins(&mut self) {
        self.is_behind = false;
        self.read();
    }

    /// Reads what has been reported by now. All was until `time`, unless somebody is kept from filling a record.
    pub fn read_until(&mut self, time: u64) {
        self.read();
        if !self.queue.waits {
            self.known_until = time;
        }
    }

    /// Reads all that has been reported by now, and waits once a poll for threads that are kept from reporting: one
    /// that has stopped in the midst of a record does not go on meanwhile. Whether all was read.
    pub fn read_whole(&mut self) -> bool {
        self.read_patiently(if self.is_behind { 0 } else { 1 })
    }

    /// Reads all that has been reported by now, and waits so often. Records that threads are filling stand before
    /// others in the channel: that takes microseconds, but longer where a busy host takes the processor away meanwhile.
    pub fn read_patiently(&mut self, times: u32) -> bool {
        self.read();
        for patience in (0..times).flat_map(|_| 0..RECORDS_FILLED) {
            if !self.queue.waits {
                break;
            }
            std::thread::sleep(Duration::from_micros(50 << patience));
            self.read();
        }
        self.is_behind = self.queue.waits;
        !self.queue.waits
    }

    fn read(&mut self) {
        if let Some(heap) = &mut self.heap {
            heap.read(&mut self.queue);
        }
    }
}
