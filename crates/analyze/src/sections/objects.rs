//! Section `objects`: accesses by what they went to.
//!
//! Heap objects of one allocation stack are one row: a program that allocates a thousand rows of a matrix on one line
//! has one thing to change. Other objects are what their name says, over all processes.

use crate::advice::classify::{self, Judged};
use crate::dataset::Dataset;
use crate::dataset::usages::{self, Usages};
use crate::facts::code::{MADE, OwnPlace};
use crate::facts::imported_totals;
use crate::facts::placed::{self, FirstTouches};
use crate::model::counts::{self, Counts};
use crate::model::metrics;
use crate::model::object_group::Group;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::model::tally::{self, Bound};
use crate::sections::lines::via;
use numalens_profile::ObjectAttribution;
use numalens_profile::ids::{ObjectId, ProcessId};
use numalens_profile::tables::Object;
use numalens_profile::words::{Fault, ObjectKind};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Row {
    counts: Counts,
    bound: Bound,
    touches: FirstTouches,
    /// Accesses by the page's home, placed bytes by home, accesses by the thread's node.
    accessed: BTreeMap<Option<NodeId>, u64>,
    homes: BTreeMap<Option<NodeId>, u64>,
    users: BTreeMap<Option<NodeId>, u64>,
    size: u64,
    count: u64,
    processes: BTreeSet<ProcessId>,
    /// The largest: it lends the row its site, stack, address and thread.
    example: Option<Object>,
}

/// Rows by group, and which are whose.
#[derive(Default)]
struct Rows {
    all: Vec<(Group, Row)>,
    by_group: FxHashMap<Group, usize>,
    by_object: FxHashMap<ObjectId, usize>,
}

impl Rows {
    fn of_group(&mut self, object: ObjectId, group: Group) -> &mut Row {
        let index = *self.by_group.entry(group).or_insert_with_key(|group| {
            self.all.push((group.clone(), Row::default()));
            self.all.len() - 1
        });
        self.by_object.insert(object, index);
        &mut self.all[index].1
    }

    fn of(&mut self, object: ObjectId) -> &mut Row {
        match self.by_object.get(&object) {
            Some(index) => &mut self.all[*index].1,
            None => self.of_group(object, Group::Lost(object)),
        }
    }

    /// Adds what the objects are.
    fn add_objects(&mut self, dataset: &Dataset) {
        for (id, object) in &dataset.memory.objects {
            let row = self.of_group(*id, Group::of(object));
            tally::add(&mut row.size, object.size);
            tally::add(&mut row.count, object.count);
            row.processes.insert(object.process);
            // By id among equals, so that equal profiles give equal reports.
            let key = (object.size, Reverse(*id));
            if row.example.as_ref().is_none_or(|example| (example.size, Reverse(example.object)) < key) {
                row.example = Some(object.clone());
            }
        }
    }

    /// Adds accesses. The answer has those of everything.
    fn add_accesses(&mut self, dataset: &Dataset) -> Counts {
        let mut total = Counts::default();
        for (key, tally) in &dataset.facts.by_object.sums {
            let row = self.of(key.object);
            row.counts.add(key.class, *tally);
            *row.accessed.entry(key.home).or_default() += tally.accesses();
            *row.users.entry(key.node).or_default() += tally.accesses();
            total.add(key.class, *tally);
        }
        if let Some(imported) = &dataset.facts.sites.imported {
            for (id, sum) in &imported.objects {
                let counts = imported_totals::counts(sum);
                self.of(*id).counts += counts;
                total += counts;
            }
        }
        for (id, bound) in &dataset.facts.by_object.bounds {
            self.of(*id).bound += *bound;
        }
        total
    }

