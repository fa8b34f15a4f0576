//! perf.data of `perf mem record`, `perf record -d` and the like: samples with the address that they accessed.
//!
//! Perf knows neither where threads were bound nor where pages were, so both follow from samples:
//! - A thread's node is that of the CPU that the sample was taken on. A change is a row of its pinning log, marked
//!   `observed`.
//! - A page's home is that of its physical address (`--phys-data`, with the memory blocks of each node in the file),
//!   else what the processor said of the access: local memory is on the thread's node, remote memory on the other one
//!   where there are two. The most frequent answer holds; pages without one have no home.
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
    [b"PERFILE2", b"2ELIFREP", b"PERFFILE"].iter().any(|magic| beginning.starts_with(*magic))
}

/// Imports `file` into a new profile at `output`; `force` replaces an existing one.
///
/// # Errors
/// The file cannot be read or is of another form; the profile cannot be written.
pub fn import(file: &Path, options: &Options, output: &Path, force: bool) -> Result<PathBuf, ImportError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| ImportError::Io { path, source }
    };
    if !file.is_dir() {
        let bytes = std::fs::read(file).map_err(error(file))?;
        return import_bytes(&bytes, file, options, output, force);
    }
    let first = file.join(FIRST);
    let bytes = std::fs::read(&first).map_err(error(&first))?;
    let mut further = Vec::new();
    for path in parts(file).map_err(error(file))? {
        further.push(std::fs::read(&path).map_err(error(&path))?);
    }
    import_parts(&bytes, &further, file, options, output, force)
}

/// The file of a folder that has a header.
const FIRST: &str = "data";

/// Whether a folder seems to be one of perf's.
pub fn is_folder(path: &Path) -> bool {
    path.join(FIRST).is_file()
}

/// The files of a folder that have further records, `data.0` and so on, in the order of their numbers.
fn parts(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("data.")?.parse::<u32>().ok();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        found.extend(number(&path).filter(|_| path.is_file()).map(|number| (number, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
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
    import_parts(bytes, &[], file, options, output, force)
}

fn import_parts(
    bytes: &[u8],
    further: &[Vec<u8>],
    file: &Path,
    options: &Options,
    output: &Path,
    force: bool,
) -> Result<PathBuf, ImportError> {
    let wrong = |why: String| ImportError::Form { path: file.to_owned(), form: FORM, why };
    let recording = reader::read(bytes, further).map_err(wrong)?;
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
