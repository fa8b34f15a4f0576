//! Rules about Rust sources.

use super::{Complaint, Tree};

/// Crates that compute and do no I/O.
const PURE: [&str; 5] = ["isa", "translator", "aggregate", "simulate", "analyze"];
/// Modules of `std` that do I/O.
const IO_MODULES: [&str; 6] = ["fs", "net", "process", "os", "env", "io"];
/// Other ways to it.
const IO_NAMES: [&str; 8] =
    ["libc::", "nix::", "rustix::", "println!", "eprintln!", "print!", "eprint!", "include_bytes!"];

/// `isa`, `translator`, `aggregate`, `simulate` and `analyze` neither read nor write anything but their arguments, so
/// they cannot fail for reasons outside of them. Their tests in `tests/` may.
pub fn pure_crates_do_no_io(tree: &Tree) -> Vec<Complaint> {
    let is_pure = |path: &str| PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && is_pure(&file.path)) {
        let code = code_of(&file.text);
        for (position, name) in std_modules(&code) {
            if IO_MODULES.contains(&name.as_str()) {
                complaints.push(Complaint::new(
                    file,
                    line_of(&code, position),
                    format!("std::{name} in a crate without I/O"),
                ));
            }
        }
        for name in IO_NAMES {
            for (position, _) in code.match_indices(name) {
                let before = code[..position].chars().next_back();
                if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    complaints.push(Complaint::new(
                        file,
                        line_of(&code, position),
                        format!("{name} in a crate without I/O"),
                    ));
                }
            }
        }
    }
    complaints
}

/// Every source file of a crate opens with `//!`, which says what it is for; only inner attributes may stand before it.
pub fn modules_open_with_a_doc(tree: &Tree) -> Vec<Complaint> {
    let is_source = |path: &str| path.contains("/src/") || path.contains("/tests/") || path.contains("/benches/");
    let sources = tree.files.iter().filter(|file| file.is_rust() && is_source(&file.path) && !is_given(&file.path));
    let is_preamble = |line: &&str| line.starts_with("#![") || line.is_empty();
    let has_doc =
        |text: &str| text.lines().find(|line| !is_preamble(line)).is_some_and(|line| line.starts_with("//! "));
    let undocumented = sources.filter(|file| !has_doc(&file.text));
    undocumented.map(|file| Complaint::new(file, 1, "open the file with `//! what it is for`")).collect()
}

/// No holes: what is on the main branch works, and no test is switched off.
pub fn nothing_is_unfinished(tree: &Tree) -> Vec<Complaint> {
    // In pieces, so that this file does not complain about itself.
    let macros = [concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!"), concat!("#[", "ignore")];
    let remarks = [concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO")];
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".lock") && !is_given(&file.path)) {
        for (number, line) in file.lines() {
            let is_word = |word: &&&str| line.split(|c: char| !c.is_alphanumeric()).any(|found| found == **word);
            let found =
                macros.iter().find(|name| file.is_rust() && line.contains(**name)).or(remarks.iter().find(is_word));
            if let Some(found) = found {
                complaints.push(Complaint::new(file, number, format!("{found}: finish it or leave it out")));
            }
        }
    }
    complaints
}

/// Files whose text is not this project's to change: recorded inputs and expected outputs of tests, licenses, what
/// tools made.
pub fn is_given(path: &str) -> bool {
    path.contains("/tests/data/")
        || path.contains("/tests/fixtures/")
        || path.contains("/snapshots/")
        || path.starts_with("ui/dist/")
        || path == "ui/package-lock.json"
        || path.starts_with("LICENSE")
}

/// What a piece of a source is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// The code, comments and insides of string literals blanked.
fn code_of(text: &str) -> String {
    only(Piece::Code, text)
}

/// The comments, all else blanked.
pub fn comments_of(text: &str) -> String {
    only(Piece::Comment, text)
}

/// The text with all else blanked, byte for byte, so that positions stay.
fn only(wanted: Piece, text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, ' ');
    while let Some(first) = rest.chars().next() {
        let (length, piece) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), Piece::Comment),
            '/' if rest.starts_with("/*") => (rest.find("*/").map_or(rest.len(), |end| end + 2), Piece::Comment),
            '"' => (string_length(rest), Piece::Literal),
            'r' if raw_string_length(rest).is_some() && !(before.is_alphanumeric() || before == '_') => {
                (raw_string_length(rest).unwrap_or(1), Piece::Literal)
            }
            // A quote or a backslash as a character must not open a string.
            '\'' if rest.starts_with("'\"'") => (3, Piece::Literal),
            '\'' if rest.starts_with("'\\") => {
                (rest[2..].find('\'').map_or(2, |end| end + 3).max(4).min(rest.len()), Piece::Literal)
            }
            other => (other.len_utf8(), Piece::Code),
        };
        match piece == wanted {
            true => found.push_str(&rest[..length]),
            false => found.extend(rest[..length].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' })),
        }
        before = if piece == Piece::Code { first } else { ' ' };
        rest = &rest[length..];
    }
    found
}

