//! How far each page belongs to one node alone (page exclusivity).

use crate::counts::Tally;
use crate::report::Value;
use crate::study::Study;
use numalens_profile::ids::{Page, ProcessId};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// Accesses to a page by the node of the thread; none: unpinned.
pub type Users = FxHashMap<Option<NodeId>, Tally>;

/// The users of every page.
pub fn users(study: &Study) -> FxHashMap<(ProcessId, Page), Users> {
    let mut pages: FxHashMap<(ProcessId, Page), Users> = FxHashMap::default();
    for (key, tally) in &study.by_page.sums {
        *pages.entry((key.process, key.page)).or_default().entry(key.node).or_default() += *tally;
    }
    pages
}

/// Accesses of the node that uses a page most, and of all nodes with CPUs. Unpinned threads belong to no node.
pub fn of_page(study: &Study, users: &Users) -> (u64, u64) {
    let nodes = users.iter().filter(|(node, _)| node.is_some_and(|node| study.machine.has_cpus(node)));
    nodes.fold((0, 0), |(max, sum), (_, tally)| (max.max(tally.accesses()), sum + tally.accesses()))
}

/// The application's: sum of the pages' maxima over the sum of all.
pub fn of_application(study: &Study, doubts: &mut Vec<String>) -> Value {
    // Straight from the sums: a map of maps would be large where programs touch millions of pages.
    let mut pages: FxHashMap<(ProcessId, Page), (u64, u64, u64)> = FxHashMap::default();
    for (key, tally) in &study.by_page.sums {
        if key.node.is_some_and(|node| study.machine.has_cpus(node)) {
            let (max, sum, samples) = pages.entry((key.process, key.page)).or_default();
            *max = (*max).max(tally.accesses());
            *sum += tally.accesses();
            *samples += tally.samples;
        }
    }
    let (max, sum, samples) =
        pages.values().fold((0, 0, 0), |(max, sum, samples), page| (max + page.0, sum + page.1, samples + page.2));
    if sum == 0 {
        doubts.extend(study.sums_only().map(|missing| format!("exclusivity: {missing}")));
        return Value::Absent;
    }
    let per_page = samples as f64 / pages.len() as f64;
    if samples > 0 && per_page < ENOUGH_SAMPLES {
        doubts.push(format!("exclusivity is too high: with {per_page:.1} samples a page, pages that several nodes use look like one node's"));
    }
    Value::Percent(max as f64 * 100.0 / sum as f64, None)
}

/// The bias of a maximum over few samples is below a tenth from about here on.
const ENOUGH_SAMPLES: f64 = 30.0;
