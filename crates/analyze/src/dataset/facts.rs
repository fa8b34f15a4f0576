//! Tables of accesses, each folded as far as somebody asks for it: one row of [`LOADERS`] each.

use crate::dataset::source::Source;
use crate::facts::cache_lines::LineFacts;
use crate::facts::cache_misses::Misses;
use crate::facts::call_stacks::StackFacts;
use crate::facts::code_fetches::CodeFacts;
use crate::facts::collectors::CollectorFacts;
use crate::facts::first_accesses::Events;
use crate::facts::fold::Need;
use crate::facts::imported_totals::{self, ImportedTotals};
use crate::facts::line_objects::UseFacts;
use crate::facts::node_timeline::NodeTimes;
use crate::facts::objects::ObjectFacts;
use crate::facts::page_use::{AddingPageUse, AddingPages, PageFacts, PageUse, PageUseByTime};
use crate::facts::rollup::Rollup;
use crate::facts::sites::{AddingSites, SiteFacts};
use crate::model::counts::Counts;
use numalens_profile::Error;
use numalens_profile::ids::ThreadId;
use numalens_profile::tables::{
    Allocation, CacheLine, CodeFetch, LineCommunication, MainUser, ObjectAccess, ObjectBound, Sample, SiteAccess,
    SiteMiss,
};
use rustc_hash::FxHashMap;
use std::mem::swap;
use std::sync::Arc;

/// The facts of a part of a recording. Those that nobody asked for are empty.
#[derive(Default)]
pub struct Facts {
    pub sites: SiteFacts,
    /// None: the recording had no cache.
    pub misses: Option<Misses>,
    pub by_object: ObjectFacts,
    pub by_page: Arc<PageFacts>,
    pub page_use: Arc<PageUse>,
    pub summed: Summed,
    pub page_use_by_time: Arc<PageUseByTime>,
    pub fetches: CodeFacts,
    pub collectors: CollectorFacts,
    pub allocations: Vec<Allocation>,
    pub lines: LineUse,
    pub stacks: StackFacts,
    pub uses: UseFacts,
    pub node_times: NodeTimes,
    pub object_events: Events,
    pub thread_events: Events,
}

/// The profile's sums of page accesses, where they stand for those.
#[derive(Default)]
pub struct Summed {
    /// Of page use, which is empty then unless somebody asked for it.
    pub rollup: Option<Arc<Rollup>>,
    /// Whose pages are.
    pub main_users: Vec<MainUser>,
}

/// What is known of cache lines.
#[derive(Default)]
pub struct LineUse {
    pub sampled: LineFacts,
    pub counted: Vec<CacheLine>,
    pub pairs: Vec<LineCommunication>,
}

