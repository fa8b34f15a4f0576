//! What could not be named, and why: a doubt per module and cause, never a guess in the tables.

use numalens_profile::ids::ModuleId;
use std::fmt;
use std::path::PathBuf;

/// Why sites of one module lack names, or have less than they could.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// None: the sites lie outside every module.
    pub module: Option<ModuleId>,
    /// The module's path as recorded.
    pub path: String,
    /// How many sites are concerned.
    pub sites: u64,
    pub cause: Cause,
}

/// The causes. Their `Display` is one sentence that says what to do where something can be done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// No file at the (mapped) path, nor a debug file of this build id.
    NotFound(PathBuf),
    /// The file at the path is another build than the one recorded; it was not used.
    OtherBuild { file: PathBuf, recorded: String, found: String },
    /// A file that names could come from cannot be read.
    Unreadable { file: PathBuf, why: String },
    /// A file is damaged, or of a form that the readers do not know; names come from what is left.
    Damaged { file: PathBuf, why: String },
    /// Neither symbols nor debug information cover these sites.
    NoSymbols(PathBuf),
    /// Functions are known, lines and inlined functions are not.
    NoLines(PathBuf),
    /// The separate debug file that the module names is another build's; it was not used.
    OtherDebugFile(PathBuf),
    /// Files of split DWARF (`.dwo`) that were not found.
    MissingSplit { files: u64, first: PathBuf },
    /// The common part that `dwz` took out of the debug information was not found.
    MissingCommon(PathBuf),
    /// Code made at run time, without a map that names it.
    Generated,
    /// The map of generated code was not found.
    NoPerfMap(PathBuf),
    /// A part of the kernel that has no file.
    Kernel,
    /// The sites lie in no module.
    NoModule,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NotFound(file) => {
                write!(f, "{} was not found here; where it moved, say so with --source-map OLD=NEW", file.display())
            }
            Cause::OtherBuild { file, recorded, found } => {
                let found = if found.is_empty() { "none" } else { found };
                write!(
                    f,
                    "{} is another build (build id {found}, recorded {recorded}) and was not used; \
                     bring the recorded one back, or its debug file",
                    file.display()
                )
            }
            Cause::Unreadable { file, why } => write!(f, "{} cannot be read: {why}", file.display()),
            Cause::Damaged { file, why } => write!(f, "{} is damaged or of an unknown form: {why}", file.display()),
            Cause::NoSymbols(file) => write!(
                f,
                "{} has no symbols for these addresses; install its debug package, or build it without stripping",
                file.display()
            ),
            Cause::NoLines(file) => write!(
                f,
                "{} has no debug information for these addresses, so functions are known but not lines; \
                 build with -g, or install its debug package",
                file.display()
            ),
            Cause::OtherDebugFile(file) => write!(f, "{} belongs to another build and was not used", file.display()),
            Cause::MissingSplit { files: 1, first } => {
                write!(f, "the split debug information {} was not found", first.display())
            }
            Cause::MissingSplit { files, first } => {
                write!(f, "{files} files of split debug information were not found, the first: {}", first.display())
            }
            Cause::MissingCommon(file) => {
                write!(f, "{}, the part that dwz took out of the debug information, was not found", file.display())
            }
            Cause::Generated => write!(
                f,
                "code made at run time; its runtime can name it in /tmp/perf-PID.map \
                 (DOTNET_PerfMapEnabled=1, ENABLE_JITPROFILING=1 julia, python -X perf)"
            ),
            Cause::NoPerfMap(file) => write!(f, "{} was not found; it names code made at run time", file.display()),
            Cause::Kernel => write!(f, "code of the kernel, which has no file here"),
            Cause::NoModule => write!(f, "addresses outside every file, of code made at run time for the most part"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(no module)" } else { &self.path };
        let cause = self.cause.to_string();
        let module = if cause.starts_with(path) { String::new() } else { format!("{path}: ") };
        write!(f, "{module}{cause} (sites: {})", self.sites)
    }
}
