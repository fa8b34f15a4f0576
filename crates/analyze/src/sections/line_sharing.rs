//! Section `cache-lines`: lines that threads take from each other, and whether they share their words or only the line.
//!
//! Of recordings that counted by cache line. Rows of the table are lines that several threads accessed, those first
//! that move for somebody's writes most often.

use crate::dataset::Dataset;
use crate::facts::node_occupancy::NodeOccupancy;
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::node::node;
use crate::model::report::{Column, Field, Location, Report, Shape, Shown, Table, Value};
use crate::model::tally::add;
use crate::sections::pages::Homes;
use numalens_profile::ids::{ObjectId, Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::{CacheLine, Object};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// More rows than anyone reads; the facts have them all.
const MOST: usize = 1000;
/// Bytes of a line, and of a word.
const LINE: u64 = 64;
const WORD: u64 = 4;
/// Lines of source that are shown of one cache line.
const PLACES: usize = 4;

/// Sums of rows.
#[derive(Clone, Copy, Default)]
struct Sum {
    lines: u64,
    reads: u64,
    writes: u64,
    transitions: u64,
    node_transitions: u64,
    true_sharing: u64,
    false_sharing: u64,
}

impl Sum {
    fn add(&mut self, row: &CacheLine) {
        self.lines += u64::from(row.lines);
        add(&mut self.reads, row.reads);
        add(&mut self.writes, row.writes);
        add(&mut self.transitions, row.transitions);
        add(&mut self.node_transitions, row.node_transitions);
        add(&mut self.true_sharing, row.true_sharing);
        add(&mut self.false_sharing, row.false_sharing);
    }

    fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    fn contended(&self) -> u64 {
        self.true_sharing + self.false_sharing
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut lines: BTreeMap<(ProcessId, u64), (Sum, Vec<&CacheLine>)> = BTreeMap::new();
    let (mut all, mut shared) = (Sum::default(), 0);
    for row in &dataset.facts.lines.counted {
        all.add(row);
        let Some(line) = row.line else { continue };
        let address = row.page.address() + u64::from(line) * LINE;
        let (sum, rows) = lines.entry((row.process, address)).or_default();
        sum.add(row);
        rows.push(row);
    }
    // Each thread that accessed a line has counted it.
    for (sum, rows) in lines.values_mut() {
        all.lines -= sum.lines.saturating_sub(1);
        sum.lines = 1;
        rows.sort_by_key(|row| row.thread);
        shared += u64::from(rows.iter().any(|row| row.thread != rows[0].thread));
    }
    let mut doubts = Vec::new();
    if dataset.facts.lines.counted.is_empty() {
        doubts.push("cache lines were not counted: record with --lines, and without a pause".to_string());
    } else if !dataset.about.filtered.is_empty() {
        doubts
            .push("counts of cache lines know neither time nor function: they are of the whole recording".to_string());
    }
    let occupancy = NodeOccupancy::of(&dataset.facts.sites, &dataset.program.pinning);
    doubts.extend(occupancy.doubt(lines.values().flat_map(|(_, rows)| rows.iter().map(|row| row.thread))));
    let record = vec![
        Field::new("lines", "cache lines", Value::Count(all.lines)),
        Field::new("shared_lines", "of several threads", Value::Count(shared)),
        Field::metric(&metrics::ACCESSES, Value::Count(all.accesses())),
        Field::metric(&metrics::TRANSITIONS, Value::Count(all.transitions)),
        Field::metric(&metrics::NODE_TRANSITIONS, Value::Count(all.node_transitions)),
        Field::metric(&metrics::TRUE_SHARING, Value::Count(all.true_sharing)),
        Field::metric(&metrics::FALSE_SHARING, Value::Count(all.false_sharing)),
        Field::new("contended_share", "contended", percent(all.contended(), all.accesses(), 0)),
    ];
    let record = Report::new("cache-lines", "line_sharing", "sharing of cache lines", Shape::Record(record));
    vec![record.doubting(doubts), table(dataset, &occupancy, lines, &all)]
}

fn table(
    dataset: &Dataset,
    occupancy: &NodeOccupancy<'_>,
    lines: BTreeMap<(ProcessId, u64), (Sum, Vec<&CacheLine>)>,
    all: &Sum,
) -> Report {
    let mut sorted: Vec<_> = lines.into_iter().collect();
    sorted.sort_by_key(|(key, (sum, _))| (Reverse(sum.contended()), Reverse(sum.transitions), *key));
    let omitted = sorted.len().saturating_sub(MOST);
    let (places, homes) = (Places::new(dataset), Homes::new(dataset));
    let rows = sorted.into_iter().take(MOST).map(|((process, address), (sum, rows))| {
        let threads = |has: fn(&CacheLine) -> u64| {
            let mut threads: Vec<ThreadId> = rows.iter().filter(|row| has(row) > 0).map(|row| row.thread).collect();
            threads.dedup();
            Value::List(threads.into_iter().map(|thread| Value::Id(u64::from(thread.0))).collect())
        };
        vec![
            Value::maybe(dataset.program.pid(process), |pid| Value::Id(u64::from(pid))),
            Value::Address(address),
            Value::Count(sum.accesses()),
            percent(sum.accesses(), all.accesses(), 0),
            Value::Count(sum.reads),
            Value::Count(sum.writes),
            Value::Count(sum.transitions),
            Value::Count(sum.node_transitions),
            Value::Count(sum.true_sharing),
            Value::Count(sum.false_sharing),
            Value::Text(word(&sum).to_string()),
            threads(|row| row.reads),
            threads(|row| row.writes),
            Value::List(rows.iter().map(|row| Value::Record(user(occupancy, row))).collect()),
            Value::List(objects(dataset, &homes, process, address, &rows).into_iter().map(Value::Text).collect()),
            Value::List(places.of(process, address).into_iter().map(Value::Location).collect()),
        ]
    });
    let table = Table { rows: rows.collect(), columns: columns(dataset), omitted };
    Report::new("cache-lines", "cache_lines", "cache lines of several threads", Shape::Table(table))
}

fn columns(dataset: &Dataset) -> Vec<Column> {
    vec![
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("address", "line"),
        Column::metric(&metrics::ACCESSES),
        Column::metric(&metrics::SHARE),
        Column::metric(&metrics::READS).only(Shown::Data),
        Column::metric(&metrics::WRITES).only(Shown::Data),
        Column::metric(&metrics::TRANSITIONS),
        Column::metric(&metrics::NODE_TRANSITIONS),
        Column::metric(&metrics::TRUE_SHARING),
        Column::metric(&metrics::FALSE_SHARING),
        Column::new("sharing", "sharing").only(Shown::Data),
        Column::new("readers", "read by threads"),
        Column::new("writers", "written by"),
        Column::new("users", "users").only(Shown::Data),
        Column::new("objects", "object"),
        Column::new("places", "seen at"),
    ]
}

/// What prevails in a line.
fn word(sum: &Sum) -> &'static str {
    match (sum.true_sharing, sum.false_sharing) {
        (0, 0) => "read",
        (true_sharing, false_sharing) if false_sharing > true_sharing => "false",
        _ => "true",
    }
}

/// What one thread did there.
fn user(occupancy: &NodeOccupancy<'_>, row: &CacheLine) -> Vec<Field> {
    let offsets = |words: u32| {
        let set = (0..LINE / WORD).filter(|word| words >> word & 1 != 0);
        Value::List(set.map(|word| Value::Count(word * WORD)).collect())
    };
    vec![
        Field::new("thread", "thread", Value::Id(u64::from(row.thread.0))),
        Field::new("node", "node", node(occupancy.node(row.thread))),
        Field::metric(&metrics::READS, Value::Count(row.reads)),
        Field::metric(&metrics::WRITES, Value::Count(row.writes)),
        Field::metric(&metrics::TRANSITIONS, Value::Count(row.transitions)),
        Field::new("accessed", "accessed", offsets(row.words_accessed)),
        Field::new("written", "written", offsets(row.words_written)),
    ]
}

/// Instructions that were seen to access lines: sampled ones.
struct Places<'a> {
    dataset: &'a Dataset,
    sites: FxHashMap<(ProcessId, u64), BTreeMap<SiteId, u64>>,
}

