//! Reading a profile into a dataset: only the tables that the wanted sections need, facts folded on the way.

use crate::dataset::Dataset;
use crate::dataset::derived::Derived;
use crate::dataset::facts::Facts;
use crate::dataset::memory::Memory;
use crate::dataset::options::Options;
use crate::dataset::program::Program;
use crate::dataset::source::{self, Known, LoadError, Only, Request, Source};
use crate::facts::code::Code;
use crate::facts::collectors::Collectors;
use crate::facts::counter_polls::CounterPolls;
use crate::facts::filter::RowFilter;
use crate::facts::fold::{Context, Need};
use crate::facts::sorted::Kept;
use crate::model::about::About;
use numalens_profile::tables::{Frame, Function, Module, PageAccess, Process, Site, Stack, WaitingSite};
use numalens_profile::{Error, Profile};
use std::sync::Arc;

impl Dataset {
    /// Reads what `needs` names.
    ///
    /// # Errors
    /// The profile is damaged; a process is not in it.
    pub fn load(profile: &Profile, options: &Options, needs: &[Need]) -> Result<Dataset, LoadError> {
        Dataset::load_beside(profile, options, needs, Known { whole: None, kept: &Kept::default() })
    }

    /// The same beside what is known already: what the filter leaves as it is need not be read again.
    ///
    /// # Errors
    /// As [`Dataset::load`].
    pub fn load_beside(
        profile: &Profile,
        options: &Options,
        needs: &[Need],
        known: Known<'_>,
    ) -> Result<Dataset, LoadError> {
        let needs = &source::asked(profile, options, needs)?[..];
        let about = about(profile, options);
        let machine = profile.machine()?;
        let processes: Vec<Process> = profile.rows()?;
        let only = Only::new(&processes, &options.pids)?;
        let request = Request { profile, options, needs, known, only: &only };
        let mut program = Program::load(profile, processes, &only, about.meta.bin_ns)?;
        let code = code(&request)?;
        let mut memory = Memory::load(&request, &machine, &program)?;
        let (filter, targets) = (&options.filter, memory.targets.clone());
        let tells_nodes = profile.has_column::<PageAccess>("node");
        let row_filter =
            RowFilter::new(filter, &program.pinning, &code, &about, &memory.objects, &targets, tells_nodes);
        let collectors = match request.has(Need::Collectors) {
            true => Collectors::new(&code, program.threads.values()),
            false => Collectors::default(),
        };
        let of =
            Context { row_filter: &row_filter, targets: &targets, weight: about.weight(), collectors: &collectors };
        let facts = Facts::load(&Source { request: &request, about: &about, code: &code, of })?;
        if !row_filter.is_open() {
            memory.placed.retain(|row| row_filter.placed(row));
            memory.objects.retain(|id, _| row_filter.has_object(*id));
            program.threads.retain(|id, _| row_filter.has_thread(*id));
            program.placements.retain(|row| row_filter.has_thread(row.thread));
        }
        drop(row_filter);
        // What it sets apart as waiting is of the instructions, which any filter chooses among.
        let same = known.whole(Need::PageSums).filter(|_| filter.is_empty());
        let totals = same.map(|whole| whole.derived.totals.clone()).unwrap_or_default();
        Ok(Dataset { about, machine, program, code, memory, facts, derived: Derived { totals, ..Derived::default() } })
    }

    /// Adds what another dataset of the same part of the same profile has: what was read for `needs`.
    pub fn take(&mut self, more: Dataset, needs: &[Need]) {
        self.derived.reset();
        if needs.contains(&Need::PageSums) {
            self.derived.totals = more.derived.totals;
        }
        if needs.contains(&Need::Names) {
            self.code = more.code;
        }
        self.memory.take(more.memory, needs);
        self.facts.take(more.facts, needs);
    }
}

/// How the profile was made, and what is looked at of it.
fn about(profile: &Profile, options: &Options) -> About {
    let mut about = About {
        only_pids: options.pids.clone(),
        filtered: options.filter.doubts(),
        place: options.filter.place.clone(),
        ..About::new(profile.meta.clone())
    };
    if options.filter.time_ns != (None, None) {
        let polls = CounterPolls::of(&about);
        about.filtered.extend(polls.and_then(|polls| polls.words()));
    }
    about
}

/// The names of all code, where somebody asks for them.
fn code(request: &Request<'_>) -> Result<Arc<Code>, Error> {
    let filter = &request.options.filter;
    let is_asked_for = request.has(Need::Names) || request.has(Need::Collectors);
    if !is_asked_for && filter.function.is_none() && filter.place.is_none() {
        return Ok(Arc::default());
    }
    match request.known.whole(Need::Names) {
        Some(whole) => Ok(whole.code.clone()),
        None => Ok(Arc::new(names(request.profile)?)),
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
