//! Section `allocation-matrix`: bytes, and calls, allocated by threads on a node whose pages are homed on a node.
//!
//! An allocation is split by the pages that it covers. The home of a page is where its first touch put it: the first
//! placement that was in force, or came, after the allocation and before the object died; pages without one are
//! untouched. A row stands for `weight` bytes of its site, so shares of its own bytes are scaled to that. A call
//! belongs to the home of most of its bytes. What is only reserved (`weight` 0) is what was touched of it.

use crate::dataset::Dataset;
use crate::facts::imported_totals::ImportedTotals;
use crate::model::metrics;
use crate::model::report::{Report, Shape};
use crate::sections::access_matrix::fill;
use numalens_profile::ids::{Bin, PAGE_SHIFT, Page, ProcessId};
use numalens_profile::tables::{Allocation, PlacedPages};
use numalens_profile::words::Call;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where bytes lie; none: untouched.
type Homes = BTreeMap<Option<NodeId>, u64>;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    if let Some(imported) = &dataset.facts.sites.imported {
        return of_imported(dataset, imported);
    }
    let placements = placements(dataset);
    let none = Placements::default();
    let mut bytes: BTreeMap<(Option<NodeId>, Option<NodeId>), f64> = BTreeMap::new();
    let mut calls: BTreeMap<(Option<NodeId>, Option<NodeId>), f64> = BTreeMap::new();
    for allocation in dataset.facts.allocations.iter().filter(|a| is_made(a)) {
        let from = dataset.program.pinning.at(allocation.thread, allocation.time_ns);
        let mut homes = homes(dataset, allocation, placements.get(&allocation.process).unwrap_or(&none));
        let mut scale = allocation.weight as f64 / allocation.bytes as f64;
        if is_reserved(allocation) {
            homes.remove(&None);
            scale = 1.0;
        }
        for (home, n) in &homes {
            *bytes.entry((from, *home)).or_default() += *n as f64 * scale;
        }
        if let Some((home, _)) = homes.iter().max_by_key(|(_, n)| **n) {
            *calls.entry((from, *home)).or_default() += scale;
        }
    }
    let nodes = dataset.nodes();
    let at = |cells: &BTreeMap<_, f64>, from, to| cells.get(&(from, to)).map_or(0, |n: &f64| n.round() as u64);
    let mut doubts = Vec::new();
    if dataset.facts.allocations.is_empty() {
        doubts.push(dataset.about.none("allocations"));
    } else if dataset.facts.allocations.iter().any(|a| a.weight != a.bytes && !is_reserved(a)) {
        doubts.push("estimated: small allocations were sampled".to_string());
    }
    let by_bytes = fill(nodes.clone(), &metrics::ALLOCATED, "untouched", |from, to| at(&bytes, from, to));
    let by_calls = fill(nodes, &metrics::CALLS, "untouched", |from, to| at(&calls, from, to));
    vec![
        Report::new("allocation-matrix", "matrix.allocation", TITLE, Shape::Matrix(by_bytes)).doubting(doubts),
        Report::new(
            "allocation-matrix",
            "matrix.allocation_calls",
            "allocation matrix: calls",
            Shape::Matrix(by_calls),
        ),
    ]
}

fn is_made(allocation: &Allocation) -> bool {
    allocation.bytes > 0 && !matches!(allocation.call, Call::Free | Call::Munmap)
}

/// Whether an allocation only reserves addresses.
fn is_reserved(allocation: &Allocation) -> bool {
    allocation.weight == 0 && is_made(allocation)
}

fn placements(dataset: &Dataset) -> FxHashMap<ProcessId, Placements<'_>> {
    let mut rows: FxHashMap<ProcessId, Vec<&PlacedPages>> = FxHashMap::default();
    for row in &dataset.memory.pages {
        rows.entry(row.process).or_default().push(row);
    }
    rows.into_iter().map(|(process, rows)| (process, Placements::new(rows))).collect()
}

