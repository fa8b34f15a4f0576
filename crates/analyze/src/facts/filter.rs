//! A part of a recording: only some threads, nodes, times, one object, one function.
//!
//! Facts have different dimensions, so a part of a filter can be beyond a table: counts of pages do not know the
//! function that accessed them. Such a table ignores that part, and [`Filter::doubts`] says so beside every figure.
//!
//! Accesses of one object come from `object_accesses`, which know objects, instead of `site_accesses`, which do not.

use crate::facts::code::Code;
use crate::facts::counter_polls::CounterPolls;
use crate::facts::placement_targets::{Cursor, PlacementTargets, RunId};
use crate::facts::sorted::Times;
use crate::model::about::About;
use crate::model::object_group::Group;
use numalens_profile::ids::{Bin, ObjectId, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::{
    Allocation, CacheLine, CodeFetch, LineCommunication, Object, ObjectAccess, PageAccess, PlacedPages, Sample,
    SiteAccess, SiteMiss,
};
use numalens_profile::{Extremes, PinningLog, Row};
use numalens_topology::NodeId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::{Range, RangeInclusive};

/// Which part. Empty: all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only accesses of these threads.
    pub threads: Vec<ThreadId>,
    /// Only accesses of threads that were bound to one of these nodes; none: unpinned.
    pub nodes: Vec<Option<NodeId>>,
    /// Only accesses to pages on one of these nodes; none: without a home.
    pub homes: Vec<Option<NodeId>>,
    /// Only time bins that overlap with this span, in nanoseconds since the start; of exact counts those that are of it
    /// for the greater part. Open where there is none.
    pub time_ns: (Option<u64>, Option<u64>),
    /// Only accesses to this object and to those that reports show in one row with it.
    pub object: Option<ObjectId>,
    /// Only accesses by instructions that lie in a function of this name.
    pub function: Option<String>,
    /// Only accesses by instructions of this line of this source file.
    pub place: Option<(String, u32)>,
}

impl Filter {
    /// Whether it is all of the recording.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether counts of pages are those of the whole recording: they know neither function nor line.
    pub fn leaves_pages_alone(&self) -> bool {
        Filter { function: None, place: None, ..self.clone() }.is_empty()
    }

    /// What a reader of filtered figures must know.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.is_empty() {
            return doubts;
        }
        doubts.push("only a part of the recording is shown; shares are of that part".to_string());
        if self.function.is_some() {
            doubts.push(
                "counts of pages, executed code and allocations do not know the function: they are of all functions"
                    .to_string(),
            );
        }
        if self.place.is_some() {
            doubts.push(
                "counts of pages, executed code and allocations do not know the line: they are of all lines"
                    .to_string(),
            );
        }
        if self.object.is_some() {
            doubts.push(
                "executed code is of all objects; accesses without a known instruction have no function or line"
                    .to_string(),
            );
        }
        doubts
    }
}

/// A filter, made ready for the rows of one profile.
pub struct RowFilter<'a> {
    filter: &'a Filter,
    pinning: &'a PinningLog,
    code: &'a Code,
    bin_ns: u64,
    bins: (u32, u32),
    sites: Option<FxHashSet<SiteId>>,
    objects: Option<FxHashSet<ObjectId>>,
    /// Where pages are and whose they are, when that is asked.
    pages: Option<&'a PlacementTargets>,
    /// The pages of those objects, whatever process they are of.
    of_objects: Option<Vec<Range<u64>>>,
    /// Whether accesses to pages have their node. Those of older profiles have not: there it is the thread's when the
    /// time bin ends.
    tells_nodes: bool,
}

/// Of what kind accesses of a thread to a page are.
#[derive(Clone, Copy)]
pub struct Use {
    /// The node that the thread was on.
    pub node: Option<NodeId>,
    /// Where the page was.
    pub home: Option<NodeId>,
    /// The page's row; none: a page that the table does not have.
    pub run: Option<RunId>,
}

