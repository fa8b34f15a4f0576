//! `cargo xtask docs`: pages that are made from sources are fresh, links lead somewhere, every page is in the book.
//!
//! `cargo xtask docs --write` writes the pages that are made. The book itself is built by `mdbook build`.

mod links;
mod made;
mod spans;

use crate::tidy::{File, Tree};
use std::path::Path;

/// Makes a page of the sources that define what it lists.
type Make = fn(&Tree) -> Result<String, String>;

/// Pages that are made, and by what.
const MADE: [(&str, Make); 3] = [
    ("docs/reference/metric-names.md", made::metric_names),
    ("docs/reference/profile-tables.md", made::profile_tables),
    ("docs/reference/terms.md", made::terms),
];

/// What is wrong, a line each. With `write`, pages that are made are written first.
///
/// # Errors
/// The tree cannot be read, or a page not written.
pub fn check(root: &Path, write: bool) -> Result<Vec<String>, String> {
    let mut tree = Tree::read(root)?;
    let mut complaints = Vec::new();
    for (path, make) in MADE {
        let text = make(&tree)?;
        if tree.get(path).is_some_and(|page| page.text == text) {
            continue;
        }
        if write {
            std::fs::write(root.join(path), &text).map_err(|error| format!("{path}: {error}"))?;
            tree.files.retain(|file| file.path != path);
            tree.files.push(File { path: path.to_owned(), text });
        } else {
            complaints.push(format!("{path} is stale: cargo xtask docs --write"));
        }
    }
    complaints.extend(links::check(&tree, &pictures(root)?));
    complaints.extend(spans::check(&tree));
    complaints.extend(unlisted(&tree));
    Ok(complaints)
}

/// Files that are not text, and that pages may lead to.
fn pictures(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("docs/ui");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| format!("docs/ui/{}", entry.file_name().to_string_lossy())).collect())
}

/// The book has every page once.
fn unlisted(tree: &Tree) -> Vec<String> {
    let summary = "docs/SUMMARY.md";
    let Some(list) = tree.get(summary) else {
        return vec![format!("{summary}: there is none")];
    };
    let pages = tree.files.iter().filter_map(|file| file.path.strip_prefix("docs/"));
    let pages = pages.filter(|page| page.ends_with(".md") && *page != "SUMMARY.md");
    let times = |page: &str| list.text.matches(&format!("]({page})")).count();
    pages
        .filter(|page| times(page) != 1)
        .map(|page| format!("{summary}: {page} is there {} times", times(page)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_book_once() {
        let check = |summary| unlisted(&Tree::of(&[("docs/SUMMARY.md", summary), ("docs/guide/a.md", "")])).len();
        assert_eq!(check("- [A](guide/a.md)\n"), 0);
        assert_eq!(check("- [A](guide/b.md)\n"), 1);
        assert_eq!(check("- [A](guide/a.md)\n- [A](guide/a.md)\n"), 1);
    }

    #[test]
    fn pages_of_this_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(check(&root, false).unwrap(), [] as [String; 0]);
    }
}
