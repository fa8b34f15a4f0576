//! Reading what the preloaded library reports.

use super::Drain;
use std::time::Duration;

/// How often is waited for records to be filled: twice as long each time.
pub(super) const RECORDS_FILLED: u32 = 8;

impl Drain {
    /// Reads what the preloaded library has reported by now.
    pub(super) fn read_heap(&mut self) {
        if let Some(heap) = &mut self.heap {
            heap.read(&mut self.heap_queue);
        }
    }

    /// Reads all that the library has reported by now, and waits once a poll for threads that are kept from telling:
    /// one that has stopped in the midst of a record does not go on meanwhile. Whether all was read.
    pub(super) fn read_heap_whole(&mut self) -> bool {
        self.read_heap_patiently(if self.is_behind { 0 } else { 1 })
    }

    /// The same, waiting so often. Records that threads are filling stand before others in the channel: that takes
    /// microseconds, but longer where a busy host takes the processor away meanwhile.
    pub(super) fn read_heap_patiently(&mut self, times: u32) -> bool {
        self.read_heap();
        for patience in (0..times).flat_map(|_| 0..RECORDS_FILLED) {
            if !self.heap_queue.waits {
                break;
            }
            std::thread::sleep(Duration::from_micros(50 << patience));
            self.read_heap();
        }
        self.is_behind = self.heap_queue.waits;
        !self.heap_queue.waits
    }
}
