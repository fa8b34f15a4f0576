//! Runtimes within programs: what they say of code and objects that they make, in the words of the user's language.
//!
//! ```text
//!   interpose/c/jvm.c  --log of runtimes-->  log  -->  jvm: methods, code  -->  names of sites
//!                      --heap channel----->  session: objects, with frames that are sites
//! ```
//! A frame of the user's language is a site like any other: of the module of the code that the process makes, at an
//! address that no code has ([`frame_address`]). What it is called is known at the end.

mod jvm;
mod log;

pub use log::RuntimeLog;

use jvm::Jvm;
use numalens_profile::ids::{FunctionId, ModuleId};
use numalens_profile::tables::{Frame, Function, Module, PERF_MAP, Site};
use rustc_hash::FxHashMap;

/// The functions, files and lines of sites, as runtimes have told them.
#[derive(Clone, Debug, Default)]
pub struct ToldNames {
    pub functions: Vec<Function>,
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
}

/// The address that stands for a bytecode of a method. The highest bit tells it from code.
pub fn frame_address(method: u64, bytecode: u64) -> u64 {
    1 << 63 | method << 16 | bytecode & 0xffff
}

/// Whether the module at a path executes frames that are told: Python's interpreter.
pub fn is_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_prefix("lib").unwrap_or(name).starts_with("python3")
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

    /// The names of those sites that runtimes have told something of.
    pub fn names(&mut self, sites: &[Site], modules: &[Module]) -> ToldNames {
        if let Some(log) = &mut self.log {
            log.read(|record| self.machines.entry(record.pid).or_default().take_in(record));
        }
        let mut names = Names::default();
        if self.machines.is_empty() {
            return names.told;
        }
        let pids: FxHashMap<ModuleId, u32> = modules.iter().filter_map(made_by).collect();
        for site in sites {
            let Some(machine) = site.module.and_then(|module| self.machines.get(pids.get(&module)?)) else { continue };
            names.add(site, machine.levels(site.address));
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
            functions.push(Function { function, module: *module, name: name.clone() });
            function
        })
    }
}
