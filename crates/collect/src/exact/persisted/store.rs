//! The user's cache of persisted code, on disk.
//!
//! One file for each configuration of the translator and each build of it, as neither knows the other's:
//!
//! ```text
//!   header       magic, key, how many entries, bytes of the directory, its sum
//!   directory    of each file of code: its key, when it was last used, where its image stands, its path
//!   images       (super::image)
//! ```
//! It is written anew beside the old one and put in its place, so that whoever reads has a whole one; only the times of
//! use are written where they are. It lies in a folder that nobody but its user may write to, or it is not used.

use super::image::{Records, StoredImage, image};
use crate::control::own_user;
use rustc_hash::{FxHashMap, FxHasher};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"NLCODE\x01\0");
/// Bytes of the header: five words.
const HEADER: u64 = 40;
/// Most bytes of a directory.
const MOST_DIRECTORY: u64 = 16 << 20;
/// Bytes that all files of the cache together have at most: what was not used for longest goes.
pub const MOST_BYTES: u64 = 512 << 20;
/// Bytes of one file at most.
const MOST_OF_ONE: u64 = 256 << 20;
/// How names of its files end.
const SUFFIX: &str = "code";
/// Words that an entry of the directory begins with: key, last use, offset, bytes, log2 of the slots, bytes of the
/// path.
const WORDS: usize = 6;

/// A file of code in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What tells it from others.
    pub key: u64,
    /// When it was last used: seconds since 1970.
    pub used: u64,
    offset: u64,
    /// Bytes of its image.
    pub bytes: u64,
    slots_log2: u32,
    /// Where it was.
    pub path: PathBuf,
    /// Where in the directory its last use stands.
    stands_at: u64,
}

/// The cache of one configuration.
pub struct Store {
    path: PathBuf,
    key: u64,
    file: Option<File>,
    entries: FxHashMap<u64, Entry>,
    /// What this recording has used.
    used: Vec<u64>,
}

/// The folder of the user's cache; none: the user has no place for it.
pub fn folder() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    base.is_absolute().then(|| base.join("numalens"))
}

/// The folder, made if need be, where nobody else may write to it.
fn safe_folder() -> Option<PathBuf> {
    let folder = folder()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    is_own(&fs::symlink_metadata(&folder).ok().filter(fs::Metadata::is_dir)?).then_some(folder)
}

/// Whether only this user may write there.
fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == own_user() && found.mode() & 0o022 == 0
}

/// Opens a file of the cache; none: there is none that can be believed.
fn open(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && is_own(&found)).then_some(file)
}

/// All files of the cache: each with its bytes and entries.
pub fn files(folder: &Path) -> Vec<(PathBuf, u64, Vec<Entry>)> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = found
        .filter(|path| path.extension().is_some_and(|extension| extension == SUFFIX))
        .filter_map(|path| {
            let file = open(&path)?;
            let bytes = file.metadata().ok()?.len();
            let entries = read_directory(&file, None).unwrap_or_default();
            Some((path, bytes, entries))
        })
        .collect();
    files.sort();
    files
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.used, self.bytes, self.key).cmp(&(self.used, other.bytes, other.key))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// The entries of a file that is for `key`, or for any; none: it is none of ours, or damaged.
fn read_directory(file: &File, key: Option<u64>) -> Option<Vec<Entry>> {
    let all = file.metadata().ok()?.len();
    let mut header = [0; HEADER as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at * 8..).and_then(|rest| rest.first_chunk()).map(|of| u64::from_le_bytes(*of))
    };
    let [magic, of, count, bytes, sum] = [0, 1, 2, 3, 4].map(|at| word(&header, at).unwrap_or(0));
    if magic != MAGIC || key.is_some_and(|key| key != of) || bytes > MOST_DIRECTORY.min(all) {
        return None;
    }
    let mut directory = vec![0; bytes as usize];
    file.read_exact_at(&mut directory, HEADER).ok()?;
    let mut entries = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let words: Vec<u64> = (0..WORDS).map_while(|number| word(directory.get(at..)?, number)).collect();
        let &[key, used, offset, bytes, slots_log2, length] = &words[..] else { return None };
        let stands_at = at + 8;
        at += WORDS * 8;
        let path = directory.get(at..at.checked_add(length as usize)?)?.to_vec();
        at = (at + length as usize).next_multiple_of(8);
        // The time of use is no part of the sum.
        directory[stands_at..stands_at + 8].fill(0);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= all);
        let slots_log2 = u32::try_from(slots_log2).ok().filter(|_| fits)?;
        let path = std::ffi::OsString::from_vec(path).into();
        entries.push(Entry { key, used, offset, bytes, slots_log2, path, stands_at: HEADER + stands_at as u64 });
    }
    (sum_of(&directory) == sum).then_some(entries)
}

