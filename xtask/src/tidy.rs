//! The rules, as a table of functions from the files of the repository to complaints.
//!
//! To add a rule: a function in one of the files of `tidy/`, a row in [`RULES`], a test that shows it complain.

mod crates;
mod files;
mod pages;
mod source;
mod tree;

pub use tree::{File, Tree};

use std::fmt;

/// Something to change: where, and what.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Complaint {
    pub path: String,
    /// Counted from 1; 0 when the whole file is meant.
    pub line: usize,
    pub text: String,
}

impl Complaint {
    fn new(file: &File, line: usize, text: impl Into<String>) -> Self {
        Complaint { path: file.path.clone(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

type Rule = fn(&Tree) -> Vec<Complaint>;

/// Every rule.
pub const RULES: &[Rule] = &[
    crates::dependencies_flow_one_way,
    crates::lints_are_inherited,
    crates::workspace_dependencies_are_used,
    source::pure_crates_do_no_io,
    source::modules_open_with_a_doc,
    source::nothing_is_unfinished,
    files::long_files_have_a_reason,
    files::whitespace_is_clean,
    files::no_paths_of_a_machine,
    files::changelog_has_unreleased,
    files::metrics_are_documented,
    pages::lines_are_narrow,
    pages::dates_stand_beside_measurements,
];

/// The complaints of all rules, by file and line.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    complaints.sort();
    complaints
}
