//! The files that rules look at.

use super::commits::{self, Commit};
use super::syntax::{self, Crate};
use std::cell::OnceCell;
use std::path::Path;
use std::process::Command;

/// A text file of the repository.
pub struct File {
    /// From the repository's root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    /// Lines with their numbers, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The paths of all files that git tracks or would track.
///
/// # Errors
/// There is no git, or no repository.
pub fn listed(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let listed = Command::new("git").current_dir(root).args(arguments).output();
    let listed = listed.map_err(|error| format!("cannot run git in {}: {error}", root.display()))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let paths = String::from_utf8(listed.stdout).map_err(|_| "a file's name is not UTF-8".to_owned())?;
    Ok(paths.split_terminator('\0').map(str::to_owned).collect())
}

/// The text files of the repository.
#[derive(Default)]
pub struct Tree {
    pub files: Vec<File>,
    /// Those that rules look at.
    pub commits: Vec<Commit>,
    /// Parsed when a rule first asks.
    crates: OnceCell<Vec<Crate>>,
}

impl Tree {
    /// All files that git tracks or would track. Files that are not text are left out.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let paths = listed(root)?;
        let mut files = Vec::new();
        for path in paths {
            // A file deleted and not yet committed is still listed.
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
        Ok(Tree { files, commits: commits::read(root), ..Tree::default() })
    }

    /// The crates, parsed.
    pub fn crates(&self) -> &[Crate] {
        self.crates.get_or_init(|| syntax::crates(self))
    }

    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Tree { files: files.iter().map(file).collect(), ..Tree::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_git_tracks_or_would_track() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let status = Command::new("git").current_dir(folder.path()).args(arguments).status().unwrap();
            assert!(status.success());
        };
        let write = |path: &str, bytes: &[u8]| std::fs::write(folder.path().join(path), bytes).unwrap();
        git(&["init", "-q"]);
        write(".gitignore", b"ignored\n");
        write("ignored", b"x");
        write("tracked", b"x");
        write("gone", b"x");
        write("picture", &[0xff, 0xfe]);
        git(&["add", "."]);
        write("new", b"x");
        std::fs::remove_file(folder.path().join("gone")).unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        let mut paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, [".gitignore", "new", "tracked"]);
    }

    #[test]
    fn says_when_there_is_no_repository() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tree::read(folder.path()).is_err_and(|error| error.contains("git ls-files")));
    }
}
