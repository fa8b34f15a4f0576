//! The user's cache of persisted code, on disk.
//!
//! ```text
//!   numalens/code/CONFIGURATION/     of the translator, and of this build of it: neither knows the others'
//!     KEY                            of a file of code: header, its path, its image (super::image)
//!     recent                         the keys of what the last recording has executed
//! ```
//! A file is written beside the old one and put in its place, so that whoever reads has a whole one. It lies in folders
//! that nobody but the user may write to, or it is not used.

use super::image::{Records, StoredImage, image};
use numalens_profile::user_cache;
use rustc_hash::{FxHashMap, FxHasher};
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What a file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"NLCODE\x02\0");
/// Words of the header: magic, key, log2 of the slots, bytes of the image, bytes of the path, the sum of these.
const WORDS: usize = 6;
const HEADER: u64 = WORDS as u64 * 8;
/// Bytes that the cache has at most: what was not used for longest goes.
pub const MOST_BYTES: u64 = 512 << 20;
/// What the names of files begin with that are being written.
const UNFINISHED: &str = "new-";
/// After so long, nobody writes one any more.
const LEFT_BEHIND: Duration = Duration::from_secs(600);
/// The list of what the last recording has executed.
const RECENT: &str = "recent";
/// How many it has at most.
const MOST_RECENT: usize = 256;

/// A file of code in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was last used.
    pub used: SystemTime,
    /// Bytes of what is kept of it.
    pub bytes: u64,
    /// Where it was.
    pub path: PathBuf,
    /// Where that is.
    file: PathBuf,
}

/// What is kept of a file of code.
struct Kept {
    file: File,
    path: PathBuf,
    offset: u64,
    bytes: u64,
    slots_log2: u32,
}

/// The cache of one configuration.
pub struct Store {
    folder: PathBuf,
    /// What was looked for; none: it is not there.
    kept: FxHashMap<u64, Option<Kept>>,
    /// What this recording has executed.
    used: Vec<u64>,
}

/// The folder of the user's cache of code; none: the user has no place for it.
pub fn folder() -> Option<PathBuf> {
    Some(user_cache::folder()?.join("code"))
}

/// Opens a file of the cache; none: there is none that can be believed.
fn open(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && user_cache::is_users(&found) && found.mode() & 0o022 == 0).then_some(file)
}

/// Of the words of the header that stand before it.
fn sum_of(words: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    words.iter().for_each(|&word| hasher.write_u64(word));
    hasher.finish()
}

impl Kept {
    /// None: it is not there, not that of the file with this key, or damaged.
    fn open(path: &Path, key: Option<u64>) -> Option<Kept> {
        let file = open(path)?;
        let all = file.metadata().ok()?.len();
        let mut header = [0; HEADER as usize];
        file.read_exact_at(&mut header, 0).ok()?;
        let words: Vec<u64> =
            header.chunks_exact(8).filter_map(|of| Some(u64::from_le_bytes(of.try_into().ok()?))).collect();
        let &[magic, of, slots_log2, bytes, length, sum] = &words[..] else { return None };
        let offset = HEADER.checked_add(length)?;
        let is_sound = magic == MAGIC && sum == sum_of(&words[..WORDS - 1]) && offset.checked_add(bytes)? == all;
        if !is_sound || key.is_some_and(|key| key != of) {
            return None;
        }
        let mut path = vec![0; length as usize];
        file.read_exact_at(&mut path, HEADER).ok()?;
        let path = std::ffi::OsString::from_vec(path).into();
        Some(Kept { file, path, offset, bytes, slots_log2: u32::try_from(slots_log2).ok()? })
    }
}

/// All files of code in the cache, those that were used last first.
pub fn entries(folder: &Path) -> Vec<Entry> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let mut entries: Vec<Entry> = files
        .filter_map(|entry| {
            let (file, found) = (entry.path(), entry.metadata().ok()?);
            let kept = Kept::open(&file, None)?;
            Some(Entry { used: found.modified().ok()?, bytes: found.len(), path: kept.path, file })
        })
        .collect();
    entries.sort_by(|one, other| (other.used, &one.path).cmp(&(one.used, &other.path)));
    entries
}

impl Store {
    /// That of the user, for translators with this key. None: there is no place for it.
    pub fn of_user(key: u64) -> Option<Store> {
        Store::open(&folder()?, key)
    }

    fn open(folder: &Path, key: u64) -> Option<Store> {
        user_cache::make_own(folder)?;
        let folder = folder.join(format!("{key:016x}"));
        user_cache::make_own(&folder)?;
        Some(Store { folder, kept: FxHashMap::default(), used: Vec::new() })
    }

    fn path_of(&self, key: u64) -> PathBuf {
        self.folder.join(format!("{key:016x}"))
    }

    /// The files of code that the last recording has executed, in that order.
    pub fn recent(&self) -> Vec<u64> {
        let mut bytes = Vec::new();
        let read =
            open(&self.folder.join(RECENT)).map(|file| file.take(MOST_RECENT as u64 * 8).read_to_end(&mut bytes));
        let keys = bytes.chunks_exact(8).filter_map(|key| Some(u64::from_le_bytes(key.try_into().ok()?)));
        if matches!(read, Some(Ok(_))) { keys.collect() } else { Vec::new() }
    }