/// How many bytes allocations stand for: of those that only reserve addresses, those that were touched.
pub fn committed(dataset: &Dataset) -> impl Fn(&Allocation) -> u64 {
    let reserved: Vec<&Allocation> = dataset.facts.allocations.iter().filter(|a| is_reserved(a)).collect();
    let placements = if reserved.is_empty() { FxHashMap::default() } else { placements(dataset) };
    let key = |allocation: &Allocation| (allocation.process, allocation.address, allocation.time_ns);
    let touched = |allocation: &&Allocation| {
        let homes = placements.get(&allocation.process).map(|of| homes(dataset, allocation, of)).unwrap_or_default();
        let bytes = homes.iter().filter(|(home, _)| home.is_some()).map(|(_, bytes)| bytes).sum::<u64>();
        (key(allocation), bytes)
    };
    let touched: FxHashMap<_, u64> = reserved.iter().map(touched).collect();
    move |allocation| match is_reserved(allocation) {
        true => touched.get(&key(allocation)).copied().unwrap_or(0),
        false => allocation.weight,
    }
}

/// What another tool has counted.
fn of_imported(dataset: &Dataset, imported: &ImportedTotals) -> Vec<Report> {
    let mut cells: BTreeMap<(Option<NodeId>, Option<NodeId>), u64> = BTreeMap::new();
    imported.nodes.iter().for_each(|cell| *cells.entry((cell.node, cell.home)).or_default() += cell.allocated);
    let doubt = match cells.values().any(|n| *n > 0) {
        true => {
            "imported: some versions of the tool count bytes, others calls, and the file does not say which".to_string()
        }
        false => dataset.about.none("allocations"),
    };
    let at = |from, to| cells.get(&(from, to)).copied().unwrap_or(0);
    let matrix = fill(dataset.nodes(), &metrics::ALLOCATED, "untouched", at);
    vec![Report::new("allocation-matrix", "matrix.allocation", TITLE, Shape::Matrix(matrix)).doubting(vec![doubt])]
}

const TITLE: &str = "allocation matrix: bytes allocated by threads on a node (rows) that lie on a node (columns)";

/// The rows of a process's pages, by where they begin, then by time. A place that is mapped and unmapped all the time
/// has many rows for each of its pages, and as many allocations: of these rows no more are looked at than can have a
/// part in an allocation.
#[derive(Default)]
struct Placements<'a> {
    rows: Vec<Placed<'a>>,
    /// For each page at which rows begin, the first one.
    first: Vec<(Page, usize)>,
    /// No row has more pages.
    longest: u64,
}

struct Placed<'a> {
    row: &'a PlacedPages,
    /// When the last one of this page's has ended up to this one.
    last_end: Bin,
    /// The next one of this page's that has more pages.
    next_longer: Option<usize>,
}

impl<'a> Placements<'a> {
    fn new(mut rows: Vec<&'a PlacedPages>) -> Self {
        rows.sort_by_key(|row| (row.page, row.bin_from));
        let longest = rows.iter().map(|row| row.count).max().unwrap_or(0);
        let (mut first, mut placed): (Vec<(Page, usize)>, Vec<Placed<'a>>) = (Vec::new(), Vec::new());
        // Those of the page for which no longer one has been met, which are ever shorter.
        let mut shorter: Vec<usize> = Vec::new();
        for (at, row) in rows.into_iter().enumerate() {
            let mut last_end = row.bin_to.unwrap_or(Bin(u32::MAX));
            if first.last().is_none_or(|(page, _)| *page != row.page) {
                first.push((row.page, at));
                shorter.clear();
            } else if let Some(before) = placed.last() {
                last_end = last_end.max(before.last_end);
            }
            while let Some(before) = shorter.pop_if(|before| placed[*before].row.count < row.count) {
                placed[before].next_longer = Some(at);
            }
            shorter.push(at);
            placed.push(Placed { row, last_end, next_longer: None });
        }
        Placements { rows: placed, first, longest }
    }

    /// Gives, for each page at which rows begin that may reach into a range of pages, those that have not all ended
    /// before `born`.
    fn pages(&self, range: Range<u64>, born: Bin) -> impl Iterator<Item = Range<usize>> + '_ {
        let begin = self.first.partition_point(|(page, _)| page.0.saturating_add(self.longest) <= range.start);
        let until = move |at: usize| self.first.get(at + 1).map_or(self.rows.len(), |(_, next)| *next);
        let of_range = self.first[begin..].iter().enumerate().take_while(move |(_, (page, _))| page.0 < range.end);
        of_range.map(move |(index, (_, first))| {
            let end = until(begin + index);
            let over = self.rows[*first..end].partition_point(|placed| placed.last_end < born);
            first + over..end
        })
    }
}

