//! The commands as a user types them, on profiles that were made for it, and what the pages say of them.

mod docs;
mod hostile;
mod interchange;
mod report;
#[path = "../support/mod.rs"]
mod support;
mod usage;
mod view;

use numalens_profile::testing::Synthetic;
use std::path::PathBuf;
use support::*;
use tempfile::TempDir;

/// A directory with the synthetic profile in it.
fn profile() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&directory.path().join("app.numalens")).unwrap();
    (directory, path)
}
