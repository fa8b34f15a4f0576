//! From sites and call stacks to places that a programmer knows.
//!
//! A site is one instruction. `symbolize` gave it frames: depth 0 is the innermost inlined function, the last is the
//! function that the instruction really lies in. The instruction that touches memory is often in code that its user
//! never wrote: `memset` of the C library, an iterator of a standard header inlined into a loop. Users want their own
//! line. So a place is looked for outwards, first along the inlined frames, then (where a stack is known) along the
//! callers, until a frame is the program's own; the function that it called is kept as `via`.

mod modules;
mod own_places;

use crate::facts::runtime::{self, Managed, RuntimeMemory};
use crate::model::by_id::ById;
use crate::model::report::Location;
pub use modules::MADE;
use modules::NamedModule;
use own_places::Own;
pub use own_places::OwnPlaces;

use numalens_profile::ids::{FunctionId, ModuleId, SiteId, StackId};
use numalens_profile::tables::{Frame, Function, Module, Site, Stack, WaitingSite};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

/// Stands for the instruction of accesses that were counted by whole pages, which do not know it.
pub const NO_SITE: SiteId = SiteId(u32::MAX);

/// The names of everything in a profile's code.
#[derive(Default)]
pub struct Code {
    modules: FxHashMap<ModuleId, NamedModule>,
    /// The language whose runtime is one of them.
    managed: Option<Managed>,
    sites: ById<CodeSite>,
    /// By site, innermost first.
    frames: Vec<Frame>,
    functions: ById<String>,
    stacks: FxHashMap<StackId, (Option<StackId>, SiteId)>,
    /// Of loops that wait.
    waiting: FxHashSet<SiteId>,
    own: OnceLock<OwnPlaces>,
    by_function: OnceLock<FxHashMap<String, Vec<SiteId>>>,
}

/// An instruction.
struct CodeSite {
    module: Option<ModuleId>,
    address: u64,
    /// Which frames are its own.
    frames: Range<u32>,
}

/// A place of the program's own, found by looking outwards.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnPlace {
    pub location: Location,
    /// The function, not the program's own, that this place called to do it.
    pub via: Option<String>,
    /// The site that has the place: the instruction itself, or the call.
    pub site: SiteId,
}

/// A function that instructions really lie in (inlined ones belong to their caller).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionName {
    /// `[no symbols]` for all nameless code of a module together.
    pub name: String,
    pub module: Option<String>,
    /// The source file, when known.
    pub file: Option<String>,
}

/// A function on the way from `main` to an access, or inlined there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Called {
    pub function: String,
    pub module: Option<String>,
    /// The source file, when known.
    pub file: Option<String>,
}

impl Code {
    /// From the rows of the tables.
    pub fn new(
        modules: Vec<Module>,
        sites: Vec<Site>,
        mut frames: Vec<Frame>,
        functions: Vec<Function>,
        stacks: Vec<Stack>,
    ) -> Self {
        let site = |s: Site| (s.site.0, CodeSite { module: s.module, address: s.address, frames: 0..0 });
        let mut sites = ById::new(sites.into_iter().map(site).collect());
        frames.par_sort_by_key(|frame| (frame.site, frame.depth));
        let mut at = 0;
        for (site, code) in sites.iter_mut() {
            // Those of sites that the table does not have are nobody's.
            let of_others = frames[at..].iter().take_while(|frame| frame.site.0 < site).count();
            let first = at + of_others;
            at = first + frames[first..].iter().take_while(|frame| frame.site.0 == site).count();
            code.frames = first as u32..at as u32;
        }
        let modules: FxHashMap<ModuleId, NamedModule> =
            modules.into_iter().map(|m| (m.module, NamedModule::new(m.path))).collect();
        let of_modules = modules.values().filter_map(|module| runtime::managed_by(&module.file_name));
        let managed = of_modules.chain(functions.iter().filter_map(|f| runtime::managed_with(&f.name))).min();
        Code {
            managed,
            modules,
            sites,
            functions: ById::new(functions.into_iter().map(|f| (f.function.0, f.name)).collect()),
            stacks: stacks.into_iter().map(|s| (s.stack, (s.parent, s.site))).collect(),
            frames,
            waiting: FxHashSet::default(),
            own: OnceLock::new(),
            by_function: OnceLock::new(),
        }
    }

