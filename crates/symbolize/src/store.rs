//! The thin layer over a profile's files.

use crate::cache::{self, Cache, Entry};
use crate::variables::name_blocks;
use crate::{Options, Outcome, demangle, symbolize_rows};
use numalens_profile::ids::SiteId;
use numalens_profile::tables::{Frame, Function, Module, Object, Phase, Site, THREAD_LOCAL, WaitingSite};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Content, Error, Profile};
use rustc_hash::{FxHashMap, FxHashSet};

/// Names the sites of `profile`, for whoever reads it: the tables `functions` and `frames` are laid over it, and
/// `objects` when a name in it was a linker's or a block has one in the source, and `phases` when some are named by a
/// place. Nothing is written to the profile. What an earlier run found is kept (see [`symbolize_rows`]), and what one
/// with the same files found is taken from `cache`.
///
/// Names that are not found are no error. Returns why they were not, what concerns most sites first.
///
/// # Errors
/// When a table cannot be read.
pub fn name_profile(profile: &Profile, options: &Options, cache: Option<&Cache>) -> Result<Vec<String>, Error> {
    let (sites, modules) = (profile.rows::<Site>()?, profile.rows::<Module>()?);
    let (functions, frames) = (profile.rows::<Function>()?, profile.rows::<Frame>()?);
    let key = cache.map(|_| cache::key(profile, &modules, options)).transpose()?;
    let known = cache.zip(key.as_ref()).and_then(|(cache, key)| cache.get(key));
    let entry = match known {
        Some(entry) => entry,
        None => {
            let found = Entry::from(symbolize_rows(&sites, &modules, options, Some((&functions, &frames))));
            if let Some((cache, key)) = cache.zip(key.as_ref()) {
                cache.put(key, &found);
            }
            found
        }
    };
    let names = (&entry.functions[..], &entry.frames[..]);
    let mut contents = contents(profile, &sites, &modules, names, (&functions, &frames))?;
    // Those that had a line were not asked for again.
    let (before, mut waiting) = (profile.rows::<WaitingSite>()?, entry.waiting);
    waiting.extend(before.iter().cloned());
    waiting.sort_unstable_by_key(|row| row.site);
    waiting.dedup();
    if waiting != before {
        contents.push(Content::of(|| waiting));
    }
    profile.overlay(contents, |meta| meta.lines_wait = false)?;
    Ok(entry.doubts)
}

/// Writes the names of a profile that has just been made and has none yet, found by [`symbolize_rows`] for its sites
/// and modules.
///
/// # Errors
/// When a table cannot be read or written.
pub fn write_names(profile: &Profile, sites: &[Site], modules: &[Module], outcome: &Outcome) -> Result<(), Error> {
    let names = (&outcome.functions[..], &outcome.frames[..]);
    let mut contents = contents(profile, sites, modules, names, (&[], &[]))?;
    if !outcome.waiting.is_empty() {
        contents.push(Content::of(|| outcome.waiting.iter().cloned()));
    }
    profile.replace_all(contents)
}

/// Functions and frames.
type Names<'a> = (&'a [Function], &'a [Frame]);

/// What differs from the functions and frames that the profile has.
fn contents<'a>(
    profile: &Profile,
    sites: &[Site],
    modules: &[Module],
    names: Names<'a>,
    (functions, frames): Names,
) -> Result<Vec<Content<'a>>, Error> {
    let (mut objects, mut phases) = (profile.rows::<Object>()?, profile.rows::<Phase>()?);
    let mut contents = Vec::new();
    // The functions first: the frames of before fit them too, should the second one fail.
    let (found_functions, found_frames) = names;
    if found_functions != functions {
        contents.push(Content::of(move || found_functions.iter().cloned()));
    }
    if found_frames != frames {
        contents.push(Content::of(move || found_frames.iter().cloned()));
    }
    let named = name_objects(&mut objects);
    if name_blocks(profile, &mut objects, found_functions, found_frames)? || named {
        contents.push(Content::of(|| objects));
    }
    if name_phases(&mut phases, sites, modules, names) {
        contents.push(Content::of(|| phases));
    }
    Ok(contents)
}

/// Names the phases that are a place's: `omp parallel solve at cg.c:120`; whether there were any.
fn name_phases(phases: &mut [Phase], sites: &[Site], modules: &[Module], names: Names) -> bool {
    let wanted: FxHashSet<SiteId> = phases.iter().filter_map(|phase| phase.site).collect();
    let places = sites.iter().filter(|site| wanted.contains(&site.site));
    let found = names;
    let names: FxHashMap<SiteId, String> =
        places.map(|site| (site.site, format!("omp parallel{}", place(site, modules, found)))).collect();
    let mut changed = false;
    for phase in phases {
        let Some(name) = phase.site.and_then(|site| names.get(&site)) else { continue };
        changed |= *name != phase.name;
        phase.name.clone_from(name);
    }
    changed
}

/// A function, without what compilers append to that of a region's own code, and a line; else where in which file.
fn place(site: &Site, modules: &[Module], (functions, frames): Names) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let frame = frames.iter().filter(|frame| frame.site == site.site).min_by_key(|frame| frame.depth);
    let function = frame.and_then(|frame| functions.iter().find(|function| function.function == frame.function));
    let function = function.map(|function| format!(" {}", of_region(&function.name)));
    let line = frame.and_then(|frame| Some(format!("{}:{}", base(frame.file.as_deref()?), frame.line?)));
    let offset = || {
        let module = modules.iter().find(|module| Some(module.module) == site.module);
        format!("{}+{:#x}", module.map_or_else(String::new, |module| base(&module.path)), site.address)
    };
    format!("{} at {}", function.unwrap_or_default(), line.unwrap_or_else(offset))
}

/// The function that a region's own code was made of.
fn of_region(code: &str) -> &str {
    let function = code.split("._omp_fn.").next().unwrap_or_default();
    function.strip_suffix(" [clone ").unwrap_or(function)
}

/// Makes the linker's names of objects readable; whether there were any.
pub fn name_objects(objects: &mut [Object]) -> bool {
    let mut changed = false;
    for object in objects.iter_mut().filter(|object| matches!(object.kind, ObjectKind::Global | ObjectKind::Code)) {
        let (linked, ending) = match object.name.strip_suffix(THREAD_LOCAL) {
            Some(linked) => (linked, THREAD_LOCAL),
            None => (object.name.as_str(), ""),
        };
        let name = demangle(linked);
        if name != linked {
            object.name = format!("{name}{ending}");
            changed = true;
        }
    }
    changed
}