/// Of the literal that `text` opens with, both quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return position + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// `r"..."`, `r#"..."#`; `None` when `text` opens with no such literal.
fn raw_string_length(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|&byte| byte == b'#').count();
    text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = 2 + hashes;
    Some(text[inside..].find(&end).map_or(text.len(), |found| inside + found + end.len()))
}

/// Where the code names `std::NAME`, also in groups: `use std::{fs, io::Read}`. Positions are those of `std`.
fn std_modules(code: &str) -> Vec<(usize, String)> {
    let mut modules = Vec::new();
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    for (position, _) in code.match_indices("std::") {
        let rest = &code[position + "std::".len()..];
        let Some(group) = rest.trim_start().strip_prefix('{') else {
            modules.push((position, name(rest)));
            continue;
        };
        let mut depth = 1;
        let mut item = 0;
        for (at, c) in group.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 || (c == ',' && depth == 1) {
                modules.push((position, name(&group[item..at])));
                item = at + 1;
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

fn line_of(text: &str, position: usize) -> usize {
    text[..position].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(source: &str) -> Vec<(usize, String)> {
        let complaints = pure_crates_do_no_io(&Tree::of(&[("crates/isa/src/lib.rs", source)]));
        complaints.into_iter().map(|complaint| (complaint.line, complaint.text)).collect()
    }

    #[test]
    fn finds_io_in_every_spelling() {
        for (source, line, name) in [
            ("use std::fs;", 1, "std::fs"),
            ("fn f() {\n    let _ = ::std::fs::read(\"x\");\n}", 2, "std::fs"),
            ("use std::{collections::BTreeMap, fs};", 1, "std::fs"),
            ("use std::{\n    fmt::{self, Write},\n    process,\n};", 1, "std::process"),
            ("use std::net::TcpStream;", 1, "std::net"),
            ("let x = 'a'; unsafe { libc::getpid() }", 1, "libc::"),
            ("fn f() {\n\n  println!(\"x\") }", 3, "println!"),
            ("let quote = '\"'; use std::fs;", 1, "std::fs"),
            ("let tick = '\\''; use std::fs;", 1, "std::fs"),
            ("let a = r#\"x\"y\"#; use std::fs;", 1, "std::fs"),
            ("/* std::net */ use std::fs;", 1, "std::fs"),
        ] {
            assert_eq!(io(source), [(line, format!("{name} in a crate without I/O"))], "{source}");
        }
    }

    #[test]
    fn leaves_the_rest_alone() {
        for source in [
            "// use std::fs;",
            "let x = \"std::fs\";",
            "let x = \"\\\"std::fs\";",
            "let x = r#\"std::fs\"#;",
            "use std::fmt::{self, Write};",
            "use std::{fmt, collections::{HashMap, hash_map::Entry}};",
            "mylibc::f(); my_println!();",
            "fn r<'a>(x: &'a str) {}",
        ] {
            assert_eq!(io(source), [], "{source}");
        }
        let elsewhere =
            Tree::of(&[("crates/view/src/lib.rs", "use std::fs;"), ("crates/isa/tests/a.rs", "use std::fs;")]);
        assert_eq!(pure_crates_do_no_io(&elsewhere), []);
    }

    #[test]
    fn blanking_keeps_positions() {
        for source in ["a /* b\n é */ c", "let s = \"é\n\"; x", "'\\u{1f600}' x // é"] {
            let code = code_of(source);
            assert_eq!(code.len(), source.len());
            assert_eq!(code.matches('\n').count(), source.matches('\n').count());
        }
    }

    #[test]
    fn docs_open_files() {
        let check = |text| modules_open_with_a_doc(&Tree::of(&[("crates/isa/src/a.rs", text)])).len();
        assert_eq!(check("//! Decodes.\n"), 0);
        assert_eq!(check("#![no_std]\n\n//! Decodes.\n"), 0);
        assert_eq!(check("// Decodes.\n"), 1);
        assert_eq!(check("use x;\n//! Decodes.\n"), 1);
        assert_eq!(check(""), 1);
    }

    #[test]
    fn unfinished_pieces() {
        let check = |path, text| nothing_is_unfinished(&Tree::of(&[(path, text)])).len();
        assert_eq!(check("a.rs", concat!("fn f() { todo", "!() }")), 1);
        assert_eq!(check("a.rs", concat!("#[", "ignore]\n#[", "ignore = \"slow\"]")), 2);
        assert_eq!(check("a.c", concat!("/* FIX", "ME: later */")), 1);
        assert_eq!(check("a.c", concat!("mkstemp(\"/tmp/a.X", "XX", "XX", "X\")")), 0);
        assert_eq!(check("crates/a/tests/data/x", concat!("FIX", "ME")), 0);
    }
}
