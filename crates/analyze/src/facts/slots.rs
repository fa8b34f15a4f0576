//! Places of threads on a machine that a replay makes up: each process has the lowest number that no other one had when
//! it began, its threads have those from there on, as recordings on virtual machines have it.

use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Thread;
use numalens_topology::LowestFree;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The slot of each thread, in the order of the rows, which are in that of threads.
pub fn of(threads: &[Thread]) -> Vec<u32> {
    let slots = of_processes(threads);
    let mut created: BTreeMap<ProcessId, u32> = BTreeMap::new();
    let slot = |thread: &Thread| {
        let number = created.entry(thread.process).or_default();
        *number += 1;
        slots[&thread.process] + *number - 1
    };
    threads.iter().map(slot).collect()
}

fn of_processes(threads: &[Thread]) -> BTreeMap<ProcessId, u32> {
    // From the start of its first thread to the end of its last; whoever has none was there until the recording's.
    let mut lives: BTreeMap<ProcessId, (u64, u64)> = BTreeMap::new();
    for thread in threads {
        let (start, end) = lives.entry(thread.process).or_insert((thread.start_ns, 0));
        *start = (*start).min(thread.start_ns);
        *end = (*end).max(thread.end_ns.unwrap_or(u64::MAX));
    }
    let mut order: Vec<(u64, ProcessId)> = lives.iter().map(|(id, (start, _))| (*start, *id)).collect();
    order.sort_unstable();
    let (mut numbers, mut ends) = (LowestFree::default(), BinaryHeap::new());
    let mut slots = BTreeMap::new();
    for (start, process) in order {
        while let Some(Reverse((end, slot))) = ends.peek().copied()
            && end <= start
        {
            ends.pop();
            numbers.give_back(slot);
        }
        let slot = numbers.take();
        slots.insert(process, slot as u32);
        ends.push(Reverse((lives[&process].1, slot)));
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::ThreadId;
    use numalens_profile::testing::a_thread;

    #[test]
    fn ended_processes_keep_no_place() {
        let lives = [
            (0, 0, None),
            (1, 10, Some(20)),
            (2, 20, Some(30)),
            (3, 25, Some(26)),
            (0, 40, Some(41)),
            (0, 42, None),
            (4, 45, None),
            (4, 46, None),
        ];
        let threads: Vec<Thread> = (0..)
            .zip(lives)
            .map(|(number, (process, start_ns, end_ns))| Thread {
                start_ns,
                end_ns,
                ..a_thread(ProcessId(process), ThreadId(number))
            })
            .collect();
        assert_eq!(of(&threads), [0, 1, 1, 2, 1, 2, 1, 2]);
    }
}