    /// Adds pages by home.
    fn add_pages(&mut self, dataset: &Dataset) {
        for page in &dataset.memory.placed {
            if let Some(object) = page.object {
                let row = self.of(object);
                row.touches.add(page);
                *row.homes.entry(page.home).or_default() += placed::bytes(page);
            }
        }
        // Of a block that has grown: pages that were placed for the one that it was before.
        for page in dataset.memory.pages.iter().filter(|row| row.fault == Fault::Moved) {
            if let Some(object) = page.object {
                *self.of(object).homes.entry(page.home).or_default() += placed::bytes(page);
            }
        }
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut rows = Rows::default();
    rows.add_objects(dataset);
    let total = rows.add_accesses(dataset);
    rows.add_pages(dataset);
    let mut sorted = rows.all;
    let order = total.order();
    // Where remote is no farther than local there is nothing to judge.
    let mut judged = match usages::matters(dataset) {
        true => classify::objects(&Usages::of(dataset)),
        false => FxHashMap::default(),
    };
    // What a runtime keeps for itself comes last: nobody places it otherwise.
    let is_runtimes = |row: &Row| {
        let stack = row.example.as_ref().and_then(|object| object.stack);
        stack.and_then(|stack| dataset.code.runtime_memory(stack)).is_some_and(|memory| memory.is_its_own)
    };
    let importance = |row: &Row| (is_runtimes(row), order(&row.counts), Reverse(row.touches.bytes), Reverse(row.size));
    sorted.sort_by_cached_key(|(group, row)| (importance(row), group.clone()));
    let rest = unattributed(dataset);
    let (mut in_part, mut untold) = (false, false);
    let row = |(group, mut row): (Group, Row)| {
        let beyond = beyond(dataset, &group, &row, &rest);
        if beyond > 0 {
            // It is among those.
            row.bound.untold = 0;
        }
        untold |= row.bound.untold > 0;
        let judged = judged.remove(&group);
        let mut values = values(dataset, &group, row, &total, judged);
        in_part |= beyond > 0;
        if beyond > 0 {
            counts::at_least(&mut values, beyond, &total);
        }
        values
    };
    let rows = sorted.into_iter().map(row).collect();
    let table = Table { rows, columns: columns(dataset.about.count_noun()), omitted: 0 };
    let mut doubts = doubts(dataset, &total);
    doubts.extend(in_part.then(|| SAMPLED_BLOCKS.to_owned()));
    doubts.extend(untold.then(|| SHARED_PAGES.to_owned()));
    vec![Report::new("objects", "objects", "objects", Shape::Table(table)).doubting(doubts)]
}

const SAMPLED_BLOCKS: &str = "small heap blocks were sampled, and rows of them show how many accesses they may have, \
                              from least to most; `record --engine exact --objects exact` tells";
const SHARED_PAGES: &str = "of some accesses to pages that several objects share none was looked at: rows show how many \
                            they may have, from least to most; `record --engine exact --objects exact` tells";

/// Blocks below this size are sampled by bytes.
const SAMPLED_BELOW: u64 = 4 << 10;

/// Accesses to heap memory, by process, of which nobody knows whose they are: any of them may have gone to small blocks
/// that were not sampled, which a row of sampled ones stands for as well.
fn unattributed(dataset: &Dataset) -> BTreeMap<ProcessId, u64> {
    let mut rest = BTreeMap::new();
    if dataset.about.meta.object_attribution() == ObjectAttribution::EveryAccess {
        return rest;
    }
    for (key, tally) in &dataset.facts.by_object.sums {
        let Some(object) = dataset.memory.objects.get(&key.object) else { continue };
        let heap = matches!(object.kind, ObjectKind::Heap | ObjectKind::Unknown);
        if heap && object.site.is_none() && object.stack.is_none() {
            *rest.entry(object.process).or_default() += tally.accesses();
        }
    }
    rest
}

/// How many more accesses than are known a row may have. What code asked for that was made at run time is a runtime's
/// object, and no block of that heap.
fn beyond(dataset: &Dataset, group: &Group, row: &Row, rest: &BTreeMap<ProcessId, u64>) -> u64 {
    let of_blocks = matches!(group, Group::Allocated { stack, site, .. } if stack.is_some() || site.is_some());
    let asked_at = row.example.as_ref().and_then(|object| object.site);
    let is_of_runtime = asked_at.and_then(|site| dataset.code.module_name_and_address(site).0) == Some(MADE);
    if !of_blocks || is_of_runtime || row.size >= row.count.saturating_mul(SAMPLED_BELOW) {
        return 0;
    }
    row.processes.iter().filter_map(|process| rest.get(process)).sum()
}

fn columns(noun: &'static str) -> Vec<Column> {
    let mut columns = counts::columns(noun);
    columns.extend([
        Column::new("size", "size"),
        Column::metric(&metrics::COUNT).only(Shown::Data),
        Column::new("accessed", "on nodes"),
        Column::new("homes", "homes").only(Shown::Data),
        Column::new("users", "used by"),
        Column::metric(&metrics::FIRST_TOUCH).only(Shown::Data),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH).only(Shown::Data),
        Column::metric(&metrics::PLACED_UNSEEN).only(Shown::Data),
        Column::new("kind", "kind"),
        Column::new("name", "name"),
        Column::new("site", "allocated at"),
        Column::new("callers", "called from").only(Shown::Screen),
        Column::new("via", "via").only(Shown::Data),
        Column::new("stack", "stack").only(Shown::Data),
        Column::new("thread", "thread").only(Shown::Data),
        Column::new("node", "node").only(Shown::Data),
        Column::new("object", "object").only(Shown::Data),
        Column::new("base", "address").only(Shown::Data),
        Column::new("birth_s", "birth").only(Shown::Data),
        Column::new("death_s", "death").only(Shown::Data),
        Column::new("pattern", "pattern").only(Shown::Data),
        Column::new("remedy", "remedy").only(Shown::Data),
        Column::new("evidence", "evidence").only(Shown::Data),
    ]);
    columns
}