/// How one of the facts comes to where it stands.
struct Loader {
    need: Need,
    /// Folds it, where the source is asked for it.
    load: fn(&Source<'_>, &mut Facts) -> Result<(), Error>,
    /// Moves it from the second ones to the first.
    take: fn(&mut Facts, &mut Facts),
}

/// In the order of loading: some are made of others.
static LOADERS: &[Loader] = &[
    Loader { need: Need::Uses, load: uses, take: |facts, more| swap(&mut facts.uses, &mut more.uses) },
    Loader {
        need: Need::Sites,
        load: sites,
        take: |facts, more| {
            swap(&mut facts.sites, &mut more.sites);
            swap(&mut facts.misses, &mut more.misses);
        },
    },
    Loader {
        need: Need::Collectors,
        load: |source, facts| {
            let collectors = match source.of_object() {
                true => source.accesses::<ObjectAccess, CollectorFacts>(),
                false => source.accesses::<SiteAccess, CollectorFacts>(),
            };
            collectors.map(|collectors| facts.collectors = collectors)
        },
        take: |facts, more| swap(&mut facts.collectors, &mut more.collectors),
    },
    Loader {
        need: Need::Objects,
        load: objects,
        take: |facts, more| {
            swap(&mut facts.by_object, &mut more.by_object);
            // Of the same part there is one of them, whoever asked for it.
            if more.sites.imported.is_some() {
                facts.sites.imported = more.sites.imported.take();
            }
        },
    },
    Loader {
        need: Need::Fetches,
        load: |source, facts| source.rows::<CodeFetch, CodeFacts>().map(|fetches| facts.fetches = fetches),
        take: |facts, more| swap(&mut facts.fetches, &mut more.fetches),
    },
    Loader {
        need: Need::PageSums,
        load: page_sums,
        take: |facts, more| {
            swap(&mut facts.summed.rollup, &mut more.summed.rollup);
            // Where there are none they are all facts.
            if !more.page_use.sums.is_empty() {
                facts.page_use = more.page_use.clone();
            }
        },
    },
    Loader {
        need: Need::MainUsers,
        load: |source, facts| {
            let is_summed = source.has(Need::MainUsers) && !source.has(Need::Pages);
            facts.summed.main_users = if is_summed { source.request.profile.rows()? } else { Vec::new() };
            Ok(())
        },
        take: |facts, more| swap(&mut facts.summed.main_users, &mut more.summed.main_users),
    },
    Loader {
        need: Need::PageUse,
        load: |source, facts| {
            let sums = source.has(Need::PageSums) && facts.summed.rollup.is_none();
            let asked = sums || source.has(Need::PageUse);
            let page_use = source.pages_if::<AddingPageUse>(asked, |whole| &whole.facts.page_use);
            page_use.map(|page_use| facts.page_use = page_use)
        },
        take: |facts, more| facts.page_use = more.page_use.clone(),
    },
    Loader {
        need: Need::PageUseByTime,
        load: |source, facts| {
            source
                .pages::<PageUseByTime>(|whole| &whole.facts.page_use_by_time)
                .map(|times| facts.page_use_by_time = times)
        },
        take: |facts, more| swap(&mut facts.page_use_by_time, &mut more.page_use_by_time),
    },
    Loader { need: Need::Pages, load: by_page, take: |facts, more| swap(&mut facts.by_page, &mut more.by_page) },
    Loader {
        need: Need::CacheLines,
        load: cache_lines,
        take: |facts, more| {
            swap(&mut facts.lines.sampled, &mut more.lines.sampled);
            swap(&mut facts.lines.counted, &mut more.lines.counted);
        },
    },
    Loader {
        need: Need::LinePairs,
        load: line_pairs,
        take: |facts, more| swap(&mut facts.lines.pairs, &mut more.lines.pairs),
    },
    Loader {
        need: Need::Stacks,
        load: |source, facts| source.rows::<Sample, StackFacts>().map(|stacks| facts.stacks = stacks),
        take: |facts, more| swap(&mut facts.stacks, &mut more.stacks),
    },
    Loader {
        need: Need::NodeTimes,
        load: node_times,
        take: |facts, more| swap(&mut facts.node_times, &mut more.node_times),
    },
    Loader {
        need: Need::ObjectEvents,
        load: events,
        take: |facts, more| swap(&mut facts.object_events, &mut more.object_events),
    },
    Loader {
        need: Need::ThreadEvents,
        // With those of objects, as both may be of one table.
        load: |_, _| Ok(()),
        take: |facts, more| swap(&mut facts.thread_events, &mut more.thread_events),
    },
    Loader {
        need: Need::Allocations,
        load: allocations,
        take: |facts, more| swap(&mut facts.allocations, &mut more.allocations),
    },
];

impl Facts {
    /// All that the source is asked for.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn load(source: &Source<'_>) -> Result<Facts, Error> {
        let mut facts = Facts::default();
        LOADERS.iter().try_for_each(|loader| (loader.load)(source, &mut facts))?;
        Ok(facts)
    }

    /// Has what was read for `needs` from those of the same part.
    pub fn take(&mut self, mut more: Facts, needs: &[Need]) {
        let asked = LOADERS.iter().filter(|loader| needs.contains(&loader.need));
        asked.for_each(|loader| (loader.take)(self, &mut more));
    }

