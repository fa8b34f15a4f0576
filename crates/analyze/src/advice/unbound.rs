//! Threads that a virtual machine keeps on nodes, and the program does not.
//!
//! `--placement spread` is a scheduler that never moves a thread. On a real machine one that nothing binds wanders, and
//! what it touched first stays behind. What that may cost is predicted: the accesses of such threads come from
//! anywhere.

use super::candidate::LEAST_GAIN;
use crate::dataset::usages::Usages;
use crate::facts::runtime::Managed;
use crate::model::tally;
use numalens_profile::ids::ThreadId;
use rustc_hash::FxHashSet;

/// What is said of them.
pub struct Unbound {
    pub threads: u64,
    /// Percent that the memory time would grow by.
    pub cost: f64,
    /// What binds threads, in words of the program's language.
    pub how: &'static str,
}

/// What the pinning log says when the machine alone has placed a thread.
const BY_MACHINE: &str = "virtual machine";

/// None where the program, or a real machine, binds its threads, or where it would not matter.
pub fn of(usages: &Usages) -> Option<Unbound> {
    let dataset = usages.dataset;
    if !dataset.machine.is_virtual {
        return None;
    }
    let bound = dataset.program.placements.iter().filter(|row| row.cause != BY_MACHINE).map(|row| row.thread);
    let bound: FxHashSet<ThreadId> = bound.collect();
    let kept = dataset.program.placements.iter().filter(|row| row.node.is_some()).map(|row| row.thread);
    let kept: FxHashSet<ThreadId> = kept.filter(|thread| !bound.contains(thread)).collect();
    // Whose accesses they are is summed by thread and not by way: of each way the same part.
    let by_thread = dataset.facts.by_thread();
    let of_kept = by_thread.iter().filter(|(id, _)| kept.contains(id)).map(|(_, counts)| counts.accesses());
    let of_kept = tally::total(of_kept);
    let part = of_kept as f64 / (dataset.facts.total().accesses() as f64).max(1.0);
    let mut wandering = usages.traffic.clone();
    for ((from, to), accesses) in usages.traffic.cells().filter(|((from, to), _)| from.is_some() && to.is_some()) {
        wandering.add(from, to, -accesses * part);
        wandering.add(None, to, accesses * part);
    }
    let cost = -usages.model.gain(&usages.traffic, &wandering).estimate;
    (kept.len() > 1 && cost >= LEAST_GAIN).then(|| {
        let how = match dataset.code.managed() {
            Some(Managed::Haskell) => "+RTS -qa, numactl",
            Some(_) => "numactl, taskset",
            None => "OMP_PROC_BIND, numactl",
        };
        Unbound { threads: kept.len() as u64, cost, how }
    })
}

impl Unbound {
    /// One sentence.
    pub fn words(&self) -> String {
        format!(
            "the program binds none of {} threads, the virtual machine keeps each on its node; where nothing does, the \
             memory time may be {:.0} % longer: see `record --placement none`, and bind them ({})",
            self.threads, self.cost, self.how
        )
    }
}
