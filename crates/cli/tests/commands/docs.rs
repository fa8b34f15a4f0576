//! What pages say of the command line is true: `docs/reference/cli.md` is the help of every command, and the examples
//! of README and guide can be typed. `NUMALENS_WRITE=1 cargo test -p numalens --test commands docs` writes the former
//! anew.
//!
//! An example is a line `$ numalens ...` in a block of code that is marked `console`. All of them must be taken by the
//! parser of the command line. Those of a block are executed as well, one after the other, unless it is marked `console
//! no-run`.

use super::*;
use numalens_profile::testing::Synthetic;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `numalens WORDS` on a screen of the pages' width.
fn typed(words: &[String]) -> Outcome {
    output(native(NUMALENS).args(words).env("COLUMNS", "100"))
}

/// The help of a command.
fn help(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().copied().chain(["--help"]).map(str::to_owned).collect();
    let text = typed(&words).succeeded().stdout;
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The names below `Commands:` of a help.
fn commands(help: &str) -> Vec<String> {
    let below = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let rows = below.lines().take_while(|line| !line.is_empty());
    // What a command does goes on in lines that are indented further.
    let names = rows.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The page of the command line.
fn page() -> String {
    let mut page = "# The command line\n\nThe help of every command, as `numalens COMMAND --help` prints it.\n\
                    `NUMALENS_WRITE=1 cargo test -p numalens --test commands docs` makes this page.\n"
        .to_owned();
    section(&mut page, &[]);
    page
}

fn section(page: &mut String, words: &[&str]) {
    let text = help(words);
    let title = ["numalens"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
    write!(page, "\n## {title}\n```text\n{}\n```\n", text.trim_end()).unwrap();
    for name in commands(&text) {
        section(page, &words.iter().copied().chain([name.as_str()]).collect::<Vec<_>>());
    }
}

#[test]
fn the_command_line_is_documented() {
    let path = root().join("docs/reference/cli.md");
    let page = page();
    if std::env::var_os("NUMALENS_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(std::fs::read_to_string(&path).is_ok_and(|stored| stored == page), "stale: see the head of this file");
}

/// A block of examples: where it begins, whether they are executed, the lines behind `$ `.
struct Block {
    place: String,
    run: bool,
    lines: Vec<String>,
}

/// The blocks of a page that are marked `console`.
fn blocks(name: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), (1..).zip(text.lines()));
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```"));
        let typed: Vec<String> = inside.filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect();
        if info.split(' ').next() == Some("console") {
            blocks.push(Block { place: format!("{name}:{number}"), run: !info.contains("no-run"), lines: typed });
        }
    }
    blocks
}

/// README and every page of the guide and the reference.
fn examples() -> Vec<Block> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs/guide", "docs/reference"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        blocks(&name, &std::fs::read_to_string(path).unwrap())
    };
    paths.iter().flat_map(read).collect()
}

/// The words of a line as a shell would make them; quotes are understood, and no more.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// What is said to `numalens` in a line, wherever in it that is.
fn said(line: &str) -> Option<Vec<String>> {
    let words = words(line);
    let at = words.iter().position(|word| word == "numalens")?;
    Some(words[at + 1..].iter().take_while(|word| !["|", ">", "&"].contains(&word.as_str())).cloned().collect())
}

#[test]
fn examples_can_be_typed() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for block in examples() {
        for line in &block.lines {
            let Some(mut words) = said(line) else { continue };
            count += 1;
            // All that stands before it has been looked at when help is asked for.
            let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(at, "--help".to_owned());
            let outcome = typed(&words);
            if !outcome.status.success() {
                wrong.push(format!("{}: {line}\n{}", block.place, outcome.stderr));
            }
        }
    }
    assert!(count > 20, "{count} examples found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A folder as examples have it: programs, and recordings that were made before.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["app", "serial_init_omp", "serial_init_omp_fixed"] {
        let program = folder.path().join(name);
        std::fs::write(&program, "#!/bin/sh\necho \"$0\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
    }
    Synthetic::example().write(&folder.path().join("app-1234.numalens")).unwrap();
    folder
}

#[test]
fn examples_run() {
    let folder = folder();
    let bin = Path::new(NUMALENS).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut wrong = Vec::new();
    for block in examples().iter().filter(|block| block.run) {
        for line in &block.lines {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).current_dir(&folder).env("PATH", &path).env("XDG_CACHE_HOME", folder.path());
            let outcome = output(&mut shell);
            if !outcome.status.success() {
                wrong.push(format!("{}: {line}\n{}", block.place, outcome.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(words("a 'b c'  \"d\" e='f g'"), ["a", "b c", "d", "e=f g"]);
    assert_eq!(said("mpirun -n 4 numalens report x > y"), Some(vec!["report".to_owned(), "x".to_owned()]));
    assert_eq!(said("ls"), None);
}
