//! Section `address-space`: what lies where, and who uses it: runs of neighbouring pages of one home and one object.
//!
//! Of a page that moved or was mapped anew the last period counts. What a process uses of the memory of the one that
//! forked it is there as well: the pages that it has accessed.

use crate::dataset::Dataset;
use crate::facts::page_sums::OfPage;
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::sections::pages::Homes;
use numalens_profile::ids::{ObjectId, Page, ProcessId};
use numalens_profile::tables::PlacedPages;
use numalens_topology::NodeId;
use rangemap::RangeMap;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Runs that are told: as many as a screen has room for, several times over.
const MOST: usize = 5000;

/// What neighbours must share.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    home: Option<NodeId>,
    object: Option<ObjectId>,
    page_size: u64,
}

struct Run {
    process: ProcessId,
    pages: std::ops::Range<u64>,
    place: Place,
    users: BTreeMap<Option<NodeId>, u64>,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut runs = runs(dataset);
    use_of(dataset, &mut runs);
    let accesses = |run: &Run| run.users.values().sum::<u64>();
    let omitted = runs.len().saturating_sub(MOST);
    if omitted > 0 {
        runs.sort_by_key(|run| (Reverse(run.pages.end - run.pages.start), Reverse(accesses(run))));
        runs.truncate(MOST);
        runs.sort_by_key(|run| (run.process, run.pages.start));
    }
    let columns = vec![
        Column::new("pid", "pid"),
        Column::new("address", "address"),
        Column::metric(&metrics::BYTES),
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column::new("home", "home"),
        Column::new("main_user", "main user"),
        Column::metric(&metrics::EXCLUSIVITY),
        Column::new("users", "used by"),
        Column::new("page_size", "page size"),
        Column::new("kind", "kind"),
        Column::new("name", "name"),
        Column::new("object", "object").only(Shown::Data),
    ];
    let row = |run: &Run| {
        let all: u64 = run.users.values().sum();
        let most = run.users.iter().rev().max_by_key(|(_, n)| **n).filter(|(_, n)| **n > 0);
        let object = run.place.object.and_then(|id| dataset.memory.objects.get(&id));
        vec![
            Value::maybe(dataset.program.pid(run.process), |pid| Value::Id(u64::from(pid))),
            Value::Address(Page(run.pages.start).address()),
            Value::Bytes((run.pages.end - run.pages.start).saturating_mul(Page::BYTES)),
            Value::Count(all),
            Value::maybe(run.place.home, Value::Node),
            Value::maybe(most.and_then(|(node, _)| *node), Value::Node),
            Value::maybe(most, |(_, n)| Value::Percent(*n as f64 * 100.0 / all as f64, None)),
            Value::users(run.users.iter().map(|(node, n)| (*node, *n))),
            Value::Bytes(run.place.page_size),
            Value::maybe(object, |object| Value::Text(object.kind.word().to_string())),
            Value::maybe(object.map(|object| dataset.name_of(object)).filter(|name| !name.is_empty()), |name| {
                Value::Text(name.to_owned())
            }),
            Value::maybe(run.place.object, |object| Value::Id(u64::from(object.0))),
        ]
    };
    let table = Table { columns, rows: runs.iter().map(row).collect(), omitted };
    let doubts = if dataset.memory.pages.is_empty() { vec![dataset.about.none("pages")] } else { Vec::new() };
    vec![Report::new("address-space", "address_space", "address space", Shape::Table(table)).doubting(doubts)]
}

/// The runs of every process, by address.
fn runs(dataset: &Dataset) -> Vec<Run> {
    let mut processes: BTreeMap<ProcessId, Vec<&PlacedPages>> = BTreeMap::new();
    for row in dataset.memory.pages.iter().filter(|row| row.count > 0) {
        processes.entry(row.process).or_default().push(row);
    }
    let mut maps: BTreeMap<ProcessId, RangeMap<u64, Place>> = BTreeMap::new();
    let place = |row: &PlacedPages| Place { home: row.home, object: row.object, page_size: row.page_size };
    for (process, mut rows) in processes {
        // A later period overwrites; equal neighbours become one run.
        rows.sort_by_key(|row| (row.bin_from, row.page));
        let map = maps.entry(process).or_default();
        for row in rows {
            let pages = row.page.0..row.page.0.saturating_add(row.count);
            // A forged row may have none.
            if !pages.is_empty() {
                map.insert(pages, place(row));
            }
        }
    }
    let homes = Homes::new(dataset);
    dataset.facts.by_page.sums.each_page(|users| {
        let (page, process) = users[0].0.page();
        if !homes.has_parent(process) {
            return;
        }
        let map = maps.entry(process).or_default();
        if let Some(row) = homes.of(process, page).filter(|_| !map.contains_key(&page.0))
            && let Some(end) = page.0.checked_add(1)
        {
            map.insert(page.0..end, place(row));
        }
    });
    let mut runs = Vec::new();
    for (process, map) in maps {
        let of_process =
            |(pages, place): (std::ops::Range<u64>, Place)| Run { process, pages, place, users: BTreeMap::new() };
        runs.extend(map.into_iter().map(of_process));
    }
    runs
}

/// Adds the accesses to their runs.
fn use_of(dataset: &Dataset, runs: &mut [Run]) {
    let mut first: FxHashMap<ProcessId, (usize, usize)> = FxHashMap::default();
    for (index, run) in runs.iter().enumerate() {
        first.entry(run.process).or_insert((index, index)).1 = index + 1;
    }
    // Pages are in order for a while, and many are of one run.
    let mut last = 0;
    dataset.facts.by_page.sums.each_page(|users| {
        let (page, process) = users[0].0.page();
        let is_in = |run: &Run| run.process == process && run.pages.contains(&page.0);
        if !runs.get(last).is_some_and(is_in) {
            let Some((from, to)) = first.get(&process) else { return };
            let after = *from + runs[*from..*to].partition_point(|run| run.pages.start <= page.0);
            match after.checked_sub(1).filter(|at| is_in(&runs[*at])) {
                Some(at) => last = at,
                None => return,
            }
        }
        for (key, tally) in users {
            *runs[last].users.entry(key.node).or_default() += tally.accesses();
        }
    });
}
