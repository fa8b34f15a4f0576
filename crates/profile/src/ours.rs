//! What `--force` may replace, and how it goes: a profile of ours, finished, unfinished or packed, or an empty
//! directory.
//!
//! A directory is ours by what it says, not by how its files are called: its `meta.parquet` has our mark, and each of
//! its files is one that a writer makes. Parquet files of somebody else stand in many directories.

use crate::error::Error;
use crate::file::{Extent, TableFile};
use crate::place::WRITING;
use crate::read::{self, META, Profile};
use crate::tables::TABLES;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Refuses what must not be replaced.
///
/// # Errors
/// What is there is not ours; the message says by what that shows.
pub(crate) fn refuse_foreign(path: &Path) -> Result<(), Error> {
    let kind = fs::symlink_metadata(path).map_err(Error::io("read", path))?.file_type();
    if kind.is_symlink() {
        return foreign(path, "it is a symbolic link");
    }
    if kind.is_dir() {
        return our_files(path).map(drop);
    }
    if Profile::open(path).is_ok() { Ok(()) } else { foreign(path, "it is another kind of file") }
}

/// Removes a profile's directory: the files that are ours, and then the directory, if nothing else has come into it.
///
/// # Errors
/// As [`refuse_foreign`]; nothing is removed then.
pub(crate) fn remove_directory(path: &Path) -> Result<(), Error> {
    for name in our_files(path)? {
        let file = path.join(name);
        fs::remove_file(&file).map_err(Error::io("remove", &file))?;
    }
    fs::remove_dir(path).map_err(Error::io("remove", path))
}

fn foreign<T>(path: &Path, why: &str) -> Result<T, Error> {
    Err(Error::NotAProfile { path: path.to_owned(), why: format!("{why}, so --force does not replace it") })
}

/// The files of a directory, all of which are ours.
fn our_files(path: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
        let entry = entry.map_err(Error::io("read", path))?;
        match entry.file_name().into_string() {
            Ok(name) if entry.file_type().is_ok_and(|kind| kind.is_file()) => names.push(name),
            _ => return foreign(path, &format!("it holds {}", Path::new(&entry.file_name()).display())),
        }
    }
    let mut tables: BTreeSet<String> = TABLES.iter().map(|&table| table.to_owned()).collect();
    if names.iter().any(|name| name == META) {
        tables.extend(listed(path)?);
    } else if !names.is_empty() && path.extension().is_none_or(|ending| ending != "partial") {
        return foreign(path, &format!("it has no {META}"));
    }
    let of = |name: &str| match name.strip_suffix(WRITING) {
        Some(unfinished) => unfinished.split('.').next().map(str::to_owned),
        None => read::table_of(name).map(str::to_owned),
    };
    match names.iter().find(|name| of(name).is_none_or(|table| !tables.contains(&table))) {
        Some(name) => foreign(path, &format!("it holds {name}")),
        None => Ok(names),
    }
}

/// The tables that a profile lists; a newer version may have more than this one knows.
fn listed(path: &Path) -> Result<Vec<String>, Error> {
    let meta = match Extent::whole(&path.join(META)).and_then(TableFile::open) {
        // Ours, and of what it lists nothing is known.
        Err(Error::Newer { .. }) => return Ok(Vec::new()),
        meta => meta.or_else(|error| foreign(path, &error.to_string()))?,
    };
    let (_, files) = read::read_meta(&meta).or_else(|error| foreign(path, &error.to_string()))?;
    Ok(files.iter().filter_map(|file| read::table_of(file)).map(str::to_owned).collect())
}
