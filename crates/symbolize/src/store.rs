//! The thin layer over a profile's files.

use crate::{Options, Outcome, demangle, symbolize_rows};
use numalens_profile::ids::SiteId;
use numalens_profile::tables::{Frame, Function, Module, Object, Phase, Site};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Content, Error, Profile};
use rustc_hash::{FxHashMap, FxHashSet};

/// Names the sites of `profile` and writes the tables `functions` and `frames` into it, and `objects` when a name in it
/// was a linker's, and `phases` when some are named by a place. What an earlier run found is kept (see [`symbolize_rows`]).
///
/// # Errors
/// When a table cannot be read or written; a packed profile cannot be written. Names that are not found are no error
/// but in [`Outcome::doubts`].
pub fn symbolize(profile: &Profile, options: &Options) -> Result<Outcome, Error> {
    let (sites, modules) = (profile.rows::<Site>()?, profile.rows::<Module>()?);
    let (functions, frames) = (profile.rows::<Function>()?, profile.rows::<Frame>()?);
    let outcome = symbolize_rows(&sites, &modules, options, Some((&functions, &frames)));
    write(profile, &sites, &modules, &outcome, (&functions, &frames))?;
    Ok(outcome)
}

/// Writes the names of a profile that has none yet, found by [`symbolize_rows`] for its sites and modules.
///
/// # Errors
/// As [`symbolize`].
pub fn write_names(profile: &Profile, sites: &[Site], modules: &[Module], outcome: &Outcome) -> Result<(), Error> {
    write(profile, sites, modules, outcome, (&[], &[]))
}

/// Writes what differs from the functions and frames that the profile has.
fn write(
    profile: &Profile,
    sites: &[Site],
    modules: &[Module],
    outcome: &Outcome,
    (functions, frames): (&[Function], &[Frame]),
) -> Result<(), Error> {
    let (mut objects, mut phases) = (profile.rows::<Object>()?, profile.rows::<Phase>()?);
    let mut contents = Vec::new();
    // The functions first: the frames of before fit them too, should the second one fail.
    if outcome.functions != functions {
        contents.push(Content::of(|| outcome.functions.iter().cloned()));
    }
    if outcome.frames != frames {
        contents.push(Content::of(|| outcome.frames.iter().cloned()));
    }
    if name_objects(&mut objects) {
        contents.push(Content::of(|| objects));
    }
    if name_phases(&mut phases, sites, modules, outcome) {
        contents.push(Content::of(|| phases));
    }
    profile.replace_all(contents)
}

/// Names the phases that are a place's: `omp parallel solve at cg.c:120`; whether there were any.
fn name_phases(phases: &mut [Phase], sites: &[Site], modules: &[Module], outcome: &Outcome) -> bool {
    let wanted: FxHashSet<SiteId> = phases.iter().filter_map(|phase| phase.site).collect();
    let places = sites.iter().filter(|site| wanted.contains(&site.site));
    let names: FxHashMap<SiteId, String> =
        places.map(|site| (site.site, format!("omp parallel{}", place(site, modules, outcome)))).collect();
    let mut changed = false;
    for phase in phases {
        let Some(name) = phase.site.and_then(|site| names.get(&site)) else { continue };
        changed |= *name != phase.name;
        phase.name.clone_from(name);
    }
    changed
}

/// A function, without what compilers append to that of a region's own code, and a line; else where in which file.
fn place(site: &Site, modules: &[Module], outcome: &Outcome) -> String {
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let frame = outcome.frames.iter().filter(|frame| frame.site == site.site).min_by_key(|frame| frame.depth);
    let function =
        frame.and_then(|frame| outcome.functions.iter().find(|function| function.function == frame.function));
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
        let name = demangle(&object.name);
        if name != object.name {
            object.name = name.into_owned();
            changed = true;
        }
    }
    changed
}
