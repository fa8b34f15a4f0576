//! What `report` and `export` share: opening a profile, giving it names, choosing processes.

use super::usage::mistake;
use miette::{IntoDiagnostic, WrapErr, miette};
use numalens_analyze::report::Report;
use numalens_analyze::{Filter, LoadError, Options};
use numalens_collect::exact::stale_files::Folder;
use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::{Object, PageAccess, Thread};
use numalens_symbolize::Cache;
use numalens_view::text::shell_word;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// More profiles than these are not all named in a hint.
const MOST_NAMED: usize = 8;

/// Of more profiles than these, files are not held open. Few systems let a process open more than 1,024.
const MOST_OPEN: usize = 32;

/// The profile and what of it.
#[derive(clap::Args)]
pub struct Args {
    /// A .numalens directory, also of a recording that still runs, or a packed file; several (the ranks of an MPI
    /// program) are read as one
    #[arg(value_name = "PROFILE", required = true)]
    pub profiles: Vec<PathBuf>,

    /// Only the process with this pid (may be repeated)
    #[arg(long = "process", value_name = "PID", allow_negative_numbers = true)]
    processes: Vec<u32>,

    /// Only accesses of this thread: the profile's number, as in section `threads` (may be repeated)
    #[arg(long = "thread", value_name = "N", allow_negative_numbers = true)]
    threads: Vec<u32>,

    /// Only accesses to this object, and to those that reports show in one row with it: its number, `object` in JSON
    #[arg(long = "object", value_name = "N", allow_negative_numbers = true)]
    object: Option<u32>,

    /// Where binaries and sources went: a path that begins with OLD is looked up under NEW (may be repeated)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = numalens_symbolize::parse_source_map)]
    source_map: Vec<(PathBuf, PathBuf)>,
}

impl Args {
    /// What to read of the profile.
    pub fn options(&self) -> Options {
        let filter = Filter {
            threads: self.threads.iter().copied().map(ThreadId).collect(),
            object: self.object.map(ObjectId),
            ..Filter::default()
        };
        Options { pids: self.processes.clone(), filter }
    }

    /// The profiles as a shell takes them; of many the first and the last.
    pub fn shell_words(&self) -> String {
        let words: Vec<_> = self.profiles.iter().map(|path| shell_word(&path.to_string_lossy())).collect();
        match words.as_slice() {
            [first, .., last] if words.len() > MOST_NAMED => format!("{first} ... {last}"),
            words => words.join(" "),
        }
    }

    /// What is asked for must be there: nothing at all would look like a program that did nothing.
    fn check(&self, profile: &Profile) -> Result<(), miette::Report> {
        let known = if self.threads.is_empty() { Vec::new() } else { profile.rows::<Thread>().into_diagnostic()? };
        if let Some(id) = self.threads.iter().find(|id| known.iter().all(|thread| thread.thread.0 != **id)) {
            return Err(mistake(format_args!("the profile has no thread {id}; section `threads` has their numbers")));
        }
        if let Some(id) = self.object
            && !profile.rows::<Object>().into_diagnostic()?.iter().any(|object| object.object.0 == id)
        {
            return Err(mistake(format_args!(
                "the profile has no object {id}; `report --section objects --format json` has their numbers"
            )));
        }
        match self.options().check(profile) {
            Err(error @ LoadError::NoSuchProcess { .. }) => Err(mistake(error)),
            checked => checked.into_diagnostic(),
        }
    }

    /// Where to look for names.
    pub fn names(&self) -> numalens_symbolize::Options {
        numalens_symbolize::Options { path_map: self.source_map.clone(), ..Default::default() }
    }
}

/// An opened profile.
pub struct Loaded {
    pub profile: Profile,
    /// Where the profile stands that was made of several; it goes with this.
    _merged: Option<Folder>,
    /// What the search for names found wanting, what concerns most sites first.
    pub doubts: Vec<String>,
}

/// Opens the profile; finds names when it has none yet, or not all, or when the user says where else to look.
pub fn load(args: &Args) -> Result<Loaded, miette::Report> {
    let loaded = gather(args)?;
    args.check(&loaded.profile)?;
    Ok(loaded)
}

/// Counted twice, everything in a profile would look as if it had happened twice.
pub fn refuse_twice<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Result<(), miette::Report> {
    let mut seen = BTreeSet::new();
    for profile in profiles {
        let path = profile.path();
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned())) {
            return Err(miette!("{} is named twice: its accesses would be counted twice", path.display()));
        }
    }
    Ok(())
}

/// The profile, or one of all of them.
fn gather(args: &Args) -> Result<Loaded, miette::Report> {
    if let [only] = args.profiles.as_slice() {
        return open(only, &args.source_map);
    }
    let (mut profiles, mut doubts) = (Vec::new(), Vec::new());
    for path in &args.profiles {
        let loaded = open(path, &args.source_map)?;
        let many = args.profiles.len() > MOST_OPEN;
        profiles.push(if many { loaded.profile.closed().into_diagnostic()? } else { loaded.profile });
        doubts.extend(loaded.doubts);
    }
    refuse_twice(&profiles)?;
    doubts.sort_unstable();
    doubts.dedup();
    // Older ones do not tell the nodes of page accesses, which takes a copy that does.
    if profiles.iter().all(|profile| profile.has_column::<PageAccess>("node")) {
        let profile = numalens_profile::together(&profiles).into_diagnostic()?;
        return Ok(Loaded { profile, _merged: None, doubts });
    }
    let folder = Folder::temporary().into_diagnostic().wrap_err_with(|| {
        let place = std::env::temp_dir();
        format!("no room in {} to bring the profiles together: name another folder by TMPDIR", place.display())
    })?;
    let merged = numalens_profile::merge(&profiles, &folder.path().join("merged.numalens"), false).into_diagnostic()?;
    let profile = Profile::open(&merged).into_diagnostic()?;
    Ok(Loaded { profile, _merged: Some(folder), doubts })
}

/// The same of a profile by its path.
pub fn open(path: &Path, source_map: &[(PathBuf, PathBuf)]) -> Result<Loaded, miette::Report> {
    let profile = Profile::open(path).into_diagnostic()?;
    let mut doubts = Vec::new();
    let nameless = profile.count::<numalens_profile::tables::Frame>().into_diagnostic()? == 0;
    let asked_for = nameless || !source_map.is_empty();
    if asked_for || profile.meta.lines_wait {
        let options = numalens_symbolize::Options { path_map: source_map.to_vec(), ..Default::default() };
        let found =
            numalens_symbolize::name_profile(&profile, &options, Cache::of_user().as_ref()).into_diagnostic()?;
        // Lines that waited are of modules of which nobody expects much.
        if asked_for {
            doubts = found;
        }
    }
    Ok(Loaded { profile, _merged: None, doubts })
}

/// The most doubts about names that a report shows.
const MOST_DOUBTS: usize = 5;

/// Puts doubts about names where names are shown.
pub fn add_doubts(reports: &mut [Report], doubts: &[String]) {
    for report in reports.iter_mut().filter(|report| report.section == "lines") {
        report.doubts.extend(doubts.iter().take(MOST_DOUBTS).cloned());
        if doubts.len() > MOST_DOUBTS {
            report.doubts.push(format!("and {} more like these", doubts.len() - MOST_DOUBTS));
        }
    }
}
