//! Names for a profile: functions, source lines and inlined calls for its sites, readable names for its objects.
//!
//! ```text
//! sites, modules --(find: which files?)--> files --(dwarf, symbols, plt, go, perf map)--> names --(rows)--> functions,
//!                                                                                                       frames
//! ```
//!
//! [`symbolize_rows`] takes rows and gives rows; only `find` and `elf` look at the file system. [`name_profile`] reads
//! the rows from a profile and lays the names over it, which `cache` keeps for the next time.
//!
//! # What reads the files, and why
//! `object` for ELF and `addr2line::Context` (over `gimli`) for DWARF, with an own search for debug files. Two
//! ready-made loaders were measured and not taken. `addr2line::Loader` follows neither debug links nor build ids nor
//! `dwz`, and cannot map the paths of split files. `wholesym` 0.8 finds no frames in `.dwo`, makes names up for
//! stripped code, and brings 200 crates (an HTTP client and TLS among them); it is no faster:
//!
//! | 5000 addresses of | here | `wholesym` |
//! |---|---|---|
//! | a Rust binary of 117 MB, with DWARF | 0.54 s of CPU, 175 MB at most | 0.54 s, 197 MB |
//! | libpython3.11, 23 MB, with DWARF | 0.13 s, 35 MB | 0.12 s, 38 MB |
//! | cc1 of GCC 12, 33 MB, stripped | 0.03 s, 6 MB | 0.04 s, 20 MB |
//!
//! (Most of the memory is the page cache's: pages of the mapped files.)
//!
//! # Bounds
//! Files are mapped, not read; units, lines and symbols are parsed as addresses ask for them, and of symbol tables only
//! the answers are kept. A damaged file gives doubts, never a panic or a wrong module's names.

mod cache;
mod demangle;
mod doubt;
mod dwarf;
mod early;
mod elf;
mod find;
mod ghc;
mod go;
mod listing;
mod module;
mod path_map;
mod places;
mod plt;
mod rows;
mod spin;
mod statement;
mod store;
mod symbols;
mod variables;

pub use cache::Cache;
pub use demangle::demangle;
pub use doubt::{Cause, Doubt};
pub use early::{Early, name_early};
pub use listing::{Instruction, Listing, listing};
pub use path_map::parse_source_map;
pub use rows::{symbolize_rows, symbolize_with};
pub use store::{name_objects, name_profile, write_names};

use numalens_profile::ids::ModuleId;
use numalens_profile::tables::{Frame, Function, WaitingSite};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::PathBuf;

/// Where to look, and with how many threads.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--source-map OLD=NEW`: applied to the paths of modules, of split debug files and of sources.
    pub path_map: Vec<(PathBuf, PathBuf)>,
    /// Directories of separate debug files, in order.
    pub debug_dirs: Vec<PathBuf>,
    /// How many modules are read at the same time; 0: as many as there are CPUs.
    pub jobs: usize,
    /// Modules whose symbol tables have to do: their sites get functions and no lines, which another run can add.
    pub without_lines: FxHashSet<ModuleId>,
    /// Read debug information from separate debug files too. They are found by build id, so that another run finds the
    /// same later, even if the module has been replaced.
    pub separate_lines: bool,
    /// Files that stand for modules whose path does not lead to what was executed: it was unlinked, never had a name,
    /// or is another mount namespace's.
    pub kept: FxHashMap<ModuleId, PathBuf>,
}

impl Default for Options {
    /// No mapping; `/usr/lib/debug` and debuginfod's cache (which is only looked at; nothing is downloaded); one thread
    /// per CPU.
    fn default() -> Self {
        let mut debug_dirs = vec![PathBuf::from("/usr/lib/debug")];
        debug_dirs.extend(debuginfod_cache());
        Options {
            path_map: Vec::new(),
            debug_dirs,
            jobs: 0,
            without_lines: FxHashSet::default(),
            separate_lines: true,
            kept: FxHashMap::default(),
        }
    }
}

/// Where debuginfod's client keeps what it downloaded (debuginfod_find_debuginfo(3), "CACHE").
fn debuginfod_cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let default = || {
        Some(variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?.join("debuginfod_client"))
    };
    variable("DEBUGINFOD_CACHE_PATH").or_else(default)
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub functions: Vec<Function>,
    /// By site, then depth; depth 0 is the innermost.
    pub frames: Vec<Frame>,
    /// In the order of sites; of those that were asked for.
    pub waiting: Vec<WaitingSite>,
    /// Per module and cause, in the order of modules.
    pub doubts: Vec<Doubt>,
}
