//! The thin layer over a profile's files.

use crate::{Options, Outcome, demangle, symbolize_rows};
use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::tables::{Frame, Function, Module, Object, Phase, PlacedPages, Site, SiteAccess};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Error, Profile};
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
    // The functions first: the frames of before fit them too, should the second write fail.
    if outcome.functions != functions {
        profile.replace(outcome.functions.iter().cloned())?;
    }
    if outcome.frames != frames {
        profile.replace(outcome.frames.iter().cloned())?;
    }
    let mut objects = profile.rows::<Object>()?;
    if name_objects(&mut objects) {
        profile.replace(objects)?;
    }
    let mut phases = profile.rows::<Phase>()?;
    if name_phases(&mut phases, &sites, &modules, &outcome) {
        profile.replace(phases)?;
    }
    Ok(outcome)
}

/// Modules with less than `share` (0 to 1) of the counted accesses and of the pages placed, and without a named phase: their lines can wait.
///
/// # Errors
/// When a table cannot be read.
pub fn minor_modules(profile: &Profile, share: f64) -> Result<FxHashSet<ModuleId>, Error> {
    let sites = profile.fold::<Site, _>(
        &["site", "module"],
        FxHashMap::default,
        |modules: &mut FxHashMap<_, _>, row| {
            modules.insert(row.site, row.module);
        },
        |mut left, right| {
            left.extend(right);
            left
        },
    )?;
    let of = |site: SiteId| sites.get(&site).copied().flatten();
    let accesses = profile.fold::<SiteAccess, _>(
        &["site", "reads", "writes", "period"],
        Weights::default,
        |weights, row| {
            let accesses = row.reads.saturating_add(row.writes).saturating_mul(row.period.max(1));
            weights.add(of(row.site), accesses);
        },
        Weights::plus,
    )?;
    let pages = profile.fold::<PlacedPages, _>(
        &["site", "count"],
        Weights::default,
        |weights, row| row.site.into_iter().for_each(|site| weights.add(of(site), row.count)),
        Weights::plus,
    )?;
    // Phases are named by their places.
    let phases = profile.rows::<Phase>()?;
    let named: FxHashSet<ModuleId> = phases.iter().filter_map(|phase| of(phase.site?)).collect();
    let is_minor = |module: &ModuleId| {
        !named.contains(module)
            && [&accesses, &pages].iter().all(|weights| weights.of(module) <= share * weights.total())
    };
    Ok(profile.rows::<Module>()?.iter().map(|module| module.module).filter(is_minor).collect())
}

/// What there is of something in each module's code; of other code under none.
#[derive(Default)]
struct Weights(FxHashMap<Option<ModuleId>, u64>);

impl Weights {
    fn add(&mut self, module: Option<ModuleId>, weight: u64) {
        let sum = self.0.entry(module).or_default();
        *sum = sum.saturating_add(weight);
    }

    fn plus(mut self, other: Weights) -> Weights {
        other.0.into_iter().for_each(|(module, weight)| self.add(module, weight));
        self
    }

    fn of(&self, module: &ModuleId) -> f64 {
        self.0.get(&Some(*module)).map_or(0.0, |&weight| weight as f64)
    }

    fn total(&self) -> f64 {
        self.0.values().map(|&weight| weight as f64).sum()
    }
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
    let function = function.map(|function| format!(" {}", function.name.split("._omp_fn.").next().unwrap_or_default()));
    let line = frame.and_then(|frame| Some(format!("{}:{}", base(frame.file.as_deref()?), frame.line?)));
    let offset = || {
        let module = modules.iter().find(|module| Some(module.module) == site.module);
        format!("{}+{:#x}", module.map_or_else(String::new, |module| base(&module.path)), site.address)
    };
    format!("{} at {}", function.unwrap_or_default(), line.unwrap_or_else(offset))
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
