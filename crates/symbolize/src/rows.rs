//! From rows to rows: which addresses to ask for, and the tables that the answers make.

use crate::demangle::demangle_from;
use crate::doubt::{Cause, Doubt};
use crate::early::{Early, Found};
use crate::ghc::Origin;
use crate::module::{self, RawFrame};
use crate::path_map::PathMap;
use crate::{Options, Outcome};
use numalens_profile::ids::{FunctionId, ModuleId, SiteId};
use numalens_profile::tables::{Frame, Function, Module, Site, WaitingSite};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The readers recurse with the depth of inlining; a damaged file can state any depth, so their stack is generous (it
/// costs memory only when used).
const STACK: usize = 64 << 20;

/// Shown for code whose line is known and whose function is not (stripped assembly, mostly).
const NO_NAME: &str = "[no symbol]";

/// What was found for the addresses of one module.
pub(crate) struct Named {
    /// One list per address, innermost first.
    pub(crate) frames: Vec<Vec<RawFrame>>,
    /// By address: whether the instruction waits (see [`spin`](crate::spin)).
    pub(crate) waits: Vec<bool>,
    /// Causes of doubt, with the number of addresses concerned.
    pub(crate) causes: Vec<(Cause, u64)>,
    pub(crate) origin: Origin,
}

impl Named {
    /// Nothing, for so many addresses.
    pub(crate) fn none(addresses: usize) -> Named {
        Named {
            frames: vec![Vec::new(); addresses],
            waits: vec![false; addresses],
            causes: Vec::new(),
            origin: Origin::Unknown,
        }
    }

    pub(crate) fn add(&mut self, cause: Cause, addresses: u64) {
        if addresses > 0 {
            self.causes.push((cause, addresses));
        }
    }
}

/// Names the sites: functions, lines and inlined calls.
///
/// `previous` is what an earlier run wrote. Its sites that have a line are kept as they are (their files may be gone
/// meanwhile); the others are asked for again, and keep what they had if nothing is found. Functions of the earlier run
/// keep their ids, new ones follow: whoever writes the functions before the frames has tables that fit at every moment.
/// The outcome depends on nothing but the arguments and the files.
///
/// Nothing here fails: what cannot be named has no frame, and [`Outcome::doubts`] says why.
pub fn symbolize_rows(
    sites: &[Site],
    modules: &[Module],
    options: &Options,
    previous: Option<(&[Function], &[Frame])>,
) -> Outcome {
    symbolize(sites, modules, options, previous, Early::default())
}

/// The same for who has asked early. `told`: what runtimes have said of their code, as `previous`.
pub fn symbolize_with(
    early: Early,
    sites: &[Site],
    modules: &[Module],
    options: &Options,
    told: (&[Function], &[Frame]),
) -> Outcome {
    symbolize(sites, modules, options, Some(told), early)
}

fn symbolize(
    sites: &[Site],
    modules: &[Module],
    options: &Options,
    previous: Option<(&[Function], &[Frame])>,
    early: Early,
) -> Outcome {
    let known = Known::new(previous);
    let wanted = sites.iter().filter(|site| !known.with_line.contains(&site.site));
    let tasks = by_module(wanted, modules, early);
    let answers = each(&tasks, options.jobs, |task| task.run(options));

    let mut doubts = Vec::new();
    let mut found: FxHashMap<Option<ModuleId>, (&[u64], Named)> = FxHashMap::default();
    for (task, answer) in tasks.iter().zip(answers) {
        let path = task.module.map_or_else(String::new, |module| module.path.clone());
        let doubt = |(cause, sites): &(Cause, u64)| Doubt {
            module: task.id,
            path: path.clone(),
            sites: *sites,
            cause: cause.clone(),
        };
        doubts.extend(answer.causes.iter().map(doubt));
        found.insert(task.id, (&task.addresses, answer));
    }
    let mut tables = Tables::new(options, &known);
    let mut order: Vec<&Site> = sites.iter().collect();
    order.sort_unstable_by_key(|site| site.site);
    // Sites are numbered as they were met: the next is mostly at the same address, or at the one behind it.
    let near = Cell::new(0);
    let answer = |site: &Site| {
        let (addresses, named) = found.get(&site.module).filter(|_| !known.with_line.contains(&site.site))?;
        let is_there = |index: &usize| addresses.get(*index) == Some(&site.address);
        let index = [near.get(), near.get() + 1].into_iter().find(is_there);
        let index = index.or_else(|| addresses.binary_search(&site.address).ok())?;
        near.set(index);
        Some((named, index))
    };
    let new = |site: &Site| {
        let (named, index) = answer(site)?;
        Some((&named.frames[index], named.origin)).filter(|(frames, _)| !frames.is_empty())
    };
    for (site, before) in order.iter().filter_map(|site| Some((site, known.frames.get(&site.site)?))) {
        new(site).into_iter().for_each(|(frames, origin)| tables.join(site, frames, origin, before));
    }
    tables.frames.reserve(order.len());
    let mut waiting = Vec::new();
    for site in order {
        let found = answer(site);
        if found.is_some_and(|(named, index)| named.waits[index]) {
            waiting.push(WaitingSite { site: site.site });
        }
        match found.map(|(named, index)| (&named.frames[index], named.origin)) {
            Some((frames, origin)) if !frames.is_empty() => tables.add(site, frames, origin),
            _ => known.frames.get(&site.site).into_iter().flatten().for_each(|frame| tables.keep(frame)),
        }
    }
    Outcome { functions: tables.functions, frames: tables.frames, waiting, doubts }
}

/// What is asked of a module.
pub(crate) struct Task<'a> {
    pub(crate) id: Option<ModuleId>,
    pub(crate) module: Option<&'a Module>,
    /// In order, each once.
    pub(crate) addresses: Vec<u64>,
    /// What is known already.
    early: Mutex<Option<Found>>,
}

