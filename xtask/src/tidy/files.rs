//! Rules about files of any kind.

use super::source::is_given;
use super::{Complaint, Tree};

/// Sources longer than this need a reason in [`LONG_FILES`].
const MAX_LINES: usize = 600;

/// Files that are one thing although they are long, and why.
const LONG_FILES: &[(&str, &str)] = &[
    ("crates/isa/tests/golden.rs", "a table: one row per instruction form"),
    ("ui/src/lib/generated.ts", "made by a test: the types of all documents"),
];

const SOURCES: [&str; 12] = [".rs", ".c", ".h", ".cc", ".f90", ".hs", ".py", ".sh", ".ts", ".svelte", ".S", ".java"];

/// A file past 600 lines is one thing for a stated reason, or is split.
pub fn long_files_have_a_reason(tree: &Tree) -> Vec<Complaint> {
    long_files(tree, LONG_FILES)
}

fn long_files(tree: &Tree, reasons: &[(&str, &str)]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| SOURCES.iter().any(|end| file.path.ends_with(end))) {
        let lines = file.text.lines().count();
        let has_reason = reasons.iter().any(|(path, _)| *path == file.path);
        if lines > MAX_LINES && !has_reason {
            let text = format!("{lines} lines: split it, or give the reason in LONG_FILES of xtask/src/tidy/files.rs");
            complaints.push(Complaint::new(file, 0, text));
        }
        if lines <= MAX_LINES && has_reason {
            complaints.push(Complaint::new(file, 0, "no longer long: take it out of LONG_FILES"));
        }
    }
    complaints
}

/// No blanks at ends of lines, no tabs but in Makefiles, Unix line ends, a newline at the end.
pub fn whitespace_is_clean(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let is_makefile = |path: &str| path.ends_with("Makefile") || path.ends_with(".mk");
    for file in tree.files.iter().filter(|file| !is_given(&file.path) && !file.path.ends_with(".lock")) {
        for (number, line) in file.text.split_terminator('\n').enumerate().map(|(index, line)| (index + 1, line)) {
            if line.ends_with([' ', '\t', '\r']) {
                complaints.push(Complaint::new(file, number, "blanks at the end of the line"));
            }
            if line.contains('\t') && !is_makefile(&file.path) {
                complaints.push(Complaint::new(file, number, "a tab"));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            complaints.push(Complaint::new(file, 0, "ends in other than one newline"));
        }
    }
    complaints
}

/// Folders that exist on one machine only: the home of its administrator, its users', its work trees.
pub fn no_paths_of_a_machine(tree: &Tree) -> Vec<Complaint> {
    // In pieces, so that this file does not complain about itself. `user` is nobody in particular.
    let folders = [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ho", "me/")];
    let nobody = ["user", "me/", "you/"];
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".lock")) {
        for (number, line) in file.lines() {
            for folder in folders {
                let is_named = line.match_indices(folder).any(|(at, _)| {
                    let is_top = !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_.-})".contains(c));
                    is_top && !nobody.iter().any(|name| line[at + folder.len()..].starts_with(name))
                });
                if is_named {
                    complaints.push(Complaint::new(file, number, format!("{folder} is a folder of one machine")));
                }
            }
        }
    }
    complaints
}

/// Changes that users notice are written down as they are made.
pub fn changelog_has_unreleased(tree: &Tree) -> Vec<Complaint> {
    let complaint = |text: &str| Complaint { path: "CHANGELOG.md".to_owned(), line: 0, text: text.to_owned() };
    match tree.get("CHANGELOG.md") {
        None => vec![complaint("there is none")],
        Some(file) if file.text.contains("\n## [Unreleased]\n") => Vec::new(),
        Some(_) => vec![complaint("there is no section `## [Unreleased]`")],
    }
}

