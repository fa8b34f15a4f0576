//! Section `collector`: collections of garbage. How often and how long, by kind and node; what they access, by thread's
//! node and page's home; and the objects that they process, where the runtime lets that be seen.

use crate::dataset::Dataset;
use crate::model::metrics;
use crate::model::node::node;
use crate::model::report::{Column, Field, Report, Shape, Shown, Table, Value};
use crate::sections::access_matrix::{Cells, fill};
use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Collection;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

const SECTION: &str = "collector";

/// Memory that objects are of: static, a generation, or any beyond those that have a matrix of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Area {
    Static,
    Generation(u32),
    Older,
}

/// Each with the key of its matrix.
const AREAS: [(Area, &str); 5] = [
    (Area::Static, "matrix.processed_static"),
    (Area::Generation(0), "matrix.processed_generation_0"),
    (Area::Generation(1), "matrix.processed_generation_1"),
    (Area::Generation(2), "matrix.processed_generation_2"),
    (Area::Older, "matrix.processed_older"),
];

impl Area {
    fn of(generation: Option<u32>) -> Self {
        match generation {
            None => Area::Static,
            Some(number @ 0..=2) => Area::Generation(number),
            Some(_) => Area::Older,
        }
    }

    fn words(self) -> String {
        match self {
            Area::Static => "static".to_owned(),
            Area::Generation(number) => format!("generation {number}"),
            Area::Older => "older generations".to_owned(),
        }
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let objects = Objects::of(dataset);
    let mut reports = vec![summary(dataset), collections(dataset), accesses(dataset), objects.by_area()];
    reports.extend(objects.matrices(dataset));
    reports
}

/// The figures of all of them.
fn summary(dataset: &Dataset) -> Report {
    let all = &dataset.program.collections;
    let (total, cells) = (dataset.facts.total().accesses(), Cells::of_collectors(dataset));
    let part = cells.all().accesses();
    let elsewhere = cells.between_nodes().filter(|((from, to), _)| from != to);
    let remote = elsewhere.fold(0, |sum: u64, (_, tally)| sum.saturating_add(tally.accesses()));
    let sum = |of: fn(&Collection) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
    let share = |part: u64, whole: u64| Value::Percent(100.0 * part as f64 / whole.max(1) as f64, None);
    let fields = vec![
        Field::new("collections", "collections", Value::Count(sum(|row| row.led))),
        Field::new("pause_s", "time", Value::Time(sum(|row| row.led_ns))),
        Field::new("longest_s", "longest", Value::Time(all.iter().map(|row| row.longest_ns).max().unwrap_or(0))),
        Field::metric(&metrics::ACCESSES, Value::Count(part)),
        Field::metric(&metrics::SHARE, share(part, total)),
        Field::metric(&metrics::REMOTE_SHARE, share(remote, part)),
    ];
    Report::new(SECTION, "collector", "collections of garbage", Shape::Record(fields)).doubting(doubts(dataset))
}

/// What is missing, and why.
fn doubts(dataset: &Dataset) -> Vec<String> {
    let (seen, accesses) = (&dataset.program.collections, &dataset.facts.collectors.0);
    let has_shared_ghc = dataset.code.module_names().any(|(_, name)| name.starts_with("libHSrts"));
    let mut doubts = Vec::new();
    if !dataset.about.filtered.is_empty() {
        doubts.push("collections and the objects that they process are known by process alone: no other part of the filter changes them".to_owned());
    } else if seen.is_empty() {
        let why = match (accesses.is_empty(), has_shared_ghc) {
            (_, true) => {
                "GHC's runtime is a shared library, which has no symbols: link the program with the runtime in it (without -dynamic)"
            }
            (true, _) => "no runtime was seen to collect garbage (docs/guide/languages.md says of which it is known)",
            (false, _) => {
                "when collections began and ended is not known: of GHC and Go --engine exact sees it, where the program has symbols"
            }
        };
        doubts.push(why.to_owned());
    } else if accesses.is_empty() {
        doubts.push("which accesses are collections' is known by the runtime's functions and threads, and none of these was seen".to_owned());
    }
    doubts
}

/// By kind and node.
fn collections(dataset: &Dataset) -> Report {
    #[derive(Default)]
    struct Sum {
        led: u64,
        led_ns: u64,
        longest_ns: u64,
        helped: u64,
        helped_ns: u64,
    }
    let mut sums: BTreeMap<(ProcessId, &str, Option<NodeId>), Sum> = BTreeMap::new();
    for row in &dataset.program.collections {
        let sum = sums.entry((row.process, &row.kind, row.node)).or_default();
        sum.led = sum.led.saturating_add(row.led);
        sum.led_ns = sum.led_ns.saturating_add(row.led_ns);
        sum.longest_ns = sum.longest_ns.max(row.longest_ns);
        sum.helped = sum.helped.saturating_add(row.helped);
        sum.helped_ns = sum.helped_ns.saturating_add(row.helped_ns);
    }
    let several = if dataset.program.processes.len() > 1 { Shown::Everywhere } else { Shown::Data };
    let columns = vec![
        Column::new("kind", "collection"),
        Column::new("pid", "pid").only(several),
        Column::new("node", "node").only(Shown::Data),
        Column::new("", "led on").only(Shown::Screen),
        Column::new("collections", "collections"),
        Column::new("pause_s", "time"),
        Column::new("longest_s", "longest"),
        Column::new("helped", "helped in"),
        Column::new("helped_s", "time of helpers"),
    ];
    let row = |((process, kind, on), sum): (&(ProcessId, &str, Option<NodeId>), &Sum)| {
        vec![
            Value::Text((*kind).to_owned()),
            Value::maybe(dataset.program.pid(*process), |pid| Value::Id(u64::from(pid))),
            Value::maybe(*on, Value::Node),
            node(*on),
            Value::Count(sum.led),
            Value::Time(sum.led_ns),
            Value::Time(sum.longest_ns),
            Value::Count(sum.helped),
            Value::Time(sum.helped_ns),
        ]
    };
    let table = Table { rows: sums.iter().map(row).collect(), columns, omitted: 0 };
    Report::new(SECTION, "collections", "collections by the node of the thread that led them", Shape::Table(table))
}

/// What collectors access.
fn accesses(dataset: &Dataset) -> Report {
    let cells = Cells::of_collectors(dataset);
    let at = |from, to| cells.at(from, to).accesses();
    let matrix = fill(dataset.nodes(), &metrics::ACCESSES, "unplaced", at);
    let title = format!(
        "{} within collections by threads on a node (rows) to pages on a node (columns)",
        dataset.about.count_noun()
    );
    Report::new(SECTION, "matrix.collector", title, Shape::Matrix(matrix))
}

/// By the node of the thread and their own.
type Counts = BTreeMap<(Option<NodeId>, Option<NodeId>), u64>;

/// Objects by area, and by the nodes of the thread that processed them and of their memory.
struct Objects(BTreeMap<Area, Counts>);

impl Objects {
    fn of(dataset: &Dataset) -> Self {
        let mut areas: BTreeMap<Area, Counts> = BTreeMap::new();
        for row in &dataset.program.processed_objects {
            let cell = areas.entry(Area::of(row.generation)).or_default().entry((row.node, row.home)).or_default();
            *cell = cell.saturating_add(row.objects);
        }
        Objects(areas)
    }