    /// The same, whose instructions `waiting` are of loops that wait.
    pub fn with_waiting(self, waiting: Vec<WaitingSite>) -> Self {
        Code { waiting: waiting.into_iter().map(|row| row.site).collect(), ..self }
    }

    /// Whether an instruction waits for other threads: in such a loop, or in what a runtime has for it.
    pub fn waits(&self, site: SiteId) -> bool {
        self.waiting.contains(&site)
            || self.module_name(site).is_some_and(runtime::is_threading)
            || self
                .frames(site)
                .unwrap_or_default()
                .iter()
                .any(|frame| self.functions.get(frame.function.0).is_some_and(|name| runtime::is_synchronisation(name)))
    }

    fn site(&self, site: SiteId) -> Option<&CodeSite> {
        self.sites.get(site.0)
    }

    /// All sites in order, with module and address.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, Option<ModuleId>, u64)> {
        self.sites.all().iter().map(|(site, code)| (SiteId(*site), code.module, code.address))
    }

    /// A frame of [`Own::frame`].
    pub fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// File names of all modules by number.
    pub fn module_names(&self) -> impl Iterator<Item = (u32, &str)> {
        self.modules.iter().map(|(module, named)| (module.0, named.file_name.as_str()))
    }

    /// Names of all functions by number.
    pub fn function_names(&self) -> impl Iterator<Item = (u32, &str)> {
        self.functions.all().iter().map(|(function, name)| (*function, name.as_str()))
    }

    /// Innermost first; at least one.
    fn frames(&self, site: SiteId) -> Option<&[Frame]> {
        let Range { start, end } = self.site(site)?.frames;
        self.frames.get(start as usize..end as usize).filter(|frames| !frames.is_empty())
    }

    /// Whether anything has a name.
    pub fn has_names(&self) -> bool {
        !self.frames.is_empty()
    }

    /// What the program's runtime has taken memory for that was asked for on a call stack.
    pub fn runtime_memory(&self, stack: StackId) -> Option<RuntimeMemory> {
        let is_linked_in = self.managed? > Managed::JavaScript;
        let is_its = |site: &SiteId| is_linked_in || self.module_name(*site).and_then(runtime::managed_by).is_some();
        let frames = self.walk(stack).filter(is_its).filter_map(|site| self.frames(site));
        let functions = frames.flatten().filter_map(|frame| self.functions.get(frame.function.0)).map(|name| &**name);
        runtime::memory_of(functions).or_else(|| {
            let asked_by = self.module_name(self.walk(stack).next()?)?;
            (runtime::managed_by(asked_by) == Some(Managed::Java)).then_some(runtime::OF_JAVA)
        })
    }

    /// The language whose runtime was there.
    pub fn managed(&self) -> Option<Managed> {
        self.managed
    }

    /// Whether a library that divides work among threads was there.
    pub fn has_threading(&self) -> bool {
        self.modules.values().any(|module| runtime::is_threading(&module.file_name))
    }

    /// What a module is called: its file's name.
    pub fn module_called(&self, module: ModuleId) -> Option<&str> {
        self.modules.get(&module).map(|module| module.file_name.as_str())
    }

    /// Path of a module.
    pub fn module_path(&self, module: ModuleId) -> Option<&str> {
        self.modules.get(&module).map(|module| module.path.as_str())
    }

    /// The nearest place of the program's own along the inlined frames of a site; else the innermost.
    pub fn own(&self, site: SiteId) -> OwnPlace {
        let Own { frame, via } = self.own_of(site);
        let via = via.map(|function| self.function_name(function).into_owned());
        OwnPlace { location: self.location_of(site, frame), via, site }
    }

    /// The same by number.
    pub fn own_of(&self, site: SiteId) -> Own {
        let Some((code, frames)) = self.site(site).zip(self.frames(site)) else {
            return Own { frame: None, via: None };
        };
        let own = self.own_index(site).unwrap_or(0);
        let via = own.checked_sub(1).map(|inner| frames[inner].function);
        Own { frame: Some(code.frames.start + own as u32), via }
    }

    /// Those places of all sites.
    pub fn own_places(&self) -> &OwnPlaces {
        self.own.get_or_init(|| OwnPlaces::new(self))
    }

    /// The same along a call stack, whose leaf is the site; `site` where the stack is not known.
    pub fn own_on_stack(&self, stack: Option<StackId>, site: Option<SiteId>) -> Option<OwnPlace> {
        let sites: Vec<SiteId> = match stack {
            Some(stack) => self.walk(stack).collect(),
            None => Vec::new(),
        };
        let leaf = site.or_else(|| sites.first().copied())?;
        let mut outwards = vec![leaf];
        outwards.extend(sites.into_iter().filter(|site| *site != leaf));
        // A line of the program's own; else a function of its own (no debug information); else whatever did it.
        let found = |place: &dyn Fn(SiteId) -> Option<OwnPlace>| {
            let (level, place) = outwards.iter().enumerate().find_map(|(level, site)| Some((level, place(*site)?)))?;
            // Nothing was executed at address 0: that is where a stack could not be followed.
            let is_code = |site: &&SiteId| self.module_name_and_address(**site) != (None, 0);
            let called = level.checked_sub(1).and_then(|inner| outwards.get(inner)).filter(is_code);
            Some(OwnPlace { via: place.via.or_else(|| called.map(|site| self.outermost(*site))), ..place })
        };
        let own_function = |site| {
            let place = self.innermost(site);
            (!self.is_runtime(site, &place.location.function)).then_some(place)
        };
        found(&|site| self.own_frame(site)).or_else(|| found(&own_function)).or_else(|| Some(self.innermost(leaf)))
    }

    /// The program's own places along a call stack, innermost first; a function that calls itself is there once.
    pub fn own_path(&self, stack: Option<StackId>, site: Option<SiteId>) -> Vec<OwnPlace> {
        let mut sites: Vec<SiteId> = stack.map(|stack| self.walk(stack).collect()).unwrap_or_default();
        if sites.is_empty() {
            sites.extend(site);
        }
        let own = |site: &SiteId| {
            let (site, frames) = (*site, self.frames(*site).unwrap_or_default());
            let own = frames.iter().filter(move |frame| frame.file.is_some() && !self.is_runtime_frame(site, frame));
            own.map(move |frame| OwnPlace { location: self.location(site, frame), via: None, site })
        };
        let mut path: Vec<OwnPlace> = sites.iter().flat_map(own).collect();
        path.dedup_by(|OwnPlace { location: a, .. }, OwnPlace { location: b, .. }| {
            (&a.function, &a.file) == (&b.function, &b.file)
        });
        path
    }

    /// The functions that called a place of a stack, nearest first, at most `most`.
    pub fn callers(&self, stack: StackId, place: SiteId, most: usize) -> Vec<String> {
        self.walk(stack).skip_while(|site| *site != place).skip(1).take(most).map(|site| self.outermost(site)).collect()
    }

    /// The call stack for people: `function (file:line)`, innermost first.
    pub fn stack(&self, stack: StackId) -> Vec<String> {
        self.walk(stack).map(|site| self.innermost(site).location.to_string()).collect()
    }

    /// The function that a site lies in.
    pub fn function(&self, site: SiteId) -> FunctionName {
        let module = self.module_name(site).map(str::to_string);
        match self.frames(site).and_then(|frames| frames.last()) {
            Some(frame) => FunctionName { name: self.name_of(frame), module, file: frame.file.clone() },
            None if site == NO_SITE => FunctionName { name: self.address(site), module, file: None },
            None => FunctionName { name: "[no symbols]".to_string(), module, file: None },
        }
    }

    /// The functions from the outermost caller to the innermost inlined one at a site; the site alone where no stack is
    /// known.
    pub fn chain(&self, stack: Option<StackId>, site: Option<SiteId>) -> Vec<Called> {
        let mut sites: Vec<SiteId> = stack.map(|stack| self.walk(stack).collect()).unwrap_or_default();
        if sites.is_empty() {
            sites.extend(site);
        }
        sites.iter().rev().flat_map(|site| self.calls_at(*site)).collect()
    }

    /// The functions at a site, outermost first.
    fn calls_at(&self, site: SiteId) -> Vec<Called> {
        let module = self.module_name(site).map(str::to_string);
        match self.frames(site) {
            Some(frames) => {
                let called = |frame: &Frame| Called {
                    function: self.name_of(frame),
                    module: module.clone(),
                    file: frame.file.clone(),
                };
                frames.iter().rev().map(called).collect()
            }
            None => vec![Called { function: self.function(site).name, module, file: None }],
        }
    }

    /// The sites that lie in functions of a name.
    pub fn sites_of(&self, function: &str) -> impl Iterator<Item = SiteId> {
        let by_function = self.by_function.get_or_init(|| {
            let mut functions: FxHashMap<String, Vec<SiteId>> = FxHashMap::default();
            for (site, ..) in self.sites() {
                functions.entry(self.function(site).name).or_default().push(site);
            }
            functions
        });
        by_function.get(function).into_iter().flatten().copied()
    }

    /// The sites of which a line of source is the own place.
    pub fn sites_at(&self, file: &str, line: u32) -> impl Iterator<Item = SiteId> {
        self.sites().filter_map(move |(site, ..)| {
            let own = self.frames(site)?.get(self.own_index(site).unwrap_or(0))?;
            (own.line == Some(line) && own.file.as_deref() == Some(file)).then_some(site)
        })
    }

    /// Module of a site, and address in it.
    pub fn module_of(&self, site: SiteId) -> Option<(ModuleId, u64)> {
        let CodeSite { module, address, .. } = *self.site(site)?;
        Some((module?, address))
    }

    /// The sites of a module in the order of addresses.
    pub fn sites_in(&self, module: ModuleId) -> Vec<(u64, SiteId)> {
        let of = self.sites().filter(|(_, of, _)| *of == Some(module));
        let mut sites: Vec<(u64, SiteId)> = of.map(|(site, _, address)| (address, site)).collect();
        sites.sort_unstable();
        sites
    }

    /// Module's path and address in it.
    pub fn address_of(&self, site: SiteId) -> (Option<&str>, u64) {
        let Some(CodeSite { module, address, .. }) = self.site(site) else { return (None, 0) };
        (module.and_then(|module| self.module_path(module)), *address)
    }

    /// The inlined calls of a site, the innermost first; the last is the function that it lies in. At least one.
    pub fn lines(&self, site: SiteId) -> Vec<Location> {
        match self.frames(site) {
            Some(frames) => frames.iter().map(|frame| self.location(site, frame)).collect(),
            None => vec![self.innermost(site).location],
        }
    }

    /// The function that a site lies in, or its address.
    fn outermost(&self, site: SiteId) -> String {
        match self.frames(site).and_then(|frames| frames.last()) {
            Some(frame) => self.name_of(frame),
            None => self.address(site),
        }
    }

    /// The innermost frame, or what is known without one.
    fn innermost(&self, site: SiteId) -> OwnPlace {
        let frames = self.site(site).zip(self.frames(site)).map(|(code, _)| code.frames.start);
        OwnPlace { location: self.location_of(site, frames), via: None, site }
    }

    /// The place that one of a site's frames says; none: it has no name.
    pub fn location_of(&self, site: SiteId, frame: Option<u32>) -> Location {
        match frame {
            Some(frame) => self.location(site, self.frame(frame)),
            None => Location {
                function: self.address(site),
                module: self.module_name(site).map(str::to_string),
                ..Location::default()
            },
        }
    }

    /// Which of its frames is the innermost that is the program's own and has a line.
    fn own_index(&self, site: SiteId) -> Option<usize> {
        let frames = self.frames(site)?;
        frames.iter().position(|frame| frame.line.is_some() && !self.is_runtime_frame(site, frame))
    }

    /// That frame as a place.
    pub fn own_frame(&self, site: SiteId) -> Option<OwnPlace> {
        let (frames, own) = (self.frames(site)?, self.own_index(site)?);
        let via = own.checked_sub(1).map(|inner| self.name_of(&frames[inner]));
        Some(OwnPlace { location: self.location(site, &frames[own]), via, site })
    }

    fn location(&self, site: SiteId, frame: &Frame) -> Location {
        Location {
            file: frame.file.clone(),
            line: frame.line,
            function: self.name_of(frame),
            module: self.module_name(site).map(str::to_string),
        }
    }

    /// A file says more than a name: the program may have a `memset` of its own.
    fn is_runtime_frame(&self, site: SiteId, frame: &Frame) -> bool {
        match &frame.file {
            Some(file) => {
                let function = self.functions.get(frame.function.0);
                runtime::is_system_source(file)
                    || self.is_in_library(site)
                    || function.is_some_and(|name| runtime::is_language_runtime(name))
            }
            None => self.functions.get(frame.function.0).is_some_and(|name| self.is_runtime(site, name)),
        }
    }

    fn is_runtime(&self, site: SiteId, function: &str) -> bool {
        runtime::is_helper(function) || self.is_in_library(site)
    }

    fn is_in_library(&self, site: SiteId) -> bool {
        let module = self.site(site).and_then(|code| self.modules.get(code.module.as_ref()?));
        module.is_some_and(|module| module.is_library)
    }

    fn name_of(&self, frame: &Frame) -> String {
        self.function_name(frame.function).into_owned()
    }

    /// Name of a function.
    pub fn function_name(&self, function: FunctionId) -> Cow<'_, str> {
        match self.functions.get(function.0) {
            Some(name) => name.into(),
            None => format!("function {function}").into(),
        }
    }

    /// File name of the module of a site.
    fn module_name(&self, site: SiteId) -> Option<&str> {
        self.module_name_and_address(site).0
    }

    /// File name of the module of a site, and address in it.
    pub fn module_name_and_address(&self, site: SiteId) -> (Option<&str>, u64) {
        let Some(CodeSite { module, address, .. }) = self.site(site) else { return (None, 0) };
        let named = module.and_then(|module| self.modules.get(&module));
        (named.map(|module| module.file_name.as_str()), *address)
    }

    fn address(&self, site: SiteId) -> String {
        match (self.site(site), self.module_name(site)) {
            (Some(CodeSite { address, .. }), Some(module)) => format!("{module}+{address:#x}"),
            (Some(CodeSite { address, .. }), None) => format!("{address:#x}"),
            (None, _) if site == NO_SITE => "[instruction not known]".to_string(),
            (None, _) => format!("site {site}"),
        }
    }

    /// The sites of a stack, innermost first. A damaged tree ends the walk rather than looping.
    pub fn walk(&self, stack: StackId) -> impl Iterator<Item = SiteId> {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let (parent, site) = *self.stacks.get(&next?)?;
            next = parent;
            Some(site)
        })
        .take(MAX_DEPTH)
    }
}