    /// What is kept of a file of code.
    pub fn image(&mut self, key: u64) -> Option<StoredImage<'_>> {
        let path = self.path_of(key);
        let kept = self.kept.entry(key).or_insert_with(|| Kept::open(&path, Some(key)));
        let Kept { file, offset, bytes, slots_log2, .. } = kept.as_ref()?;
        Some(StoredImage { file, offset: *offset, bytes: *bytes, slots_log2: *slots_log2 })
    }

    /// The records of it.
    pub fn records(&mut self, key: u64) -> Records {
        self.image(key).map(|image| image.records()).unwrap_or_default()
    }

    /// A file of code is executed.
    pub fn uses(&mut self, key: u64) {
        if !self.used.contains(&key) {
            self.used.push(key);
        }
    }

    /// Keeps files of code that have changed (the key of each, its path, all of its records) as far as there is time,
    /// and notes what was used. What cannot be kept is made again.
    pub fn save(&self, changed: Vec<(u64, PathBuf, Records)>, until: Instant) {
        for kept in self.used.iter().filter_map(|key| self.kept.get(key)?.as_ref()) {
            let _ = kept.file.set_modified(SystemTime::now());
        }
        if self.used != self.recent() {
            let keys: Vec<u8> = self.used.iter().take(MOST_RECENT).flat_map(|key| key.to_le_bytes()).collect();
            let _ = self.write(RECENT, &[&keys]);
        }
        let grows = !changed.is_empty();
        for (key, path, records) in changed {
            let (image, slots_log2) = image(records.iter().map(|(&place, record)| (place, &record[..])));
            // Another recording may have kept more meanwhile.
            let is_more = Kept::open(&self.path_of(key), Some(key)).is_none_or(|kept| kept.bytes < image.len() as u64);
            if is_more && Instant::now() < until {
                let path = path.as_os_str().as_bytes();
                let mut words = vec![MAGIC, key, slots_log2.into(), image.len() as u64, path.len() as u64];
                words.push(sum_of(&words));
                let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let _ = self.write(&format!("{key:016x}"), &[&header, path, &image]);
            }
        }
        if grows && let Some(all) = self.folder.parent() {
            let _ = make_room(all);
        }
    }

    fn write(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.persist(self.folder.join(name)).map(drop).map_err(|error| error.error)
    }
}

/// Removes what was not used for longest, until the cache is small enough, and what was left unfinished.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for folder in fs::read_dir(folder)?.flatten() {
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let (path, found) = (entry.path(), entry.metadata()?);
            let used = found.modified()?;
            let is_unfinished = entry.file_name().as_bytes().starts_with(UNFINISHED.as_bytes());
            if is_unfinished && used.elapsed().is_ok_and(|since| since > LEFT_BEHIND) {
                let _ = fs::remove_file(path);
            } else if !is_unfinished {
                files.push((used, found.len(), path));
            }
        }
    }
    user_cache::too_much(files, MOST_BYTES).iter().try_for_each(fs::remove_file)
}

/// Removes all of it; how many bytes that were.
///
/// # Errors
/// A file cannot be removed.
pub fn clear() -> io::Result<u64> {
    let Some(folder) = folder() else { return Ok(0) };
    let mut freed = 0;
    for entry in entries(&folder) {
        fs::remove_file(entry.file)?;
        freed += entry.bytes;
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: u64) -> Records {
        (0..count).map(|number| (number * 16, vec![number as u8; 9])).collect()
    }

    fn save(folder: &Path, changed: Vec<(u64, PathBuf, Records)>) {
        let mut store = Store::open(folder, 7).unwrap();
        changed.iter().for_each(|(key, ..)| store.uses(*key));
        store.save(changed, Instant::now() + Duration::from_secs(60));
    }

    fn open_again(folder: &Path) -> Store {
        Store::open(folder, 7).unwrap()
    }

    /// A cache with one file of code: its folder, and where that is kept.
    fn with_one(base: &Path) -> (PathBuf, PathBuf) {
        let folder = base.join("code");
        save(&folder, vec![(1, "/bin/one".into(), some(100))]);
        let path = open_again(&folder).path_of(1);
        (folder, path)
    }

    #[test]
    fn what_is_stored_comes_back() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("code");
        save(&folder, vec![(1, "/bin/one".into(), some(100)), (2, "/bin/two".into(), some(3))]);
        let mut store = open_again(&folder);
        assert_eq!((store.records(1), store.records(2), store.recent()), (some(100), some(3), vec![1, 2]));
        // Fewer than there are: another recording has kept more.
        save(&folder, vec![(2, "/bin/two".into(), some(2)), (3, "/bin/three".into(), some(5))]);
        let mut store = open_again(&folder);
        assert_eq!((store.records(1), store.records(2), store.records(3)), (some(100), some(3), some(5)));
        assert_eq!(store.recent(), [2, 3]);
        let mut paths: Vec<_> = entries(&folder).into_iter().map(|entry| entry.path).collect();
        paths.sort();
        assert_eq!(paths, ["/bin/one", "/bin/three", "/bin/two"].map(PathBuf::from));
        assert!(Store::open(&folder, 8).unwrap().records(1).is_empty());
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let base = tempfile::tempdir().unwrap();
        let (folder, path) = with_one(base.path());
        let whole = fs::read(&path).unwrap();
        for at in 0..HEADER as usize {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert!(open_again(&folder).records(1).is_empty(), "{at}");
        }
        for length in [0, 10, HEADER as usize, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(open_again(&folder).records(1).is_empty(), "{length}");
        }
    }

    #[test]
    fn what_others_can_write_to_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let (folder, path) = with_one(base.path());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o077, 0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(open_again(&folder).records(1).is_empty());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let elsewhere = base.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(open_again(&folder).records(1).is_empty());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(Store::open(&folder, 7).is_none());
    }
}
