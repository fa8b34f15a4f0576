//! The directory of a profile: where it grows, its lock, and how what is complete gets its name.

use crate::SCHEMA_VERSION;
use crate::encode::TableWriter;
use crate::error::Error;
use crate::meta::Meta;
use crate::ours::{self, refuse_foreign};
use crate::place;
use crate::read::{self, META};
use crate::row::Row;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Makes the directory in which a profile grows until it is called `target`; the lock lasts as long as the file
/// returned.
pub(crate) fn room(target: &Path, force: bool) -> Result<(PathBuf, File), Error> {
    let partial = read::partial_of(target);
    if fs::symlink_metadata(target).is_ok() {
        if !force {
            return Err(Error::Exists { path: target.to_owned() });
        }
        refuse_foreign(target)?;
    }
    if fs::symlink_metadata(&partial).is_ok() {
        let lock = lock(&partial)?;
        if !force {
            return Err(Error::Unfinished { path: partial });
        }
        refuse_foreign(&partial)?;
        ours::remove_directory(&partial)?;
        drop(lock);
    }
    fs::create_dir(&partial).map_err(Error::io("create", &partial))?;
    let lock = lock(&partial)?;
    Ok((partial, lock))
}

/// Gives the complete directory its final name.
pub(crate) fn publish(from: &Path, to: &Path, force: bool) -> Result<(), Error> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::EXIST) if force => {
            refuse_foreign(to)?;
            // Both names change at once; then the old profile is the one called partial.
            renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)
                .map_err(|errno| Error::io("replace", to)(errno.into()))?;
            if from.is_dir() { ours::remove_directory(from)? } else { remove(from)? }
        }
        Err(rustix::io::Errno::EXIST) => return Err(Error::Exists { path: to.to_owned() }),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::rename(from, to).map_err(Error::io("rename", from))?
        }
        Err(errno) => return Err(Error::io("rename", from)(errno.into())),
        Ok(()) => {}
    }
    Ok(())
}

/// Writes `meta.parquet` of a profile's directory aside and renames it.
pub(crate) fn write_meta(directory: &Path, meta: &Meta, files: &[String], complete: bool) -> Result<u64, Error> {
    let path = directory.join(META);
    write_table(&path, meta.entries(files, complete, &path)?)
}

/// Writes a whole table aside and renames it to `path`.
pub(crate) fn write_table<T: Row>(path: &Path, rows: impl IntoIterator<Item = T>) -> Result<u64, Error> {
    let (file, place) = aside(path)?;
    let mut writer = TableWriter::on(file, path, SCHEMA_VERSION)?;
    writer.append(rows)?;
    let written = writer.finish()?;
    publish_file(place, path)?;
    Ok(written)
}

/// See [`place::aside`].
pub(crate) fn aside(path: &Path) -> Result<(File, TempPath), Error> {
    place::aside(path).map_err(Error::io("create", path))
}

/// Gives a complete file its name.
pub(crate) fn publish_file(written: TempPath, path: &Path) -> Result<(), Error> {
    written.persist(path).map_err(|error| Error::io("rename", &error.path)(error.error))
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(Error::io("remove", path))
}

/// Locks a profile's directory for writing; the lock lasts as long as the file returned.
pub(crate) fn lock(directory: &Path) -> Result<File, Error> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    // A directory, and nothing that waits to be opened.
    let file = openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
    let file = File::from(file.map_err(|errno| Error::io("open", directory)(errno.into()))?);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy { path: directory.to_owned() }),
        // A file system without locks: two recordings to one name are the user's affair there.
        Err(fs::TryLockError::Error(_)) => Ok(file),
    }
}