impl<'a> RowFilter<'a> {
    /// `pages`: those of the profile, where [`RowFilter::asks_for_pages`]. `tells_nodes`: whether its page accesses
    /// have their node.
    pub fn new(
        filter: &'a Filter,
        pinning: &'a PinningLog,
        code: &'a Code,
        about: &About,
        objects: &FxHashMap<ObjectId, Object>,
        pages: &'a PlacementTargets,
        tells_nodes: bool,
    ) -> Self {
        let bin_ns = about.meta.bin_ns.max(1);
        let bin = |ns: u64| u32::try_from(ns / bin_ns).unwrap_or(u32::MAX);
        let (from, to) = filter.time_ns;
        let overlapping = (from.map_or(0, bin), to.map_or(u32::MAX, |to| bin(to.saturating_sub(1))));
        // Of a span that is too short for that, whatever is counted at the time.
        let polls = CounterPolls::of(about).filter(|_| filter.time_ns != (None, None));
        let bins = polls.and_then(|polls| polls.bins(filter.time_ns)).map_or(overlapping, RangeInclusive::into_inner);
        let wanted: Option<Group> = filter.object.map(|id| objects.get(&id).map_or(Group::Lost(id), Group::of));
        let objects = wanted.map(|wanted| {
            let alike = |object: &&Object| Group::of(object) == wanted;
            objects.values().filter(alike).map(|object| object.object).chain(filter.object).collect()
        });
        let of_function = filter.function.as_deref().map(|name| code.sites_of(name).collect::<FxHashSet<SiteId>>());
        let of_place =
            filter.place.as_ref().map(|(file, line)| code.sites_at(file, *line).collect::<FxHashSet<SiteId>>());
        let sites = match (of_function, of_place) {
            (Some(function), Some(place)) => Some(function.intersection(&place).copied().collect()),
            (function, place) => function.or(place),
        };
        let pages = RowFilter::asks_for_pages(filter).then_some(pages);
        let of_objects = objects.as_ref().zip(pages).map(|(objects, pages)| pages.pages_of(objects));
        RowFilter { filter, pinning, code, bin_ns, bins, sites, objects, pages, of_objects, tells_nodes }
    }

    /// Whether a filter asks about pages what only their rows tell.
    pub fn asks_for_pages(filter: &Filter) -> bool {
        filter.object.is_some() || !filter.homes.is_empty()
    }

    /// The time bins of the part: the first and the last.
    pub fn span(&self) -> (Bin, Bin) {
        (Bin(self.bins.0), Bin(self.bins.1))
    }

    /// Whether a time bin is of the part.
    pub fn bin(&self, bin: Bin) -> bool {
        self.bins.0 <= bin.0 && bin.0 <= self.bins.1
    }

    /// Whether any of these rows of accesses may be of the part.
    pub fn may_pass(&self, rows: &Extremes<'_>) -> bool {
        let times = rows
            .of("bin")
            .is_none_or(|(least, most)| least <= u64::from(self.bins.1) && u64::from(self.bins.0) <= most);
        let threads = &self.filter.threads;
        let who = rows
            .of("thread")
            .filter(|_| !threads.is_empty())
            .is_none_or(|(least, most)| threads.iter().any(|thread| (least..=most).contains(&u64::from(thread.0))));
        times
            && who
            && self.of_objects.as_ref().zip(rows.of("page")).is_none_or(|(pages, (least, most))| {
                // The first that ends behind the least.
                let at = pages.partition_point(|pages| pages.end <= least);
                pages.get(at).is_some_and(|pages| pages.start <= most)
            })
    }

    fn who(&self, thread: ThreadId, node: Option<NodeId>) -> bool {
        let Filter { threads, nodes, .. } = self.filter;
        (threads.is_empty() || threads.contains(&thread)) && (nodes.is_empty() || nodes.contains(&node))
    }

    fn home(&self, home: Option<NodeId>) -> bool {
        self.filter.homes.is_empty() || self.filter.homes.contains(&home)
    }

    fn is_of_site(&self, site: Option<SiteId>) -> bool {
        self.sites.as_ref().is_none_or(|sites| site.is_some_and(|site| sites.contains(&site)))
    }

    fn on(&self, object: Option<ObjectId>) -> bool {
        self.objects.as_ref().is_none_or(|objects| object.is_some_and(|object| objects.contains(&object)))
    }

    fn at_place(&self, stack: Option<StackId>, site: Option<SiteId>) -> bool {
        self.sites.is_none() || self.is_of_site(self.code.own_on_stack(stack, site).map(|place| place.site))
    }

    /// Whether a row is of the part, whenever that was. Rows of `site_accesses` know no object: where one is asked for,
    /// those of `object_accesses` take their place.
    pub fn site(&self, row: &SiteAccess) -> bool {
        self.who(row.thread, row.node) && self.home(row.home) && self.is_of_site(Some(row.site))
    }

    /// Whether a row is of the part, whenever that was.
    pub fn object(&self, row: &ObjectAccess) -> bool {
        let who = self.who(row.thread, row.node) && self.home(row.home);
        who && self.on(Some(row.object)) && self.is_of_site(row.site)
    }

    /// Whether a row may be of the part: [`RowFilter::uses`] knows more.
    pub fn page(&self, row: &PageAccess) -> bool {
        self.has_thread(row.thread)
    }

