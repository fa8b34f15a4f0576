//! Reading a profile into a study: only the tables that the wanted sections need, facts folded on the way.

use crate::dataset::study::Study;
use crate::facts::cache_lines::LineFacts;
use crate::facts::cache_misses::Misses;
use crate::facts::call_stacks::StackFacts;
use crate::facts::code::Code;
use crate::facts::code_fetches::CodeFacts;
use crate::facts::filter::{Filter, Sieve};
use crate::facts::first_accesses::Events;
use crate::facts::line_objects::UseFacts;
use crate::facts::looks::Looks;
use crate::facts::margins::Margins;
use crate::facts::node_timeline::NodeTimes;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_use::{self, AddingFlows, AddingPages, Moments, PageFacts};
use crate::facts::placed;
use crate::facts::policies::Policies;
use crate::facts::sites::{AddingSites, SiteFacts};
use crate::facts::slots;
use crate::facts::sorted::{Keep, Kept, Times};
use crate::facts::subjects::Subjects;
use crate::model::about::About;
use crate::model::tally::Weight;
use numalens_profile::PinningLog;
use numalens_profile::ids::{ObjectId, ProcessId, ThreadId};
use numalens_profile::tables::{
    Allocation, CacheLine, CodeFetch, Frame, Function, LineCommunication, Module, Object, ObjectAccess, ObjectBound,
    PageAccess, Phase, PlacedPages, Placement, Process, Sample, Site, SiteAccess, SiteMiss, Stack, Thread, WaitingSite,
};
use numalens_profile::{Error, Profile, Row};
use rustc_hash::FxHashMap;
use std::mem::swap;
use std::sync::{Arc, OnceLock};

/// What to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Only processes with these kernel numbers; empty: all.
    pub pids: Vec<u32>,
    /// Only a part of what they did.
    pub filter: Filter,
}

impl Options {
    /// Whether a profile has what is asked for.
    ///
    /// # Errors
    /// A process is not in it; it is damaged.
    pub fn check(&self, profile: &Profile) -> Result<(), LoadError> {
        if !self.pids.is_empty() {
            Only::new(&profile.rows::<Process>()?, &self.pids)?;
        }
        Ok(())
    }
}

/// A table that some sections need and others do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Sites,
    Objects,
    Pages,
    Fetches,
    Placed,
    Allocations,
    Names,
    /// Accesses by page and thread, and whose memory the pages are.
    Flows,
    /// The same over time.
    Moments,
    /// Accesses by cache line, and sampled addresses.
    CacheLines,
    /// Accesses by thread, and by who accessed the cache line last.
    LinePairs,
    /// Sampled accesses by call stack.
    Stacks,
    /// Single accesses by instruction and object.
    Uses,
    /// Accesses by time, thread's node, home and class.
    NodeTimes,
    /// The first accesses to objects, and of threads, one by one.
    ObjectEvents,
    ThreadEvents,
}

/// What is known of the same processes already.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// A study without a filter, and what was read into it.
    pub whole: Option<(&'a Study, &'a [Need])>,
    /// Tables that need not be read again.
    pub kept: &'a Kept,
}

/// Whoever needs one of these asks where pages are and whose.
const BY_PAGES: [Need; 5] = [Need::Placed, Need::Objects, Need::Pages, Need::Flows, Need::Moments];

/// A profile could not be read as asked.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is damaged, newer, or not there.
    #[error(transparent)]
    Profile(#[from] Error),
    /// `--process` of a process that is not in it.
    #[error("the profile has no process {pid}; it has {known}")]
    NoSuchProcess {
        /// The pid that was asked for.
        pid: u32,
        /// Those that there are.
        known: String,
    },
}

impl Study {
    /// Reads what `needs` names.
    ///
    /// # Errors
    /// The profile is damaged; a process is not in it.
    pub fn load(profile: &Profile, options: &Options, needs: &[Need]) -> Result<Study, LoadError> {
        Study::load_beside(profile, options, needs, Known { whole: None, kept: &Kept::default() })
    }

