//! Where facts come from: tables that are kept in memory, a dataset that has them already, or the profile.

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::facts::code::Code;
use crate::facts::filter::{FilteredRow, RowFilter};
use crate::facts::first_accesses::Events;
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::page_use::{AddingPages, PageFacts};
use crate::facts::rollup::Rollup;
use crate::facts::sites::SiteFacts;
use crate::facts::sorted::{Keep, Kept, Times};
use crate::facts::waiting::Waiting;
use crate::model::about::About;
use numalens_profile::ids::ProcessId;
use numalens_profile::tables::{NodePage, ObjectAccess, PageAccess, Process, Sample, SiteAccess};
use numalens_profile::{Error, Extremes, Profile, Row};
use std::sync::Arc;

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

/// What is known of the same processes already.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// A dataset without a filter, and what was read into it.
    pub whole: Option<(&'a Dataset, &'a [Need])>,
    /// Tables that need not be read again.
    pub kept: &'a Kept,
}

/// What somebody asks of a profile.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub profile: &'a Profile,
    pub options: &'a Options,
    pub needs: &'a [Need],
    pub known: Known<'a>,
    pub only: &'a Only,
}

impl Request<'_> {
    /// Whether this is asked for.
    pub fn has(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
}

/// Whether sums of the profile stand for its facts, unless these do not fit what waits in the part.
fn is_summed(profile: &Profile, options: &Options) -> Result<bool, Error> {
    Ok(options.pids.is_empty() && options.filter.leaves_pages_alone() && Rollup::is_in(profile)?)
}

/// What is read for `needs`: sums of the profile stand for the facts where it has any and all pages are looked at.
///
/// # Errors
/// The profile cannot be read.
pub fn asked(profile: &Profile, options: &Options, needs: &[Need]) -> Result<Vec<Need>, Error> {
    let mut asked = needs.to_vec();
    let instead: &[(Need, Need)] = match is_summed(profile, options)? {
        // What waits, which they leave out, is known by instructions and their names.
        true => &[(Need::PageSums, Need::Sites), (Need::PageSums, Need::Names)],
        false => &[(Need::PageSums, Need::PageUse), (Need::MainUsers, Need::Pages)],
    };
    asked.extend(instead.iter().filter(|(need, _)| needs.contains(need)).map(|(_, more)| *more));
    Ok(asked)
}

/// Where facts come from.
pub struct Source<'a> {
    pub request: &'a Request<'a>,
    pub about: &'a About,
    pub code: &'a Code,
    pub of: Context<'a>,
}

impl<'a> Source<'a> {
    /// Whether this is asked for.
    pub fn has(&self, need: Need) -> bool {
        self.request.has(need)
    }

    /// Whether one object alone is looked at: accesses are then those of `object_accesses`.
    pub fn of_object(&self) -> bool {
        self.request.options.filter.object.is_some()
    }