impl Store {
    /// That of the user, for what has this key. None: there is no place for it.
    pub fn of_user(key: u64) -> Option<Store> {
        Some(Store::open(&safe_folder()?, key))
    }

    fn open(folder: &Path, key: u64) -> Store {
        let path = folder.join(format!("{key:016x}.{SUFFIX}"));
        let file = open(&path);
        let entries = file.as_ref().and_then(|file| read_directory(file, Some(key))).unwrap_or_default();
        let entries = entries.into_iter().map(|entry| (entry.key, entry)).collect();
        Store { path, key, file, entries, used: Vec::new() }
    }

    /// The files of code, those that were used last first, and of these the small ones.
    pub fn used_last(&self) -> Vec<u64> {
        let mut entries: Vec<_> = self.entries.values().collect();
        entries.sort();
        entries.iter().map(|entry| entry.key).collect()
    }

    /// Bytes of what is stored of a file of code.
    pub fn bytes_of(&self, key: u64) -> u64 {
        self.entries.get(&key).map_or(0, |entry| entry.bytes)
    }

    /// What is stored of it.
    pub fn image(&self, key: u64) -> Option<StoredImage<'_>> {
        let &Entry { offset, bytes, slots_log2, .. } = self.entries.get(&key)?;
        Some(StoredImage { file: self.file.as_ref()?, offset, bytes, slots_log2 })
    }

    /// The records of it.
    pub fn records(&self, key: u64) -> Records {
        self.image(key).map(|image| image.records()).unwrap_or_default()
    }

    /// A file of code is executed.
    pub fn uses(&mut self, key: u64) {
        self.used.push(key);
    }

    /// Stores files of code that have changed: the key of each, its path, all of its records.
    pub fn save(&mut self, changed: Vec<(u64, PathBuf, Records)>) {
        let now = now();
        // What cannot be stored is made again.
        let _ = match changed.is_empty() {
            true => self.note_use(now),
            false => self.write(changed, now).and_then(|()| make_room(self.path.parent(), &self.path)),
        };
    }

    fn note_use(&self, now: u64) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let used = self.used.iter().filter_map(|key| self.entries.get(key));
        used.filter(|entry| entry.used < now)
            .try_for_each(|entry| file.write_all_at(&now.to_le_bytes(), entry.stands_at))
    }

    fn write(&mut self, changed: Vec<(u64, PathBuf, Records)>, now: u64) -> io::Result<()> {
        // Another recording may have written meanwhile.
        let mut other = Store::open(self.path.parent().unwrap_or(Path::new("/")), self.key);
        let mut kept: Vec<(Entry, Vec<u8>)> = Vec::new();
        for (key, path, records) in changed {
            let (image, slots_log2) = image(records.iter().map(|(&place, record)| (place, &record[..])));
            if other.bytes_of(key) < image.len() as u64 {
                other.entries.remove(&key);
                let bytes = image.len() as u64;
                kept.push((Entry { key, used: now, offset: 0, bytes, slots_log2, path, stands_at: 0 }, image));
            }
        }
        let mut rest: Vec<Entry> = std::mem::take(&mut other.entries).into_values().collect();
        for entry in &mut rest {
            if self.used.contains(&entry.key) {
                entry.used = now;
            }
        }
        rest.sort();
        let mut total: u64 = kept.iter().map(|(entry, _)| entry.bytes).sum();
        for entry in rest {
            total += entry.bytes;
            let mut image = vec![0; entry.bytes as usize];
            let read = other.file.as_ref().is_some_and(|file| file.read_exact_at(&mut image, entry.offset).is_ok());
            if total <= MOST_OF_ONE && read {
                kept.push((entry, image));
            }
        }
        let mut file =
            tempfile::Builder::new().prefix("new-").tempfile_in(self.path.parent().unwrap_or(Path::new("/")))?;
        let directory = |at: u64| {
            let (mut directory, mut offset) = (Vec::new(), at);
            for (entry, _) in &kept {
                let path = entry.path.as_os_str().as_bytes();
                for word in [entry.key, 0, offset, entry.bytes, entry.slots_log2.into(), path.len() as u64] {
                    directory.extend_from_slice(&u64::to_le_bytes(word));
                }
                directory.extend_from_slice(path);
                directory.resize(directory.len().next_multiple_of(8), 0);
                offset += entry.bytes;
            }
            directory
        };
        let length = directory(0).len() as u64;
        let mut directory = directory(HEADER + length);
        let header = [MAGIC, self.key, kept.len() as u64, length, sum_of(&directory)];
        let mut at = 0;
        for (entry, _) in &kept {
            directory[at + 8..at + 16].copy_from_slice(&entry.used.to_le_bytes());
            at = (at + WORDS * 8 + entry.path.as_os_str().len()).next_multiple_of(8);
        }
        header.iter().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
        file.write_all(&directory)?;
        kept.iter().try_for_each(|(_, image)| file.write_all(image))?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Removes what was not written for longest, until the cache is small enough; what was `written` just now stays.
fn make_room(folder: Option<&Path>, written: &Path) -> io::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let (path, found) = (entry.path(), entry.metadata()?);
        if found.is_file() && path != written {
            files.push((found.modified()?, found.len(), path));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + fs::metadata(written)?.len();
    for (_, bytes, path) in files {
        if total <= MOST_BYTES {
            break;
        }
        fs::remove_file(path)?;
        total -= bytes;
    }
    Ok(())
}

/// Removes all of it; how many bytes that were.
///
/// # Errors
/// A file cannot be removed.
pub fn clear() -> io::Result<u64> {
    let Some(folder) = folder() else { return Ok(0) };
    let mut freed = 0;
    for (path, bytes, _) in files(&folder) {
        fs::remove_file(path)?;
        freed += bytes;
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: u64) -> Records {
        (0..count).map(|number| (number * 16, vec![number as u8; 9])).collect()
    }

    #[test]
    fn what_is_stored_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), 7);
        store.uses(1);
        store.save(vec![(1, "/bin/one".into(), some(100)), (2, "/bin/two".into(), some(3))]);
        let store = Store::open(folder.path(), 7);
        assert_eq!((store.records(1), store.records(2)), (some(100), some(3)));
        assert_eq!(store.used_last(), [2, 1], "the small one first");
        let mut store = store;
        store.save(vec![(2, "/bin/two".into(), some(2)), (3, "/bin/three".into(), some(5))]);
        let store = Store::open(folder.path(), 7);
        assert_eq!((store.records(1), store.records(2), store.records(3)), (some(100), some(3), some(5)));
        assert!(Store::open(folder.path(), 8).entries.is_empty());
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), 7).save(vec![(1, "/bin/one".into(), some(100))]);
        let path = Store::open(folder.path(), 7).path;
        let whole = fs::read(&path).unwrap();
        let directory = HEADER as usize + WORDS * 8 + 8;
        for at in (0..directory).filter(|at| !(48..56).contains(at)) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert!(Store::open(folder.path(), 7).entries.is_empty(), "{at}");
        }
        for length in [0, 10, directory - 1, directory + 10] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(Store::open(folder.path(), 7).records(1).is_empty(), "{length}");
        }
    }

    #[test]
    fn what_others_can_write_to_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), 7).save(vec![(1, "/bin/one".into(), some(4))]);
        let path = Store::open(folder.path(), 7).path;
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o077, 0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(Store::open(folder.path(), 7).entries.is_empty());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Store::open(folder.path(), 7).entries.is_empty());
    }
}