fn values(dataset: &Dataset, group: &Group, row: Row, total: &Counts, judged: Option<Judged>) -> Vec<Value> {
    let example = row.example.as_ref();
    let place: Option<OwnPlace> = example.and_then(|o| dataset.wanted_at(o.stack, o.site));
    let (kind, name) = match group {
        Group::Allocated { name, .. } => (ObjectKind::Heap, name.clone()),
        Group::Named { kind, name } => (*kind, name.clone()),
        Group::Lost(object) => (ObjectKind::Unknown, format!("object {object}")),
    };
    let by_runtime = example.filter(|_| name.is_empty()).map(|object| dataset.name_of(object).to_owned());
    let name = by_runtime.unwrap_or(name);
    let alone = example.filter(|o| row.count == o.count);
    let mut values = match row.bound.divided.saturating_add(row.bound.untold) {
        0 => counts::values(&row.counts, total),
        _ => counts::bounded(&row.counts, &row.bound, total),
    };
    values.extend([
        if row.size > 0 { Value::Bytes(row.size) } else { Value::Absent },
        Value::Count(row.count),
        Value::homes(&metrics::ACCESSES, row.accessed),
        Value::homes(&metrics::BYTES, row.homes),
        Value::users(row.users),
        Value::Count(row.touches.pinned),
        Value::Count(row.touches.unpinned),
        Value::Count(row.touches.unseen),
        Value::Text(kind.word().to_string()),
        Value::Text(if name.is_empty() && row.count > 1 { format!("{} objects", row.count) } else { name }),
        Value::maybe(place.clone(), |place| Value::Location(place.location)),
        callers(dataset, example, place.as_ref()),
        via(&place.and_then(|place| place.via).into_iter().collect()),
        Value::maybe(example.and_then(|o| o.stack), |stack| {
            Value::List(dataset.code.stack(stack).into_iter().map(Value::Text).collect())
        }),
        Value::maybe(example.and_then(|o| o.thread), |thread| Value::Id(u64::from(thread.0))),
        Value::maybe(example.and_then(|o| dataset.program.pinning.at(o.thread?, o.birth_ns)), Value::Node),
        Value::maybe(example, |o| Value::Id(u64::from(o.object.0))),
        Value::maybe(alone, |o| Value::Address(o.base)),
        Value::maybe(alone, |o| Value::Time(o.birth_ns)),
        Value::maybe(alone.and_then(|o| o.death_ns), Value::Time),
    ]);
    let pattern = judged.as_ref().and_then(|judged| judged.pattern);
    values.extend([
        Value::maybe(pattern, |(pattern, _)| Value::Text(pattern.name().to_string())),
        Value::maybe(pattern, |(_, remedy)| Value::Text(remedy.name().to_string())),
        Value::maybe(judged, |judged| Value::Record(judged.evidence)),
    ]);
    values
}

/// Who called the place: what tells apart the rows of a function that allocates for others.
fn callers(dataset: &Dataset, example: Option<&Object>, place: Option<&OwnPlace>) -> Value {
    let (Some(stack), Some(place)) = (example.and_then(|object| object.stack), place) else { return Value::Absent };
    let callers = dataset.code.callers(stack, place.site, CALLERS);
    if callers.is_empty() { Value::Absent } else { Value::List(callers.into_iter().map(Value::Text).collect()) }
}

/// As many callers are usually enough to tell rows apart.
const CALLERS: usize = 2;

fn doubts(dataset: &Dataset, total: &Counts) -> Vec<String> {
    let mut doubts = dataset.access_doubts();
    let without_heap: Vec<String> =
        dataset.program.processes.iter().filter(|p| !p.heap_observed).map(|p| p.pid.to_string()).collect();
    if !without_heap.is_empty() {
        let names = without_heap.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if without_heap.len() > 5 { format!(" and {} more", without_heap.len() - 5) } else { String::new() };
        doubts.push(format!("heap calls of process {names}{more} were not observed: its heap is one object"));
    }
    if total.samples > 0 && !dataset.about.sampled() {
        doubts.push(format!(
            "figures with an interval are estimated: {} accesses to pages that several objects share are divided among them by the {} of \
             those that were looked at; figures without one are exact",
            total.estimated, total.samples
        ));
    }
    let all = dataset.facts.total().accesses();
    if total.accesses() < all {
        doubts.push(format!(
            "covers {} of {all} {}: the others were not tried for an object",
            total.accesses(),
            dataset.about.count_noun()
        ));
    }
    doubts
}
