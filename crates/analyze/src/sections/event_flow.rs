//! Sections `object-flow` and `thread-flow`: what happened to memory, and what threads did, one event after the other.
//!
//! MemProf's event flows. With samples an event is one of them. Exact counts keep no single accesses: there an event is what one thread did of one
//! kind in one time bin, at the bin's beginning; to an object (of which the instruction is not known) in the one section, from an instruction (of which
//! the object is not known) in the other. Whoever wants all events of one object or thread asks for it alone; of a whole recording the first ones
//! are listed.

use crate::dataset::study::Study;
use crate::facts::code::OwnPlace;
use crate::facts::filter::Filter;
use crate::facts::folds::{NO_SITE, Weight};
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::sections::threads::node;
use numalens_profile::ids::{Bin, ObjectId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{ObjectAccess, Sample, SiteAccess};
use numalens_profile::words::{Access, Class, Source};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::collections::BinaryHeap;

/// Events of a whole recording, and of one object or thread.
const MOST: usize = 1000;
const MOST_OF_ONE: usize = 100_000;

/// One event. The order is that of time; what follows makes it the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event {
    time_ns: u64,
    thread: ThreadId,
    site: Option<SiteId>,
    object: Option<ObjectId>,
    access: Access,
    class: Class,
    node: Option<NodeId>,
    home: Option<NodeId>,
    address: Option<u64>,
    count: u64,
    stack: Option<StackId>,
    latency: Option<u32>,
    source: Option<Source>,
}

/// The earliest events, of all that there are.
#[derive(Clone, Default)]
pub struct Events {
    earliest: BinaryHeap<Event>,
    most: usize,
    all: u64,
}

impl Events {
    /// None yet; as many are kept as a filter is worth.
    pub fn new(filter: &Filter) -> Events {
        let of_one = filter.object.is_some() || !filter.threads.is_empty();
        Events { most: if of_one { MOST_OF_ONE } else { MOST }, ..Events::default() }
    }

    fn push(&mut self, event: Event) {
        self.all += 1;
        if self.earliest.len() < self.most {
            self.earliest.push(event);
        } else if let Some(mut latest) = self.earliest.peek_mut()
            && event < *latest
        {
            *latest = event;
        }
    }

    /// A sampled access.
    pub fn add_sample(&mut self, row: &Sample, weight: Weight) {
        self.push(Event {
            time_ns: row.time_ns,
            thread: row.thread,
            site: Some(row.site),
            object: row.object,
            access: row.access,
            class: row.class,
            node: row.node,
            home: row.home,
            address: Some(row.address),
            count: weight.tally(1, 0, 1, row.period).reads,
            stack: row.stack,
            latency: row.latency,
            source: row.source,
        });
    }

    /// Accesses to an object in a time bin.
    pub fn add_object(&mut self, row: &ObjectAccess, bin_ns: u64) {
        let event =
            Event { site: row.site, object: Some(row.object), ..of_bin(row.bin, bin_ns, row.thread, row.class) };
        self.add_bin(Event { node: row.node, home: row.home, ..event }, row.reads, row.writes);
    }

    /// Accesses from an instruction in a time bin.
    pub fn add_site(&mut self, row: &SiteAccess, bin_ns: u64) {
        let event = Event { site: Some(row.site), ..of_bin(row.bin, bin_ns, row.thread, row.class) };
        self.add_bin(Event { node: row.node, home: row.home, ..event }, row.reads, row.writes);
    }

    fn add_bin(&mut self, event: Event, reads: u64, writes: u64) {
        for (access, count) in [(Access::Read, reads), (Access::Write, writes)] {
            if count > 0 {
                self.push(Event { access, count, ..event });
            }
        }
    }

    /// Both together.
    pub fn merge(mut self, other: Events) -> Events {
        let all = self.all + other.all;
        other.earliest.into_iter().for_each(|event| self.push(event));
        Events { all, ..self }
    }
}

fn of_bin(bin: Bin, bin_ns: u64, thread: ThreadId, class: Class) -> Event {
    Event {
        time_ns: u64::from(bin.0).saturating_mul(bin_ns),
        thread,
        site: None,
        object: None,
        access: Access::Read,
        class,
        node: None,
        home: None,
        address: None,
        count: 0,
        stack: None,
        latency: None,
        source: None,
    }
}

/// Section `object-flow`.
pub fn of_objects(study: &Study) -> Vec<Report> {
    vec![report(study, &study.object_events, "object-flow", "object_flow", "events of objects")]
}

/// Section `thread-flow`.
pub fn of_threads(study: &Study) -> Vec<Report> {
    vec![report(study, &study.thread_events, "thread-flow", "thread_flow", "events of threads")]
}

fn report(study: &Study, events: &Events, section: &'static str, key: &'static str, title: &str) -> Report {
    let mut sorted: Vec<Event> = events.earliest.iter().copied().collect();
    sorted.sort_unstable();
    let mut places: FxHashMap<(Option<StackId>, SiteId), OwnPlace> = FxHashMap::default();
    let rows = sorted.iter().map(|event| {
        let place = event
            .site
            .filter(|site| *site != NO_SITE)
            .map(|site| places.entry((event.stack, site)).or_insert_with(|| study.code.own(site)).location.clone());
        let object = event.object.and_then(|id| study.objects.get(&id));
        let stack = |stack| Value::List(study.code.stack(stack).into_iter().map(Value::Text).collect());
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
    let mut doubts = study.access_doubts();
    if !study.about.sampled() && !sorted.is_empty() {
        doubts.push(format!(
            "exact counts keep no single accesses: an event is what a thread did of one kind in a time bin of {:.1} ms",
            study.about.meta.bin_ns as f64 / 1e6
        ));
    }
    Report::new(section, key, title, Shape::Table(table)).doubting(doubts)
}
