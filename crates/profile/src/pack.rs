//! One file of a profile, for transport: a zip archive whose entries are stored, not compressed (the tables are
//! already). It is read as it is: an entry is a range of the archive's bytes.
//!
//! An archive from elsewhere may be hostile. Names must be plain table names in at most one directory, so nothing is
//! written outside of the output (zip-slip); entries must be stored and lie side by side within the archive, so
//! what is unpacked is never larger than what was received.

use crate::directory;
use crate::error::Error;
use crate::file::{Extent, contain};
use crate::ours;
use crate::place::{self, Links};
use crate::read::{self, Profile};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// More entries than any profile has.
const MAX_ENTRIES: usize = 100_000;

/// The tables' files in an archive, by name without its directory.
pub(crate) fn entries(path: &Path) -> Result<BTreeMap<String, Extent>, Error> {
    Ok(listing(path)?.1)
}

/// The archive's one directory (empty: none) and its files.
fn listing(path: &Path) -> Result<(String, BTreeMap<String, Extent>), Error> {
    let bad = |why: String| Error::BadArchive { path: path.to_owned(), why };
    let file = Arc::new(place::open(path, Links::Follow).map_err(Error::io("open", path))?);
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    contain(path, || {
        let mut archive = ZipArchive::new(BufReader::new(&*file)).map_err(|error| bad(error.to_string()))?;
        if archive.len() > MAX_ENTRIES {
            return Err(bad(format!("it has {} entries", archive.len())));
        }
        let (mut folder, mut files, mut total) = (None, BTreeMap::new(), 0u64);
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(|error| bad(error.to_string()))?;
            let name = entry.name().to_owned();
            let shown = name.escape_debug().to_string();
            let (directory, base) = match name.rsplit_once('/') {
                None => ("", name.as_str()),
                Some(("", _)) => return Err(bad(format!("its entry `{shown}` has an absolute path"))),
                Some(split) => split,
            };
            if base.is_empty() && entry.size() == 0 && plain(directory) {
                continue;
            }
            if read::table_of(base).is_none() || !(directory.is_empty() || plain(directory)) {
                return Err(bad(format!("its entry `{shown}` is no table of a profile")));
            }
            if *folder.get_or_insert_with(|| directory.to_owned()) != directory {
                return Err(bad("it holds several directories".to_owned()));
            }
            if entry.compression() != CompressionMethod::Stored
                || entry.encrypted()
                || entry.size() != entry.compressed_size()
            {
                return Err(bad(format!(
                    "its entry `{shown}` is compressed or encrypted: pack profiles with numalens pack"
                )));
            }
            let start = entry.data_start().ok_or_else(|| bad(format!("its entry `{shown}` has no place in it")))?;
            total = total.saturating_add(entry.size());
            if start.checked_add(entry.size()).is_none_or(|end| end > length) || total > length {
                return Err(bad(format!("its entry `{shown}` states more bytes than the file has (truncated?)")));
            }
            let extent = Extent::of(file.clone(), start, entry.size(), path.join(base));
            if files.insert(base.to_owned(), extent).is_some() {
                return Err(bad(format!("its entry `{shown}` is there twice")));
            }
        }
        Ok((folder.unwrap_or_default(), files))
    })
}

/// One component of a path, and not one that leads elsewhere.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':']) && !name.contains(char::is_control)
}

/// Packs a profile's directory into one file, verified while it is copied.
///
/// # Errors
/// The profile is damaged, `zip` cannot be written, or exists: without `force`, or as something else than a packed
/// profile.
pub fn pack(profile: &Path, zip: &Path, force: bool) -> Result<(), Error> {
    pack_opened(&Profile::open(profile)?, zip, force)
}

/// Packs an opened profile, with what was laid over it, as [`pack`] does.
///
/// # Errors
/// As there.
pub fn pack_opened(profile: &Profile, zip: &Path, force: bool) -> Result<(), Error> {
    match fs::symlink_metadata(zip) {
        Ok(_) if !force => return Err(Error::Exists { path: zip.to_owned() }),
        Ok(_) if zip.is_dir() => {
            let why = "it is a directory, so --force does not replace it by a file".to_owned();
            return Err(Error::NotPacked { path: zip.to_owned(), why });
        }
        Ok(_) => ours::refuse_foreign(zip)?,
        Err(_) => {}
    }
    let folder = profile
        .path()
        .file_stem()
        .map(|name| name.to_string_lossy().replace(|c: char| c.is_control() || ['\\', ':'].contains(&c), "_"))
        .filter(|name| plain(name))
        .unwrap_or_else(|| "profile".to_owned());
    let folder = folder.trim_end_matches(".numalens");
    let (file, aside) = directory::aside(zip)?;
    write_archive(profile, folder, file, zip)?;
    directory::publish_file(aside, zip)
}

fn write_archive(profile: &Profile, folder: &str, to: File, path: &Path) -> Result<(), Error> {
    let failed = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(source) => Error::io("write", path)(source),
        error => Error::Encode { path: path.to_owned(), why: error.to_string() },
    };
    let mut archive = ZipWriter::new(BufWriter::new(to));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for file in profile.all_files().iter().flat_map(|(_, files)| files.iter()) {
        file.verify()?;
        if file.is_renumbered() {
            let why = "several profiles must be merged to be packed".to_owned();
            return Err(Error::Encode { path: path.to_owned(), why });
        }
        let name = file.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        archive.start_file(format!("{folder}.numalens/{name}"), options).map_err(failed)?;
        file.extent.copy(&mut archive, path)?;
    }
    let file =
        archive.finish().map_err(failed)?.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
    file.sync_all().map_err(Error::io("sync", path))
}

/// Unpacks a profile into the directory `into`, by default the one that the archive names, here. Returns the directory.
///
/// # Errors
/// The archive is hostile or damaged, the output cannot be written, or exists: without `force`, or as something else
/// than a profile.
pub fn unpack(zip: &Path, into: Option<&Path>, force: bool) -> Result<PathBuf, Error> {
    if zip.is_dir() {
        let why = "it is a directory, which every command reads as it is".to_owned();
        return Err(Error::NotPacked { path: zip.to_owned(), why });
    }
    let (folder, entries) = listing(zip)?;
    let named = if folder.is_empty() { "profile.numalens".to_owned() } else { folder };
    let target: PathBuf = into.map_or(PathBuf::from(named), |into| into.components().collect());
    if !force && fs::symlink_metadata(&target).is_ok() {
        return Err(Error::Exists { path: target });
    }
    // Newer, incomplete and damaged ones are refused before anything is written.
    for file in Profile::open(zip)?.all_files().iter().flat_map(|(_, files)| files.iter()) {
        file.verify()?;
    }
    let (aside, _lock) = directory::room(&target, force)?;
    let result = entries.iter().try_for_each(|(name, extent)| {
        let path = aside.join(name);
        let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
        extent.copy(&mut file, &path)?;
        file.sync_all().map_err(Error::io("sync", &path))
    });
    let result = result.and_then(|()| directory::publish(&aside, &target, force));
    if result.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_dir_all(&aside);
    }
    result.map(|()| target)
}
