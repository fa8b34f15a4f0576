//! Names that were found for profiles that stay as they are: in the user's cache directory.
//!
//! To read a profile takes no right to write into it, and nothing is ever written beside somebody else's tables. But
//! names take seconds to find, so what was found is kept in `$XDG_CACHE_HOME/numalens`, by default `~/.cache/numalens`,
//! which only the user may enter:
//!
//! - an entry is a small profile with the tables `functions`, `frames` and `waiting_sites`, and the doubts as its
//!   notes. It is verified as any other is, and looked for anew when it is damaged;
//! - its name is a SHA-256 of what the answer depends on: this version, the bytes of the tables that were asked with,
//!   the options, and for each file that names can come from whether it is there, its size and its time;
//! - it is written aside and renamed, so that readers may race: each sees a whole entry or none;
//! - entries that were not used for longest go when all take more than [`MOST_BYTES`].
//!
//! Where there is no such directory, or it is not the user's own, nothing is kept and all works without.

use crate::find;
use crate::{Options, Outcome};
use numalens_profile::tables::{Frame, Function, Module, Site, WaitingSite};
use numalens_profile::{Error, Meta, Profile, user_cache, write_whole};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What all entries take at most.
const MOST_BYTES: u64 = 256 << 20;
/// Nobody writes an entry for that long.
const LEFT: Duration = Duration::from_secs(24 * 60 * 60);
/// Ending of an entry's name, before which stands the key.
const ENDING: &str = ".names";
/// What the names of those begin with that are being written.
const UNFINISHED: &str = "new.";

/// A directory of entries.
pub struct Cache {
    folder: PathBuf,
    most: u64,
}

/// What is kept of an [`Outcome`].
pub(crate) struct Entry {
    pub(crate) functions: Vec<Function>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) waiting: Vec<WaitingSite>,
    /// In words, what concerns most sites first.
    pub(crate) doubts: Vec<String>,
}

impl From<Outcome> for Entry {
    fn from(outcome: Outcome) -> Entry {
        let Outcome { functions, frames, waiting, mut doubts } = outcome;
        doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.sites));
        Entry { functions, frames, waiting, doubts: doubts.iter().map(ToString::to_string).collect() }
    }
}

impl Cache {
    /// The user's; none where the environment names none, or it cannot be used safely.
    pub fn of_user() -> Option<Cache> {
        Cache::at(&user_cache::folder()?, MOST_BYTES)
    }

    /// One in this directory, which is made if it is not there. None where others may write to it, or it is somebody
    /// else's.
    pub fn at(folder: &Path, most: u64) -> Option<Cache> {
        user_cache::make_own(folder)?;
        Some(Cache { folder: folder.to_owned(), most })
    }

    fn place(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}{ENDING}"))
    }

    /// What was found before.
    pub(crate) fn get(&self, key: &str) -> Option<Entry> {
        let path = self.place(key);
        fs::symlink_metadata(&path).ok()?;
        let read = || -> Result<Entry, Error> {
            let profile = Profile::open(&path)?;
            let doubts = profile.meta.notes.clone();
            let (functions, frames) = (profile.rows::<Function>()?, profile.rows::<Frame>()?);
            Ok(Entry { functions, frames, waiting: profile.rows::<WaitingSite>()?, doubts })
        };
        match read() {
            Ok(entry) => {
                // When it was last used. Best effort, as all here is.
                let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                Some(entry)
            }
            Err(_) => {
                remove(&path);
                None
            }
        }
    }

    /// Keeps what was found. That it cannot be kept is no error: it is found again.
    pub(crate) fn put(&self, key: &str, entry: &Entry) {
        let Ok(aside) = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder) else { return };
        let written = write_whole(&aside.path().join("entry"), false, |writer| {
            writer.replace(entry.functions.iter().cloned())?;
            writer.replace(entry.frames.iter().cloned())?;
            writer.replace(entry.waiting.iter().cloned())?;
            Ok::<Meta, Error>(Meta { notes: entry.doubts.clone(), ..Meta::default() })
        });
        // Whoever was quicker has found the same.
        if let Ok(written) = written
            && fs::rename(written, self.place(key)).is_ok()
        {
            self.trim();
        }
    }

    /// Removes entries until the rest is small enough, and what writers that were killed have left.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut kept = Vec::new();
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let Some(used) = entry.metadata().ok().and_then(|about| about.modified().ok()) else { continue };
            if name.ends_with(ENDING) {
                kept.push((used, size(&path), path));
            } else if name.starts_with(UNFINISHED) && used.elapsed().is_ok_and(|age| age > LEFT) {
                remove(&path);
            }
        }
        user_cache::too_much(kept, self.most).iter().for_each(|path| remove(path));
    }
}

