//! Memory policies that threads had when they touched pages: what else than the first touch has said where they go.

use numalens_profile::ThreadLog;
use numalens_profile::ids::{Bin, ThreadId};
use numalens_profile::tables::Placement;
use rustc_hash::FxHashMap;

/// What leaves a page to the thread that touches it first.
const OPEN: [&str; 3] = ["default", "local", "first-touch"];
/// Why a placement says what the program has asked for.
const CALL: &str = "set_mempolicy";

/// Who set a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Setter {
    /// A call of the program, or of one that started it, as numactl is.
    Call(ThreadId),
    /// The virtual machine that the recording was made on.
    Machine,
    /// It was there when the recording began.
    Before,
}

/// A policy that takes pages elsewhere than to who touches them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Policy {
    /// In the kernel's words, as `bind:0`.
    pub words: String,
    pub setter: Setter,
}

/// The policies of threads over time; nothing where no thread has any, as in most programs.
#[derive(Default)]
pub struct Policies(ThreadLog<Option<Policy>>);

impl Policies {
    /// From the table's rows; `bin_ns` is the width of a time bin.
    pub fn new(placements: &[Placement], bin_ns: u64, is_virtual: bool) -> Policies {
        let mut calls: FxHashMap<&str, ThreadId> = FxHashMap::default();
        for row in placements.iter().filter(|row| row.cause == CALL) {
            let first = calls.entry(row.policy.as_str()).or_insert(row.thread);
            *first = (*first).min(row.thread);
        }
        let is_open = |row: &Placement| OPEN.contains(&row.policy.as_str());
        if placements.iter().all(is_open) {
            return Policies::default();
        }
        let entry = |row: &Placement| {
            let setter = match calls.get(row.policy.as_str()) {
                Some(thread) => Setter::Call(*thread),
                None if is_virtual => Setter::Machine,
                None => Setter::Before,
            };
            let policy = Policy { words: row.policy.clone(), setter };
            (row.thread, row.time_ns, Some(policy).filter(|_| !is_open(row)))
        };
        Policies(ThreadLog::new(placements.iter().map(entry), bin_ns))
    }

    /// That of a thread when a time bin ends; none: pages are its own.
    pub fn at_end_of(&self, thread: ThreadId, bin: Bin) -> Option<&Policy> {
        self.0.at_end_of(thread, bin)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::ProcessId;

    fn row(thread: u32, time_ns: u64, policy: &str, cause: &str) -> Placement {
        Placement {
            process: ProcessId(0),
            thread: ThreadId(thread),
            time_ns,
            cpus: "0-3".into(),
            node: None,
            policy: policy.into(),
            cause: cause.into(),
        }
    }

    #[test]
    fn who_inherits_a_policy_has_it_from_the_call() {
        let rows = [
            row(0, 0, "default", "start"),
            row(0, 15, "bind:0", "set_mempolicy"),
            row(1, 20, "bind:0", "start"),
            row(2, 20, "interleave:0-1", "start"),
            row(3, 20, "local", "start"),
        ];
        let policies = Policies::new(&rows, 10, false);
        let of = |thread, bin| policies.at_end_of(ThreadId(thread), Bin(bin)).cloned();
        let bound = Policy { words: "bind:0".into(), setter: Setter::Call(ThreadId(0)) };
        assert_eq!([of(0, 0), of(0, 1), of(1, 2)], [None, Some(bound.clone()), Some(bound)]);
        assert_eq!(of(2, 2), Some(Policy { words: "interleave:0-1".into(), setter: Setter::Before }));
        assert_eq!(of(3, 2), None);
    }
}
