//! The files that show programs the virtual machine, in place of the host's: `/sys/devices/system/node` and the like.
//!
//! They are hundreds of small ones, and few programs look at any. So they are written while the command begins already, and a program that
//! looks waits until they are there ([`SessionHeader::files_written`]).
//!
//! [`SessionHeader::files_written`]: numalens_event::exact::SessionHeader::files_written

use super::file::SessionFile;
use super::left_behind;
use crate::futex;
use crate::sample::engine::RecordError;
use numalens_event::exact::machine_files::{MISSING, THERE};
use numalens_topology::Machine;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::Release;
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;
use tempfile::TempDir;

/// Where files are in memory.
pub const MEMORY: &str = "/dev/shm";

/// A folder with the files; gone when it is dropped.
pub struct MachineFiles {
    folder: TempDir,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// It is in use.
    _held: Option<File>,
}

impl MachineFiles {
    /// Makes the folder, and tells the agents of it.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn create(file: &SessionFile) -> Result<Self, RecordError> {
        let mut folder = tempfile::Builder::new();
        folder.prefix(left_behind::PREFIX).permissions(Permissions::from_mode(0o755));
        // Many small files: in memory, where that is offered.
        let folder = folder.tempdir_in(MEMORY).or_else(|_| folder.tempdir());
        let folder = folder.map_err(|error| RecordError::Unobservable(cannot_be_written(&error)))?;
        file.set_files(folder.path())?;
        let held = left_behind::hold(folder.path());
        if held.is_some() {
            file.owns(folder.path());
        }
        Ok(MachineFiles { folder, writer: None, _held: held })
    }

    /// Begins to write them; does so where there may be no other thread.
    ///
    /// # Errors
    /// They cannot be written, and nothing has run.
    pub fn begin(&mut self, machine: &Machine, file: &SessionFile) -> Result<(), RecordError> {
        let (machine, folder, header) = (machine.clone(), self.folder.path().to_owned(), file.shared_header());
        let write = move || {
            let written = machine.write_files(&folder, Path::new("/"));
            let word = &header.header().files_written;
            word.store(if written.is_ok() { THERE } else { MISSING }, Release);
            futex::wake(word);
            left_behind::sweep(Path::new(MEMORY), SystemTime::now());
            written
        };
        match Builder::new().name("machine-files".to_owned()).spawn(write.clone()) {
            Ok(writer) => self.writer = Some(writer),
            Err(_) => write().map_err(|error| RecordError::Unobservable(cannot_be_written(&error)))?,
        }
        Ok(())
    }

    /// Waits until they are written; what to tell the user if they could not be.
    pub fn settle(&mut self) -> Option<String> {
        let written = self.writer.take()?.join();
        let error = written.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).err()?;
        Some(format!("{}; programs that looked saw the host's", cannot_be_written(&error)))
    }
}

impl Drop for MachineFiles {
    fn drop(&mut self) {
        // The folder is removed after this, with all that is in it.
        self.settle();
    }
}

fn cannot_be_written(error: &io::Error) -> String {
    let elsewhere = std::env::temp_dir();
    format!(
        "the files that show it the virtual machine cannot be written, neither in /dev/shm nor in {}: {error}",
        elsewhere.display()
    )
}
