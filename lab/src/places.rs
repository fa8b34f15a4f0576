//! Where things are on the host.

use std::path::PathBuf;

/// Folders and files that a run works with.
pub struct Places {
    /// The repository.
    pub root: PathBuf,
    /// What is built here and comes from the guests.
    pub build: PathBuf,
    /// The program that is put to the test.
    pub numalens: PathBuf,
}