impl<'a> Places<'a> {
    fn new(dataset: &'a Dataset) -> Self {
        let mut sites: FxHashMap<(ProcessId, u64), BTreeMap<SiteId, u64>> = FxHashMap::default();
        for (key, found) in &dataset.facts.lines.sampled.0 {
            *sites.entry((key.process, key.line)).or_default().entry(key.site).or_default() += found.samples;
        }
        Places { dataset, sites }
    }

    fn of(&self, process: ProcessId, address: u64) -> Vec<Location> {
        let Some(sites) = self.sites.get(&(process, address / LINE)) else { return Vec::new() };
        let mut places: BTreeMap<Location, u64> = BTreeMap::new();
        for (&site, &samples) in sites {
            *places.entry(self.dataset.code.own(site).location).or_default() += samples;
        }
        let mut sorted: Vec<(Location, u64)> = places.into_iter().collect();
        sorted.sort_by_key(|(_, samples)| Reverse(*samples));
        sorted.into_iter().take(PLACES).map(|(place, _)| place).collect()
    }
}

/// What threads accessed in a line: each what held its first word; else what the page belongs to.
fn objects(dataset: &Dataset, homes: &Homes<'_>, process: ProcessId, address: u64, rows: &[&CacheLine]) -> Vec<String> {
    let mut found: Vec<ObjectId> = rows.iter().filter_map(|row| row.object).collect();
    if found.is_empty() {
        found.extend(homes.of(process, Page::of(address)).and_then(|row| row.object));
    }
    let mut names: Vec<String> = Vec::new();
    for object in found.iter().filter_map(|id| dataset.memory.objects.get(id)) {
        let name = name(dataset, object);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn name(dataset: &Dataset, object: &Object) -> String {
    let (kind, name) = (object.kind.word(), dataset.name_of(object));
    if name.starts_with(kind) {
        return name.to_owned();
    }
    if !name.is_empty() {
        return format!("{kind} {name}");
    }
    match dataset.code.own_on_stack(object.stack, object.site) {
        Some(place) => format!("{kind} of {}", place.location),
        None => kind.to_string(),
    }
}
