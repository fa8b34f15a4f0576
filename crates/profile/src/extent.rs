//! A range of bytes of a file that is read at any time later.

use crate::error::Error;
use crate::place::{self, Links};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes copied at a time.
const COPY: u64 = 1 << 20;

/// Bytes of one table: a file, or an entry of a packed profile.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    file: Source,
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// For messages.
    pub(crate) path: PathBuf,
}

/// The file of an extent.
#[derive(Clone, Debug)]
enum Source {
    Open(Arc<File>),
    /// Opened again whenever it is read: the device and the number of the file that it has to be.
    Closed(u64, u64),
}

impl Extent {
    /// A part of an open file.
    pub(crate) fn of(file: Arc<File>, start: u64, len: u64, path: PathBuf) -> Extent {
        Extent { file: Source::Open(file), start, len, path }
    }

    /// The same without holding the file open: there are more files in a thousand profiles than a process may open.
    ///
    /// # Errors
    /// The system does not tell which file it is.
    pub(crate) fn closed(&self) -> Result<Extent, Error> {
        let file = match &self.file {
            Source::Open(file) => {
                let data = file.metadata().map_err(Error::io("read", &self.path))?;
                // What has no name, such as tables in memory, could not be opened again.
                if data.nlink() == 0 {
                    return Ok(self.clone());
                }
                Source::Closed(data.dev(), data.ino())
            }
            closed => closed.clone(),
        };
        Ok(Extent { file, ..self.clone() })
    }

    fn file(&self) -> Result<Arc<File>, Error> {
        let (device, number) = match &self.file {
            Source::Open(file) => return Ok(file.clone()),
            Source::Closed(device, number) => (*device, *number),
        };
        // An entry of an archive has the archive's path before its own name, and never begins where the archive does.
        let opened = match (self.start, self.path.parent()) {
            (1.., Some(archive)) => place::open(archive, Links::Follow),
            _ => place::open(&self.path, Links::Refuse),
        };
        let file = opened.map_err(Error::io("open", &self.path))?;
        let data = file.metadata().map_err(Error::io("read", &self.path))?;
        if (data.dev(), data.ino()) != (device, number) {
            let damage = "it was replaced while it was read".to_owned();
            return Err(Error::Damaged { path: self.path.clone(), damage });
        }
        Ok(Arc::new(file))
    }

    pub(crate) fn whole(path: &Path) -> Result<Extent, Error> {
        let file = place::open(path, Links::Refuse).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => Error::Damaged { path: path.to_owned(), damage: error.to_string() },
            _ => Error::io("open", path)(error),
        })?;
        let data = file.metadata().map_err(Error::io("read", path))?;
        Ok(Extent::of(Arc::new(file), 0, data.len(), path.to_owned()))
    }

    /// Reads a range; one that does not lie in the extent is damage, found before memory is asked for.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let length = range
            .end
            .checked_sub(range.start)
            .filter(|_| range.end <= self.len)
            .and_then(|length| usize::try_from(length).ok());
        let Some(length) = length else {
            return Err(Error::Damaged {
                path: self.path.clone(),
                damage: format!("it ends at {} but refers to byte {}", self.len, range.end),
            });
        };
        let mut bytes = vec![0; length];
        self.file()?.read_exact_at(&mut bytes, self.start + range.start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::Damaged { path: self.path.clone(), damage: "it became shorter while it was read".to_owned() }
            }
            _ => Error::Io { what: "read", path: self.path.clone(), source: error },
        })?;
        Ok(bytes)
    }

    /// Copies all of it to `to`, which is called `path` in messages.
    pub(crate) fn copy(&self, to: &mut impl Write, path: &Path) -> Result<(), Error> {
        let mut at = 0;
        while at < self.len {
            let end = (at + COPY).min(self.len);
            to.write_all(&self.read(at..end)?).map_err(Error::io("write", path))?;
            at = end;
        }
        Ok(())
    }
}
