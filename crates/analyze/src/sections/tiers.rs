//! Section `memory-tiers`: what each tier of memory serves and holds, hot pages on slow tiers and cold pages on fast
//! ones.
//!
//! A page is hot with more accesses than the mean of the pages that were used, cold with less than a tenth of it, or
//! with none.

use crate::dataset::Dataset;
use crate::facts::page_sums::OfPage;
use crate::facts::page_use::PageKey;
use crate::facts::placed;
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Table, Value};
use crate::model::tally::Tally;
use crate::sections::access_matrix;
use crate::sections::pages::Homes;
use numalens_profile::ids::Page;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

#[derive(Default)]
struct Tier {
    nodes: Vec<NodeId>,
    accesses: u64,
    samples: u64,
    bytes: u64,
    used: u64,
    hot: u64,
    cold: u64,
}

/// Of one page, by all nodes.
fn accesses(users: &[(PageKey, Tally)]) -> u64 {
    users.iter().map(|(_, tally)| tally.accesses()).sum()
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let cells = access_matrix::cells(dataset);
    let mut tiers: BTreeMap<u32, Tier> = BTreeMap::new();
    for node in dataset.machine.nodes_with_memory() {
        let tier = tiers.entry(node.tier).or_default();
        let served = cells.to(node.id);
        tier.nodes.push(node.id);
        (tier.accesses, tier.samples) = (tier.accesses + served.accesses(), tier.samples + served.samples);
    }
    let tier_of = |home: Option<NodeId>| Some(dataset.machine.node(home?)?.tier);
    for row in &dataset.memory.placed {
        if let Some(tier) = tier_of(row.home).and_then(|tier| tiers.get_mut(&tier)) {
            tier.bytes += placed::bytes(row);
        }
    }
    let homes = Homes::new(dataset);
    let (mut all, mut used) = (0, 0u64);
    dataset.facts.by_page.sums.each_page(|users| (all, used) = (all + accesses(users), used + 1));
    let mean = all as f64 / used.max(1) as f64;
    dataset.facts.by_page.sums.each_page(|users| {
        let ((page, process), n) = (users[0].0.page(), accesses(users));
        let home = homes.of(process, page).and_then(|row| row.home);
        let Some(tier) = tier_of(home).and_then(|tier| tiers.get_mut(&tier)) else { return };
        tier.used += 1;
        tier.hot += u64::from(n as f64 > mean);
        tier.cold += u64::from((n as f64) < mean / 10.0);
    });
    let all = cells.all();
    let bytes: u64 = tiers.values().map(|tier| tier.bytes).sum();
    let rows = tiers.iter().map(|(number, tier)| {
        // Pages that nobody used after they were placed.
        let unused = (tier.bytes / Page::BYTES).saturating_sub(tier.used);
        vec![
            Value::Count(u64::from(*number)),
            Value::List(tier.nodes.iter().map(|node| Value::Node(*node)).collect()),
            Value::Count(tier.accesses),
            percent(tier.accesses, all.accesses(), all.samples),
            Value::Bytes(tier.bytes),
            percent(tier.bytes, bytes, 0),
            Value::Count(tier.hot),
            Value::Count(tier.cold + unused),
        ]
    });
    let columns = vec![
        Column::new("tier", "tier"),
        Column::new("nodes", "nodes"),
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column::metric(&metrics::SHARE),
        Column::metric(&metrics::BYTES),
        Column::new("byte_share", "of all bytes"),
        Column::metric(&metrics::HOT_PAGES),
        Column::metric(&metrics::COLD_PAGES),
    ];
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let mut doubts: Vec<String> = dataset.facts.sums_only().into_iter().collect();
    if tiers.len() == 1 {
        doubts.push("the machine has one tier of memory".to_string());
    }
    if all.samples > 0 {
        doubts.push("estimated: of a page with few samples nobody knows whether it is hot".to_string());
    }
    vec![Report::new("memory-tiers", "memory_tiers", "memory tiers", Shape::Table(table)).doubting(doubts)]
}
