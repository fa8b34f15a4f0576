//! What recordings leave in memory whose collector was killed: the folder of a machine's files, the table of ranks.
//!
//! Whoever uses one holds a lock on it, which the kernel gives up for the dead. A later recording removes what nobody holds. But the program of a killed
//! collector may go on, and look at the machine's files: so a folder says which session it belongs to, whose file all programs in it have open, and goes when
//! no process has that. Where this cannot be known for certain, what is left goes after a day: other processes of this user cannot be looked into, or the folder comes
//! from where processes have other numbers.

use crate::control::own_user;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What names of ours begin with.
pub const PREFIX: &str = "numalens-";
/// The file in a folder that says whose it is.
const OWNER: &str = "owner";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Says that `path`, a file or a folder, is in use for as long as what is returned lives.
pub fn hold(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Says that the programs of this session, by its file, use a folder as well. It must be held, or others take it for left behind.
pub fn belongs_to(folder: &Path, session: &File) {
    // Without it the folder is looked at after a day.
    if let (Ok(found), Some(processes)) = (session.metadata(), processes()) {
        let _ = fs::write(folder.join(OWNER), format!("{} {} {processes}", found.dev(), found.ino()));
    }
}

/// Among which processes this one is: their numbers mean nothing elsewhere.
fn processes() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok()?.into_os_string().into_string().ok()
}

/// Removes what is in `folder`, is this user's, and is in use no more: held by nobody, and by the programs of its session, or for a day before `now`.
pub fn sweep(folder: &Path, now: SystemTime) {
    // Where it cannot be read, others will.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let ours = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(ours) {
        let _ = remove_if_left(&entry.path(), now);
    }
}

fn remove_if_left(path: &Path, now: SystemTime) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let age = found.modified().ok().and_then(|then| now.duration_since(then).ok());
    let is_old = age.is_some_and(|age| age >= DAY);
    if found.uid() != own_user() || !(is_old || found.is_dir()) {
        return Ok(());
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    if file.try_lock().is_err() || !(is_old || is_over(path)) {
        return Ok(());
    }
    if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Whether the session that a folder belongs to is known to have no process any more.
fn is_over(folder: &Path) -> bool {
    let owner = fs::read_to_string(folder.join(OWNER)).unwrap_or_default();
    let mut words = owner.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (Some(device), Some(file)) = (number(), number()) else { return false };
    if words.next().map(str::to_owned) != processes() {
        return false;
    }
    matches!(anybody_has_open(device, file), Ok(false))
}

/// Whether a process has a file open.
///
/// # Errors
/// One of this user's cannot be looked into.
fn anybody_has_open(device: u64, file: u64) -> io::Result<bool> {
    for entry in fs::read_dir("/proc")?.flatten() {
        if entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit())
            && has_open(&entry.path(), device, file)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_open(process: &Path, device: u64, file: u64) -> io::Result<bool> {
    // The first thread may have ended, and has nothing open then: the files of any other are those of all.
    for thread in if_there(fs::read_dir(process.join("task")), process)?.into_iter().flatten().flatten() {
        let mut any = false;
        for open in if_there(fs::read_dir(thread.path().join("fd")), process)?.into_iter().flatten().flatten() {
            any = true;
            if fs::metadata(open.path()).is_ok_and(|found| (found.dev(), found.ino()) == (device, file)) {
                return Ok(true);
            }
        }
        if any {
            break;
        }
    }
    Ok(false)
}

/// What was found of a process; none when it has ended, or is another user's, of whose programs none is recorded but by root, who may look.
fn if_there<T>(found: io::Result<T>, process: &Path) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied && is_this_users(process) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether any of a process's users is this one, as far as that can be known.
fn is_this_users(process: &Path) -> bool {
    let status = match fs::read_to_string(process.join("status")) {
        Ok(status) => status,
        Err(error) => return error.kind() == ErrorKind::PermissionDenied,
    };
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    users.split_whitespace().any(|user| user.parse() == Ok(own_user()))
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

    #[test]
    fn what_belongs_to_a_session_goes_when_that_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let session = tempfile::tempfile().unwrap();
        for name in ["numalens-used", "numalens-over", "numalens-elsewhere", "numalens-strange"] {
            fs::create_dir(at(name)).unwrap();
            belongs_to(&at(name), &session);
        }
        let owner = fs::read_to_string(at("numalens-used").join(OWNER)).unwrap();
        let found = session.metadata().unwrap();
        let here = owner.rsplit_once(' ').unwrap().1;
        assert_eq!(owner, format!("{} {} {here}", found.dev(), found.ino()));
        // No file has this number.
        fs::write(at("numalens-over").join(OWNER), format!("{} {} {here}", found.dev(), u64::MAX)).unwrap();
        fs::write(at("numalens-elsewhere").join(OWNER), format!("{} {} pid:[1]", found.dev(), u64::MAX)).unwrap();
        fs::write(at("numalens-strange").join(OWNER), "text").unwrap();
        let now = SystemTime::now();
        sweep(folder.path(), now);
        let is_there = |name: &str| at(name).exists();
        assert!(["numalens-used", "numalens-elsewhere", "numalens-strange"].into_iter().all(is_there));
        assert!(!is_there("numalens-over"));
        sweep(folder.path(), now + 2 * DAY);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