fn remove(path: &Path) {
    // Best effort: the next one tries again.
    let _ = fs::remove_dir_all(path);
}

fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

/// What the names of a profile depend on.
pub(crate) fn key(profile: &Profile, modules: &[Module], options: &Options) -> Result<String, Error> {
    let mut hash = Hashing(Sha256::new());
    hash.word(env!("CARGO_PKG_VERSION"));
    // Of a program that is being developed the version stays.
    hash.file(Path::new("/proc/self/exe"));
    profile.digest(&[Site::TABLE, Module::TABLE, Function::TABLE, Frame::TABLE], &mut hash)?;
    hash.word(&format!("{:?} {:?} {}", options.path_map, options.debug_dirs, options.separate_lines));
    let mut without: Vec<_> = options.without_lines.iter().map(|module| module.0).collect();
    without.sort_unstable();
    hash.word(&format!("{without:?}"));
    for module in modules {
        find::places(&module.path, &module.build_id, options).iter().for_each(|path| hash.file(path));
    }
    Ok(hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Hashing {
    /// A text, told apart from the next one by its length.
    fn word(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// Which file stands at a path.
    fn file(&mut self, path: &Path) {
        let about =
            fs::metadata(path).map(|about| (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
        self.word(&format!("{path:?} {:?}", about.ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::{FunctionId, SiteId};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn entry(sites: u32) -> Entry {
        let frames = (0..sites).map(|site| Frame {
            site: SiteId(site),
            depth: 0,
            function: FunctionId(site),
            file: Some(format!("file-{}.c", site.wrapping_mul(0x9e37_79b9))),
            line: Some(site),
        });
        Entry {
            functions: Vec::new(),
            frames: frames.collect(),
            waiting: Vec::new(),
            doubts: vec!["one".into(), "two".into()],
        }
    }

    #[test]
    fn what_was_put_comes_back_unless_it_is_damaged() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::at(&scratch.path().join("a/b"), 1 << 20).unwrap();
        assert!(cache.get("k").is_none());
        cache.put("k", &entry(3));
        let found = cache.get("k").unwrap();
        assert_eq!((found.frames, found.doubts), (entry(3).frames, entry(3).doubts));
        fs::write(cache.place("k").join("frames.parquet"), "not what was written").unwrap();
        assert!(cache.get("k").is_none());
        assert!(!cache.place("k").exists(), "a damaged entry goes");
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("cache");
        Cache::at(&folder, 1 << 20).unwrap().put("size", &entry(1000));
        let one = size(&Cache::at(&folder, 1 << 20).unwrap().place("size"));
        let cache = Cache::at(&folder, one * 5 / 2).unwrap();
        for (key, age) in [("a", 30), ("b", 20), ("c", 10)] {
            cache.put(key, &entry(1000));
            if let Ok(file) = fs::File::open(cache.place(key)) {
                file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            }
        }
        cache.put("d", &entry(1000));
        let left: Vec<bool> = ["a", "b", "c", "d"].iter().map(|key| cache.place(key).exists()).collect();
        assert!(!left[0] && left[3], "{left:?}");
        assert!(fs::read_dir(&folder).unwrap().map(|entry| size(&entry.unwrap().path())).sum::<u64>() <= cache.most);
    }

    /// The code cache is a folder beside the entries, which a day without new configurations leaves as it is.
    #[test]
    fn what_others_keep_beside_the_entries_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::at(&scratch.path().join("cache"), 1).unwrap();
        for name in ["code", "new.left"] {
            fs::create_dir(cache.folder.join(name)).unwrap();
            let folder = fs::File::open(cache.folder.join(name)).unwrap();
            folder.set_modified(SystemTime::now() - 2 * LEFT).unwrap();
        }
        cache.put("k", &entry(3));
        assert!(cache.folder.join("code").exists(), "somebody else's");
        assert!(!cache.folder.join("new.left").exists(), "what a killed writer has left");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("cache");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(&folder, 1 << 20).is_none());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Cache::at(&folder, 1 << 20).is_some());
        symlink(&folder, scratch.path().join("link")).unwrap();
        assert!(Cache::at(&scratch.path().join("link"), 1 << 20).is_none());
        assert!(Cache::at(Path::new("/proc/no/such"), 1 << 20).is_none());
    }
}