/// The addresses of sites, by module.
pub(crate) fn by_module<'a>(
    sites: impl Iterator<Item = &'a Site>,
    modules: &'a [Module],
    mut early: Early,
) -> Vec<Task<'a>> {
    let mut wanted: BTreeMap<Option<ModuleId>, Vec<u64>> = BTreeMap::new();
    for site in sites {
        wanted.entry(site.module).or_default().push(site.address);
    }
    let by_id: FxHashMap<ModuleId, &Module> = modules.iter().map(|module| (module.module, module)).collect();
    let task = |(id, mut addresses): (Option<ModuleId>, Vec<u64>)| {
        addresses.sort_unstable();
        addresses.dedup();
        let module = id.and_then(|id| by_id.get(&id).copied());
        Task { id, module, addresses, early: Mutex::new(early.take(id)) }
    };
    wanted.into_iter().map(task).collect()
}

impl Task<'_> {
    fn run(&self, options: &Options) -> Named {
        let Some(module) = self.module else {
            let mut none = Named::none(self.addresses.len());
            none.add(Cause::NoModule, self.addresses.len() as u64);
            return none;
        };
        let early = self.early.lock().unwrap_or_else(PoisonError::into_inner).take();
        match early {
            Some(early) => early.with(module, &self.addresses, options),
            None => module::name(module, &self.addresses, options),
        }
    }
}

/// Answers of all tasks, in order. Each module is one thread's from its opening to its end, so that at most `jobs` are
/// open at a time.
pub(crate) fn each<T: Send>(tasks: &[Task], jobs: usize, run: impl Fn(&Task) -> T + Sync) -> Vec<T> {
    let threads = match jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<T>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    // Those that take longest begin.
    let mut order: Vec<(&Task, &Mutex<Option<T>>)> = tasks.iter().zip(&answers).collect();
    order.sort_by_key(|(task, _)| Reverse(task.addresses.len()));
    let work = || {
        while let Some((task, answer)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = run(task);
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(tasks.len()) {
            // A thread that cannot be had leaves its work to the others.
            let _ = std::thread::Builder::new().name("symbolize".into()).stack_size(STACK).spawn_scoped(scope, work);
        }
    });
    let take = |(answer, task): (Mutex<Option<T>>, &Task)| {
        let found = answer.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Without any thread there is this one.
        found.unwrap_or_else(|| run(task))
    };
    answers.into_iter().zip(tasks).map(take).collect()
}

/// What an earlier run found.
struct Known<'a> {
    /// Function `i` has id `i`.
    functions: Vec<&'a Function>,
    /// In order of depth.
    frames: FxHashMap<SiteId, Vec<&'a Frame>>,
    with_line: FxHashSet<SiteId>,
}

impl<'a> Known<'a> {
    fn new(previous: Option<(&'a [Function], &'a [Frame])>) -> Self {
        let (functions, rows) = previous.unwrap_or_default();
        let mut functions: Vec<&Function> = functions.iter().collect();
        functions.sort_unstable_by_key(|function| function.function);
        // Ids that are not dense come from a damaged table, whose names cannot be trusted.
        if functions.iter().enumerate().any(|(index, function)| function.function != id(index)) {
            functions.clear();
        }
        let mut frames: FxHashMap<SiteId, Vec<&Frame>> = FxHashMap::default();
        for frame in rows.iter().filter(|frame| (frame.function.0 as usize) < functions.len()) {
            frames.entry(frame.site).or_default().push(frame);
        }
        frames.values_mut().for_each(|frames| frames.sort_unstable_by_key(|frame| frame.depth));
        let has_line = |frames: &[&Frame]| frames.first().is_some_and(|frame| frame.line.is_some());
        let with_line = frames.iter().filter(|(_, frames)| has_line(frames)).map(|(site, _)| *site).collect();
        Known { functions, frames, with_line }
    }
}

