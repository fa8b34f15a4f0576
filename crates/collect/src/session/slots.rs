//! Places of threads on a virtual machine: each process has the lowest number that no other one had when it began, its
//! threads have those from there on. As the exact engine has it: [`numalens_event::exact::Slots`].

use numalens_topology::LowestFree;
use rustc_hash::FxHashMap;

/// The processes that live, by their kernel's numbers.
#[derive(Default)]
pub struct Slots {
    numbers: LowestFree,
    processes: FxHashMap<i32, Process>,
}

struct Process {
    slot: usize,
    /// Threads so far.
    created: usize,
}

impl Slots {
    /// The place of the next thread of a process.
    pub fn next(&mut self, pid: i32) -> usize {
        let numbers = &mut self.numbers;
        let process = self.processes.entry(pid).or_insert_with(|| Process { slot: numbers.take(), created: 0 });
        process.created += 1;
        process.slot + process.created - 1
    }

    /// A process has one thread again, in the place of its first.
    pub fn executed(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.created = 1;
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.numbers.give_back(process.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn processes_that_have_ended_keep_no_place() {
        let mut slots = Slots::default();
        assert_eq!([10, 11, 10, 12, 11].map(|pid| slots.next(pid)), [0, 1, 1, 2, 2]);
        slots.ended(11);
        assert_eq!([13, 13, 14, 10].map(|pid| slots.next(pid)), [1, 2, 3, 2]);
        slots.executed(10);
        assert_eq!(slots.next(10), 1);
    }
}
