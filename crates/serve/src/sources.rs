//! Sources of the recorded program: those files that the profile names, letter by letter, and no others.
//!
//! Whoever made the profile may have named any file of the reader's, so a name is not enough:
//!
//! ```text
//! name       has the ending of a source; or none, below a folder `include`, as headers of C++ have
//! place      once links are followed: below a folder of a source that the profile names; not in /proc, /sys, /dev,
//!            /run; nowhere hidden (`.ssh`), but for the folders in which Rust's tools keep sources, and above where
//!            the reader works
//! file       a regular one, opened without following a link or waiting for a pipe; so many bytes at most; text
//! ```

use numalens_profile::tables::Frame;
use numalens_profile::{Error, Profile};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A source longer than this was not written by people, and would not be read by them.
const LONGEST: u64 = 16 << 20;

/// Endings of the names of sources, in lower case.
const ENDINGS: &[&str] = &[
    "ada", "adb", "ads", "asm", "c", "c++", "cc", "chpl", "cl", "clj", "cpp", "cr", "cs", "cu", "cuh", "cxx", "d",
    "def", "erl", "ex", "exs", "f", "f03", "f08", "f77", "f90", "f95", "for", "fpp", "fs", "ftn", "glsl", "go",
    "groovy", "h", "h++", "hh", "hip", "hpp", "hs", "hxx", "inc", "inl", "ipp", "ispc", "java", "jl", "js", "jsx",
    "kt", "l", "lhs", "lisp", "ll", "lpp", "lua", "m", "ml", "mli", "mll", "mly", "mm", "mjs", "nim", "pas", "pl",
    "pm", "pp", "pxd", "pxi", "py", "pyi", "pyx", "r", "rb", "rs", "s", "scala", "scm", "swift", "tcc", "tpp", "ts",
    "tsx", "upc", "v", "vala", "y", "ypp", "yy", "zig",
];
/// Whatever lies there is no source.
const NOT_THERE: &[&str] = &["/proc", "/sys", "/dev", "/run"];
/// Hidden folders that have sources, with what stands in them.
const HIDDEN: &[[&str; 2]] = &[[".cargo", "registry"], [".cargo", "git"], [".rustup", "toolchains"]];

/// The files that the profile names.
pub struct Sources {
    files: BTreeSet<String>,
    /// Where the program was built, as far as anybody knows: relative names begin here.
    cwd: PathBuf,
    /// Where the reader works.
    at_home: PathBuf,
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
        let at_home = std::env::current_dir().and_then(|folder| folder.canonicalize()).unwrap_or_default();
        Ok(Sources { files, cwd: PathBuf::from(&profile.meta.cwd), at_home })
    }

    /// The text of a file; none: the profile does not name it. What is not UTF-8 is replaced.
    pub fn read(&self, file: &str) -> Option<Result<String, String>> {
        let file = self.files.get(file)?;
        let path = self.cwd.join(file);
        Some(self.text(&path).map_err(|error| {
            format!(
                "cannot read {}: {error}; if sources have moved, start numalens view with --source-map OLD=NEW",
                path.display()
            )
        }))
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        if !is_named_like_source(path) {
            return Err(refusal("its name is not that of a source"));
        }
        let place = path.canonicalize()?;
        if !is_named_like_source(&place)
            || !may_have_sources(&place, &self.at_home)
            || !self.is_below_sources(path, &place)
        {
            return Err(refusal(&format!("it leads to {}, where no sources are read", place.display())));
        }
        read(&place)
    }

    /// Whether a place lies below the folder of the path that led to it, or of another source that the profile names.
    fn is_below_sources(&self, path: &Path, place: &Path) -> bool {
        let has = |source: &Path| {
            let folder = source.parent().and_then(|folder| folder.canonicalize().ok());
            folder.is_some_and(|folder| folder.parent().is_some() && place.starts_with(folder))
        };
        let others = || self.files.iter().map(Path::new).filter(|file| is_named_like_source(file));
        has(path) || others().any(|file| has(&self.cwd.join(file)))
    }
}

fn is_named_like_source(path: &Path) -> bool {
    let Some(name) = path.file_name().map(OsStrExt::as_bytes) else { return false };
    if name.starts_with(b".") {
        return false;
    }
    match path.extension() {
        Some(ending) => ending.to_str().is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str())),
        None => path.components().any(|part| part.as_os_str() == "include"),
    }
}

/// Whether sources may lie at a place, by the folders on the way. `at_home`: the folder that the reader works in, who
/// knows what it is called.
fn may_have_sources(place: &Path, at_home: &Path) -> bool {
    let way = match place.strip_prefix(at_home) {
        Ok(below) if at_home.parent().is_some() => below,
        _ => place,
    };
    let parts: Vec<&[u8]> = way.components().map(|part| part.as_os_str().as_bytes()).collect();
    let is_hidden = |(at, part): (usize, &&[u8])| {
        let next = parts.get(at + 1).copied().unwrap_or_default();
        part.starts_with(b".")
            && !HIDDEN.iter().any(|[first, second]| *part == first.as_bytes() && next == second.as_bytes())
    };
    !NOT_THERE.iter().any(|folder| place.starts_with(folder)) && !parts.iter().enumerate().any(is_hidden)
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

/// The text of the file at a place without links.
fn read(place: &Path) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(place)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(refusal("it is not a file"));
    }
    if about.len() > LONGEST {
        return Err(refusal(&format!("it has {} bytes, and {LONGEST} are the most that is shown", about.len())));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(refusal("it is no text"));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_folders_have_none_but_of_rust_and_where_the_reader_works() {
        let may = |place: &str| may_have_sources(Path::new(place), Path::new("/home/me/.work/app"));
        for place in ["/usr/include/stdio.h", "/home/me/.cargo/registry/src/a.rs", "/home/me/.work/app/src/a.c"] {
            assert!(may(place), "{place}");
        }
        let refused = [
            "/proc/1/a.c",
            "/home/me/.ssh/a.c",
            "/home/me/.work/other/a.c",
            "/home/me/.work/app/.git/a.c",
            "/home/me/.cargo/a.rs",
        ];
        for place in refused {
            assert!(!may(place), "{place}");
        }
        assert!(!may_have_sources(Path::new("/srv/.x/a.c"), Path::new("/")));
    }
}
