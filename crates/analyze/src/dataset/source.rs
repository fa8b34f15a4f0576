//! Where facts come from: tables that are kept in memory, a study that has them already, or the profile.

use crate::dataset::study::Study;
use crate::facts::filter::{Filter, Sifted};
use crate::facts::first_accesses::Events;
use crate::facts::fold::{Context, FoldOf, Need};
use crate::facts::sorted::{Keep, Kept, Times};
use numalens_profile::ids::ProcessId;
use numalens_profile::tables::{ObjectAccess, PageAccess, Process, Sample, SiteAccess};
use numalens_profile::{Error, Profile, Row};
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
    /// A study without a filter, and what was read into it.
    pub whole: Option<(&'a Study, &'a [Need])>,
    /// Tables that need not be read again.
    pub kept: &'a Kept,
}

/// Where facts come from, and what is asked of them.
pub struct Source<'a> {
    pub profile: &'a Profile,
    pub known: Known<'a>,
    pub only: &'a Only,
    pub needs: &'a [Need],
    pub filter: &'a Filter,
    pub of: Context<'a>,
}

impl<'a> Source<'a> {
    fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    /// Columns that only a filter reads need not be decoded without one.
    fn columns<T: Sifted, F: FoldOf<T>>(&self) -> &'static [&'static str] {
        if self.of.sieve.is_open() { F::COLUMNS } else { T::COLUMNS }
    }

    /// Folds accesses in the span of the filter; nothing where nobody asks for them.
    pub fn accesses<T: Keep + Sifted, F: FoldOf<T>>(&self) -> Result<F::Facts, Error> {
        if !self.needs(F::NEED) {
            return Ok(F::Facts::default());
        }
        let Source { only, of, .. } = *self;
        let wanted = |row: &T| only.has(row.process()) && row.passes(of.sieve);
        let add = |fold: &mut F, row: &T, times: Times<'_>| fold.add(row, times, &of);
        let folded = match T::kept(self.known.kept) {
            Some(kept) => kept.fold(of.sieve.span(), wanted, F::default, add, F::merge),
            None => self.profile.fold::<T, F>(
                self.columns::<T, F>(),
                F::default,
                |fold, row| {
                    if of.sieve.bin(row.bin()) && wanted(&row) {
                        add(fold, &row, Times::once(&row.bin(), &row.counts(of.weight)));
                    }
                },
                F::merge,
            )?,
        };
        Ok(folded.finish())
    }

    /// The same of accesses to pages, which many filters leave as they are in the whole recording: `have` says where a
    /// study has those.
    pub fn pages<F: FoldOf<PageAccess>>(
        &self,
        have: impl Fn(&'a Study) -> &'a Arc<F::Facts>,
    ) -> Result<Arc<F::Facts>, Error> {
        match self.whole_pages(F::NEED).filter(|_| self.needs(F::NEED)) {
            Some(whole) => Ok(have(whole).clone()),
            None => Ok(Arc::new(self.accesses::<PageAccess, F>()?)),
        }
    }

    /// A study whose pages are those of the part as well.
    pub fn whole_pages(&self, need: Need) -> Option<&'a Study> {
        self.known.whole(need).filter(|_| self.filter.leaves_pages_alone())
    }

    /// Folds rows of another table; nothing where nobody asks for them.
    pub fn rows<T: Sifted, F: FoldOf<T>>(&self) -> Result<F::Facts, Error> {
        self.rows_if::<T, F>(self.needs(F::NEED))
    }

    /// The same for who asks for other reasons.
    pub fn rows_if<T: Sifted, F: FoldOf<T>>(&self, asked: bool) -> Result<F::Facts, Error> {
        if !asked {
            return Ok(F::Facts::default());
        }
        let Source { only, of, .. } = *self;
        let add = |fold: &mut F, row: T| {
            if only.has(row.process()) && row.passes(of.sieve) {
                fold.add(&row, Times::default(), &of);
            }
        };
        Ok(self.profile.fold::<T, F>(self.columns::<T, F>(), F::default, add, F::merge)?.finish())
    }

    /// A table as it is; nothing where nobody asks for it.
    pub fn table<T: Row>(&self, need: Need, process: impl Fn(&T) -> ProcessId) -> Result<Vec<T>, Error> {
        if self.needs(need) { self.only.rows(self.profile, process) } else { Ok(Vec::new()) }
    }

    /// The first events of objects, and of threads.
    pub fn events(&self, sampled: bool, bin_ns: u64) -> Result<(Events, Events), Error> {
        let none = || Events::new(self.filter);
        let (of_objects, of_threads) = (self.needs(Need::ObjectEvents), self.needs(Need::ThreadEvents));
        if sampled && (of_objects || of_threads) {
            let weight = self.of.weight;
            let events = self.first::<Sample>(|events, row| {
                if row.passes(self.of.sieve) {
                    events.add_sample(row, weight);
                }
            })?;
            return Ok((events.clone(), events));
        }
        let objects = || {
            self.first::<ObjectAccess>(|events, row| {
                if self.of.sieve.bin(row.bin) && row.passes(self.of.sieve) {
                    events.add_object(row, bin_ns);
                }
            })
        };
        let sites = || {
            self.first::<SiteAccess>(|events, row| {
                if self.of.sieve.bin(row.bin) && row.passes(self.of.sieve) {
                    events.add_site(row, bin_ns);
                }
            })
        };
        Ok((
            if of_objects { objects()? } else { none() },
            match (of_threads, self.filter.object) {
                (false, _) => none(),
                (true, Some(_)) => objects()?,
                (true, None) => sites()?,
            },
        ))
    }

    fn first<T: Sifted>(&self, add: impl Fn(&mut Events, &T) + Sync + Send) -> Result<Events, Error> {
        self.profile.fold::<T, Events>(
            T::COLUMNS,
            || Events::new(self.filter),
            |events, row| {
                if self.only.has(row.process()) {
                    add(events, &row);
                }
            },
            Events::merge,
        )
    }
}

impl<'a> Known<'a> {
    /// The study without a filter, if this was read into it.
    pub fn whole(&self, need: Need) -> Option<&'a Study> {
        self.whole.filter(|(_, has)| has.contains(&need)).map(|(study, _)| study)
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

    /// The rows of the wanted processes.
    pub fn rows<T: Row>(&self, profile: &Profile, process: impl Fn(&T) -> ProcessId) -> Result<Vec<T>, Error> {
        let mut rows = profile.rows::<T>()?;
        rows.retain(|row| self.has(process(row)));
        Ok(rows)
    }
}
