//! Periods of pages, and how the one that covers a page is found.

use super::TargetId;
use numalens_profile::ids::{Bin, ObjectId, Page, ThreadId};
use numalens_profile::words::Placed;
use numalens_topology::NodeId;

/// A row of `pages`, as far as accesses need it.
pub struct Run {
    pub page: Page,
    pub count: u64,
    pub bins: (Bin, Option<Bin>),
    pub home: Option<NodeId>,
    pub small_pages: u32,
    pub thread: Option<ThreadId>,
    pub node: Option<NodeId>,
    pub object: Option<ObjectId>,
    pub placed: Placed,
    pub target: TargetId,
    /// The first page behind all runs of the process up to this one.
    pub reach: u64,
    /// Whether no other run has any of its pages.
    pub alone: bool,
}

/// Runs of a process, in layers of which each has a page once. Where addresses are used again, a large run may lie
/// below any number of small ones. Each layer is in the order of pages.
///
/// ```text
///   layer 1  ====== run 1 =========   == 4 ==
///   layer 2    2  3      5                       of page p each layer has one run at most
/// ```
#[derive(Default)]
pub struct Layers(Vec<Vec<u32>>);

/// Layers at most: of addresses that are used again more often, some runs are not found.
const MOST_LAYERS: usize = 64;

impl Layers {
    /// Adds a run that begins where the one before does, or behind that.
    pub fn add(&mut self, runs: &[Run], at: u32) {
        let begin = runs[at as usize].page.0;
        let ends = |layer: &Vec<u32>| layer.last().map_or(0, |last| runs[*last as usize].end());
        let free = self.0.iter().position(|layer| ends(layer) <= begin);
        match free {
            Some(layer) => self.0[layer].push(at),
            None if self.0.len() < MOST_LAYERS => self.0.push(vec![at]),
            None => self.0[at as usize % MOST_LAYERS].push(at),
        }
    }

    /// Those that have a page.
    pub fn covering<'a>(&'a self, runs: &'a [Run], page: Page) -> impl Iterator<Item = (u32, &'a Run)> {
        self.0.iter().filter_map(move |layer| {
            let until = layer.partition_point(|at| runs[*at as usize].page <= page);
            let at = *layer.get(until.checked_sub(1)?)?;
            let run = &runs[at as usize];
            (page.0 < run.end()).then_some((at, run))
        })
    }
}

impl Run {
    /// The first page behind it.
    pub fn end(&self) -> u64 {
        self.page.0.saturating_add(self.count)
    }
}
