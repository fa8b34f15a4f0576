//! Sections `object-flow` and `thread-flow`: what happened to memory, and what threads did, one event after the other.
//!
//! MemProf's event flows. With samples an event is one of them. Exact counts keep no single accesses: there an event is
//! what one thread did of one kind in one time bin, at the bin's beginning; to an object (of which the instruction is
//! not known) in the one section, from an instruction (of which the object is not known) in the other. Whoever wants
//! all events of one object or thread asks for it alone; of a whole recording the first ones are listed.

use crate::dataset::Dataset;
use crate::facts::code::{NO_SITE, OwnPlace};
use crate::facts::first_accesses::{Event, Events};
use crate::model::node::node;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use numalens_profile::ids::{SiteId, StackId};
use rustc_hash::FxHashMap;

/// Section `object-flow`.
pub fn of_objects(dataset: &Dataset) -> Vec<Report> {
    vec![report(dataset, &dataset.facts.object_events, "object-flow", "object_flow", "events of objects")]
}

/// Section `thread-flow`.
pub fn of_threads(dataset: &Dataset) -> Vec<Report> {
    vec![report(dataset, &dataset.facts.thread_events, "thread-flow", "thread_flow", "events of threads")]
}

fn report(dataset: &Dataset, events: &Events, section: &'static str, key: &'static str, title: &str) -> Report {
    let mut sorted: Vec<Event> = events.earliest.iter().copied().collect();
    sorted.sort_unstable();
    let mut places: FxHashMap<(Option<StackId>, SiteId), OwnPlace> = FxHashMap::default();
    let rows = sorted.iter().map(|event| {
        let place = event
            .site
            .filter(|site| *site != NO_SITE)
            .map(|site| places.entry((event.stack, site)).or_insert_with(|| dataset.code.own(site)).location.clone());
        let object = event.object.and_then(|id| dataset.memory.objects.get(&id));
        let stack = |stack| Value::List(dataset.code.stack(stack).into_iter().map(Value::Text).collect());
        vec![
            Value::Time(event.time_ns),
            Value::Id(u64::from(event.thread.0)),
            node(event.node),
            Value::maybe(event.home, Value::Node),
            Value::Text(event.access.word().to_string()),
            Value::Count(event.count),
            Value::Text(event.class.word().to_string()),
            Value::maybe(event.object, |object| Value::Id(u64::from(object.0))),
            Value::maybe(object, |object| {
                Value::Text(format!("{} {}", object.kind.word(), object.name).trim_end().to_string())
            }),
            Value::maybe(event.address, Value::Address),
            Value::maybe(event.latency, |cycles| Value::Count(u64::from(cycles))),
            Value::maybe(event.source, |source| Value::Text(source.word().to_string())),
            Value::maybe(place, Value::Location),
            Value::maybe(event.stack, stack),
        ]
    });
    let columns = vec![
        Column::new("time_s", "time"),
        Column::new("thread", "thread"),
        Column::new("node", "on node"),
        Column::new("home", "page on node"),
        Column::new("access", "access"),
        Column::new("count", "count"),
        Column::new("class", "class"),
        Column::new("object", "object").only(Shown::Data),
        Column::new("name", "object"),
        Column::new("address", "address"),
        Column::new("latency", "cycles"),
        Column::new("source", "answered by"),
        Column::new("place", "at"),
        Column::new("stack", "stack").only(Shown::Data),
    ];
    let omitted = usize::try_from(events.all).unwrap_or(usize::MAX).saturating_sub(sorted.len());
    let table = Table { rows: rows.collect(), columns, omitted };
    let mut doubts = dataset.access_doubts();
    if !dataset.about.sampled() && !sorted.is_empty() {
        doubts.push(format!(
            "exact counts keep no single accesses: an event is what a thread did of one kind in a time bin of {:.1} ms",
            dataset.about.meta.bin_ns as f64 / 1e6
        ));
    }
    Report::new(section, key, title, Shape::Table(table)).doubting(doubts)
}
