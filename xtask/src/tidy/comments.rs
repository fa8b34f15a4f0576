//! Comments fit beside other text. What formats code leaves them as they are.

use super::offenders::Offence;
use super::source::{comments_of, is_given};
use super::{File, Tree};

/// Most columns of a line with a comment.
const MAX_WIDTH: usize = 120;

/// How a comment begins, by the end of the file's name; a blank before it where code may stand in the line.
const MARKS: &[(&[&str], &[&str])] = &[
    (&[".c", ".h", ".cc", ".S", ".s", ".java", ".ts", ".js"], &["//", "/*", "* "]),
    (&[".svelte"], &["//", "/*", "* ", "<!--"]),
    (&[".py", ".sh", ".toml"], &["# "]),
];

/// Lines with comments have at most 120 columns; tables and single words (addresses) are as they are.
pub fn comments_are_narrow(tree: &Tree) -> Vec<Offence> {
    let offence = |file: &File| {
        let wide = wide_comments(file);
        let lines: Vec<String> = wide.iter().map(usize::to_string).collect();
        let text = format!("comments wider than {MAX_WIDTH} columns, in lines {}", lines.join(", "));
        let line = *wide.first()?;
        Some(Offence { line, ..Offence::new(&file.path, "", wide.len(), text) })
    };
    tree.files.iter().filter(|file| !is_given(&file.path)).filter_map(offence).collect()
}

/// Numbers of the lines that have too much of a comment.
fn wide_comments(file: &File) -> Vec<usize> {
    let is_wide = |line: &str| line.len() > MAX_WIDTH && line.chars().count() > MAX_WIDTH;
    if !file.lines().any(|(_, line)| is_wide(line)) {
        return Vec::new();
    }
    let comments = if file.is_rust() { comments_of(&file.text) } else { comments_by_marks(file) };
    let wide = file.lines().zip(comments.lines()).filter(|((_, line), comment)| is_wide(line) && can_break(comment));
    wide.map(|((number, _), _)| number).collect()
}

/// Whether a line's comment is text that could go on in the next line.
fn can_break(comment: &str) -> bool {
    let text = comment.trim().trim_start_matches(['/', '!', '*', '#', '<', '-']).trim();
    !text.starts_with('|') && text.contains(' ')
}

/// The lines with the parts of them blank that are no comment.
fn comments_by_marks(file: &File) -> String {
    let known = MARKS.iter().find(|(ends, _)| ends.iter().any(|end| file.path.ends_with(end)));
    let marks = known.map_or(&[][..], |(_, marks)| marks);
    let comment = |line: &str| -> String {
        match marks.iter().any(|mark| line.trim_start().starts_with(mark)) {
            true => line.to_owned(),
            false => {
                line.split_once(" // ").filter(|_| marks.contains(&"//")).map_or("", |(_, after)| after).to_owned()
            }
        }
    };
    file.lines().map(|(_, line)| comment(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<(usize, usize)> {
        let found = comments_are_narrow(&Tree::of(&[(path, text)]));
        found.into_iter().map(|offence| (offence.line, offence.figure)).collect()
    }

    #[test]
    fn wide() {
        let words = "é ".repeat(60);
        for (path, text) in [
            ("a.rs", format!("\n/// {words}")),
            ("a.rs", format!("\nlet x = 1; // {words}")),
            ("a.rs", format!("/*\n {words}.*/")),
            ("a.c", format!("\n * {words}")),
            ("a.ts", format!("\nlet x = 1; // {words}")),
            ("a.svelte", format!("\n<!-- {words} -->")),
            ("a.toml", format!("\n# {words}")),
        ] {
            assert_eq!(check(path, &text), [(2, 1)], "{text}");
        }
    }

    #[test]
    fn not_wide_or_no_comment() {
        let words = "é ".repeat(60);
        for (path, text) in [
            ("a.rs", format!("/// {}", "é ".repeat(58))),
            ("a.rs", format!("let x = \"// {words}\";")),
            ("a.rs", format!("//! | {words} |")),
            ("a.rs", format!("// https://{}", "x".repeat(120))),
            ("a.c", format!("x = \"{words}\";")),
            ("a.xml", format!("<!-- {words} -->")),
        ] {
            assert_eq!(check(path, &text), [], "{text}");
        }
    }
}
