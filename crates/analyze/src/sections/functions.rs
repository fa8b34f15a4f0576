//! Section `functions`: accesses by the function that the instruction lies in (exclusive; inlined code belongs to the
//! function that it was inlined into, as in a disassembly). First touches belong to the function that has their line.

use crate::dataset::Dataset;
use crate::dataset::caveats::name_doubts;
use crate::facts::cache_misses::Missed;
use crate::facts::code::FunctionName;
use crate::facts::placed::FirstTouches;
use crate::facts::runtime;
use crate::model::counts::{self, Counts};
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::sections::misses;
use rustc_hash::FxHashMap;

/// What stands for all functions of a system library.
pub const LIBRARY: &str = "[system library]";

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    by_name(dataset, |name| name)
}

/// The same with a row for each system library.
pub fn folded(dataset: &Dataset) -> Vec<Report> {
    by_name(dataset, |name| match &name.module {
        Some(module) if runtime::is_library(module) => {
            FunctionName { name: LIBRARY.to_string(), module: name.module, file: None }
        }
        _ => name,
    })
}

fn by_name(dataset: &Dataset, named: impl Fn(FunctionName) -> FunctionName) -> Vec<Report> {
    let total = dataset.facts.total();
    let mut sites: FxHashMap<_, Counts> = FxHashMap::default();
    for ((site, class), tally) in dataset.facts.sites.by_site() {
        sites.entry(site).or_default().add(class, tally);
    }
    let mut functions: FxHashMap<FunctionName, (Counts, FirstTouches, Missed)> = FxHashMap::default();
    for (site, counts) in sites {
        functions.entry(named(dataset.code.function(site))).or_default().0 += counts;
    }
    for (&site, &missed) in dataset.facts.misses.iter().flat_map(|misses| &misses.sites) {
        functions.entry(named(dataset.code.function(site))).or_default().2 += missed;
    }
    for row in &dataset.memory.placed {
        if let Some(place) = dataset.code.own_on_stack(row.stack, row.site) {
            functions.entry(named(dataset.code.function(place.site))).or_default().1.add(row);
        }
    }
    let mut sorted: Vec<_> = functions.into_iter().collect();
    let order = total.order();
    sorted.sort_by(|(a, (x, ..)), (b, (y, ..))| order(x).cmp(&order(y)).then_with(|| a.cmp(b)));
    let mut columns = counts::columns(dataset.about.count_noun());
    columns.extend(misses::columns(dataset));
    columns.extend([
        Column::metric(&metrics::FIRST_TOUCH),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH),
        Column::new("function", "function"),
        Column::new("module", "module"),
        Column::new("file", "file").only(Shown::Data),
    ]);
    let rows = sorted.into_iter().map(|(name, (counts, touches, missed))| {
        let mut row = counts::values(&counts, &total);
        row.extend(misses::values(dataset, |_| missed));
        row.extend([
            Value::Count(touches.pinned),
            Value::Count(touches.unpinned),
            Value::Text(name.name),
            Value::maybe(name.module, Value::Text),
            Value::maybe(name.file, Value::Text),
        ]);
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    vec![Report::new("functions", "functions", "functions", Shape::Table(table)).doubting(name_doubts(dataset))]
}
