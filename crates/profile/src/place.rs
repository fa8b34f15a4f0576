//! Files in folders that others may write to: how one is opened, and how one is made.
//!
//! A profile may come from a stranger, and an output may stand in a folder that others share. So
//!
//! - a file is opened without waiting, and is refused unless it is a regular one: a pipe would wait for its writer for
//!   ever, a device may act, and a link inside a profile leads to whatever its maker likes;
//! - a file is written aside, under a name that did not exist and that nobody can foresee, and renamed when it is
//!   complete: what stands in the way is never followed and never written to.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// Ending of a file that is not complete yet.
pub(crate) const WRITING: &str = ".writing";

/// Whether the last part of a path may be a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// The user has named it, and may name a link.
    Follow,
    /// It stands inside of what somebody else has made.
    Refuse,
}

/// Opens a regular file for reading, at once whatever stands there.
///
/// # Errors
/// What the system says; `InvalidInput` where it is a directory, a pipe, a device, a socket, or a link that is to be
/// refused.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let refuse = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a file")));
    let no_follow = if links == Links::Refuse { rustix::fs::OFlags::NOFOLLOW } else { rustix::fs::OFlags::empty() };
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY | no_follow;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return refuse("a symbolic link");
        }
        // What opening a socket says, and a device without its driver.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return refuse("a socket or a device");
        }
        opened => opened?,
    };
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => refuse("a directory"),
        _ => refuse("a pipe or a device"),
    }
}

/// Makes an empty file beside `path`, to be renamed to it by [`TempPath::persist`]. It goes when it is dropped before.
///
/// # Errors
/// What the system says of the folder.
pub fn aside(path: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = Builder::new();
    let prefix = prefix(path);
    builder.prefix(&prefix).suffix(WRITING);
    // As any other file: the user's mask takes away what it takes.
    builder.permissions(Permissions::from_mode(0o666));
    Ok(builder.tempfile_in(folder_of(path))?.into_parts())
}

/// Makes an empty directory beside `path`, to be renamed to it; it goes when it is dropped before.
///
/// # Errors
/// What the system says of the folder.
pub fn folder_aside(path: &Path) -> io::Result<tempfile::TempDir> {
    let mut builder = Builder::new();
    let prefix = prefix(path);
    builder.prefix(&prefix).suffix(WRITING).permissions(Permissions::from_mode(0o777));
    builder.tempdir_in(folder_of(path))
}

/// `sites.` of `sites.parquet`.
fn prefix(path: &Path) -> OsString {
    let mut prefix = path.file_stem().unwrap_or_default().to_owned();
    prefix.push(".");
    prefix
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A file without a name that goes with its last user: in memory, or where the system gives none, in the temporary
/// directory.
pub(crate) fn nameless(name: &str) -> io::Result<File> {
    match rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC) {
        Ok(file) => Ok(file.into()),
        Err(_) => tempfile::tempfile(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        let _listens = UnixListener::bind(at("socket")).unwrap();
        for links in [Links::Follow, Links::Refuse] {
            open(&at("file"), links).unwrap();
            for path in [at("pipe"), at("socket"), scratch.path().to_owned(), "/dev/null".into()] {
                let error = open(&path, links).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            }
        }
        open(&at("link"), Links::Follow).unwrap();
        assert_eq!(open(&at("link"), Links::Refuse).unwrap_err().to_string(), "it is a symbolic link, not a file");
    }

    #[test]
    fn a_file_aside_stands_where_nothing_stood_and_goes_unless_it_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("sites.parquet");
        let (first, second) = (aside(&wanted).unwrap(), aside(&wanted).unwrap());
        assert!(*first.1 != *second.1 && first.1.parent() == Some(scratch.path()));
        second.1.persist(&wanted).unwrap();
        drop(first);
        let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [wanted]);
    }
}
