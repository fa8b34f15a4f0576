//! What a heading of CONTRIBUTING.md names.

/// The text below a heading, up to the next one.
pub fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let title = format!("### {heading}\n");
    let start = page.match_indices(&title).find(|(at, _)| *at == 0 || page.as_bytes()[at - 1] == b'\n')?.0;
    let text = &page[start + title.len()..];
    Some(text.find("\n#").map_or(text, |end| &text[..end]))
}

/// What stands between backticks, and what links lead to.
pub fn spans(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|link| link.split([')', '#']).next());
    text.split('`').skip(1).step_by(2).chain(links).collect()
}

/// Whether a span is the name of a file: whole, below `crates/`, a folder above it, or with `NAME` for a new one.
pub fn names(span: &str, path: &str, is_new: bool) -> bool {
    let short = path.strip_prefix("crates/").unwrap_or(path);
    [path, short].into_iter().any(|path| match span.split_once("NAME") {
        Some((before, after)) => {
            let name = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            is_new && name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
        }
        None => path == span || (span.ends_with('/') && path.starts_with(span)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let page = "## To add\n### A dish\n1. `a`\n2. b `c`\n### A dish of two\n[d](docs/d.md#e)\n";
        assert_eq!(spans(section(page, "A dish").unwrap()), ["a", "c"]);
        assert_eq!(spans(section(page, "A dish of two").unwrap()), ["docs/d.md"]);
        assert_eq!(section(page, "dish"), None);
    }

    #[test]
    fn files_are_named_whole_by_folder_or_by_pattern() {
        let named = |span, path| names(span, path, true);
        assert!(named("crates/a/b.rs", "crates/a/b.rs"));
        assert!(named("a/b.rs", "crates/a/b.rs"));
        assert!(named("a/", "crates/a/b.rs"));
        assert!(named("a/NAME.rs", "crates/a/b.rs"));
        assert!(!named("a", "crates/a/b.rs"));
        assert!(!named("a/NAME.rs", "crates/a/c/b.rs"));
        assert!(!named("a/NAME.rs", "crates/a/b.c"));
        assert!(!named("b/", "crates/a/b.rs"));
        assert!(!names("a/NAME.rs", "crates/a/b.rs", false));
    }
}
