//! Section `inclusive`: accesses, first touches and allocations by function, with everything that it called.
//!
//! A function on a call stack twice (it called itself) counts once. Inlined code belongs to the function that it was
//! inlined into, as in section `functions`, whose figures stand here as `own`. Exact counts have no callers: there the
//! accesses are the function's own, while first touches and allocations have their callers with every engine.

use crate::dataset::Dataset;
use crate::dataset::caveats::name_doubts;
use crate::facts::code::FunctionName;
use crate::facts::placed;
use crate::model::counts::{self, Counts};
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::sections::call_tree;
use numalens_profile::ids::{SiteId, StackId};
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

#[derive(Default)]
struct Row {
    counts: Counts,
    own: u64,
    placed: u64,
    allocated: u64,
}

/// Which functions are on a stack.
struct Ways<'a> {
    dataset: &'a Dataset,
    functions: Vec<FunctionName>,
    numbers: FxHashMap<FunctionName, usize>,
    sites: FxHashMap<SiteId, usize>,
}

impl Ways<'_> {
    fn function(&mut self, site: SiteId) -> usize {
        let Ways { dataset, functions, numbers, sites } = self;
        *sites.entry(site).or_insert_with(|| {
            let name = dataset.code.function(site);
            *numbers.entry(name).or_insert_with_key(|name| {
                functions.push(name.clone());
                functions.len() - 1
            })
        })
    }

    /// The functions of a stack, or of a site without one, each once; the innermost is the first.
    fn on(&mut self, stack: Option<StackId>, site: Option<SiteId>) -> Vec<usize> {
        let mut sites: Vec<SiteId> = stack.map(|stack| self.dataset.code.walk(stack).collect()).unwrap_or_default();
        if sites.is_empty() {
            sites.extend(site);
        }
        let mut functions = Vec::with_capacity(sites.len());
        for site in sites {
            let function = self.function(site);
            if !functions.contains(&function) {
                functions.push(function);
            }
        }
        functions
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut ways = Ways { dataset, functions: Vec::new(), numbers: FxHashMap::default(), sites: FxHashMap::default() };
    let mut rows: FxHashMap<usize, Row> = FxHashMap::default();
    let mut total = Counts::default();
    for ((stack, site), counts) in call_tree::accesses(dataset) {
        total += counts;
        for (level, function) in ways.on(stack, Some(site)).into_iter().enumerate() {
            let row = rows.entry(function).or_default();
            row.counts += counts;
            row.own += if level == 0 { counts.accesses() } else { 0 };
        }
    }
    for page in dataset.memory.placed.iter().filter(|page| page.stack.is_some() || page.site.is_some()) {
        for function in ways.on(page.stack, page.site) {
            rows.entry(function).or_default().placed += placed::bytes(page);
        }
    }
    for object in dataset.memory.objects.values().filter(|object| object.kind == ObjectKind::Heap) {
        for function in ways.on(object.stack, object.site) {
            rows.entry(function).or_default().allocated += object.size;
        }
    }
    let mut doubts = name_doubts(dataset);
    if !call_tree::has_callers(dataset) && total.accesses() > 0 {
        doubts.push(
            "accesses were recorded without their callers: they are the function's own; placed and allocated bytes are of all that it called"
                .to_string(),
        );
    }
    vec![
        Report::new(
            "inclusive",
            "inclusive",
            "functions with what they call",
            Shape::Table(table(dataset, &ways, rows, &total)),
        )
        .doubting(doubts),
    ]
}

fn table(dataset: &Dataset, ways: &Ways<'_>, rows: FxHashMap<usize, Row>, total: &Counts) -> Table {
    let mut sorted: Vec<(&FunctionName, Row)> =
        rows.into_iter().map(|(function, row)| (&ways.functions[function], row)).collect();
    sorted.sort_by_key(|(name, row)| (Reverse((row.counts.accesses(), row.placed, row.allocated)), *name));
    let mut columns = counts::columns(dataset.about.count_noun());
    columns.extend([
        Column::new("own", "of itself"),
        Column::new("placed", "placed"),
        Column::new("allocated", "allocated"),
        Column::new("function", "function"),
        Column::new("module", "module"),
        Column::new("file", "file").only(Shown::Data),
    ]);
    let rows = sorted.into_iter().map(|(name, row)| {
        let mut values = counts::values(&row.counts, total);
        values.extend([
            Value::Count(row.own),
            Value::Bytes(row.placed),
            Value::Bytes(row.allocated),
            Value::Text(name.name.clone()),
            Value::maybe(name.module.clone(), Value::Text),
            Value::maybe(name.file.clone(), Value::Text),
        ]);
        values
    });
    Table { rows: rows.collect(), columns, omitted: 0 }
}