    /// The same beside what is known already: what the filter leaves as it is need not be read again.
    ///
    /// # Errors
    /// As [`Study::load`].
    pub fn load_beside(
        profile: &Profile,
        options: &Options,
        needs: &[Need],
        known: Known<'_>,
    ) -> Result<Study, LoadError> {
        let of_whole = |need| known.whole.filter(|(_, has)| has.contains(&need)).map(|(study, _)| study);
        let of_pages = |need| of_whole(need).filter(|_| options.filter.leaves_pages_alone());
        let mut about = About {
            only_pids: options.pids.clone(),
            filtered: options.filter.doubts(),
            place: options.filter.place.clone(),
            ..About::new(profile.meta.clone())
        };
        if options.filter.time_ns != (None, None) {
            let looks = Looks::of(&about);
            about.filtered.extend(looks.and_then(|looks| looks.words()));
        }
        let needs = |need| needs.contains(&need);
        let machine = profile.machine()?;
        let mut processes: Vec<Process> = profile.rows()?;
        let only = Only::new(&processes, &options.pids)?;
        processes.retain(|row| only.has(row.process));
        let mut placements: Vec<Placement> = only.rows(profile, |row: &Placement| row.process)?;
        let pinning = PinningLog::new(&placements, about.meta.bin_ns);
        let weight = about.weight();
        let filter = &options.filter;
        let asks_for_pages = Sieve::asks_for_pages(filter);
        let code = match needs(Need::Names) || filter.function.is_some() || filter.place.is_some() {
            true => match of_whole(Need::Names) {
                Some(whole) => whole.code.clone(),
                None => {
                    let code = Code::new(
                        profile.rows::<Module>()?,
                        profile.rows::<Site>()?,
                        profile.rows::<Frame>()?,
                        profile.rows::<Function>()?,
                        profile.rows::<Stack>()?,
                    );
                    Arc::new(code.with_waiting(profile.rows::<WaitingSite>()?))
                }
            },
            false => Arc::default(),
        };
        let by_pages = BY_PAGES.into_iter().any(needs);
        let (pages, objects): (Vec<PlacedPages>, Vec<Object>) = match by_pages || asks_for_pages {
            true => {
                (only.rows(profile, |row: &PlacedPages| row.process)?, only.rows(profile, |row: &Object| row.process)?)
            }
            false => Default::default(),
        };
        let mut objects: FxHashMap<ObjectId, Object> = objects.into_iter().map(|row| (row.object, row)).collect();
        let mut placed = placed::placements(&pages, !machine.is_virtual);
        let subjects = match (
            needs(Need::Flows) || needs(Need::Moments) || needs(Need::Pages) || asks_for_pages,
            of_whole(Need::Flows),
        ) {
            (true, Some(whole)) => whole.subjects.clone(),
            (true, None) => {
                let policies = Policies::new(&placements, about.meta.bin_ns, machine.is_virtual);
                Arc::new(Subjects::new(&pages, &placed, &objects, (&pinning, &policies), &processes))
            }
            (false, _) => Arc::default(),
        };
        let tells_nodes = profile.has_column::<PageAccess>("node");
        let sieve = Sieve::new(filter, &pinning, &code, &about, &objects, &subjects, tells_nodes);
        // Columns that only a filter reads need not be decoded without one.
        let columns =
            |folded: &'static [&'static str], all: &'static [&'static str]| if sieve.is_open() { folded } else { all };
        let source = Source { profile, kept: known.kept, only: &only, sieve: &sieve, weight };
        let mut sites = match (needs(Need::Sites), filter.object) {
            (true, None) => source
                .fold::<SiteAccess, AddingSites>(
                    columns(AddingSites::COLUMNS, SiteAccess::COLUMNS),
                    |row| sieve.site(row),
                    AddingSites::add,
                    AddingSites::merge,
                )?
                .finish(),
            (true, Some(_)) => source
                .fold::<ObjectAccess, AddingSites>(
                    ObjectAccess::COLUMNS,
                    |row| sieve.object(row),
                    AddingSites::add_of_object,
                    AddingSites::merge,
                )?
                .finish(),
            (false, _) => SiteFacts::default(),
        };
        // Exact counts of an object do not know the instruction: those that were looked at tell it.
        let divides_sites = needs(Need::Sites) && filter.object.is_some() && !about.sampled();
        let uses = match needs(Need::Uses) || divides_sites {
            true => fold::<Sample, UseFacts>(
                profile,
                columns(UseFacts::COLUMNS, Sample::COLUMNS),
                |uses, row| only.then(row.process, || sieve.sample(&row).then(|| uses.add(&row, weight))),
                UseFacts::merge,
            )?,
            false => UseFacts::default(),
        };
        if divides_sites {
            sites.divide_unknown(&uses.by_site());
        }
        if needs(Need::Sites) || needs(Need::Objects) {
            sites.margins = Margins::load(profile, |process| only.has(process))?;
        }
        let misses = match needs(Need::Sites) && filter.object.is_none() && about.cache().is_some() {
            true => Some(fold::<SiteMiss, Misses>(
                profile,
                columns(Misses::COLUMNS, SiteMiss::COLUMNS),
                |misses, row| only.then(row.process, || sieve.miss(&row).then(|| misses.add(&row))),
                Misses::merge,
            )?),
            false => None,
        };
        let mut by_object = match needs(Need::Objects) {
            true => source.fold::<ObjectAccess, ObjectFacts>(
                columns(ObjectFacts::COLUMNS, ObjectAccess::COLUMNS),
                |row| sieve.object(row),
                ObjectFacts::add,
                ObjectFacts::merge,
            )?,
            false => ObjectFacts::default(),
        };
        if needs(Need::Objects) {
            let bounds: Vec<ObjectBound> = only.rows(profile, |row: &ObjectBound| row.process)?;
            bounds.iter().for_each(|row| by_object.bound(row));
        }
        let fetches = match needs(Need::Fetches) {
            true => fold::<CodeFetch, CodeFacts>(
                profile,
                columns(CodeFacts::COLUMNS, CodeFetch::COLUMNS),
                |facts, row| only.then(row.process, || sieve.fetch(&row).then(|| facts.add(&row, weight))),
                CodeFacts::merge,
            )?,
            false => CodeFacts::default(),
        };
        let flows = match (needs(Need::Flows), of_pages(Need::Flows)) {
            (true, Some(whole)) => whole.flows.clone(),
            (true, None) => Arc::new(
                source
                    .fold::<PageAccess, AddingFlows>(
                        page_use::COLUMNS,
                        |row| sieve.page(row),
                        |flows, row, times| flows.add(row, times, &subjects, &sieve),
                        AddingFlows::merge,
                    )?
                    .finish(),
            ),
            (false, _) => Arc::default(),
        };
        let moments = match (needs(Need::Moments), of_pages(Need::Moments)) {
            (true, Some(whole)) => whole.moments.clone(),
            (true, None) => Arc::new(source.fold::<PageAccess, Moments>(
                page_use::COLUMNS,
                |row| sieve.page(row),
                |moments, row, times| moments.add(row, times, &subjects, &sieve),
                Moments::merge,
            )?),
            (false, _) => Arc::default(),
        };
        // What it sets apart as waiting is of the instructions, which any filter chooses among.
        let usage = of_whole(Need::Flows).filter(|_| filter.is_empty()).map(|whole| whole.usage.clone());
        let by_page = match (needs(Need::Pages), needs(Need::Flows), of_pages(Need::Pages)) {
            (true, _, Some(whole)) => whole.by_page.clone(),
            // Who used which page, without what flows know beyond that: the table need not be read twice.
            (true, true, None) => Arc::new(PageFacts::of(&flows)),
            (true, false, None) => Arc::new(
                source
                    .fold::<PageAccess, AddingPages>(
                        page_use::COLUMNS,
                        |row| sieve.page(row),
                        |facts, row, times| facts.add(row, times, &subjects, &sieve),
                        AddingPages::merge,
                    )?
                    .finish(),
            ),
            (false, ..) => Arc::default(),
        };
        let lines = match needs(Need::CacheLines) {
            true => fold::<Sample, LineFacts>(
                profile,
                columns(LineFacts::COLUMNS, Sample::COLUMNS),
                |lines, row| only.then(row.process, || sieve.sample(&row).then(|| lines.add(&row))),
                LineFacts::merge,
            )?,
            false => LineFacts::default(),
        };
        let mut cache_lines = match needs(Need::CacheLines) {
            true => only.rows(profile, |row: &CacheLine| row.process)?,
            false => Vec::new(),
        };
        let mut line_pairs = match needs(Need::LinePairs) {
            true => only.rows(profile, |row: &LineCommunication| row.process)?,
            false => Vec::new(),
        };
        let stacks = match needs(Need::Stacks) {
            true => fold::<Sample, StackFacts>(
                profile,
                columns(StackFacts::COLUMNS, Sample::COLUMNS),
                |stacks, row| only.then(row.process, || sieve.sample(&row).then(|| stacks.add(&row, weight))),
                StackFacts::merge,
            )?,
            false => StackFacts::default(),
        };
        let node_times = match (needs(Need::NodeTimes), filter.object) {
            (true, None) => source.fold::<SiteAccess, NodeTimes>(
                columns(NodeTimes::COLUMNS, SiteAccess::COLUMNS),
                |row| sieve.site(row),
                NodeTimes::add,
                NodeTimes::merge,
            )?,
            (true, Some(_)) => source.fold::<ObjectAccess, NodeTimes>(
                ObjectAccess::COLUMNS,
                |row| sieve.object(row),
                NodeTimes::add_of_object,
                NodeTimes::merge,
            )?,
            (false, _) => NodeTimes::default(),
        };
        let (mut object_events, mut thread_events) = (Events::new(filter), Events::new(filter));
        let bin_ns = about.meta.bin_ns;
        if about.sampled() && (needs(Need::ObjectEvents) || needs(Need::ThreadEvents)) {
            let events = profile.fold::<Sample, Events>(
                Sample::COLUMNS,
                || Events::new(filter),
                |events, row| only.then(row.process, || sieve.sample(&row).then(|| events.add_sample(&row, weight))),
                Events::merge,
            )?;
            (object_events, thread_events) = (events.clone(), events);
        } else {
            let of_objects = || {
                profile.fold::<ObjectAccess, Events>(
                    ObjectAccess::COLUMNS,
                    || Events::new(filter),
                    |events, row| {
                        let wanted = sieve.bin(row.bin) && sieve.object(&row);
                        only.then(row.process, || wanted.then(|| events.add_object(&row, bin_ns)))
                    },
                    Events::merge,
                )
            };
            if needs(Need::ObjectEvents) {
                object_events = of_objects()?;
            }
            if needs(Need::ThreadEvents) {
                thread_events = match filter.object {
                    Some(_) => of_objects()?,
                    None => profile.fold::<SiteAccess, Events>(
                        SiteAccess::COLUMNS,
                        || Events::new(filter),
                        |events, row| {
                            let wanted = sieve.bin(row.bin) && sieve.site(&row);
                            only.then(row.process, || wanted.then(|| events.add_site(&row, bin_ns)))
                        },
                        Events::merge,
                    )?,
                };
            }
        }
        let mut allocations =
            if needs(Need::Allocations) { only.rows(profile, |row: &Allocation| row.process)? } else { Vec::new() };
        let mut threads = only.rows(profile, |row: &Thread| row.process)?;
        threads.sort_by_key(|row| row.thread);
        let order: Vec<ThreadId> = threads.iter().map(|row| row.thread).collect();
        let slots = slots::of(&threads);
        if !sieve.is_open() {
            placed.retain(|row| sieve.placed(row));
            cache_lines.retain(|row| sieve.line(row));
            line_pairs.retain(|row| sieve.pair(row));
            allocations.retain(|row| sieve.allocation(row));
            objects.retain(|id, _| sieve.has_object(*id));
            threads.retain(|row| sieve.has_thread(row.thread));
            placements.retain(|row| sieve.has_thread(row.thread));
        }
        drop(sieve);
        Ok(Study {
            about,
            placed,
            machine,
            processes,
            threads: threads.into_iter().map(|row| (row.thread, row)).collect(),
            order,
            slots,
            placements,
            pinning,
            code,
            objects,
            pages,
            sites,
            by_object,
            by_page,
            fetches,
            allocations,
            phases: only.rows(profile, |row: &Phase| row.process)?,
            subjects,
            flows,
            moments,
            misses,
            lines,
            usage: usage.unwrap_or_default(),
            wrappers: OnceLock::new(),
            advice: OnceLock::new(),
            cache_lines,
            line_pairs,
            stacks,
            uses,
            node_times,
            object_events,
            thread_events,
        })
    }
}

