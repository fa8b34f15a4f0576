//! Places of threads on a machine that a replay makes up: each has the lowest number that nobody had when it began, as
//! recordings on virtual machines have it.

use numalens_profile::tables::Thread;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The slot of each thread, in the order of the rows.
pub fn of(threads: &[Thread]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|&at| (threads[at].start_ns, threads[at].thread));
    let mut slots = vec![0; threads.len()];
    let (mut free, mut given) = (BTreeSet::new(), 0);
    let mut ends = BinaryHeap::new();
    for at in order {
        while let Some(Reverse((end, slot))) = ends.peek().copied()
            && end <= threads[at].start_ns
        {
            ends.pop();
            free.insert(slot);
        }
        let slot = free.pop_first().unwrap_or_else(|| {
            given += 1;
            given - 1
        });
        slots[at] = slot;
        // Whoever has no end was there until the recording's.
        ends.push(Reverse((threads[at].end_ns.unwrap_or(u64::MAX), slot)));
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::{ProcessId, ThreadId};

    #[test]
    fn ended_threads_keep_no_place() {
        let lives = [(0, None), (10, Some(20)), (20, Some(30)), (25, Some(26)), (40, None), (40, None), (40, None)];
        let threads: Vec<Thread> = (0..)
            .zip(lives)
            .map(|(number, (start_ns, end_ns))| Thread {
                process: ProcessId(0),
                thread: ThreadId(number),
                tid: 100 + number,
                name: String::new(),
                start_ns,
                end_ns,
                switches: 0,
                migrations: 0,
            })
            .collect();
        assert_eq!(of(&threads), [0, 1, 1, 2, 1, 2, 3]);
    }
}
