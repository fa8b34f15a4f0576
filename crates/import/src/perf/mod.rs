//! perf.data of `perf mem record`, `perf record -d` and the like: samples with the address that they accessed.
//!
//! Perf knows neither where threads were bound nor where pages were, so both follow from samples:
//! - A thread's node is that of the CPU that the sample was taken on. A change is a row of its pinning log, marked `observed`.
//! - A page's home is that of its physical address (`--phys-data`, with the memory blocks of each node in the file), else what the processor said of
//!   the access: local memory is on the thread's node, remote memory on the other one where there are two. The most frequent answer holds; pages
//!   without one have no home.
//! - The first sample of a page-fault event on a page is its first touch.

mod file;
mod homes;
mod reader;
mod rows;
mod topology;

use crate::{ImportError, Options};
use std::path::{Path, PathBuf};

const FORM: &str = "perf.data file";

/// Whether the file seems to be of this form, by its beginning.
pub fn looks_like(beginning: &[u8]) -> bool {
    beginning.starts_with(b"PERFILE2")
}

/// Imports `file` into a new profile at `output`; `force` replaces an existing one.
///
/// # Errors
/// The file cannot be read or is of another form; the profile cannot be written.
pub fn import(file: &Path, options: &Options, output: &Path, force: bool) -> Result<PathBuf, ImportError> {
    let bytes = std::fs::read(file).map_err(|source| ImportError::Io { path: file.to_owned(), source })?;
    import_bytes(&bytes, file, options, output, force)
}

/// The same from memory; `file` is for messages.
///
/// # Errors
/// As [`import`].
pub fn import_bytes(
    bytes: &[u8],
    file: &Path,
    options: &Options,
    output: &Path,
    force: bool,
) -> Result<PathBuf, ImportError> {
    let wrong = |why: String| ImportError::Form { path: file.to_owned(), form: FORM, why };
    let recording = reader::read(bytes).map_err(wrong)?;
    if recording.samples.is_empty() {
        let events = recording.events.join(", ");
        return Err(wrong(format!(
            "none of its samples (of {events}) has the address of an access: record with `perf mem record` or `perf record -d`"
        )));
    }
    let machine = topology::machine(&recording, options).map_err(wrong)?;
    let homes = homes::Homes::find(&recording, &machine);
    rows::write(&recording, &machine, &homes, options, output, force)
}
