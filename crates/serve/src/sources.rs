//! Sources of the recorded program: those files that the profile names, letter by letter, and no others.

use numalens_profile::tables::Frame;
use numalens_profile::{Error, Profile};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A source longer than this was not written by people, and would not be read by them.
const LONGEST: u64 = 16 << 20;

/// `O_NONBLOCK` of Linux on x86-64 and aarch64: opening a pipe must not wait for its writer.
const NONBLOCK: i32 = 0o4000;

/// The files that the profile names.
pub struct Sources {
    files: BTreeSet<String>,
    /// Where the program was built, as far as anybody knows: relative names begin here.
    cwd: PathBuf,
}

impl Sources {
    /// Of a profile with names.
    ///
    /// # Errors
    /// The profile is damaged.
    pub fn of(profile: &Profile) -> Result<Sources, Error> {
        let files = profile.fold::<Frame, BTreeSet<String>>(
            &["file"],
            BTreeSet::new,
            |files, frame| {
                if let Some(file) = frame.file
                    && !files.contains(&file)
                {
                    files.insert(file);
                }
            },
            |mut left, right| {
                left.extend(right);
                left
            },
        )?;
        Ok(Sources { files, cwd: PathBuf::from(&profile.meta.cwd) })
    }

    /// The text of a file; none: the profile does not name it. What is not UTF-8 is replaced.
    pub fn read(&self, file: &str) -> Option<Result<String, String>> {
        let file = self.files.get(file)?;
        let path = self.cwd.join(file);
        Some(read(&path).map_err(|error| {
            format!(
                "cannot read {}: {error}; if sources have moved, start numalens view with --source-map OLD=NEW",
                path.display()
            )
        }))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    let about = file.metadata()?;
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !about.is_file() {
        return refuse("it is not a file".to_string());
    }
    if about.len() > LONGEST {
        return refuse(format!("it has {} bytes, and {LONGEST} are the most that is shown", about.len()));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
