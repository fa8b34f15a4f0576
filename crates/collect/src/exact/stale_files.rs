//! What programs of ours leave that were killed: in memory the folder of a machine's files and the table of ranks;
//! among the user's temporary files that folder, where memory has no room for it, and profiles that were brought
//! together for a report.
//!
//! Whoever uses one holds a lock on it, which the kernel gives up for the dead. A later recording removes what nobody
//! holds. But the program of a killed collector may go on, and look at the machine's files: so a folder says which
//! session it belongs to, whose file all programs in it have open, and goes when no process has that. Where this cannot
//! be known for certain, what is left goes after a day: other processes of this user cannot be looked into, or the
//! folder comes from where processes have other numbers.

use crate::control::own_user;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// What names of ours begin with.
pub const PREFIX: &str = "numalens-";
/// Where files are in memory.
pub const MEMORY: &str = "/dev/shm";
/// The file in a folder that says whose it is.
const OWNER: &str = "owner";
/// What it says at most.
const MOST_BYTES: u64 = 256;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Says that `path`, a file or a folder, is in use for as long as what is returned lives.
pub fn hold(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Who uses a folder: all that have a file open.
#[derive(Clone)]
pub struct Owner(Option<String>);

impl Owner {
    /// The programs of a session, by its file.
    pub fn of(file: &File) -> Self {
        let found = file.metadata().ok().zip(processes());
        Owner(found.map(|(found, processes)| format!("{} {} {processes}", found.dev(), found.ino())))
    }

    /// Says so in a folder. It must be held, or others take it for left behind.
    fn belongs(&self, folder: &Path) {
        if let Some(owner) = &self.0 {
            // Without it the folder is looked at after a day, if it is in memory.
            let _ = fs::write(folder.join(OWNER), owner);
        }
    }
}

/// A folder of ours: gone when it is dropped, or when a later program of ours finds that nobody uses it.
pub struct Folder {
    folder: TempDir,
    /// It is in use.
    _held: Option<File>,
}

impl Folder {
    /// Makes one in `place`, which `owner` uses beside this process; none: this process alone.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(place: &Path, owner: Option<&Owner>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let held = hold(folder.path());
        if let Some(held) = &held {
            owner.unwrap_or(&Owner::of(held)).belongs(folder.path());
        }
        Ok(Folder { folder, _held: held })
    }

    /// One among the user's temporary files, for this process alone; others that were left there go.
    ///
    /// # Errors
    /// The kernel's.
    pub fn temporary() -> io::Result<Self> {
        sweep_all();
        Self::create(&std::env::temp_dir(), None)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what is left in all places where there may be something.
pub fn sweep_all() {
    let now = SystemTime::now();
    sweep(Path::new(MEMORY), Strangers::None, now);
    sweep(&std::env::temp_dir(), Strangers::Any, now);
}

/// Whether others may have things in a folder whose names begin as ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strangers {
    /// What has such a name is ours.
    None,
    /// Ours says whose it is.
    Any,
}

/// Among which processes this one is: their numbers mean nothing elsewhere.
fn processes() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok()?.into_os_string().into_string().ok()
}

/// Removes what is in `folder`, is this user's, and is in use no more: held by nobody, and by the programs of its
/// session, or for a day before `now`.
fn sweep(folder: &Path, strangers: Strangers, now: SystemTime) {
    // Where it cannot be read, others will.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let ours = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.flatten().filter(ours) {
        let _ = remove_if_left(&entry.path(), strangers, now);
    }
}

fn remove_if_left(path: &Path, strangers: Strangers, now: SystemTime) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if strangers == Strangers::Any && !(found.is_dir() && owner_of(path).is_some()) {
        return Ok(());
    }
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

/// Whose a folder is: device and number of a file, and among which processes.
fn owner_of(folder: &Path) -> Option<(u64, u64, String)> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(folder.join(OWNER));
    file.ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (device, file) = (number()?, number()?);
    let processes = words.next().filter(|word| word.starts_with("pid:["))?.to_owned();
    words.next().is_none().then_some((device, file, processes))
}

/// Whether the session that a folder belongs to is known to have no process any more.
fn is_over(folder: &Path) -> bool {
    let Some((device, file, among)) = owner_of(folder) else { return false };
    Some(among) == processes() && matches!(anybody_has_open(device, file), Ok(false))
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

/// What was found of a process; none when it has ended, or is another user's, of whose programs none is recorded but by
/// root, who may look.
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
        let sweep = |now| sweep(folder.path(), Strangers::None, now);
        sweep(now);
        assert_eq!(left(), ["numalens-file", "numalens-held", "numalens-left", "others"]);
        sweep(later);
        assert_eq!(left(), ["numalens-held", "others"]);
        // Not by closing it alone: what other tests have forked has a copy until it executes its program.
        held.unlock().unwrap();
        sweep(later);
        assert_eq!(left(), ["others"]);
    }

    #[test]
    fn what_belongs_to_a_session_goes_when_that_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let session = tempfile::tempfile().unwrap();
        for name in ["numalens-used", "numalens-over", "numalens-elsewhere", "numalens-strange"] {
            fs::create_dir(at(name)).unwrap();
            Owner::of(&session).belongs(&at(name));
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
        let sweep = |now| sweep(folder.path(), Strangers::None, now);
        sweep(now);
        let is_there = |name: &str| at(name).exists();
        assert!(["numalens-used", "numalens-elsewhere", "numalens-strange"].into_iter().all(is_there));
        assert!(!is_there("numalens-over"));
        sweep(now + 2 * DAY);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn among_a_users_files_only_what_says_that_it_is_ours_goes() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        // A release that somebody has unpacked, a text, a link to what is somebody's, an owner that is none.
        for name in ["numalens-0.1.0", "numalens-odd"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("numalens-notes"), "text").unwrap();
        fs::write(at("numalens-odd").join(OWNER), "1 2 me and you").unwrap();
        std::os::unix::fs::symlink(at("numalens-0.1.0"), at("numalens-link")).unwrap();
        let used = Folder::create(place.path(), None).unwrap();
        let killed = Folder::create(place.path(), None).unwrap();
        // No process has this file open.
        let owner = fs::read_to_string(killed.path().join(OWNER)).unwrap();
        let here = owner.rsplit_once(' ').unwrap().1;
        fs::write(killed.path().join(OWNER), format!("1 {} {here}", u64::MAX)).unwrap();
        let Folder { folder, _held } = killed;
        _held.unwrap().unlock().unwrap();
        let killed = folder.keep();
        sweep(place.path(), Strangers::Any, SystemTime::now());
        assert!(!killed.exists() && used.path().exists());
        sweep(place.path(), Strangers::Any, SystemTime::now() + 2 * DAY);
        let names = ["numalens-0.1.0", "numalens-odd", "numalens-notes", "numalens-link"];
        assert!(names.iter().all(|name| fs::symlink_metadata(at(name)).is_ok()) && used.path().exists());
    }
}