impl Study {
    /// Adds what another study of the same part of the same profile has: what was read for `needs`.
    pub fn take(&mut self, mut more: Study, needs: &[Need]) {
        let has = |need| needs.contains(&need);
        // Made of tables that may be others now.
        (self.wrappers, self.advice) = (OnceLock::new(), OnceLock::new());
        if BY_PAGES.into_iter().any(has) {
            (self.pages, self.placed, self.objects) = (more.pages, more.placed, more.objects);
        }
        if has(Need::Sites) {
            (self.sites, self.misses) = (more.sites, more.misses);
        } else if has(Need::Objects) {
            self.sites.margins = more.sites.margins;
        }
        if has(Need::Flows) {
            (self.subjects, self.flows, self.usage) = (more.subjects, more.flows, more.usage);
        }
        for need in needs {
            match need {
                Need::Names => swap(&mut self.code, &mut more.code),
                Need::Objects => swap(&mut self.by_object, &mut more.by_object),
                Need::Pages => swap(&mut self.by_page, &mut more.by_page),
                Need::Moments => swap(&mut self.moments, &mut more.moments),
                Need::Fetches => swap(&mut self.fetches, &mut more.fetches),
                Need::Allocations => swap(&mut self.allocations, &mut more.allocations),
                Need::CacheLines => {
                    swap(&mut self.lines, &mut more.lines);
                    swap(&mut self.cache_lines, &mut more.cache_lines);
                }
                Need::LinePairs => swap(&mut self.line_pairs, &mut more.line_pairs),
                Need::Uses => swap(&mut self.uses, &mut more.uses),
                Need::Stacks => swap(&mut self.stacks, &mut more.stacks),
                Need::NodeTimes => swap(&mut self.node_times, &mut more.node_times),
                Need::ObjectEvents => swap(&mut self.object_events, &mut more.object_events),
                Need::ThreadEvents => swap(&mut self.thread_events, &mut more.thread_events),
                Need::Sites | Need::Placed | Need::Flows => {}
            }
        }
    }
}

