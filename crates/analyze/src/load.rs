//! Reading a profile into a study: only the tables that the wanted sections need, facts folded on the way.

use crate::about::About;
use crate::cache_lines::LineFacts;
use crate::code::Code;
use crate::facts::{CodeFacts, ObjectFacts, PageFacts, SiteFacts};
use crate::flows::Flows;
use crate::pinning::PinningLog;
use crate::placed;
use crate::study::Study;
use crate::subjects::Subjects;
use numalens_profile::ids::{ObjectId, ProcessId};
use numalens_profile::tables::{
    Allocation, CodeFetch, Frame, Function, Module, Object, ObjectAccess, PageAccess, PlacedPages, Placement, Process,
    Sample, Site, SiteAccess, Stack, Thread,
};
use numalens_profile::{Error, Profile, Row};
use rustc_hash::FxHashMap;

/// What to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Only processes with these kernel numbers; empty: all.
    pub pids: Vec<u32>,
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
    /// Sampled addresses by cache line.
    CacheLines,
}

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
        let about = About { only_pids: options.pids.clone(), ..About::new(profile.meta.clone()) };
        let needs = |need| needs.contains(&need);
        let machine = profile.machine()?;
        let mut processes: Vec<Process> = profile.rows()?;
        let only = Only::new(&processes, &options.pids)?;
        processes.retain(|row| only.has(row.process));
        let placements: Vec<Placement> = only.rows(profile, |row: &Placement| row.process)?;
        let pinning = PinningLog::new(&placements, about.meta.bin_ns);
        let weight = about.weight();
        let sites = match needs(Need::Sites) {
            true => fold::<SiteAccess, SiteFacts>(
                profile,
                SiteFacts::COLUMNS,
                |facts, row| only.then(row.process, || facts.add(&row, weight)),
                SiteFacts::merge,
            )?,
            false => SiteFacts::default(),
        };
        let by_object = match needs(Need::Objects) {
            true => fold::<ObjectAccess, ObjectFacts>(
                profile,
                ObjectFacts::COLUMNS,
                |facts, row| only.then(row.process, || facts.add(&row, weight)),
                ObjectFacts::merge,
            )?,
            false => ObjectFacts::default(),
        };
        let by_page = match needs(Need::Pages) {
            true => fold::<PageAccess, PageFacts>(
                profile,
                PageFacts::COLUMNS,
                |facts, row| only.then(row.process, || facts.add(&row, weight, &pinning)),
                PageFacts::merge,
            )?,
            false => PageFacts::default(),
        };
        let fetches = match needs(Need::Fetches) {
            true => fold::<CodeFetch, CodeFacts>(
                profile,
                CodeFacts::COLUMNS,
                |facts, row| only.then(row.process, || facts.add(&row, weight)),
                CodeFacts::merge,
            )?,
            false => CodeFacts::default(),
        };
        let (pages, objects) =
            match needs(Need::Placed) || needs(Need::Objects) || needs(Need::Pages) || needs(Need::Flows) {
                true => (
                    only.rows(profile, |row: &PlacedPages| row.process)?,
                    only.rows(profile, |row: &Object| row.process)?,
                ),
                false => Default::default(),
            };
        let allocations =
            if needs(Need::Allocations) { only.rows(profile, |row: &Allocation| row.process)? } else { Vec::new() };
        let code = match needs(Need::Names) {
            true => Code::new(
                profile.rows::<Module>()?,
                profile.rows::<Site>()?,
                profile.rows::<Frame>()?,
                profile.rows::<Function>()?,
                profile.rows::<Stack>()?,
            ),
            false => Code::default(),
        };
        let placed = placed::placements(&pages, !machine.is_virtual);
        let objects: FxHashMap<ObjectId, Object> = objects.into_iter().map(|row: Object| (row.object, row)).collect();
        let (subjects, flows) = match needs(Need::Flows) {
            true => {
                let subjects = Subjects::new(&pages, &placed, &objects);
                let flows = fold::<PageAccess, Flows>(
                    profile,
                    Flows::COLUMNS,
                    |flows, row| only.then(row.process, || flows.add(&row, weight, &pinning, &subjects)),
                    Flows::merge,
                )?;
                (subjects, flows)
            }
            false => Default::default(),
        };
        let lines = match needs(Need::CacheLines) {
            true => fold::<Sample, LineFacts>(
                profile,
                LineFacts::COLUMNS,
                |lines, row| only.then(row.process, || lines.add(&row)),
                LineFacts::merge,
            )?,
            false => LineFacts::default(),
        };
        Ok(Study {
            about,
            placed,
            machine,
            processes,
            threads: only.rows(profile, |row: &Thread| row.process)?.into_iter().map(|row| (row.thread, row)).collect(),
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
            subjects,
            flows,
            lines,
        })
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

    fn then(&self, process: ProcessId, act: impl FnOnce()) {
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
