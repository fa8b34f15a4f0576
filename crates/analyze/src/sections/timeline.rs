//! Section `timeline`: classes of accesses and placed pages over time.

use crate::dataset::Dataset;
use crate::dataset::caveats::spread_doubts;
use crate::facts::placed;
use crate::model::counts::metric_of;
use crate::model::metrics;
use crate::model::report::{Report, Series, Shape};
use numalens_profile::words::{Class, Placed};

/// A damaged bin number must not become a giant series.
const MOST_BINS: usize = 100_000;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let meta = &dataset.about.meta;
    let (times, longest) = dataset.facts.node_times.spread(&dataset.about);
    let classes = times.classes();
    let last = classes
        .keys()
        .chain(dataset.memory.placed.iter().map(|row| &row.bin_from))
        .map(|bin| bin.0 as usize + 1)
        .max()
        .unwrap_or(0);
    let bins = last.max(meta.bins as usize).min(MOST_BINS);
    let mut lines = Vec::new();
    for class in Class::ALL {
        let mut line = vec![0; bins];
        for (bin, counts) in &classes {
            if let Some(cell) = line.get_mut(bin.0 as usize) {
                *cell += counts.class(*class);
            }
        }
        lines.push((metric_of(*class), line));
    }
    for (metric, kind) in [
        (&metrics::FIRST_TOUCH, Placed::Pinned),
        (&metrics::UNPINNED_FIRST_TOUCH, Placed::Unpinned),
        (&metrics::PLACED_UNSEEN, Placed::Unseen),
    ] {
        let mut line = vec![0; bins];
        for row in dataset.memory.placed.iter().filter(|row| row.placed == kind) {
            if let Some(cell) = line.get_mut(row.bin_from.0 as usize) {
                *cell += placed::pages(row);
            }
        }
        lines.push((metric, line));
    }
    let mut doubts: Vec<String> =
        dataset.facts.sums_only().into_iter().chain(spread_doubts(dataset, longest)).collect();
    if last > bins {
        doubts.push(format!("time bins after number {MOST_BINS} are left out"));
    }
    vec![
        Report::new("timeline", "timeline", "over time", Shape::Series(Series { bin_ns: meta.bin_ns, lines }))
            .doubting(doubts),
    ]
}