    /// Gives accesses to a page that are of the part, whatever their function and time, to `each`, with the node that
    /// the thread was on then, the page's home then and its row: together as long as these are the same. The home is
    /// that of the row where the access does not tell it.
    #[inline]
    pub fn uses<'t>(
        &self,
        row: &PageAccess,
        times: Times<'t>,
        targets: &PlacementTargets,
        cursor: &mut Cursor,
        mut each: impl FnMut(Use, Times<'t>),
    ) {
        let always = if self.tells_nodes { Some(row.node) } else { self.pinning.always(row.thread) };
        if let (Some(node), Some(run)) = (always, cursor.always(targets, row.process, row.page)) {
            let home = row.home.or(targets.home_of(run));
            if self.holds(node, home, Some(run)) {
                each(Use { node, home, run: Some(run) }, times);
            }
            return;
        }
        for (bin, one) in times.single() {
            let node = always.unwrap_or_else(|| self.pinning.at_end_of(row.thread, bin));
            let run = cursor.run_of(targets, row.process, row.page, bin, row.home);
            let home = row.home.or(run.and_then(|run| targets.home_of(run)));
            if self.holds(node, home, run) {
                each(Use { node, home, run }, one);
            }
        }
    }

    fn holds(&self, node: Option<NodeId>, home: Option<NodeId>, run: Option<RunId>) -> bool {
        (self.filter.nodes.is_empty() || self.filter.nodes.contains(&node))
            && self.pages.is_none_or(|pages| self.home(home) && self.on(run.and_then(|run| pages.object_of(run))))
    }

    /// Whether a row is of the part, whatever its function and object.
    pub fn fetch(&self, row: &CodeFetch) -> bool {
        self.bin(row.bin) && self.who(row.thread, row.node) && self.home(row.home)
    }

    /// Whether pages are of the part: by who touched them first, and when.
    pub fn placed(&self, row: &PlacedPages) -> bool {
        let then = |thread| row.node.or_else(|| self.pinning.at_end_of(thread, row.bin_from));
        let by = row.thread.map(|thread| (thread, then(thread)));
        let Filter { threads, nodes, .. } = self.filter;
        let who = by.map_or(threads.is_empty() && nodes.is_empty(), |(thread, node)| self.who(thread, node));
        let what = self.bin(row.bin_from) && self.home(row.home) && self.on(row.object);
        who && what && self.at_place(row.stack, row.site)
    }

    /// Whether a row is of the part, whatever its function and the home of its pages.
    pub fn allocation(&self, row: &Allocation) -> bool {
        let bin = Bin(u32::try_from(row.time_ns / self.bin_ns).unwrap_or(u32::MAX));
        self.bin(bin) && self.who(row.thread, self.pinning.at(row.thread, row.time_ns)) && self.on(row.object)
    }

    /// Whether a row is of the part.
    pub fn sample(&self, row: &Sample) -> bool {
        let bin = Bin(u32::try_from(row.time_ns / self.bin_ns).unwrap_or(u32::MAX));
        let who = self.bin(bin) && self.who(row.thread, row.node) && self.home(row.home);
        who && self.on(row.object) && self.is_of_site(Some(row.site))
    }

    /// Whether a row is of the part, whenever that was and whatever its function.
    pub fn line(&self, row: &CacheLine) -> bool {
        let who = self.who(row.thread, self.pinning.last(row.thread));
        who && self.pages.is_none_or(|pages| {
            let run = pages.run_of(row.process, row.page, Bin(u32::MAX), None);
            self.home(run.and_then(|run| pages.home_of(run))) && self.on(run.and_then(|run| pages.object_of(run)))
        })
    }

    /// Whether a row is of the part, whatever it is that the threads share.
    pub fn pair(&self, row: &LineCommunication) -> bool {
        [row.thread, row.other].into_iter().all(|thread| self.who(thread, self.pinning.last(thread)))
    }

    /// Whether a row is of the part. Of one object nobody knows it.
    pub fn miss(&self, row: &SiteMiss) -> bool {
        self.bin(row.bin) && self.who(row.thread, row.node) && self.home(row.home) && self.is_of_site(Some(row.site))
    }

    /// Whether an object is asked for.
    pub fn has_object(&self, object: ObjectId) -> bool {
        self.on(Some(object))
    }

    /// Whether a thread is asked for.
    pub fn has_thread(&self, thread: ThreadId) -> bool {
        self.filter.threads.is_empty() || self.filter.threads.contains(&thread)
    }

    /// Whether it lets everything pass, so that tables need not be read twice.
    pub fn is_open(&self) -> bool {
        self.filter.is_empty()
    }
}

/// A table that a filter chooses rows of.
pub trait FilteredRow: Row {
    /// Whose.
    fn process(&self) -> ProcessId;

    /// Whether a row is of the part; of tables of accesses, whenever it was.
    fn passes(&self, row_filter: &RowFilter<'_>) -> bool;
}

macro_rules! filtered_rows {
    ($($row:ident by $method:ident;)*) => {$(
        impl FilteredRow for $row {
            #[inline]
            fn process(&self) -> ProcessId {
                self.process
            }

            #[inline]
            fn passes(&self, row_filter: &RowFilter<'_>) -> bool {
                row_filter.$method(self)
            }
        }
    )*};
}

filtered_rows! {
    SiteAccess by site;
    ObjectAccess by object;
    PageAccess by page;
    Sample by sample;
    SiteMiss by miss;
    CodeFetch by fetch;
}
