//! How far each page belongs to one node alone (page exclusivity).

use crate::dataset::Dataset;
use crate::facts::page_use::PageKey;
use crate::model::report::Value;
use crate::model::tally::{self, Tally};
use numalens_profile::tables::MainUser;
use numalens_topology::NodeId;

/// The sums of one page by node, in order, wherever the page was.
pub fn by_node(users: &[(PageKey, Tally)]) -> impl Iterator<Item = (Option<NodeId>, Tally)> {
    users.chunk_by(|(one, _), (next, _)| one.node == next.node).map(|alike| {
        let sum = alike.iter().fold(Tally::default(), |mut sum, (_, tally)| {
            sum += *tally;
            sum
        });
        (alike[0].0.node, sum)
    })
}

/// Accesses of the node that uses a page most, and of all nodes with CPUs, of the sums of one page. Unpinned threads
/// belong to no node.
pub fn of_page(dataset: &Dataset, users: &[(PageKey, Tally)]) -> (u64, u64) {
    let nodes = by_node(users).filter(|(node, _)| node.is_some_and(|node| dataset.machine.has_cpus(node)));
    nodes.fold((0, 0), |(max, sum), (_, tally)| (max.max(tally.accesses()), sum + tally.accesses()))
}

/// The application's: sum of the pages' maxima over the sum of all.
pub fn of_application(dataset: &Dataset, doubts: &mut Vec<String>) -> Value {
    let add = |all: &mut [u64; 4], users: &[(PageKey, Tally)]| {
        let (of_main, of_all) = of_page(dataset, users);
        let by_nodes = |(key, _): &&(PageKey, Tally)| key.node.is_some_and(|node| dataset.machine.has_cpus(node));
        let samples: u64 = users.iter().filter(by_nodes).map(|(_, tally)| tally.samples).sum();
        let pages = u64::from(users.iter().any(|one| by_nodes(&one)));
        *all = both(*all, [of_main, of_all, samples, pages]);
    };
    let [max, sum, samples, pages] = match &dataset.facts.summed.main_users[..] {
        [] => dataset.facts.by_page.sums.fold_pages(|| [0; 4], add, both),
        sums => {
            let total = |of: fn(&MainUser) -> u64| tally::total(sums.iter().map(of));
            [total(|row| row.own), total(|row| row.accesses), 0, 0]
        }
    };
    if sum == 0 {
        doubts.extend(dataset.facts.sums_only().map(|missing| format!("exclusivity: {missing}")));
        return Value::Absent;
    }
    let per_page = samples as f64 / pages as f64;
    if samples > 0 && per_page < ENOUGH_SAMPLES {
        doubts.push(format!("exclusivity is too high: with {per_page:.1} samples a page, pages that several nodes use look like one node's"));
    }
    Value::Percent(max as f64 * 100.0 / sum as f64, None)
}

fn both(one: [u64; 4], other: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|at| one[at] + other[at])
}

/// The bias of a maximum over few samples is below a tenth from about here on.
const ENOUGH_SAMPLES: f64 = 30.0;
