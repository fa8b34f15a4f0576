//! Memory that the ranks of an MPI program share, where each rank is a recording of its own (`mpirun numalens record
//! ...`).
//!
//! Where a page of shared memory is, and that somebody has been there first, processes of one recording tell each other
//! in a table of the session file (`agent/src/pages/common.rs`). Ranks have a session file each; so on each host their
//! table is a file in memory that all of them map:
//!
//! ```text
//!   launcher (mpirun, a proxy, slurmstepd)   /dev/shm/numalens-ranks-USER-LAUNCHER
//!     numalens record   -- rank 0   <----------.
//!     numalens record   -- rank 1   <----------'   removed by the last of them
//! ```
//! The launcher is the nearest ancestor that has no rank itself. Whoever has the file open holds a shared lock, so the
//! last one finds that it is alone. Where there is no such file (no place, another user's), each recording has a table
//! of its own.

use super::stale_files::{MEMORY, PREFIX};
use crate::control::{own_user, parent_and_start};
use crate::rank;
use numalens_event::exact::COMMON_BYTES;
use numalens_topology::Machine;
use rustc_hash::FxBuildHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The table, and a share in it.
pub struct RankTable {
    path: PathBuf,
    file: File,
}

impl RankTable {
    /// That of the ranks on this host which are recorded on `machine`; none outside of an MPI program.
    pub fn of_this_job(machine: &Machine) -> Option<Self> {
        rank::own()?;
        let (pid, started) = launcher()?;
        let user = own_user();
        // Nodes have the same numbers in all recordings of one machine.
        let machine = FxBuildHasher.hash_one(format!("{machine:?}"));
        Self::open(&Path::new(MEMORY).join(format!("{PREFIX}ranks-{user}-{pid}-{started}-{machine:x}")), user)
    }

    fn open(path: &Path, user: u32) -> Option<Self> {
        // The last one may remove it at any moment until the lock is ours.
        for _ in 0..100 {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(path).ok()?;
            let found = file.metadata().ok()?;
            // What is not ours is nothing that we may remove.
            if !found.is_file() || found.uid() != user || file.lock_shared().is_err() {
                return None;
            }
            let table = RankTable { path: path.to_owned(), file };
            if table.is_at_its_place() {
                table.file.set_len(COMMON_BYTES).ok()?;
                return Some(table);
            }
        }
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_at_its_place(&self) -> bool {
        let of = |found: std::io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        of(self.file.metadata()).is_some_and(|own| of(fs::symlink_metadata(&self.path)) == Some(own))
    }
}

impl Drop for RankTable {
    fn drop(&mut self) {
        let alone = self.file.unlock().is_ok() && self.file.try_lock().is_ok();
        if alone && self.is_at_its_place() {
            // Nobody is told that it stays: it is a sparse file in memory.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The nearest ancestor that has no rank, and when it began.
fn launcher() -> Option<(i32, u64)> {
    let mut pid = std::process::id() as i32;
    loop {
        pid = parent_and_start(pid)?.0;
        if pid <= 1 || rank::of_process(pid).is_none() {
            return Some((pid, parent_and_start(pid)?.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let user = own_user();
        let first = RankTable::open(&path, user).expect("the first");
        let second = RankTable::open(&path, user).expect("the second");
        assert_eq!(second.file.metadata().unwrap().len(), COMMON_BYTES);
        drop(first);
        assert!(path.exists());
        let third = RankTable::open(&path, user).expect("a third");
        drop((second, third));
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("table"), folder.path().join("target"));
        fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let user = own_user();
        assert!(RankTable::open(&path, user).is_none());
        assert!(RankTable::open(&target, user + 1).is_none());
        assert_eq!(fs::read(&target).unwrap(), b"text");
    }

    #[test]
    fn processes_have_parents() {
        let own = parent_and_start(std::process::id() as i32).expect("that of the test");
        assert!(own.0 > 0 && own.1 > 0);
        assert_eq!(parent_and_start(-1), None);
        assert!(launcher().is_some());
    }
}
