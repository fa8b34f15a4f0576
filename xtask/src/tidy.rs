//! The rules, as a table of functions from the files of the repository to complaints.
//!
//! To add a rule: a function in one of the files of `tidy/`, a row in [`RULES`], a test that shows it complain.
//! Where the tree offends against it today, it is a [`Rule::Listed`], and the offenders are in `xtask/offenders.toml`.

mod comments;
mod commits;
mod crates;
mod files;
mod folders;
mod imports;
mod names;
mod offenders;
mod pages;
mod sizes;
mod source;
mod syntax;
mod tree;

pub use folders::arrows;
use offenders::{List, Offence};
use std::path::Path;
pub use tree::{File, Tree, listed};

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

/// A rule, as a function from the files to what is wrong.
pub enum Rule {
    /// What nothing may offend against.
    Strict(fn(&Tree) -> Vec<Complaint>),
    /// What only that may offend against which is listed in `xtask/offenders.toml`, there below this name.
    Listed(&'static str, fn(&Tree) -> Vec<Offence>),
}

use Rule::{Listed, Strict};

/// Every rule.
pub const RULES: &[Rule] = &[
    Strict(crates::dependencies_flow_one_way),
    Strict(crates::lints_are_inherited),
    Strict(crates::workspace_dependencies_are_used),
    Strict(source::pure_crates_do_no_io),
    Strict(source::modules_open_with_a_doc),
    Strict(source::nothing_is_unfinished),
    Strict(files::long_files_have_a_reason),
    Strict(files::whitespace_is_clean),
    Strict(files::no_paths_of_a_machine),
    Strict(files::changelog_has_unreleased),
    Strict(files::metrics_are_documented),
    Strict(pages::lines_are_narrow),
    Strict(pages::dates_stand_beside_measurements),
    Strict(commits::subjects_are_short),
    Strict(syntax::sources_are_understood),
    Listed("circles", folders::circles_stay_in_a_folder),
    Listed("scattered_methods", folders::methods_stay_together),
    Listed("nameless_modules", folders::modules_have_names),
    Listed("large_structs", sizes::structs_are_small),
    Listed("long_functions", sizes::functions_are_short),
    Listed("wide_comments", comments::comments_are_narrow),
];

/// The complaints of all rules, by file and line.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let (list, unreadable) = match List::read(tree) {
        Ok(list) => (list, None),
        Err(complaint) => (List::default(), Some(complaint)),
    };
    let complaints = RULES.iter().flat_map(|rule| match rule {
        Strict(find) => find(tree),
        Listed(name, find) => list.hold(name, &find(tree)),
    });
    let mut complaints: Vec<Complaint> = complaints.chain(list.hold_names(&listed_rules())).chain(unreadable).collect();
    complaints.sort();
    complaints
}

/// Lowers the list of offenders to what is found.
///
/// # Errors
/// It cannot be read or written.
pub fn lower(root: &Path, tree: &Tree) -> Result<(), String> {
    let mut list = List::read(tree).map_err(|complaint| complaint.to_string())?;
    for rule in RULES {
        if let Listed(name, find) = rule {
            list.lower(name, &find(tree));
        }
    }
    let text = list.to_text();
    std::fs::write(root.join(offenders::PATH), text).map_err(|error| format!("{}: {error}", offenders::PATH))
}

fn listed_rules() -> Vec<&'static str> {
    let names = RULES.iter().filter_map(|rule| match rule {
        Strict(_) => None,
        Listed(name, _) => Some(*name),
    });
    names.collect()
}
