//! The programs of targets/

use super::command::stdout;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets").canonicalize().unwrap()
}

/// A target as it was built; None: its compiler is missing.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    // All of them, once: two at the same time would write the same files.
    static BUILT: Once = Once::new();
    BUILT.call_once(|| drop(stdout(Command::new("make").args(["-s", "-C"]).arg(folder()))));
    let program = folder().join("build").join(name);
    if !program.exists() {
        eprintln!("{name} was not built here: its compiler is missing");
        return None;
    }
    Some(program)
}