/// Where accesses come from: tables that are kept, or the profile.
struct Source<'a> {
    profile: &'a Profile,
    kept: &'a Kept,
    only: &'a Only,
    sieve: &'a Sieve<'a>,
    weight: Weight,
}

impl Source<'_> {
    /// Folds accesses in the span of the filter into facts that merge by addition: of rows that are `wanted`, whenever they were.
    fn fold<T: Keep, F: Default + Send>(
        &self,
        columns: &[&str],
        wanted: impl Fn(&T) -> bool + Sync + Send,
        add: impl Fn(&mut F, &T, Times<'_>) + Sync + Send,
        merge: impl Fn(F, F) -> F + Sync + Send,
    ) -> Result<F, Error> {
        let Source { profile, kept, only, sieve, weight } = *self;
        let wanted = |row: &T| only.has(row.process()) && wanted(row);
        match T::kept(kept) {
            Some(kept) => Ok(kept.fold(sieve.span(), wanted, F::default, add, merge)),
            None => profile.fold::<T, F>(
                columns,
                F::default,
                |facts, row| {
                    if sieve.bin(row.bin()) && wanted(&row) {
                        add(facts, &row, Times::once(&row.bin(), &row.counts(weight)));
                    }
                },
                merge,
            ),
        }
    }
}

