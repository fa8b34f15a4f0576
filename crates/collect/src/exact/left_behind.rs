//! What recordings leave in memory whose collector was killed: the folder of a machine's files, the table of ranks.
//!
//! Whoever uses one holds a lock on it, which the kernel gives up for the dead. A later recording removes what nobody holds; but only after a day: the
//! program of a killed collector may go on, and look at the machine's files.

use crate::control::own_user;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What names of ours begin with.
pub const PREFIX: &str = "numalens-";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Says that `path`, a file or a folder, is in use for as long as what is returned lives.
pub fn hold(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Removes what is in `folder`, is this user's, and has not been held for a day before `now`.
pub fn sweep(folder: &Path, now: SystemTime) {
    // Where it cannot be read, others will.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let ours = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(ours) {
        let _ = remove_if_left(&entry.path(), now);
    }
}

fn remove_if_left(path: &Path, now: SystemTime) -> std::io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.uid() == own_user();
    let age = found.modified().ok().and_then(|then| now.duration_since(then).ok());
    if !is_ours || age.is_none_or(|age| age < DAY) {
        return Ok(());
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_goes_and_only_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["numalens-left", "numalens-held", "others"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "text").unwrap();
        }
        fs::write(at("numalens-file"), "text").unwrap();
        let held = hold(&at("numalens-held")).expect("it can be held");
        let (now, later) = (SystemTime::now(), SystemTime::now() + 2 * DAY);
        let left = || {
            let names =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        sweep(folder.path(), now);
        assert_eq!(left(), ["numalens-file", "numalens-held", "numalens-left", "others"]);
        sweep(folder.path(), later);
        assert_eq!(left(), ["numalens-held", "others"]);
        // Not by closing it alone: what other tests have forked has a copy until it executes its program.
        held.unlock().unwrap();
        sweep(folder.path(), later);
        assert_eq!(left(), ["others"]);
    }
}
