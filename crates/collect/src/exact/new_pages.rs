//! How far a process's new page records can be read.
//!
//! A thread takes a number for a page, writes down what the page is, and says last that it has. Another one takes the
//! next number meanwhile, and may be done first: on a busy host the processor may be taken from any of them for
//! milliseconds.
//!
//! ```text
//!   number     7       8                9       10
//!   begins at  100     104              106     103
//!              read    still written    wait    wait
//!                      ^ 104
//! ```
//! Pages are known by their places, so all records behind one that cannot be read yet wait for it, and so does whatever
//! happened after the earliest of these began: whose block such a page is, is asked when its record is read, and must
//! not be over by then. Here 7 is read, and events until 102.

use numalens_event::exact::{Extent, PageRecord, touch};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How many of the new records can be read, all of pages that began until `until` at most, and until when all is known
/// then. `knows`: whether a thread that
/// placed a page, and its site, if it has one, have been read.
pub fn readable(new: &[&PageRecord], mut until: u64, knows: impl Fn(Option<u32>, Extent) -> bool) -> (usize, u64) {
    let begin = |record: &PageRecord| record.begin_ns.load(Relaxed);
    let thread = |record: &PageRecord| Extent(record.thread.load(Relaxed));
    let is_complete = |record: &PageRecord| match record.how.load(Acquire) {
        touch::NONE => false,
        _ if begin(record) > until => false,
        touch::FIRST | touch::ZERO => knows(Some(record.site.load(Relaxed)), thread(record)),
        touch::CALL => knows(None, thread(record)),
        _ => true,
    };
    let mut readable = new.iter().position(|&record| !is_complete(record)).unwrap_or(new.len());
    let mut waiting = &new[readable..];
    let mut latest = Vec::new();
    loop {
        // One that says no time yet begins later than now.
        let earliest = waiting.iter().copied().map(begin).filter(|&begin| begin != 0).min();
        let Some(earliest) = earliest.filter(|&earliest| earliest <= until) else { return (readable, until) };
        until = earliest - 1;
        if latest.is_empty() {
            let so_far = |latest: &mut u64, record: &&PageRecord| {
                *latest = begin(record).max(*latest);
                Some(*latest)
            };
            latest = new[..readable].iter().scan(0, so_far).collect();
        }
        let before = readable;
        readable = latest[..before].partition_point(|&latest| latest <= until);
        waiting = &new[readable..before];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records that say so when they began, and those that are still being written.
    fn records(begins: &[(u64, bool)]) -> Vec<PageRecord> {
        let record = |&(begin, is_written): &(u64, bool)| {
            let record = PageRecord::default();
            record.begin_ns.store(begin, Relaxed);
            record.how.store(if is_written { touch::UNSEEN } else { touch::NONE }, Relaxed);
            record
        };
        begins.iter().map(record).collect()
    }

    #[test]
    fn what_happened_after_a_page_that_waits_waits_as_well() {
        let all = |_, _| true;
        let read = |begins: &[(u64, bool)], until| readable(&records(begins).iter().collect::<Vec<_>>(), until, all);
        assert_eq!(read(&[(100, true), (104, true), (106, true)], 110), (3, 110));
        // The rest began later anyway.
        assert_eq!(read(&[(100, true), (104, true), (106, true)], 105), (2, 105));
        assert_eq!(read(&[(100, true), (104, false), (106, true), (103, true)], 110), (1, 102));
        // One that has no time yet.
        assert_eq!(read(&[(100, true), (0, false), (106, true)], 105), (1, 105));
        assert_eq!(read(&[(100, true), (0, false), (106, true)], 110), (1, 105));
        // Those that could be read began later than one that waits, and so on.
        assert_eq!(read(&[(90, true), (105, true), (99, true), (104, true), (98, false)], 110), (1, 97));
        assert_eq!(read(&[(105, true), (103, true), (104, true), (102, false)], 110), (0, 101));
        assert_eq!(read(&[], 110), (0, 110));
    }

    #[test]
    fn pages_wait_for_their_sites_and_threads() {
        let records = records(&[(100, true), (104, true)]);
        records[1].how.store(touch::FIRST, Relaxed);
        records[1].thread.store(7, Relaxed);
        let records: Vec<&PageRecord> = records.iter().collect();
        assert_eq!(readable(&records, 110, |_, thread| thread != Extent(7)), (1, 103));
        assert_eq!(readable(&records, 110, |_, _| true), (2, 110));
    }
}
