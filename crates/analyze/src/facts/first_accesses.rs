//! The first accesses to objects, and of threads, one by one: of samples, or of time bins of exact counts.

use crate::facts::filter::Filter;
use crate::model::tally::Weight;
use numalens_profile::ids::{Bin, ObjectId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{ObjectAccess, Sample, SiteAccess};
use numalens_profile::words::{Access, Class, Source};
use numalens_topology::NodeId;
use std::collections::BinaryHeap;

/// Events of a whole recording, and of one object or thread.
const MOST: usize = 1000;
const MOST_OF_ONE: usize = 100_000;

/// One event. The order is that of time; what follows makes it the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Event {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub site: Option<SiteId>,
    pub object: Option<ObjectId>,
    pub access: Access,
    pub class: Class,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub address: Option<u64>,
    pub count: u64,
    pub stack: Option<StackId>,
    pub latency: Option<u32>,
    pub source: Option<Source>,
}

/// The earliest events, of all that there are.
#[derive(Clone, Default)]
pub struct Events {
    pub earliest: BinaryHeap<Event>,
    most: usize,
    pub all: u64,
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
