//! Profiles of other tools become profiles of numalens: what they have, and not more. What a tool leaves out is missing
//! in the profile too, and `meta.notes` says so.

pub mod numaprof;
pub mod perf;

use numalens_topology::Machine;
use std::path::PathBuf;

/// What the user adds to a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// The machine that was recorded on; files know little of it.
    pub machine: Option<Machine>,
    /// Run time of the program without any profiler.
    pub run_time_ns: Option<u64>,
}

/// A file could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not of this form, or damaged.
    #[error("{} is no {form}: {why}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What it should be.
        form: &'static str,
        /// What is wrong, and where.
        why: String,
    },
    /// The machine of `--machine` cannot be the one that was recorded on.
    #[error("machine {machine} does not fit {}: {why}", path.display())]
    Machine {
        /// The file.
        path: PathBuf,
        /// Its name.
        machine: String,
        /// Why not.
        why: String,
    },
    /// The profile could not be written.
    #[error(transparent)]
    Profile(#[from] numalens_profile::Error),
}

/// What an import is called in [`ImportError::Form`].
pub(crate) const NUMAPROF: &str = "JSON file of NUMAPROF";
