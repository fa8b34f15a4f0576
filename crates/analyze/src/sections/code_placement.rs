//! Section `code-placement`: where the code of each module lies, and who executes it.
//!
//! Pages of code are those that were seen to be fetched from; what a module has beyond them is cold. Most fetches hit a
//! cache wherever the page lies, so a module whose hot pages fit in a first-level cache costs nothing on any node.

use crate::dataset::Dataset;
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Column, PerNode, Report, Shape, Shown, Table, Value};
use numalens_profile::ids::{ModuleId, Page};
use numalens_profile::words::ObjectKind;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Code {
    instructions: u64,
    remote: u64,
    unpinned: u64,
    users: BTreeMap<Option<NodeId>, u64>,
    homes: BTreeMap<Option<NodeId>, u64>,
    pages: BTreeSet<Page>,
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut modules: FxHashMap<Option<ModuleId>, Code> = FxHashMap::default();
    for (key, n) in &dataset.facts.fetches.instructions {
        let code = modules.entry(key.module).or_default();
        code.instructions += n;
        *code.users.entry(key.node).or_default() += n;
        match (key.node, key.home) {
            (None, _) => code.unpinned += n,
            (Some(from), Some(to)) if from != to => code.remote += n,
            _ => {}
        }
    }
    for (module, page, home) in dataset.facts.fetches.pages.keys() {
        let code = modules.entry(*module).or_default();
        *code.homes.entry(*home).or_default() += 1;
        code.pages.insert(*page);
    }
    let mapped = mapped(dataset);
    let all: u64 = modules.values().map(|code| code.instructions).sum();
    let samples = |n: u64| if dataset.about.sampled() { n } else { 0 };
    let mut sorted: Vec<(Option<&str>, Option<ModuleId>, Code)> = modules
        .into_iter()
        .map(|(module, code)| (module.and_then(|module| dataset.code.module_path(module)), module, code))
        .collect();
    sorted.sort_by_key(|(path, module, code)| (Reverse(code.instructions), *path, *module));
    let rows = sorted.into_iter().map(|(path, module, code)| {
        let text = path.and_then(|path| mapped.get(path)).copied();
        let own = samples(code.instructions);
        vec![
            Value::Count(code.instructions),
            percent(code.instructions, all, samples(all)),
            percent(code.remote, code.instructions, own),
            percent(code.unpinned, code.instructions, own),
            Value::Text(path.map_or("code made at run time", crate::facts::code::file_name).to_string()),
            Value::maybe(path, |path| Value::Text(path.to_string())),
            Value::maybe(text, Value::Bytes),
            Value::Count(code.pages.len() as u64),
            Value::Count(dataset.facts.fetches.hot_pages(module) as u64),
            Value::homes(&metrics::PAGES, code.homes),
            Value::PerNode(PerNode {
                metric: &metrics::INSTRUCTIONS,
                none: "unpinned",
                counts: code.users.into_iter().collect(),
            }),
        ]
    });
    let columns = vec![
        Column {
            title: if dataset.about.sampled() { "samples" } else { "instructions" },
            ..Column::metric(&metrics::INSTRUCTIONS)
        },
        Column::metric(&metrics::SHARE),
        Column::metric(&metrics::REMOTE_SHARE),
        Column::metric(&metrics::UNPINNED_SHARE),
        Column::new("module", "module"),
        Column::new("path", "path").only(Shown::Data),
        Column::new("mapped", "mapped"),
        Column::new("fetched_pages", "pages executed"),
        Column::new("most_fetched_pages", "hot pages"),
        Column::new("homes", "they lie on"),
        Column::new("users", "executed by"),
    ];
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let doubts = match all {
        0 => vec![dataset.about.none("code fetches")],
        _ => Vec::new(),
    };
    vec![Report::new("code-placement", "code_placement", "code by module", Shape::Table(table)).doubting(doubts)]
}

/// Bytes of code that are mapped of each file, in the process that maps most.
fn mapped(dataset: &Dataset) -> FxHashMap<&str, u64> {
    let mut sizes: FxHashMap<&str, u64> = FxHashMap::default();
    for object in dataset.memory.objects.values().filter(|object| object.kind == ObjectKind::Code) {
        let size = sizes.entry(object.name.as_str()).or_default();
        *size = (*size).max(object.size);
    }
    sizes
}
