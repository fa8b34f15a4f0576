//! Files that pages name between backticks are there.

use crate::tidy::Tree;
use pulldown_cmark::{Event, Options, Parser};

/// Endings of files that are named with their folder.
const ENDINGS: [&str; 12] = [".rs", ".c", ".h", ".cc", ".sh", ".ts", ".toml", ".svelte", ".py", ".md", ".S", ".f90"];

/// Pages of `docs/` and what stands beside them.
pub fn check(tree: &Tree) -> Vec<String> {
    let is_page = |path: &str| (path.starts_with("docs/") || !path.contains('/')) && path.ends_with(".md");
    let mut complaints = Vec::new();
    for page in tree.files.iter().filter(|file| is_page(&file.path) && file.path != "CHANGELOG.md") {
        for (event, range) in Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter() {
            let Event::Code(span) = event else { continue };
            if !is_path(&span) {
                continue;
            }
            let end = format!("/{span}");
            if !tree.files.iter().any(|file| file.path == *span || file.path.ends_with(&end)) {
                let line = 1 + page.text[..range.start].matches('\n').count();
                complaints.push(format!("{}:{line}: no file {span}", page.path));
            }
        }
    }
    complaints
}

/// `crates/isa/src/lib.rs`, `isa/src/lib.rs`; not a file's bare name, as users have such files, nor a pattern.
fn is_path(span: &str) -> bool {
    let is_plain = span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c));
    is_plain
        && span.starts_with(|c: char| c.is_ascii_lowercase())
        && span.contains('/')
        && ENDINGS.iter().any(|ending| span.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_between_backticks_exist() {
        let check = |page| check(&Tree::of(&[("docs/a.md", page), ("crates/isa/src/lib.rs", "")]));
        let others =
            "`crates/isa/src/lib.rs` `isa/src/lib.rs` `lib.rs` `app.c` `analyze/src/NAME.rs` `./a.c` `/sys/a.c`";
        assert_eq!(check(others), [] as [String; 0]);
        assert_eq!(check("\n`isa/src/gone.rs`"), ["docs/a.md:2: no file isa/src/gone.rs"]);
        assert_eq!(check("```\n`isa/src/gone.rs`\n```"), [] as [String; 0]);
    }
}