/// Every metric that the code defines is defined for readers too.
pub fn metrics_are_documented(tree: &Tree) -> Vec<Complaint> {
    let (Some(code), Some(page)) =
        (tree.get("crates/analyze/src/model/metrics.rs"), tree.get("docs/reference/metrics.md"))
    else {
        return Vec::new();
    };
    // A row of the table of metrics: `LOCAL = "local", "local", ...`.
    let name_of = |line: &str| -> Option<String> {
        let (constant, rest) = line.trim().split_once(" = \"")?;
        let is_constant = constant.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        is_constant.then(|| rest.split('"').next().unwrap_or_default().to_owned())
    };
    let named = code.lines().filter_map(|(number, line)| Some((number, name_of(line)?)));
    let missing = named.filter(|(_, name)| !page.text.contains(&format!("`{name}`")));
    missing
        .map(|(number, name)| Complaint::new(code, number, format!("docs/reference/metrics.md has no `{name}`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_need_a_reason() {
        let long = "x\n".repeat(601);
        let check = |path, text: &str, reasons| long_files(&Tree::of(&[(path, text)]), reasons).len();
        assert_eq!(check("a.rs", &long, &[]), 1);
        assert_eq!(check("a.rs", &"x\n".repeat(600), &[]), 0);
        assert_eq!(check("a.rs", &long, &[("a.rs", "a table")]), 0);
        assert_eq!(check("a.rs", "x\n", &[("a.rs", "a table")]), 1, "a reason that is no longer needed");
        assert_eq!(check("a.md", &long, &[]), 0);
    }

    #[test]
    fn reasons_are_for_files_that_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).unwrap();
        for (path, reason) in LONG_FILES {
            assert!(tree.get(path).is_some() && !reason.is_empty(), "{path}");
        }
    }

    #[test]
    fn whitespace() {
        let check = |path, text| whitespace_is_clean(&Tree::of(&[(path, text)])).len();
        assert_eq!(check("a.rs", "a\n\nb\n"), 0);
        assert_eq!(check("a.rs", ""), 0);
        assert_eq!(check("a.rs", "a \n"), 1);
        assert_eq!(check("a.rs", "a\r\n"), 1);
        assert_eq!(check("a.rs", "\ta\n"), 1);
        assert_eq!(check("Makefile", "\ta\n"), 0);
        assert_eq!(check("a.rs", "a"), 1);
        assert_eq!(check("a.rs", "a\n\n"), 1);
        assert_eq!(check("crates/x/tests/data/a.xml", "a \n"), 0);
    }

    #[test]
    fn paths_of_a_machine() {
        let check = |text| no_paths_of_a_machine(&Tree::of(&[("a.md", text)])).len();
        assert_eq!(check(concat!("see /wo", "rk/x")), 1);
        assert_eq!(check(concat!("\"/ho", "me/jane/a.c\"")), 1);
        assert_eq!(check(concat!("(/ro", "ot/.cargo)")), 1);
        assert_eq!(check(concat!("OLD=/ho", "me/user/src")), 0);
        assert_eq!(check(concat!("patch", "/wo", "rk/x and $DIR}/wo", "rk/")), 0);
    }

    #[test]
    fn metrics() {
        let code = "metrics! {\n    LOCAL = \"local\", \"local\", \"unit\",\n    let x = \"y\";\n";
        let check = |page| {
            let tree = Tree::of(&[("crates/analyze/src/model/metrics.rs", code), ("docs/reference/metrics.md", page)]);
            metrics_are_documented(&tree)
                .into_iter()
                .map(|complaint| (complaint.line, complaint.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(check("`local`, `remote`"), []);
        assert_eq!(check("local"), [(2, "docs/reference/metrics.md has no `local`".to_owned())]);
    }

    #[test]
    fn changelog() {
        let check = |files: &[(&str, &str)]| changelog_has_unreleased(&Tree::of(files)).len();
        assert_eq!(check(&[("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")]), 0);
        assert_eq!(check(&[("CHANGELOG.md", "# Changelog\n")]), 1);
        assert_eq!(check(&[]), 1);
    }
}