/// Longer stacks are cut: recursion that deep names nobody new.
const MAX_DEPTH: usize = 1024;

/// The last component of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl std::fmt::Display for Location {
    /// `function (file:line)`, or `function` of a module without lines.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.file, self.line, &self.module) {
            (Some(file), Some(line), _) => write!(f, "{} ({}:{line})", self.function, file_name(file)),
            (Some(file), None, _) => write!(f, "{} ({})", self.function, file_name(file)),
            (None, _, Some(module)) if !self.function.starts_with(module.as_str()) => {
                write!(f, "{} ({module})", self.function)
            }
            _ => f.write_str(&self.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(site: u32, depth: u32, function: u32, place: Option<(&str, u32)>) -> Frame {
        Frame {
            site: SiteId(site),
            depth,
            function: FunctionId(function),
            file: place.map(|p| p.0.to_string()),
            line: place.map(|p| p.1),
        }
    }

    /// Site 0: memset in libc, called by site 1: main, which inlined std::fill; site 2 has no names.
    fn code() -> Code {
        let module =
            |id: u32, path: &str| Module { module: ModuleId(id), path: path.to_string(), build_id: String::new() };
        let function = |id: u32, module: u32, name: &str| Function {
            function: FunctionId(id),
            module: Some(ModuleId(module)),
            name: name.to_string(),
        };
        Code::new(
            vec![module(0, "/usr/lib/x86_64-linux-gnu/libc.so.6"), module(1, "/home/me/app")],
            [(0, 0), (1, 1), (2, 1)]
                .into_iter()
                .map(|(site, m)| Site {
                    site: SiteId(site),
                    module: Some(ModuleId(m)),
                    address: 0x1000 + u64::from(site),
                })
                .collect(),
            vec![
                frame(1, 1, 2, Some(("/home/me/app.cc", 12))),
                frame(1, 0, 1, Some(("/usr/include/c++/12/bits/stl_algobase.h", 900))),
                frame(0, 0, 0, None),
            ],
            vec![
                function(0, 0, "__memset_avx2_unaligned_erms"),
                function(1, 1, "std::fill<int*>"),
                function(2, 1, "main"),
            ],
            vec![
                Stack { stack: StackId(0), parent: None, site: SiteId(1) },
                Stack { stack: StackId(1), parent: Some(StackId(0)), site: SiteId(0) },
            ],
        )
    }

    #[test]
    fn a_header_inlined_into_the_program_leads_to_the_programs_line() {
        let place = code().own(SiteId(1));
        assert_eq!(
            (place.location.to_string().as_str(), place.via.as_deref()),
            ("main (app.cc:12)", Some("std::fill<int*>"))
        );
    }

    #[test]
    fn the_c_library_leads_to_its_caller_where_the_stack_is_known() {
        let place = code().own_on_stack(Some(StackId(1)), Some(SiteId(0))).unwrap();
        assert_eq!(place.location.to_string(), "main (app.cc:12)");
        // main called it, which called memset.
        assert_eq!(place.via.as_deref(), Some("std::fill<int*>"));
        assert_eq!(code().callers(StackId(1), SiteId(0), 2), ["main"]);
        assert_eq!(code().callers(StackId(1), SiteId(1), 2), [""; 0]);
        assert_eq!(code().own(SiteId(0)).location.to_string(), "__memset_avx2_unaligned_erms (libc.so.6)");
    }

    #[test]
    fn without_names_there_is_the_offset_in_the_module() {
        assert_eq!(code().own(SiteId(2)).location.to_string(), "app+0x1002");
        assert_eq!(
            code().function(SiteId(2)),
            FunctionName { name: "[no symbols]".into(), module: Some("app".into()), file: None }
        );
        assert_eq!(code().own(SiteId(77)).location.to_string(), "site 77");
    }

    #[test]
    fn a_stack_that_loops_ends() {
        let code = Code::new(
            vec![],
            vec![],
            vec![],
            vec![],
            vec![Stack { stack: StackId(0), parent: Some(StackId(0)), site: SiteId(0) }],
        );
        assert_eq!(code.stack(StackId(0)).len(), MAX_DEPTH);
    }

    #[test]
    fn functions_are_those_that_instructions_lie_in() {
        assert_eq!(code().function(SiteId(1)).name, "main");
    }
}
