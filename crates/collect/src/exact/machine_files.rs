//! The files that show programs the virtual machine, in place of the host's: `/sys/devices/system/node` and the like.
//!
//! They are hundreds of small ones, and few programs look at any. So they are written while the command begins already,
//! and a program that looks waits until they are there ([`SessionHeader::files_written`]). Where they are is said
//! before the command begins, and once more when they turn out not to fit there.
//!
//! [`SessionHeader::files_written`]: numalens_event::exact::SessionHeader::files_written

use super::file::{SessionFile, Shared, set_files};
use super::stale_files::{self, Folder, MEMORY, Owner};
use crate::futex;
use crate::launch::RecordError;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use numalens_event::exact::machine_files::{MISSING, THERE};
use numalens_topology::{Machine, files};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Release;
use std::thread::{Builder, JoinHandle};

/// A folder with the files; gone when it is dropped.
pub struct MachineFiles {
    folder: Folder,
    owner: Owner,
    writer: Option<JoinHandle<io::Result<Option<Folder>>>>,
}

/// Where they may be: in memory, where that is offered, as they are many and small.
fn places() -> [PathBuf; 2] {
    [MEMORY.into(), std::env::temp_dir()]
}

impl MachineFiles {
    /// Makes the folder, and publishes it to the agents.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn create(file: &SessionFile) -> Result<Self, RecordError> {
        let owner = file.owner();
        let [memory, other] = places();
        let folder = make(&memory, &owner).or_else(|_| make(&other, &owner));
        let folder = folder.map_err(|error| RecordError::Unobservable(cannot_be_written(&error)))?;
        set_files(file.header(), folder.path())?;
        Ok(MachineFiles { folder, owner, writer: None })
    }

    /// Begins to write them; does so where there may be no other thread.
    ///
    /// # Errors
    /// They cannot be written, and nothing has run.
    pub fn begin(&mut self, machine: &Machine, file: &SessionFile) -> Result<(), RecordError> {
        let (machine, owner, header) = (machine.clone(), self.owner.clone(), file.shared_header());
        let folder = self.folder.path().to_owned();
        let write = move || {
            let written = write_somewhere(&machine, &folder, &owner, &header);
            let word = &header.header().files_written;
            word.store(if written.is_ok() { THERE } else { MISSING }, Release);
            futex::wake(word);
            stale_files::sweep_all();
            written
        };
        let of_thread = {
            let write = write.clone();
            move || {
                // Programs may become other users, so this is no private file; this thread alone sees to that.
                if unshare(CloneFlags::CLONE_FS).is_ok() {
                    umask(Mode::from_bits_truncate(0o022));
                }
                write()
            }
        };
        match Builder::new().name("machine-files".to_owned()).spawn(of_thread) {
            Ok(writer) => self.writer = Some(writer),
            Err(_) => {
                let another = write().map_err(|error| RecordError::Unobservable(cannot_be_written(&error)))?;
                self.take(another);
            }
        }
        Ok(())
    }

    /// Waits until they are written; what to tell the user if they could not be.
    pub fn settle(&mut self) -> Option<String> {
        let written = self.writer.take()?.join();
        match written.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) {
            Ok(another) => {
                self.take(another);
                None
            }
            Err(error) => Some(format!("{}; programs that looked saw the host's", cannot_be_written(&error))),
        }
    }

    fn take(&mut self, another: Option<Folder>) {
        if let Some(another) = another {
            self.folder = another;
        }
    }
}

impl Drop for MachineFiles {
    fn drop(&mut self) {
        // The folder is removed after this, with all that is in it.
        self.settle();
    }
}

/// A folder that every user's programs may enter, whatever the `umask`.
fn make(place: &Path, owner: &Owner) -> io::Result<Folder> {
    let folder = Folder::create(place, Some(owner))?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Writes them to `folder`, or, as that may be full, elsewhere: returns where else, after it has published that to the
/// agents.
fn write_somewhere(machine: &Machine, folder: &Path, owner: &Owner, header: &Shared) -> io::Result<Option<Folder>> {
    let Err(error) = files::write(machine, folder, Path::new("/")) else { return Ok(None) };
    let [memory, other] = places();
    if !folder.starts_with(&memory) || other.starts_with(&memory) {
        return Err(error);
    }
    let another = make(&other, owner)?;
    files::write(machine, another.path(), Path::new("/"))?;
    set_files(header.header(), another.path())?;
    Ok(Some(another))
}

fn cannot_be_written(error: &io::Error) -> String {
    let elsewhere = std::env::temp_dir();
    format!(
        "the files that show it the virtual machine cannot be written, neither in /dev/shm nor in {}: {error}; make room there, or name a \
         folder that exists by TMPDIR",
        elsewhere.display()
    )
}