/// Where the bytes of an allocation came to lie.
fn homes(dataset: &Dataset, allocation: &Allocation, placements: &Placements<'_>) -> Homes {
    let (start, end) = (allocation.address, allocation.address.saturating_add(allocation.bytes));
    let bin_ns = dataset.about.meta.bin_ns.max(1);
    let bin_of = |time: u64| Bin(u32::try_from(time / bin_ns).unwrap_or(u32::MAX));
    let born = bin_of(allocation.time_ns);
    let died = allocation.object.and_then(|id| dataset.memory.objects.get(&id)?.death_ns).map(bin_of);
    // The piece of a run that is in force during the object's life. Where runs follow each other the earliest wins.
    let mut pieces: Vec<(u64, u64, Bin, Option<NodeId>)> = Vec::new();
    for of_page in placements.pages(start >> PAGE_SHIFT..end.div_ceil(Page::BYTES), born) {
        let mut at = of_page.start;
        while at < of_page.end {
            let Placed { row, next_longer, .. } = &placements.rows[at];
            if died.is_some_and(|died| row.bin_from > died) {
                break;
            }
            // What came and went within a bin has an empty range: then only the object says whose it was.
            let within = row.bin_from == born && row.bin_to == Some(born);
            let is_its = within && row.object.is_some() && row.object == allocation.object;
            // What was allocated in what is reserved is that.
            let is_others = is_reserved(allocation) && row.object.is_some() && row.object != allocation.object;
            if is_others || !is_its && row.bin_to.is_some_and(|to| to <= born) {
                at += 1;
                continue;
            }
            let behind = row.page.address().saturating_add(row.count.saturating_mul(Page::BYTES));
            let (from, to) = (row.page.address().max(start), behind.min(end));
            if from < to {
                pieces.push((from, to, row.bin_from, row.home));
            }
            // Later ones have no part in what this one has.
            let Some(longer) = next_longer.filter(|_| behind < end) else { break };
            at = longer;
        }
    }
    pieces.sort_by_key(|(from, _, bin, _)| (*bin, *from));
    let mut homes = Homes::new();
    let mut claimed: BTreeMap<u64, u64> = BTreeMap::new();
    let mut touched = 0;
    for (from, to, _, home) in pieces {
        let n = claim(&mut claimed, from, to);
        touched += n;
        *homes.entry(home).or_default() += n;
    }
    *homes.entry(None).or_default() += allocation.bytes - touched.min(allocation.bytes);
    homes.retain(|_, n| *n > 0);
    homes
}

/// Takes what is free of `from..to` and returns how much that was.
fn claim(claimed: &mut BTreeMap<u64, u64>, from: u64, to: u64) -> u64 {
    let mut at = from;
    let mut free = Vec::new();
    if let Some((_, end)) = claimed.range(..=from).next_back() {
        at = at.max(*end);
    }
    for (start, end) in claimed.range(from..to) {
        if *start > at {
            free.push((at, *start));
        }
        at = at.max(*end);
    }
    if at < to {
        free.push((at, to));
    }
    claimed.extend(free.iter().copied());
    free.iter().map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_is_claimed_once() {
        let mut claimed = BTreeMap::new();
        assert_eq!(claim(&mut claimed, 10, 20), 10);
        assert_eq!(claim(&mut claimed, 15, 30), 10);
        assert_eq!(claim(&mut claimed, 0, 40), 20);
        assert_eq!(claim(&mut claimed, 0, 40), 0);
    }
}
