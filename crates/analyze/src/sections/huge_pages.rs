//! Section `huge-pages`: huge pages that several nodes use in disjoint parts. As small pages each part could lie where
//! it is used; a huge page has one home.

use crate::dataset::Dataset;
use crate::facts::page_sums::OfPage;
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::sections::exclusivity;
use crate::sections::pages::Homes;
use numalens_profile::ids::{Page, ProcessId};
use numalens_profile::tables::PlacedPages;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A huge page is one node's when that has this percentage of its accesses; and so is a small one.
const ONE_NODES: f64 = 80.0;
const APART: f64 = 90.0;

#[derive(Default)]
struct Huge<'a> {
    row: Option<&'a PlacedPages>,
    users: BTreeMap<NodeId, u64>,
    /// Of each small page the accesses of its main node, summed; and all.
    main: u64,
    all: u64,
    samples: u64,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let homes = Homes::new(dataset);
    let mut found: FxHashMap<(ProcessId, Page), Huge> = FxHashMap::default();
    let mut huge_pages = false;
    dataset.facts.by_page.sums.each_page(|users| {
        let (page, process) = users[0].0.page();
        let Some(row) = homes.of(process, page).filter(|row| row.page_size > Page::BYTES) else { return };
        huge_pages = true;
        let (main, all) = exclusivity::of_page(dataset, users);
        let size = row.page_size / Page::BYTES;
        let huge = found.entry((process, Page(page.0 / size * size))).or_default();
        huge.row = Some(row);
        (huge.main, huge.all) = (huge.main + main, huge.all + all);
        for (key, tally) in users {
            huge.samples += tally.samples;
            if let Some(node) = key.node {
                *huge.users.entry(node).or_default() += tally.accesses();
            }
        }
    });
    let share = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
    let misfit = |huge: &Huge| {
        let most = huge.users.values().copied().max().unwrap_or(0);
        huge.all > 0 && share(most, huge.all) < ONE_NODES && share(huge.main, huge.all) > APART
    };
    let mut misfits: Vec<_> = found.iter().filter(|(_, huge)| misfit(huge)).collect();
    misfits.sort_by_key(|(key, huge)| (Reverse(huge.all), **key));
    let columns = vec![
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("address", "page"),
        Column::new("page_size", "size"),
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column::new("home", "home"),
        Column::new("users", "used by"),
        Column::metric(&metrics::EXCLUSIVITY),
        Column::at("small_exclusivity", &metrics::SMALL_EXCLUSIVITY),
        Column::new("first_touch", "first touched at"),
    ];
    let rows = misfits.iter().map(|((process, page), huge)| {
        let place = huge.row.and_then(|row| dataset.code.own_on_stack(row.stack, row.site));
        vec![
            Value::maybe(dataset.program.pid(*process), |pid| Value::Id(u64::from(pid))),
            Value::Address(page.address()),
            Value::maybe(huge.row, |row| Value::Bytes(row.page_size)),
            Value::Count(huge.all),
            Value::maybe(huge.row.and_then(|row| row.home), Value::Node),
            Value::users(huge.users.iter().map(|(node, n)| (Some(*node), *n))),
            percent(huge.users.values().copied().max().unwrap_or(0), huge.all, 0),
            percent(huge.main, huge.all, 0),
            Value::maybe(place, |place| Value::Location(place.location)),
        ]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let mut doubts: Vec<String> = dataset.facts.sums_only().into_iter().collect();
    if doubts.is_empty() && !huge_pages {
        doubts.push("no huge pages were used".to_string());
    }
    if misfits.iter().any(|(_, huge)| huge.samples > 0) {
        doubts.push("estimated: with few samples a small page looks like one node's".to_string());
    }
    vec![
        Report::new("huge-pages", "huge_pages", "huge pages that several nodes divide", Shape::Table(table))
            .doubting(doubts),
    ]
}
