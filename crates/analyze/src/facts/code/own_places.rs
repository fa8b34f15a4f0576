//! The own places of all sites, by number. There may be a hundred thousand of each, and reports show a few hundred:
//! names are compared once for each place and put together for those that are shown.

use crate::facts::code::Code;
use crate::model::by_id::ById;
use crate::model::report::Location;
use numalens_profile::ids::{FunctionId, ModuleId, SiteId};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Ordering;

/// What a site's own place is.
#[derive(Clone, Copy)]
pub struct Own {
    /// The frame that says it, by its place among all; none where nothing has a name.
    pub frame: Option<u32>,
    /// The function that is called there.
    pub via: Option<FunctionId>,
}

/// The own places of all sites (see [`Code::own`]).
pub struct OwnPlaces {
    /// By site: the number of its place, and the function that it called there.
    sites: ById<(u32, Option<FunctionId>)>,
    /// By number: the first site that has the place, and its frame.
    places: Vec<(SiteId, Option<u32>)>,
}

/// A place, to be compared. Names are numbers here, equal ones equal.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Frame { file: Option<&'a str>, line: Option<u32>, function: u32, module: Option<u32> },
    Address(Option<u32>, u64),
}

/// Numbers of names: the same for the same name.
struct Names(FxHashMap<u32, u32>);

impl Names {
    fn new<'a>(names: impl Iterator<Item = (u32, &'a str)>) -> Self {
        let mut first: FxHashMap<&str, u32> = FxHashMap::default();
        Names(names.map(|(id, name)| (id, *first.entry(name).or_insert(id))).collect())
    }

    fn of(&self, id: u32) -> u32 {
        self.0.get(&id).copied().unwrap_or(id)
    }
}

impl OwnPlaces {
    /// Finds them.
    pub fn new(code: &Code) -> Self {
        let modules = Names::new(code.module_names());
        let functions = Names::new(code.function_names());
        let sites: Vec<(SiteId, Option<ModuleId>, u64)> = code.sites().collect();
        let found: Vec<Own> = sites.par_iter().map(|(site, ..)| code.own_of(*site)).collect();
        let mut places = Vec::new();
        let mut numbers: FxHashMap<Key<'_>, u32> = FxHashMap::default();
        numbers.reserve(sites.len() / 2);
        let number = |((site, module, address), own): ((SiteId, Option<ModuleId>, u64), Own)| {
            let module = module.filter(|module| code.module_path(*module).is_some()).map(|module| modules.of(module.0));
            let key = match own.frame.map(|frame| code.frame(frame)) {
                Some(frame) => Key::Frame {
                    file: frame.file.as_deref(),
                    line: frame.line,
                    function: functions.of(frame.function.0),
                    module,
                },
                None => Key::Address(module, address),
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                places.push((site, own.frame));
                places.len() as u32 - 1
            });
            (site.0, (number, own.via))
        };
        let sites = ById::new(sites.into_iter().zip(found).map(number).collect());
        OwnPlaces { sites, places }
    }

    /// The number of a site's place, and the function that it called there.
    pub fn of_site(&self, site: SiteId) -> Option<(usize, Option<FunctionId>)> {
        self.sites.get(site.0).map(|(number, via)| (*number as usize, *via))
    }

    /// The place of a number.
    pub fn location(&self, code: &Code, number: usize) -> Option<Location> {
        let (site, frame) = *self.places.get(number)?;
        Some(code.location_of(site, frame))
    }

    /// Whether a place comes before another: by file, line and function; of code without names by module and address.
    pub fn compare(&self, code: &Code, one: usize, other: usize) -> Ordering {
        type Parts<'a> = (Option<&'a str>, Option<u32>, Option<Cow<'a, str>>, Option<&'a str>, u64);
        let parts = |number: usize| -> Option<Parts<'_>> {
            let (site, frame) = *self.places.get(number)?;
            let (module, address) = code.module_name_and_address(site);
            Some(match frame.map(|frame| code.frame(frame)) {
                Some(frame) => {
                    let function = code.function_name(frame.function);
                    (frame.file.as_deref(), frame.line, Some(function), module, 0)
                }
                None => (None, None, None, module, address),
            })
        };
        parts(one).cmp(&parts(other))
    }

    /// How many places there are: their numbers are below.
    pub fn count(&self) -> usize {
        self.places.len()
    }
}
