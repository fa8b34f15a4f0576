//! The code of several profiles: a module, site or function that an earlier one has keeps the id that it has there.

use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::renumbering::{ALL_COLUMNS, Renumbering};
use crate::row::Row;
use crate::tables::{Frame, Function, Module, PERF_MAP, Site};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows that no profile before had.
#[derive(Default)]
pub struct NewCode {
    pub modules: Vec<Module>,
    pub sites: Vec<Site>,
    pub functions: Vec<Function>,
    pub frames: Vec<Frame>,
}

impl NewCode {
    /// Adds the rows of another profile.
    pub fn extend(&mut self, more: NewCode) {
        self.modules.extend(more.modules);
        self.sites.extend(more.sites);
        self.functions.extend(more.functions);
        self.frames.extend(more.frames);
    }
}

/// Code of all profiles so far.
#[derive(Default)]
pub struct Code {
    modules: FxHashMap<(String, String), ModuleId>,
    /// Those of run-time code are never the same as another's, so their number is not that of `modules`.
    module_count: u32,
    sites: FxHashMap<(Option<ModuleId>, u64), SiteId>,
    functions: FxHashMap<(Option<ModuleId>, String), FunctionId>,
    /// Sites that have their frames.
    named: FxHashSet<SiteId>,
}

impl Code {
    /// Adds the code of a profile; `ids` has what became of all of it. Returns what is new here.
    pub fn add(&mut self, profile: &Profile, ids: &mut Renumbering) -> Result<NewCode, Error> {
        let mut new_code = NewCode::default();
        for mut row in profile.rows::<Module>()? {
            let key = (row.path.clone(), row.build_id.clone());
            let shared = !row.path.starts_with(PERF_MAP);
            let known = shared.then(|| self.modules.get(&key).copied()).flatten();
            let new = ModuleId(self.module_count);
            ids.modules.insert(row.module, known.unwrap_or(new));
            if known.is_none() {
                self.module_count += 1;
                if shared {
                    self.modules.insert(key, new);
                }
                row.module = new;
                new_code.modules.push(row);
            }
        }
        for mut row in profile.rows::<Site>()? {
            let module = row.module.map(|module| ids.module(module));
            let new = SiteId(self.sites.len() as u32);
            let here = *self.sites.entry((module, row.address)).or_insert(new);
            ids.sites.insert(row.site, here);
            if here == new {
                (row.site, row.module) = (here, module);
                new_code.sites.push(row);
            }
        }
        for mut row in profile.rows::<Function>()? {
            let module = row.module.map(|module| ids.module(module));
            let new = FunctionId(self.functions.len() as u32);
            let here = *self.functions.entry((module, row.name.clone())).or_insert(new);
            ids.functions.insert(row.function, here);
            if here == new {
                (row.function, row.module) = (here, module);
                new_code.functions.push(row);
            }
        }
        let mut named = FxHashSet::default();
        for mut row in profile.rows::<Frame>()? {
            row.renumber(ids, ALL_COLUMNS);
            if !self.named.contains(&row.site) {
                named.insert(row.site);
                new_code.frames.push(row);
            }
        }
        self.named.extend(named);
        Ok(new_code)
    }
}