/// Folds a table into facts that merge by addition.
fn fold<T: Row, F: Default + Send>(
    profile: &Profile,
    columns: &[&str],
    step: impl Fn(&mut F, T) + Sync + Send,
    merge: impl Fn(F, F) -> F + Sync + Send,
) -> Result<F, Error> {
    profile.fold::<T, F>(columns, F::default, step, merge)
}

/// The processes that are looked at; none: all.
struct Only(Option<Vec<ProcessId>>);

impl Only {
    fn new(processes: &[Process], pids: &[u32]) -> Result<Only, LoadError> {
        if pids.is_empty() {
            return Ok(Only(None));
        }
        if let Some(pid) = pids.iter().copied().find(|pid| processes.iter().all(|p| p.pid != *pid)) {
            let mut known: Vec<String> =
                processes.iter().take(20).map(|p| format!("{} ({})", p.pid, p.command)).collect();
            if processes.len() > known.len() {
                known.push(format!("{} more", processes.len() - known.len()));
            }
            return Err(LoadError::NoSuchProcess { pid, known: known.join(", ") });
        }
        Ok(Only(Some(processes.iter().filter(|p| pids.contains(&p.pid)).map(|p| p.process).collect())))
    }

    fn has(&self, process: ProcessId) -> bool {
        self.0.as_ref().is_none_or(|only| only.contains(&process))
    }

    fn then<T>(&self, process: ProcessId, act: impl FnOnce() -> T) {
        if self.has(process) {
            act();
        }
    }

    /// The rows of the wanted processes.
    fn rows<T: Row>(&self, profile: &Profile, process: impl Fn(&T) -> ProcessId) -> Result<Vec<T>, Error> {
        let mut rows = profile.rows::<T>()?;
        rows.retain(|row| self.has(process(row)));
        Ok(rows)
    }
}
