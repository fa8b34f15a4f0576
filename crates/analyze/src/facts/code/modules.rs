//! What modules are called, and which work for their callers.

use super::file_name;
use crate::facts::runtime;
use numalens_profile::python;
use numalens_profile::tables::PERF_MAP;

/// A module, as far as it is of interest.
pub struct NamedModule {
    pub path: String,
    pub file_name: String,
    /// It works for its callers.
    pub is_library: bool,
}

/// What the code is called that a runtime makes.
pub const MADE: &str = "code made at run time";

impl NamedModule {
    /// That at a path.
    pub fn new(path: String) -> Self {
        let file_name = if path.starts_with(PERF_MAP) { MADE } else { file_name(&path) }.to_string();
        NamedModule { is_library: runtime::is_library(&file_name) || python::is_native(&path), path, file_name }
    }
}
