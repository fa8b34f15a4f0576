//! Section `objects`: accesses by what they went to.
//!
//! Heap objects of one allocation stack are one row: a program that allocates a thousand rows of a matrix on one line
//! has one thing to change. Other objects are what their name says, over all processes.

use crate::advice::classify::{self, Judged};
use crate::dataset::study::Study;
use crate::dataset::usages::{self, Usages};
use crate::facts::code::OwnPlace;
use crate::facts::margins;
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
}

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let mut rows = Rows::default();
    for (id, object) in &study.objects {
        let row = rows.of_group(*id, Group::of(object));
        tally::add(&mut row.size, object.size);
        tally::add(&mut row.count, object.count);
        row.processes.insert(object.process);
        // By id among equals, so that equal profiles give equal reports.
        if row
            .example
            .as_ref()
            .is_none_or(|example| (example.size, Reverse(example.object)) < (object.size, Reverse(*id)))
        {
            row.example = Some(object.clone());
        }
    }
    let mut total = Counts::default();
    for (key, tally) in &study.by_object.sums {
        let row = rows.of(key.object);
        row.counts.add(key.class, *tally);
        *row.accessed.entry(key.home).or_default() += tally.accesses();
        *row.users.entry(key.node).or_default() += tally.accesses();
        total.add(key.class, *tally);
    }
    if let Some(margins) = &study.sites.margins {
        for (id, sum) in &margins.objects {
            let counts = margins::counts(sum);
            rows.of(*id).counts += counts;
            total += counts;
        }
    }
    for (id, bound) in &study.by_object.bounds {
        rows.of(*id).bound += *bound;
    }
    let rest = unattributed(study);
    for page in &study.placed {
        if let Some(object) = page.object {
            let row = rows.of(object);
            row.touches.add(page);
            *row.homes.entry(page.home).or_default() += placed::bytes(page);
        }
    }
    // Of a block that has grown: pages that were placed for the one that it was before.
    for page in study.pages.iter().filter(|row| row.fault == Fault::Moved) {
        if let Some(object) = page.object {
            *rows.of(object).homes.entry(page.home).or_default() += placed::bytes(page);
        }
    }
    let mut sorted = rows.all;
    let order = total.order();
    let importance = |row: &Row| (order(&row.counts), Reverse(row.touches.bytes), Reverse(row.size));
    sorted.sort_by(|(a, x), (b, y)| importance(x).cmp(&importance(y)).then_with(|| a.cmp(b)));
    // Where remote is no farther than local there is nothing to judge.
    let mut judged = match usages::matters(study) {
        true => classify::objects(&Usages::of(study)),
        false => FxHashMap::default(),
    };
    let (mut in_part, mut untold) = (false, false);
    let table = Table {
        rows: sorted
            .into_iter()
            .map(|(group, mut row)| {
                let beyond = beyond(&group, &row, &rest);
                if beyond > 0 {
                    // It is among those.
                    row.bound.untold = 0;
                }
                untold |= row.bound.untold > 0;
                let judged = judged.remove(&group);
                let mut values = values(study, &group, row, &total, judged);
                in_part |= beyond > 0;
                if beyond > 0 {
                    counts::at_least(&mut values, beyond, &total);
                }
                values
            })
            .collect(),
        columns: columns(study.about.count_noun()),
        omitted: 0,
    };
    let mut doubts = doubts(study, &total);
    if in_part {
        doubts.push(
            "small heap blocks were sampled, and rows of them show how many accesses they may have, from least to most; `record \
             --engine exact --objects exact` tells"
                .to_owned(),
        );
    }
    if untold {
        doubts.push(
            "of some accesses to pages that several objects share none was looked at: rows show how many they may have, from least to most; \
             `record --engine exact --objects exact` tells"
                .to_owned(),
        );
    }
    vec![Report::new("objects", "objects", "objects", Shape::Table(table)).doubting(doubts)]
}

/// Blocks below this size are sampled by bytes.
const SAMPLED_BELOW: u64 = 4 << 10;

/// Accesses to heap memory, by process, of which nobody knows whose they are: any of them may have gone to small blocks
/// that were not sampled, which a row of sampled ones stands for as well.
fn unattributed(study: &Study) -> BTreeMap<ProcessId, u64> {
    let mut rest = BTreeMap::new();
    if study.about.meta.object_attribution() == ObjectAttribution::EveryAccess {
        return rest;
    }
    for (key, tally) in &study.by_object.sums {
        let Some(object) = study.objects.get(&key.object) else { continue };
        let heap = matches!(object.kind, ObjectKind::Heap | ObjectKind::Unknown);
        if heap && object.site.is_none() && object.stack.is_none() {
            *rest.entry(object.process).or_default() += tally.accesses();
        }
    }
    rest
}

/// How many more accesses than are known a row may have.
fn beyond(group: &Group, row: &Row, rest: &BTreeMap<ProcessId, u64>) -> u64 {
    let of_blocks = matches!(group, Group::Allocated { stack, site, .. } if stack.is_some() || site.is_some());
    if !of_blocks || row.size >= row.count.saturating_mul(SAMPLED_BELOW) {
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

fn values(study: &Study, group: &Group, row: Row, total: &Counts, judged: Option<Judged>) -> Vec<Value> {
    let example = row.example.as_ref();
    let place: Option<OwnPlace> = example.and_then(|o| study.wanted_at(o.stack, o.site));
    let (kind, name) = match group {
        Group::Allocated { name, .. } => (ObjectKind::Heap, name.clone()),
        Group::Named { kind, name } => (*kind, name.clone()),
        Group::Lost(object) => (ObjectKind::Unknown, format!("object {object}")),
    };
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
        callers(study, example, place.as_ref()),
        via(&place.and_then(|place| place.via).into_iter().collect()),
        Value::maybe(example.and_then(|o| o.stack), |stack| {
            Value::List(study.code.stack(stack).into_iter().map(Value::Text).collect())
        }),
        Value::maybe(example.and_then(|o| o.thread), |thread| Value::Id(u64::from(thread.0))),
        Value::maybe(example.and_then(|o| study.pinning.at(o.thread?, o.birth_ns)), Value::Node),
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
fn callers(study: &Study, example: Option<&Object>, place: Option<&OwnPlace>) -> Value {
    let (Some(stack), Some(place)) = (example.and_then(|object| object.stack), place) else { return Value::Absent };
    let callers = study.code.callers(stack, place.site, CALLERS);
    if callers.is_empty() { Value::Absent } else { Value::List(callers.into_iter().map(Value::Text).collect()) }
}

/// As many callers are usually enough to tell rows apart.
const CALLERS: usize = 2;

fn doubts(study: &Study, total: &Counts) -> Vec<String> {
    let mut doubts = study.access_doubts();
    let without_heap: Vec<String> =
        study.processes.iter().filter(|p| !p.heap_observed).map(|p| p.pid.to_string()).collect();
    if !without_heap.is_empty() {
        let names = without_heap.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if without_heap.len() > 5 { format!(" and {} more", without_heap.len() - 5) } else { String::new() };
        doubts.push(format!("heap calls of process {names}{more} were not observed: its heap is one object"));
    }
    if total.samples > 0 && !study.about.sampled() {
        doubts.push(format!(
            "figures with an interval are estimated: {} accesses to pages that several objects share are divided among them by the {} of \
             those that were looked at; figures without one are exact",
            total.estimated, total.samples
        ));
    }
    let all = study.total().accesses();
    if total.accesses() < all {
        doubts.push(format!(
            "covers {} of {all} {}: the others were not tried for an object",
            total.accesses(),
            study.about.count_noun()
        ));
    }
    doubts
}
