//! What the memory of a dataset is used for, and what that costs on its machine.

use crate::dataset::Dataset;
use crate::facts::totals::{Totals, weigher};
use crate::model::intervals;
use crate::model::tally::Tally;
use numalens_simulate::{CostModel, Traffic};
use numalens_topology::LOCAL_DISTANCE;

/// The totals of a dataset, with the dataset and the cost of its machine.
pub struct Usages<'a> {
    pub dataset: &'a Dataset,
    pub model: CostModel<'a>,
    totals: &'a Totals,
}

impl std::ops::Deref for Usages<'_> {
    type Target = Totals;

    fn deref(&self) -> &Totals {
        self.totals
    }
}

impl<'a> Usages<'a> {
    /// Of a dataset's page use.
    pub fn of(dataset: &'a Dataset) -> Usages<'a> {
        let model = CostModel::new(&dataset.machine);
        let totals = dataset.totals(&model);
        Usages { dataset, model, totals }
    }

    /// Part of all accesses, as a share in percent, and its interval when it comes from samples.
    pub fn share(&self, part: f64) -> (f64, f64, f64) {
        let all = self.traffic.total();
        if all <= 0.0 {
            return (0.0, 0.0, 0.0);
        }
        let percent = (part * 100.0 / all).clamp(0.0, 100.0);
        let (low, high) = intervals::share(percent, self.all.samples).unwrap_or((percent, percent));
        (percent, low, high)
    }
}

/// Accesses of everything between nodes, as the cost model wants them, and how many there are.
pub fn traffic(dataset: &Dataset, model: CostModel<'_>) -> (Traffic, Tally) {
    let weighed = weigher(&dataset.about, &dataset.machine, model);
    let (mut traffic, mut all) = (Traffic::default(), Tally::default());
    for ((_, from, home), tally) in dataset.facts.sites.by_nodes() {
        traffic.add(from, home, weighed(from, home, tally.accesses()));
        all += tally;
    }
    (traffic, all)
}

/// Where remote is farther than local on this machine, or the load can be unequal: more than one node with memory.
pub fn matters(dataset: &Dataset) -> bool {
    dataset.machine.nodes_with_memory().count() > 1
        || dataset.machine.nodes.iter().any(|node| node.distances.iter().any(|distance| *distance > LOCAL_DISTANCE))
}