    /// Accesses of everything.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for ((_, class), tally) in self.sites.by_thread() {
            total.add(class, tally);
        }
        total
    }

    /// Accesses by thread.
    pub fn by_thread(&self) -> FxHashMap<ThreadId, Counts> {
        let mut threads: FxHashMap<ThreadId, Counts> = FxHashMap::default();
        for ((thread, class), tally) in self.sites.by_thread() {
            threads.entry(thread).or_default().add(class, tally);
        }
        threads
    }

    /// What an analysis says that needs accesses by page, when there are but sums.
    pub fn sums_only(&self) -> Option<String> {
        self.sites.imported.as_ref().map(|_| imported_totals::MISSING.to_string())
    }
}

/// Exact counts of an object do not know the instruction: single accesses, which were looked at, tell it.
fn divides_sites(source: &Source<'_>) -> bool {
    source.has(Need::Sites) && source.of_object() && !source.about.sampled()
}

fn uses(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.uses = source.rows_if::<Sample, UseFacts>(source.has(Need::Uses) || divides_sites(source))?;
    Ok(())
}

fn sites(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.sites = match source.of_object() {
        false => source.accesses::<SiteAccess, AddingSites>()?,
        true => source.accesses::<ObjectAccess, AddingSites>()?,
    };
    if divides_sites(source) {
        facts.sites.divide_unknown(&facts.uses.by_site());
    }
    if source.has(Need::Sites) {
        facts.sites.imported = imported(source)?;
    }
    if source.has(Need::Sites) && !source.of_object() && source.about.cache().is_some() {
        facts.misses = Some(source.rows::<SiteMiss, Misses>()?);
    }
    Ok(())
}

fn objects(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.by_object = source.accesses::<ObjectAccess, ObjectFacts>()?;
    let bounds = source.table(Need::Objects, |row: &ObjectBound| row.process)?;
    bounds.iter().for_each(|row| facts.by_object.bound(row));
    if source.has(Need::Objects) && !source.has(Need::Sites) {
        facts.sites.imported = imported(source)?;
    }
    Ok(())
}

fn imported(source: &Source<'_>) -> Result<Option<ImportedTotals>, Error> {
    let request = source.request;
    ImportedTotals::load(request.profile, |process| request.only.has(process))
}

fn by_page(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    let both = source.has(Need::Pages) && source.has(Need::PageUse);
    // Who used which page, without what page use know beyond that: the table need not be read twice.
    let is_known = source.whole_pages(Need::Pages).is_some();
    let summed = if source.has(Need::Pages) && !both && !is_known { source.node_pages()? } else { None };
    facts.by_page = match summed {
        Some(pages) => Arc::new(pages),
        None if both && !is_known => Arc::new(PageFacts::of(&facts.page_use)),
        None => source.pages::<AddingPages>(|whole| &whole.facts.by_page)?,
    };
    Ok(())
}

fn cache_lines(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.lines.sampled = source.rows::<Sample, LineFacts>()?;
    facts.lines.counted =
        source.part(Need::CacheLines, |row: &CacheLine| row.process, |row_filter, row| row_filter.line(row))?;
    Ok(())
}

fn line_pairs(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    let process = |row: &LineCommunication| row.process;
    facts.lines.pairs = source.part(Need::LinePairs, process, |row_filter, row| row_filter.pair(row))?;
    Ok(())
}

fn page_sums(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.summed.rollup = source.rollup(&facts.sites)?;
    Ok(())
}

fn node_times(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    facts.node_times = match source.of_object() {
        false => source.accesses::<SiteAccess, NodeTimes>()?,
        true => source.accesses::<ObjectAccess, NodeTimes>()?,
    };
    Ok(())
}

fn events(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    (facts.object_events, facts.thread_events) = source.events()?;
    Ok(())
}

fn allocations(source: &Source<'_>, facts: &mut Facts) -> Result<(), Error> {
    let process = |row: &Allocation| row.process;
    facts.allocations = source.part(Need::Allocations, process, |row_filter, row| row_filter.allocation(row))?;
    Ok(())
}
