//! `--source-map OLD=NEW`: where files of the recording machine are on this one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Pairs of an old and a new leading path. The longest old path that leads a path, by whole components, replaces it.
#[derive(Clone, Copy)]
pub(crate) struct PathMap<'a>(pub(crate) &'a [(PathBuf, PathBuf)]);

impl PathMap<'_> {
    /// `path` on this machine; `path` itself when no pair leads it.
    pub(crate) fn apply(&self, path: &Path) -> PathBuf {
        let rest = |old: &Path| path.strip_prefix(old).ok().map(Path::to_path_buf);
        let longest = (self.0.iter())
            .filter_map(|(old, new)| Some((old.components().count(), new, rest(old)?)))
            .max_by_key(|(length, _, _)| *length);
        match longest {
            Some((_, new, rest)) if rest.as_os_str().is_empty() => new.clone(),
            Some((_, new, rest)) => new.join(rest),
            None => path.to_path_buf(),
        }
    }

    /// The source path `path` as debug information spells it, without `.` components and doubled slashes (so that one
    /// file has one name; `..` stays, for what it means depends on symbolic links), mapped.
    pub(crate) fn source(&self, path: &str) -> String {
        let plain: PathBuf = Path::new(path).components().filter(|c| *c != Component::CurDir).collect();
        self.apply(&plain).to_string_lossy().into_owned()
    }

    /// [`Self::source`] of a path that may have been mapped before: it stays when it lies under a new path already.
    pub(crate) fn source_again(&self, path: String) -> String {
        match self.0.iter().any(|(_, new)| Path::new(&path).starts_with(new)) {
            true => path,
            false => self.source(&path),
        }
    }

    /// [`Self::apply`] for a path as bytes.
    pub(crate) fn bytes(&self, path: &[u8]) -> PathBuf {
        self.apply(Path::new(OsStr::from_bytes(path)))
    }
}

/// Reads the `OLD=NEW` of the option; neither may be empty.
///
/// # Errors
/// The text to show after "invalid value".
pub fn parse_source_map(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err(format!("`{text}` is not OLD=NEW, for example /build/app=/home/me/app")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_leading_path_wins() {
        let pairs = [("/b", "/x"), ("/b/app", "/home/me/app"), ("/one.c", "/two.c")].map(|(o, n)| (o.into(), n.into()));
        let map = PathMap(&pairs);
        for (path, mapped) in [
            ("/b/app/src/./a.c", "/home/me/app/src/a.c"),
            ("/b//app2/a.c", "/x/app2/a.c"),
            ("/bb/a.c", "/bb/a.c"),
            ("/one.c", "/two.c"),
            ("/b/../a.c", "/x/../a.c"),
            ("a.c", "a.c"),
            ("./a.c", "a.c"),
        ] {
            assert_eq!(map.source(path), mapped);
        }
        assert_eq!(map.bytes(b"/b/app"), Path::new("/home/me/app"));
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let pairs = [("/src".into(), "/src/new".into())];
        let map = PathMap(&pairs);
        let once = map.source("/src/a.c");
        assert_eq!(once, "/src/new/a.c");
        assert_eq!(map.source_again(once.clone()), once);
    }

    #[test]
    fn the_option() {
        assert_eq!(parse_source_map("/a=/b"), Ok(("/a".into(), "/b".into())));
        for bad in ["", "/a", "=", "/a=", "=/b"] {
            assert!(parse_source_map(bad).is_err(), "{bad}");
        }
    }
}
