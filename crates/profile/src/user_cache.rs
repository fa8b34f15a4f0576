//! The user's cache directory: what is kept there can be made again, and is believed where nobody else can write to it.
//!
//! Names of code (`numalens-symbolize`) and translations of it (`numalens-collect`) lie in it, each in folders and
//! under names of their own, and remove nothing of the others'.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// `O_DIRECTORY | O_NOFOLLOW` of Linux on x86-64.
const DIRECTORY: i32 = 0o200_000 | 0o400_000;

/// `$XDG_CACHE_HOME/numalens`, by default `~/.cache/numalens`; none where the environment names neither.
pub fn folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("numalens"))
}

/// Makes a folder, if it is not there. None where others may enter it, or it is somebody else's.
pub fn make_own(folder: &Path) -> Option<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    let about = OpenOptions::new().read(true).custom_flags(DIRECTORY).open(folder).ok()?.metadata().ok()?;
    (is_users(&about) && about.mode() & 0o077 == 0).then_some(())
}

/// Whether a file is the user's, whom this process acts for.
pub fn is_users(about: &Metadata) -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == about.uid())
}

/// What has to go so that the rest takes so many bytes at most: of these, each with its last use and its bytes, what
/// was not used for longest.
pub fn too_much(mut kept: Vec<(SystemTime, u64, PathBuf)>, most: u64) -> Vec<PathBuf> {
    kept.sort_unstable();
    let mut left: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
    let mut gone = Vec::new();
    for (_, bytes, path) in kept {
        if left <= most {
            break;
        }
        left -= bytes;
        gone.push(path);
    }
    gone
}
