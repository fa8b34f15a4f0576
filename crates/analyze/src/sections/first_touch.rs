//! Section `first-touch`: which line, and which thread, placed the pages. By line for people; by line and thread for
//! programs.

use crate::dataset::Dataset;
use crate::facts::code::OwnPlace;
use crate::facts::placed::{self, FirstTouches};
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Column, Location, Report, Shape, Shown, Table, Value};
use crate::sections::lines::via;
use numalens_profile::ids::{ObjectId, StackId, ThreadId};
use numalens_profile::tables::PlacedPages;
use numalens_profile::words::{Placed, SystemCall};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Row {
    touches: FirstTouches,
    homes: BTreeMap<Option<NodeId>, u64>,
    threads: BTreeSet<ThreadId>,
    via: BTreeSet<String>,
    /// By bytes, to name the most important.
    objects: BTreeMap<ObjectId, u64>,
    stacks: BTreeMap<StackId, u64>,
    /// Of the pages that the kernel placed in calls of the threads, by call.
    calls: BTreeMap<SystemCall, u64>,
}

/// Place, thread, and whether the thread was pinned.
type Key = (Location, Option<ThreadId>, Placed);

impl Row {
    fn add(&mut self, page: &PlacedPages) {
        self.touches.add(page);
        *self.homes.entry(page.home).or_default() += placed::pages(page);
        self.threads.extend(page.thread);
        if let Some(object) = page.object {
            *self.objects.entry(object).or_default() += placed::bytes(page);
        }
        if let Some(call) = page.call {
            *self.calls.entry(call).or_default() += placed::pages(page);
        }
        if let Some(stack) = page.stack {
            *self.stacks.entry(stack).or_default() += placed::bytes(page);
        }
    }

    fn merge(&mut self, other: &Row) {
        self.touches += other.touches;
        add_all(&mut self.homes, &other.homes);
        add_all(&mut self.objects, &other.objects);
        add_all(&mut self.stacks, &other.stacks);
        add_all(&mut self.calls, &other.calls);
        self.threads.extend(&other.threads);
        self.via.extend(other.via.iter().cloned());
    }
}

fn add_all<K: Copy + Ord>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, n) in more {
        *sums.entry(*key).or_default() += n;
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    // Pages are many, and what they have in common is looked up once.
    let mut alike: FxHashMap<_, Row> = FxHashMap::default();
    let mut unseen = FirstTouches::default();
    for page in &dataset.memory.placed {
        if page.placed == Placed::Unseen && page.site.is_none() && page.stack.is_none() {
            unseen.add(page);
        } else {
            alike.entry((page.stack, page.site, page.thread, page.placed)).or_default().add(page);
        }
    }
    let mut by_thread: BTreeMap<Key, Row> = BTreeMap::new();
    let mut by_line: BTreeMap<Location, Row> = BTreeMap::new();
    for ((stack, site, thread, placed), mut row) in alike {
        let (location, via) = match dataset.code.own_on_stack(stack, site) {
            Some(OwnPlace { location, via, .. }) => (location, via),
            None => (nowhere(), None),
        };
        row.via.extend(via);
        by_thread.entry((location.clone(), thread, placed)).or_default().merge(&row);
        by_line.entry(location).or_default().merge(&row);
    }
    let total = dataset.first_touches();
    let mut doubts = Vec::new();
    if let Some(missing) = dataset.facts.sums_only() {
        doubts.push(missing);
    } else if dataset.memory.placed.is_empty() {
        doubts.push(dataset.about.none("placed pages"));
    }
    if unseen.unseen > 0 {
        doubts.push(format!(
            "{} of {} pages were placed by the kernel, unseen: they have no line",
            unseen.unseen,
            total.total()
        ));
    }
    vec![lines(dataset, by_line, &total).doubting(doubts), threads(dataset, by_thread)]
}

fn nowhere() -> Location {
    Location { function: "unknown".to_string(), ..Location::default() }
}

