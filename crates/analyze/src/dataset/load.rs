//! Reading a profile into a study: only the tables that the wanted sections need, facts folded on the way.

use crate::dataset::source::{Known, LoadError, Only, Source};
use crate::dataset::study::Study;
use crate::facts::cache_lines::LineFacts;
use crate::facts::cache_misses::Misses;
use crate::facts::call_stacks::StackFacts;
use crate::facts::code::Code;
use crate::facts::code_fetches::CodeFacts;
use crate::facts::filter::{Filter, Sieve};
use crate::facts::fold::{Context, Need};
use crate::facts::line_objects::UseFacts;
use crate::facts::looks::Looks;
use crate::facts::margins::Margins;
use crate::facts::node_timeline::NodeTimes;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_use::{AddingFlows, AddingPages, Moments, PageFacts};
use crate::facts::placed;
use crate::facts::policies::Policies;
use crate::facts::sites::AddingSites;
use crate::facts::slots;
use crate::facts::sorted::Kept;
use crate::facts::subjects::Subjects;
use crate::model::about::About;
use numalens_profile::PinningLog;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::{
    Allocation, CacheLine, CodeFetch, Frame, Function, LineCommunication, Module, Object, ObjectAccess, ObjectBound,
    PageAccess, Phase, PlacedPages, Placement, Process, Sample, Site, SiteAccess, SiteMiss, Stack, Thread, WaitingSite,
};
use numalens_profile::{Error, Profile};
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

/// Whoever needs one of these asks where pages are and whose.
const BY_PAGES: [Need; 5] = [Need::Placed, Need::Objects, Need::Pages, Need::Flows, Need::Moments];

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
        let has = |need| needs.contains(&need);
        let machine = profile.machine()?;
        let mut processes: Vec<Process> = profile.rows()?;
        let only = Only::new(&processes, &options.pids)?;
        processes.retain(|row| only.has(row.process));
        let mut placements: Vec<Placement> = only.rows(profile, |row: &Placement| row.process)?;
        let pinning = PinningLog::new(&placements, about.meta.bin_ns);
        let filter = &options.filter;
        let asks_for_pages = Sieve::asks_for_pages(filter);
        let code = match has(Need::Names) || filter.function.is_some() || filter.place.is_some() {
            true => match known.whole(Need::Names) {
                Some(whole) => whole.code.clone(),
                None => Arc::new(names(profile)?),
            },
            false => Arc::default(),
        };
        let by_pages = BY_PAGES.into_iter().any(has);
        let (pages, objects): (Vec<PlacedPages>, Vec<Object>) = match by_pages || asks_for_pages {
            true => {
                (only.rows(profile, |row: &PlacedPages| row.process)?, only.rows(profile, |row: &Object| row.process)?)
            }
            false => Default::default(),
        };
        let mut objects: FxHashMap<ObjectId, Object> = objects.into_iter().map(|row| (row.object, row)).collect();
        let mut placed = placed::placements(&pages, !machine.is_virtual);
        let subjects = match (
            has(Need::Flows) || has(Need::Moments) || has(Need::Pages) || asks_for_pages,
            known.whole(Need::Flows),
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
        let of = Context { sieve: &sieve, subjects: &subjects, weight: about.weight() };
        let source = Source { profile, known, only: &only, needs, filter, of };
        let mut sites = match filter.object {
            None => source.accesses::<SiteAccess, AddingSites>()?,
            Some(_) => source.accesses::<ObjectAccess, AddingSites>()?,
        };
        // Exact counts of an object do not know the instruction: those that were looked at tell it.
        let divides_sites = has(Need::Sites) && filter.object.is_some() && !about.sampled();
        let uses = source.rows_if::<Sample, UseFacts>(has(Need::Uses) || divides_sites)?;
        if divides_sites {
            sites.divide_unknown(&uses.by_site());
        }
        if has(Need::Sites) || has(Need::Objects) {
            sites.margins = Margins::load(profile, |process| only.has(process))?;
        }
        let misses = match has(Need::Sites) && filter.object.is_none() && about.cache().is_some() {
            true => Some(source.rows::<SiteMiss, Misses>()?),
            false => None,
        };
        let mut by_object = source.accesses::<ObjectAccess, ObjectFacts>()?;
        source.table(Need::Objects, |row: &ObjectBound| row.process)?.iter().for_each(|row| by_object.bound(row));
        let fetches = source.rows::<CodeFetch, CodeFacts>()?;
        let flows = source.pages::<AddingFlows>(|whole| &whole.flows)?;
        let moments = source.pages::<Moments>(|whole| &whole.moments)?;
        // What it sets apart as waiting is of the instructions, which any filter chooses among.
        let usage = known.whole(Need::Flows).filter(|_| filter.is_empty()).map(|whole| whole.usage.clone());
        // Who used which page, without what flows know beyond that: the table need not be read twice.
        let by_page = match has(Need::Pages) && has(Need::Flows) && source.whole_pages(Need::Pages).is_none() {
            true => Arc::new(PageFacts::of(&flows)),
            false => source.pages::<AddingPages>(|whole| &whole.by_page)?,
        };
        let lines = source.rows::<Sample, LineFacts>()?;
        let mut cache_lines = source.table(Need::CacheLines, |row: &CacheLine| row.process)?;
        let mut line_pairs = source.table(Need::LinePairs, |row: &LineCommunication| row.process)?;
        let stacks = source.rows::<Sample, StackFacts>()?;
        let node_times = match filter.object {
            None => source.accesses::<SiteAccess, NodeTimes>()?,
            Some(_) => source.accesses::<ObjectAccess, NodeTimes>()?,
        };
        let (object_events, thread_events) = source.events(about.sampled(), about.meta.bin_ns)?;
        let mut allocations = source.table(Need::Allocations, |row: &Allocation| row.process)?;
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

/// The names of all code.
fn names(profile: &Profile) -> Result<Code, Error> {
    let code = Code::new(
        profile.rows::<Module>()?,
        profile.rows::<Site>()?,
        profile.rows::<Frame>()?,
        profile.rows::<Function>()?,
        profile.rows::<Stack>()?,
    );
    Ok(code.with_waiting(profile.rows::<WaitingSite>()?))
}