    fn by_area(&self) -> Report {
        let columns = vec![
            Column::new("area", "area"),
            Column::new("processed", "objects processed"),
            Column::new("local_processed", "by threads of their node"),
        ];
        let row = |(area, cells): (&Area, &Counts)| {
            let all = cells.values().fold(0, |sum: u64, n| sum.saturating_add(*n));
            let local = cells.iter().filter(|((from, to), _)| from.is_some() && from == to).map(|(_, n)| *n as f64);
            vec![
                Value::Text(area.words()),
                Value::Count(all),
                Value::Percent(100.0 * local.sum::<f64>() / (all.max(1) as f64), None),
            ]
        };
        let table = Table { rows: self.0.iter().map(row).collect(), columns, omitted: 0 };
        Report::new(SECTION, "processed", "objects processed by area", Shape::Table(table))
    }

    /// A matrix for each area that has any.
    fn matrices(&self, dataset: &Dataset) -> impl Iterator<Item = Report> {
        AREAS.iter().filter_map(|(area, key)| {
            let cells = self.0.get(area)?;
            let at = |from, to| cells.get(&(from, to)).copied().unwrap_or(0);
            let matrix = fill(dataset.nodes(), &metrics::PROCESSED, "unplaced", at);
            let title =
                format!("objects processed, {}: by threads on a node (rows), lying on a node (columns)", area.words());
            Some(Report::new(SECTION, key, title, Shape::Matrix(matrix)))
        })
    }
}