    /// Columns that only a filter reads need not be decoded without one.
    fn columns<T: FilteredRow, F: FoldOf<T>>(&self) -> &'static [&'static str] {
        if self.of.row_filter.is_open() { F::COLUMNS } else { T::COLUMNS }
    }

    /// Folds accesses in the span of the filter; nothing where nobody asks for them.
    pub fn accesses<T: Keep + FilteredRow, F: FoldOf<T>>(&self) -> Result<F::Facts, Error> {
        if self.has(F::NEED) { self.fold::<T, F>() } else { Ok(F::Facts::default()) }
    }

    /// The same, whoever asks.
    fn fold<T: Keep + FilteredRow, F: FoldOf<T>>(&self) -> Result<F::Facts, Error> {
        let (of, Request { profile, known, only, .. }) = (self.of, *self.request);
        let wanted = |row: &T| only.has(row.process()) && row.passes(of.row_filter);
        let add = |fold: &mut F, row: &T, times: Times<'_>| fold.add(row, times, &of);
        let folded = match T::kept(known.kept) {
            Some(kept) => kept.fold(of.row_filter.span(), wanted, F::default, add, F::merge),
            None => profile.fold_some::<T, F>(
                self.columns::<T, F>(),
                &|rows| only.may_be_in(rows) && of.row_filter.may_pass(rows),
                F::default,
                |fold, row| {
                    if of.row_filter.bin(row.bin()) && wanted(&row) {
                        add(fold, &row, Times::once(&row.bin(), &row.counts(of.weight)));
                    }
                },
                F::merge,
            )?,
        };
        Ok(folded.finish())
    }

    /// The same of accesses to pages, which many filters leave as they are in the whole recording: `have` says where a
    /// dataset has those.
    pub fn pages<F: FoldOf<PageAccess>>(
        &self,
        have: impl Fn(&'a Dataset) -> &'a Arc<F::Facts>,
    ) -> Result<Arc<F::Facts>, Error> {
        self.pages_if::<F>(self.has(F::NEED), have)
    }

    /// The same for who asks for other reasons.
    pub fn pages_if<F: FoldOf<PageAccess>>(
        &self,
        asked: bool,
        have: impl Fn(&'a Dataset) -> &'a Arc<F::Facts>,
    ) -> Result<Arc<F::Facts>, Error> {
        match self.whole_pages(F::NEED) {
            _ if !asked => Ok(Arc::default()),
            Some(whole) => Ok(have(whole).clone()),
            None => Ok(Arc::new(self.fold::<PageAccess, F>()?)),
        }
    }

    /// The profile's sums of page accesses, where they stand for these and are of what is known now. Accesses by site
    /// say what waits.
    pub fn rollup(&self, sites: &SiteFacts) -> Result<Option<Arc<Rollup>>, Error> {
        let is_asked_for = self.has(Need::PageSums) && !self.has(Need::PageUse);
        if !is_asked_for {
            return Ok(None);
        }
        let rollup = Rollup::read(self.request.profile)?;
        let fits = rollup.fits(self.of.targets, &Waiting::of_code(sites, self.code));
        Ok(fits.then(|| Arc::new(rollup)))
    }

    /// The sums of nodes' accesses to pages, where the profile has them and they stand for the facts.
    pub fn node_pages(&self) -> Result<Option<PageFacts>, Error> {
        let Request { profile, options, .. } = *self.request;
        if !is_summed(profile, options)? || profile.count::<NodePage>()? == 0 {
            return Ok(None);
        }
        let add = |pages: &mut AddingPages, row: NodePage| pages.add_sum(&row);
        Ok(Some(profile.fold(NodePage::COLUMNS, AddingPages::default, add, AddingPages::merge)?.finish()))
    }

    /// A dataset whose pages are those of the part as well.
    pub fn whole_pages(&self, need: Need) -> Option<&'a Dataset> {
        self.request.known.whole(need).filter(|_| self.request.options.filter.leaves_pages_alone())
    }

    /// Folds rows of another table; nothing where nobody asks for them.
    pub fn rows<T: FilteredRow, F: FoldOf<T>>(&self) -> Result<F::Facts, Error> {
        self.rows_if::<T, F>(self.has(F::NEED))
    }

    /// The same for who asks for other reasons.
    pub fn rows_if<T: FilteredRow, F: FoldOf<T>>(&self, asked: bool) -> Result<F::Facts, Error> {
        if !asked {
            return Ok(F::Facts::default());
        }
        let (of, Request { profile, only, .. }) = (self.of, *self.request);
        let add = |fold: &mut F, row: T| {
            if only.has(row.process()) && row.passes(of.row_filter) {
                fold.add(&row, Times::default(), &of);
            }
        };
        Ok(profile.fold::<T, F>(self.columns::<T, F>(), F::default, add, F::merge)?.finish())
    }

    /// A table as it is; nothing where nobody asks for it.
    pub fn table<T: Row>(&self, need: Need, process: impl Fn(&T) -> ProcessId) -> Result<Vec<T>, Error> {
        if self.has(need) { self.request.only.rows(self.request.profile, process) } else { Ok(Vec::new()) }
    }

    /// A table's rows that are of the part; nothing where nobody asks for it.
    pub fn part<T: Row>(
        &self,
        need: Need,
        process: impl Fn(&T) -> ProcessId,
        is_of_part: impl Fn(&RowFilter<'_>, &T) -> bool,
    ) -> Result<Vec<T>, Error> {
        let mut rows = self.table(need, process)?;
        if !self.of.row_filter.is_open() {
            rows.retain(|row| is_of_part(self.of.row_filter, row));
        }
        Ok(rows)
    }

    /// The first events of objects, and of threads.
    pub fn events(&self) -> Result<(Events, Events), Error> {
        let bin_ns = self.about.meta.bin_ns;
        let none = || Events::new(&self.request.options.filter);
        let (of_objects, of_threads) = (self.has(Need::ObjectEvents), self.has(Need::ThreadEvents));
        if self.about.sampled() && (of_objects || of_threads) {
            let weight = self.of.weight;
            let events = self.first::<Sample>(|events, row| {
                if row.passes(self.of.row_filter) {
                    events.add_sample(row, weight);
                }
            })?;
            return Ok((events.clone(), events));
        }
        let objects = || {
            self.first::<ObjectAccess>(|events, row| {
                if self.of.row_filter.bin(row.bin) && row.passes(self.of.row_filter) {
                    events.add_object(row, bin_ns);
                }
            })
        };
        let sites = || {
            self.first::<SiteAccess>(|events, row| {
                if self.of.row_filter.bin(row.bin) && row.passes(self.of.row_filter) {
                    events.add_site(row, bin_ns);
                }
            })
        };
        Ok((
            if of_objects { objects()? } else { none() },
            match (of_threads, self.of_object()) {
                (false, _) => none(),
                (true, true) => objects()?,
                (true, false) => sites()?,
            },
        ))
    }

    fn first<T: FilteredRow>(&self, add: impl Fn(&mut Events, &T) + Sync + Send) -> Result<Events, Error> {
        let Request { profile, options, only, .. } = *self.request;
        profile.fold::<T, Events>(
            T::COLUMNS,
            || Events::new(&options.filter),
            |events, row| {
                if only.has(row.process()) {
                    add(events, &row);
                }
            },
            Events::merge,
        )
    }
}

impl<'a> Known<'a> {
    /// The dataset without a filter, if this was read into it.
    pub fn whole(&self, need: Need) -> Option<&'a Dataset> {
        self.whole.filter(|(_, has)| has.contains(&need)).map(|(dataset, _)| dataset)
    }
}

/// The processes that are looked at; none: all.
pub struct Only(Option<Vec<ProcessId>>);

impl Only {
    /// Those with these kernel numbers; none: all.
    ///
    /// # Errors
    /// One is not there.
    pub fn new(processes: &[Process], pids: &[u32]) -> Result<Only, LoadError> {
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

    /// Whether a process is looked at.
    pub fn has(&self, process: ProcessId) -> bool {
        self.0.as_ref().is_none_or(|only| only.contains(&process))
    }

    /// Whether any of these rows may be of a process that is looked at.
    fn may_be_in(&self, rows: &Extremes<'_>) -> bool {
        let within = |(least, most): (u64, u64), id: u64| least <= id && id <= most;
        self.0
            .as_ref()
            .zip(rows.of("process"))
            .is_none_or(|(only, ends)| only.iter().any(|process| within(ends, u64::from(process.0))))
    }

    /// The rows of the wanted processes.
    pub fn rows<T: Row>(&self, profile: &Profile, process: impl Fn(&T) -> ProcessId) -> Result<Vec<T>, Error> {
        let mut rows = profile.rows::<T>()?;
        rows.retain(|row| self.has(process(row)));
        Ok(rows)
    }
}
