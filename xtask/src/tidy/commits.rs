//! Rules about the history.

use super::{Complaint, Tree};
use std::path::Path;
use std::process::Command;

/// The commit before this rule: what came before is as it is.
const BASE: &str = "18206e0b0dd4";
/// Most characters of a subject: `git log --oneline` shows it whole.
const MAX_SUBJECT: usize = 72;

/// A commit, as far as rules look at it.
pub struct Commit {
    pub id: String,
    pub subject: String,
}

/// Commits after [`BASE`]; none where the history does not reach back to it.
pub fn read(root: &Path) -> Vec<Commit> {
    let range = format!("{BASE}..HEAD");
    let log = Command::new("git").current_dir(root).args(["log", "--format=%h %s", &range]).output();
    let text = log.ok().filter(|log| log.status.success()).map(|log| log.stdout).unwrap_or_default();
    let commit = |line: &str| {
        let (id, subject) = line.split_once(' ')?;
        Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
    };
    String::from_utf8_lossy(&text).lines().filter_map(commit).collect()
}

/// Subjects of commits are short.
pub fn subjects_are_short(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for Commit { id, subject } in &tree.commits {
        let length = subject.chars().count();
        if length > MAX_SUBJECT {
            let text = format!("a subject of {length} characters: {MAX_SUBJECT} at most");
            complaints.push(Complaint { path: format!("commit {id}"), line: 0, text });
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects() {
        let check = |subject: String| {
            let mut tree = Tree::of(&[]);
            tree.commits.push(Commit { id: "1".to_owned(), subject });
            subjects_are_short(&tree).len()
        };
        assert_eq!(check("é".repeat(72)), 0);
        assert_eq!(check("é".repeat(73)), 1);
    }

    #[test]
    fn no_history() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).len(), 0);
    }
}
