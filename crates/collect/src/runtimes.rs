//! Runtimes within programs: what they say of code and objects that they make, in the words of the user's language.
//!
//! ```text
//!   interpose/c/jvm.c  --log of runtimes-->  log  -->  jvm: methods, code  -->  names of sites
//!                      --heap channel----->  session: objects, with frames that are sites
//!   python (from outside, every few milliseconds)   -->  session: the line that each thread executes
//! ```
//! A frame of the user's language is a site like any other: of the module of the code that the process makes, at an
//! address that no code has ([`frame_address`]). What it is called is known at the end.

mod jvm;
mod lines;
mod log;
mod looker;
mod perf_maps;
mod python;

pub use log::RuntimeLog;

use jvm::Jvm;
pub use looker::ExecutedLine;
use looker::{Looker, Seen};
use numalens_event::runtime_log::Told;
use numalens_profile::ids::{FunctionId, ModuleId};
use numalens_profile::tables::{self, Frame, Module, PERF_MAP, Site};
use perf_maps::PerfMaps;
use python::Python;
use rustc_hash::FxHashMap;

/// The functions, files and lines of sites, as runtimes have told them.
#[derive(Clone, Debug, Default)]
pub struct ToldNames {
    pub functions: Vec<tables::Function>,
    pub frames: Vec<Frame>,
}

/// One level of a site, in the user's words.
struct Level {
    function: String,
    file: Option<String>,
    line: Option<u32>,
}

/// What was told so far.
#[derive(Default)]
pub struct Runtimes {
    log: Option<RuntimeLog>,
    /// By process.
    machines: FxHashMap<u32, Jvm>,
    /// There once an interpreter has been told.
    looker: Option<Looker>,
    maps: PerfMaps,
}

/// The address that stands for a bytecode of a method. The highest bit tells it from code.
pub fn frame_address(method: u64, bytecode: u64) -> u64 {
    1 << 63 | method << 16 | bytecode & 0xffff
}

impl Runtimes {
    /// What is in a log will be read.
    pub fn listen(&mut self, log: RuntimeLog) {
        self.log = Some(log);
    }

    /// What is missing, because the log was full or its records were damaged.
    pub fn lost(&self) -> u64 {
        self.log.as_ref().map_or(0, RuntimeLog::lost)
    }

    /// The lines that threads of interpreters were seen at since it was asked last.
    pub fn executed_lines(&mut self) -> Vec<ExecutedLine> {
        self.hear(false);
        let Some(looker) = &self.looker else { return Vec::new() };
        let Seen { lines, functions } = looker.take();
        for looker::Function { pid, method, name, file, lines } in functions {
            self.machines.entry(pid).or_default().function(method, name, file, lines);
        }
        lines
    }

    /// Whether there have been interpreters to look at.
    pub fn have_looked(&self) -> bool {
        self.looker.is_some()
    }

    /// Whether there are interpreters to look at.
    pub fn has_interpreters(&self) -> bool {
        self.looker.as_ref().is_some_and(Looker::is_busy)
    }

    /// Takes in what is new in the log.
    fn hear(&mut self, is_over: bool) {
        let Runtimes { log, machines, looker, maps } = self;
        let Some(log) = log else { return };
        log.read(is_over, |record| match record.kind {
            Told::Python => {
                let mut fields = record.fields();
                let words = [fields.next(), fields.next(), fields.next()].map(Option::unwrap_or_default);
                if let Some(python) = Python::new(record.pid as i32, words) {
                    looker.get_or_insert_with(Looker::begin).add(record.pid, python);
                }
            }
            Told::PerfMap => maps.asked(record.pid),
            Told::Method | Told::Code | Told::Stub => machines.entry(record.pid).or_default().take_in(record),
        });
    }

    /// The names of those sites that runtimes have told something of.
    pub fn names(&mut self, sites: &[Site], modules: &[Module]) -> ToldNames {
        self.hear(true);
        let mut names = Names::default();
        let pids: FxHashMap<ModuleId, u32> = modules.iter().filter_map(made_by).collect();
        let mut others: FxHashMap<u32, Vec<&Site>> = FxHashMap::default();
        for site in sites {
            let Some(pid) = site.module.and_then(|module| pids.get(&module)) else { continue };
            let levels = self.machines.get(pid).map(|machine| machine.levels(site.address)).unwrap_or_default();
            if levels.is_empty() {
                others.entry(*pid).or_default().push(site);
            }
            names.add(site, levels);
        }
        for (pid, mut sites) in others {
            sites.sort_by_key(|site| (site.address, site.site));
            let addresses: Vec<u64> = sites.iter().map(|site| site.address).collect();
            for (site, level) in sites.into_iter().zip(self.maps.levels(pid, &addresses)) {
                names.add(site, level.into_iter().collect());
            }
        }
        names.told
    }
}

/// The process whose own code a module is.
fn made_by(module: &Module) -> Option<(ModuleId, u32)> {
    Some((module.module, module.path.strip_prefix(PERF_MAP)?.parse().ok()?))
}

/// The tables being made.
#[derive(Default)]
struct Names {
    told: ToldNames,
    ids: FxHashMap<(Option<ModuleId>, String), FunctionId>,
}

impl Names {
    fn add(&mut self, site: &Site, levels: Vec<Level>) {
        for (depth, level) in (0..).zip(levels) {
            let function = self.function(site.module, level.function);
            self.told.frames.push(Frame { site: site.site, depth, function, file: level.file, line: level.line });
        }
    }

    fn function(&mut self, module: Option<ModuleId>, name: String) -> FunctionId {
        let functions = &mut self.told.functions;
        *self.ids.entry((module, name)).or_insert_with_key(|(module, name)| {
            let function = FunctionId(functions.len() as u32);
            functions.push(tables::Function { function, module: *module, name: name.clone() });
            function
        })
    }
}
