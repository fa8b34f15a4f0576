//! Sources of these folders, and the lines that they mark: `EXPECT` and a tag, in a comment that ends the line.

use std::path::{Path, PathBuf};

/// A file of tests/, as "exact/kernel.S".
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The text of a file of tests/.
#[track_caller]
pub fn text_of(name: &str) -> String {
    std::fs::read_to_string(source(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The tag of a line.
pub fn tag(line: &str) -> Option<&str> {
    let (_, tag) = line.split_once("EXPECT")?;
    Some(tag.trim_end_matches("*/").trim())
}

/// The number of the line, from 1, with this tag.
#[track_caller]
pub fn expected(name: &str, wanted: &str) -> u64 {
    let text = text_of(name);
    let at = text.lines().position(|line| tag(line) == Some(wanted));
    at.unwrap_or_else(|| panic!("{name} expects no {wanted}")) as u64 + 1
}

/// The number of the first line, from 1, that has these words.
#[track_caller]
pub fn line_of(text: &str, words: &str) -> u64 {
    let at = text.lines().position(|line| line.contains(words));
    at.unwrap_or_else(|| panic!("no line with {words}")) as u64 + 1
}
