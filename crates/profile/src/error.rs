//! What can go wrong with a profile: each message says what, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A profile could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `create`, `rename`, ...
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no such profile, finished or unfinished.
    #[error("{} does not exist, and neither does {}.partial", path.display(), path.display())]
    Missing {
        /// The name that was asked for.
        path: PathBuf,
    },
    /// Something is there, but not a profile.
    #[error("{} is not a profile: {why}", path.display())]
    NotAProfile {
        /// What was opened.
        path: PathBuf,
        /// What a profile would have.
        why: String,
    },
    /// The output exists already.
    #[error("{} exists already: choose another output or replace it with --force", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// An unfinished recording stands where the output would be written.
    #[error("{} is left of a recording that did not finish: read it as it is, remove it, choose another output, or replace it with --force", path.display())]
    Unfinished {
        /// The `.partial` directory.
        path: PathBuf,
    },
    /// Another process is writing there.
    #[error("{} is being written by another process: wait for its end or choose another output", path.display())]
    Busy {
        /// The `.partial` directory.
        path: PathBuf,
    },
    /// The file is not what was written.
    #[error("{} is damaged: {damage}; copy or record it again", path.display())]
    Damaged {
        /// The file; inside a packed profile, the archive and its entry.
        path: PathBuf,
        /// What is wrong with it.
        damage: String,
    },
    /// It would take more memory than anything that was recorded.
    #[error("{} states {what}: it was made to fill memory, or is damaged; record it again, or, if you trust its maker, read it with NUMALENS_TRUST_PROFILES=1", path.display())]
    TooMuch {
        /// The file, or the profile.
        path: PathBuf,
        /// How much of what.
        what: String,
    },
    /// The profile needs a newer reader.
    #[error("{} was written by a newer numalens (schema {found}, this one reads up to {known}): update numalens", path.display())]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// A column that cannot be left out is not there.
    #[error("{} has no column `{column}`: it was written by an older numalens; record again, or read it with that version", path.display())]
    MissingColumn {
        /// The table's file.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A column holds what it must not hold.
    #[error("column `{column}` of {}: {why}", path.display())]
    BadColumn {
        /// The table's file.
        path: PathBuf,
        /// The column.
        column: String,
        /// What is wrong with it.
        why: String,
    },
    /// The caller asked for a column that the table does not have.
    #[error("table {table} has no column `{column}`")]
    NoSuchColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: String,
    },
    /// An entry of `meta` has a value that cannot be understood.
    #[error("{}: the value of `{key}` in meta cannot be understood: {why}", path.display())]
    BadMeta {
        /// The file.
        path: PathBuf,
        /// The entry.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A row that cannot be written.
    #[error("cannot encode rows for {}: {why}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Profiles that cannot become one.
    #[error("{} cannot be merged with the others: {why}", path.display())]
    Apart {
        /// The first that does not go with those before it.
        path: PathBuf,
        /// What keeps them apart.
        why: String,
    },
    /// A packed profile that would write outside of its directory or is otherwise hostile.
    #[error("{} is not a packed profile: {why}", path.display())]
    BadArchive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What should be packed, or replaced as such, is something else.
    #[error("{} is no packed profile: {why}", path.display())]
    NotPacked {
        /// What was opened.
        path: PathBuf,
        /// What it is.
        why: String,
    },
    /// The table `machine` does not describe a machine.
    #[error("{}: table machine: {why}", path.display())]
    BadMachine {
        /// The profile.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// For `map_err` on the operating system's answers.
    pub(crate) fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io { what, path: path.to_owned(), source }
    }

    /// For `map_err` on whatever says that a file is damaged.
    pub(crate) fn damaged<E: ToString>(path: &Path) -> impl FnOnce(E) -> Error + '_ {
        move |error| Error::Damaged { path: path.to_owned(), damage: error.to_string() }
    }
}