fn lines(dataset: &Dataset, rows: BTreeMap<Location, Row>, total: &FirstTouches) -> Report {
    let columns = vec![
        Column::metric(&metrics::PAGES),
        Column::at("page_share", &metrics::SHARE),
        Column::metric(&metrics::BYTES),
        Column::metric(&metrics::FIRST_TOUCH).only(Shown::Data),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH).only(Shown::Data),
        Column::new("by", "by").only(Shown::Screen),
        Column::new("threads", "threads").only(Shown::Data),
        Column::new("homes", "homes"),
        Column::new("object", "mostly in"),
        Column::new("", "line"),
        Column::new("via", "via"),
        Column::new("stack", "stack").only(Shown::Data),
        Column::new("calls", "in calls").only(Shown::Data),
    ];
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| (Reverse(row.touches.total()), Reverse(row.touches.bytes)));
    let rows = rows.into_iter().map(|(location, row)| {
        vec![
            Value::Count(row.touches.total()),
            percent(row.touches.total(), total.total(), 0),
            Value::Bytes(row.touches.bytes),
            Value::Count(row.touches.pinned),
            Value::Count(row.touches.unpinned),
            Value::Text(who(dataset, &row)),
            Value::List(row.threads.iter().map(|thread| Value::Id(u64::from(thread.0))).collect()),
            homes(&row),
            object(dataset, &row),
            Value::Location(location),
            via(&row.via),
            stack(dataset, &row),
            calls(&row),
        ]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new("first-touch", "first_touch_lines", "first touch: lines that placed pages", Shape::Table(table))
}

fn threads(dataset: &Dataset, rows: BTreeMap<Key, Row>) -> Report {
    let columns = vec![
        Column::new("", "line"),
        Column::new("via", "via"),
        Column::metric(&metrics::PAGES),
        Column::metric(&metrics::BYTES),
        Column::new("thread", "thread"),
        Column::new("pinned", "pinned"),
        Column::new("homes", "homes"),
        Column::new("object", "mostly in"),
        Column::new("stack", "stack"),
        Column::new("calls", "in calls"),
    ];
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| (Reverse(row.touches.total()), Reverse(row.touches.bytes)));
    let rows = rows.into_iter().map(|((location, thread, placed), row)| {
        vec![
            Value::Location(location),
            via(&row.via),
            Value::Count(row.touches.total()),
            Value::Bytes(row.touches.bytes),
            Value::maybe(thread, |thread| Value::Id(u64::from(thread.0))),
            Value::Flag(placed == Placed::Pinned),
            homes(&row),
            object(dataset, &row),
            stack(dataset, &row),
            calls(&row),
        ]
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new("first-touch", "first_touch", "first touch by line and thread", Shape::Table(table)).only(Shown::Data)
}

fn homes(row: &Row) -> Value {
    Value::homes(&metrics::PAGES, row.homes.iter().map(|(node, pages)| (*node, *pages)))
}

/// The system calls in which the kernel placed pages for the threads.
fn calls(row: &Row) -> Value {
    Value::List(row.calls.keys().map(|call| Value::Text(call.word().to_string())).collect())
}

/// `thread 3 on node 1`, `8 threads`, `thread 0, unpinned`, `thread 0, in a call of the kernel (read)`.
fn who(dataset: &Dataset, row: &Row) -> String {
    let who = match (row.threads.len(), row.threads.first()) {
        (1, Some(id)) => match dataset.program.threads.get(id).map(|thread| thread.name.as_str()) {
            Some(name) if !name.is_empty() => format!("thread {id} ({name})"),
            _ => format!("thread {id}"),
        },
        (0, _) => "the kernel".to_string(),
        (n, _) => format!("{n} threads"),
    };
    let pinned = match (row.touches.pinned, row.touches.unpinned) {
        (0, 1..) => ", unpinned",
        (1.., 1..) => ", partly unpinned",
        _ => "",
    };
    let by_calls: u64 = row.calls.values().sum();
    let names: Vec<&str> = row.calls.keys().map(|call| call.word()).collect();
    match by_calls {
        0 => format!("{who}{pinned}"),
        _ if by_calls < row.touches.total() => {
            format!("{who}{pinned}, partly in calls of the kernel ({})", names.join(", "))
        }
        _ => format!("{who}{pinned}, in a call of the kernel ({})", names.join(", ")),
    }
}

fn largest<K: Copy + Ord>(weights: &BTreeMap<K, u64>) -> Option<K> {
    weights.iter().rev().max_by_key(|(_, weight)| **weight).map(|(key, _)| *key)
}

fn object(dataset: &Dataset, row: &Row) -> Value {
    let Some(object) = largest(&row.objects).and_then(|id| dataset.memory.objects.get(&id)) else {
        return Value::Absent;
    };
    let name = dataset.name_of(object);
    if !name.is_empty() {
        return Value::Text(format!("{} {name}", object.kind.word()));
    }
    match dataset.code.own_on_stack(object.stack, object.site) {
        Some(place) => Value::Text(format!("{} of {}", object.kind.word(), place.location)),
        None => Value::Text(object.kind.word().to_string()),
    }
}

fn stack(dataset: &Dataset, row: &Row) -> Value {
    Value::maybe(largest(&row.stacks), |stack| {
        Value::List(dataset.code.stack(stack).into_iter().map(Value::Text).collect())
    })
}