/// What makes two functions of one name and module two: a C `static` may have namesakes in other files. The linker's
/// names of other languages are unique already.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Apart {
    Unique,
    File(Option<String>),
    Start(u64),
}

type Key = (Option<ModuleId>, String, Apart);

/// The tables being made.
struct Tables<'a> {
    options: &'a Options,
    functions: Vec<Function>,
    frames: Vec<Frame>,
    ids: FxHashMap<Key, FunctionId>,
    /// Readable names by linker's names: decoding is the dearest step for a site of known function.
    names: FxHashMap<(String, Origin), (String, bool)>,
    /// By depth: the frame before, which the next is often alike.
    latest: [Option<Latest>; 4],
}

/// A frame with what was found for it.
struct Latest {
    module: Option<ModuleId>,
    raw: RawFrame,
    origin: Origin,
    function: FunctionId,
    file: Option<String>,
}

impl Latest {
    fn is(&self, site: &Site, frame: &RawFrame, origin: Origin) -> bool {
        let RawFrame { function, file, line: _, start } = frame;
        let same = (self.module, self.origin, self.raw.start) == (site.module, origin, *start);
        same && self.raw.function == *function && self.raw.file == *file
    }
}

/// A table of four billion functions does not fit in memory, so the limit is never met.
fn id(index: usize) -> FunctionId {
    FunctionId(u32::try_from(index).unwrap_or(u32::MAX))
}

impl<'a> Tables<'a> {
    fn new(options: &'a Options, known: &Known) -> Self {
        let functions: Vec<Function> = known.functions.iter().map(|function| (*function).clone()).collect();
        let ids = functions.iter().map(|f| ((f.module, f.name.clone(), Apart::Unique), f.function)).collect();
        let mut tables = Tables {
            options,
            functions,
            frames: Vec::new(),
            ids,
            names: FxHashMap::default(),
            latest: Default::default(),
        };
        // So that what is found now joins what was found then.
        for frame in known.frames.values().flatten() {
            let function = &tables.functions[frame.function.0 as usize];
            let key = (function.module, function.name.clone(), Apart::File(frame.file.clone()));
            tables.ids.entry(key).or_insert(frame.function);
        }
        tables
    }

    /// Functions of one name that the earlier run and this one found for one site are one function.
    fn join(&mut self, site: &Site, frames: &[RawFrame], origin: Origin, before: &[&Frame]) {
        for (frame, before) in frames.iter().zip(before) {
            let (key, _) = self.key(site, frame, origin);
            if self.functions[before.function.0 as usize].name == key.1 {
                self.ids.entry(key).or_insert(before.function);
            }
        }
    }

    fn add(&mut self, site: &Site, frames: &[RawFrame], origin: Origin) {
        for (depth, raw) in frames.iter().enumerate() {
            let alike = self.latest.get(depth).and_then(Option::as_ref).filter(|latest| latest.is(site, raw, origin));
            let (function, file) = match alike {
                Some(latest) => (latest.function, latest.file.clone()),
                None => {
                    let (key, file) = self.key(site, raw, origin);
                    let function = self.function(key);
                    if let Some(latest) = self.latest.get_mut(depth) {
                        let (raw, file) = (raw.clone(), file.clone());
                        *latest = Some(Latest { module: site.module, raw, origin, function, file });
                    }
                    (function, file)
                }
            };
            self.frames.push(Frame { site: site.site, depth: depth as u32, function, file, line: raw.line });
        }
    }

    /// What identifies the function of `frame`, and the source file.
    fn key(&mut self, site: &Site, frame: &RawFrame, origin: Origin) -> (Key, Option<String>) {
        let file = frame.file.as_deref().map(|file| PathMap(&self.options.path_map).source(file));
        let (name, mangled) = self.readable(frame.function.as_deref().unwrap_or(NO_NAME), origin);
        let apart = match (mangled, frame.start) {
            (true, _) => Apart::Unique,
            (false, Some(start)) if file.is_none() => Apart::Start(start),
            (false, _) => Apart::File(file.clone()),
        };
        ((site.module, name, apart), file)
    }

    fn readable(&mut self, raw: &str, origin: Origin) -> (String, bool) {
        let key = (raw.to_string(), origin);
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let name = demangle_from(raw, origin);
        let known = (name.to_string(), matches!(name, std::borrow::Cow::Owned(_)));
        self.names.insert(key, known.clone());
        known
    }

    fn function(&mut self, key: Key) -> FunctionId {
        match self.ids.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let function = id(self.functions.len());
                self.functions.push(Function { function, module: new.key().0, name: new.key().1.clone() });
                *new.insert(function)
            }
        }
    }

    /// Takes over a frame of the earlier run.
    fn keep(&mut self, frame: &Frame) {
        let file = frame.file.clone().map(|file| PathMap(&self.options.path_map).source_again(file));
        self.frames.push(Frame { file, ..frame.clone() });
    }
}
