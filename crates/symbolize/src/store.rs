//! The thin layer over a profile's files.

use crate::{Options, Outcome, demangle, symbolize_rows};
use numalens_profile::tables::{Frame, Function, Module, Object, Site};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Error, Profile};

/// Names the sites of `profile` and writes the tables `functions` and `frames` into it, and `objects` when a name in it
/// was a linker's. What an earlier run found is kept (see [`symbolize_rows`]).
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
    Ok(outcome)
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
