//! Profiles and names that somebody made to do harm: to read them writes nothing, waits for nothing, and shows a
//! terminal nothing that it would obey.

use super::*;
use numalens_profile::testing::Synthetic;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Does what it must not do to a terminal: sets its title, clears it, begins a line, reverses another; and is a
/// formula.
const EVIL: &str = "=1+1\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\r\nforged\tline\u{7f}\u{202e}txt\u{2066}";

struct Case {
    directory: TempDir,
    path: PathBuf,
}

impl Case {
    fn of(example: &Synthetic) -> Case {
        let directory = tempfile::tempdir().unwrap();
        let path = example.write(&directory.path().join("app.numalens")).unwrap();
        Case { directory, path }
    }

    /// One whose reading has names to find, as an imported one has.
    fn nameless() -> Case {
        let mut example = Synthetic::example();
        (example.frames, example.functions) = Default::default();
        example.meta.lines_wait = true;
        Case::of(&example)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// To be run with a limit of time: what waits for ever fails.
    fn numalens<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = native(NUMALENS);
        command.args(args).current_dir(&self.directory).env("XDG_CACHE_HOME", self.at("cache"));
        command
    }

    /// Every command that reads a profile, into outputs `name`.
    fn readers(&self, name: &str) -> Vec<Vec<String>> {
        let path = self.path.to_str().unwrap();
        let out = |ending: &str| self.at(&format!("{name}.{ending}")).to_str().unwrap().to_owned();
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<String>>();
        vec![
            words(&["report", path]),
            words(&["report", path, "--section", "all", "--color", "never"]),
            words(&["report", path, "--format", "json"]),
            words(&["report", path, "--format", "html"]),
            words(&["report", path, "-o", &out("txt")]),
            words(&["advise", path]),
            words(&["advise", path, "--format", "json"]),
            words(&["simulate", path]),
            words(&["diff", path, path]),
            words(&["check", path]),
            words(&["export", path, "--to", "csv", "-o", &out("csv")]),
            words(&["export", path, "--to", "callgrind", "-o", &out("callgrind")]),
            words(&["export", path, "--to", "pprof", "-o", &out("pb")]),
            words(&["export", path, "--to", "firefox", "-o", &out("firefox")]),
            words(&["merge", path, "-o", &out("merged")]),
            words(&["pack", path, "-o", &out("zip")]),
        ]
    }
}

/// What a command says that fails in time.
#[track_caller]
fn fails(command: &mut Command) -> String {
    let outcome = run(command);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    outcome.told()
}

/// What stands below a directory: files with their content, links with where they lead.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(tree(&entry.path()));
        } else if kind.is_symlink() {
            found.insert(entry.path(), std::fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes());
        } else {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn who_reads_writes_nothing_but_the_output() {
    let case = Case::nameless();
    let victim = case.at("victim");
    std::fs::write(&victim, "mine").unwrap();
    // Where earlier versions wrote aside.
    for table in ["frames", "functions", "objects", "phases", "meta"] {
        symlink(&victim, case.path.join(format!("{table}.writing"))).unwrap();
    }
    symlink(&victim, case.at("out.zip.partial")).unwrap();
    let before = (tree(&case.path), std::fs::read(&victim).unwrap());
    for args in case.readers("out") {
        run(&mut case.numalens(args.iter().map(String::as_str))).succeeded();
        assert_eq!((tree(&case.path), std::fs::read(&victim).unwrap()), before, "{args:?}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&case.directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let out = ["callgrind", "csv", "firefox", "merged", "pb", "txt", "zip", "zip.partial"]
        .map(|ending| format!("out.{ending}"));
    let expected: Vec<_> =
        ["app.numalens", "cache"].into_iter().chain(out.iter().map(String::as_str)).chain(["victim"]).collect();
    assert_eq!(names, expected, "nothing beside the outputs, the cache, and what was there");
}

/// Neither a home nor a cache directory: it works, and keeps nothing.
#[test]
fn names_need_no_cache() {
    let case = Case::nameless();
    let mut command = case.numalens(["report", case.path.to_str().unwrap()]);
    run(command.env_remove("XDG_CACHE_HOME").env_remove("HOME")).succeeded();
    assert!(!case.at("cache").exists());
    let report = |case: &Case| run(&mut case.numalens(["report", case.path.to_str().unwrap()])).succeeded().stdout;
    assert_eq!(report(&case), report(&case), "from the cache as without it");
}

#[test]
fn tables_that_are_no_files_are_refused_at_once() {
    type Make = fn(&Path);
    let shapes: [(&str, Make); 4] = [
        ("pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("symbolic link", |path| symlink("/etc/passwd", path).unwrap()),
        ("directory", |path| std::fs::create_dir(path).unwrap()),
        ("symbolic link", |path| symlink("/dev/zero", path).unwrap()),
    ];
    for table in ["meta.parquet", "site_accesses.parquet"] {
        for (what, make) in &shapes {
            let case = Case::of(&Synthetic::example());
            std::fs::remove_file(case.path.join(table)).unwrap();
            make(&case.path.join(table));
            for args in case.readers("out") {
                let told = fails(&mut case.numalens(args.iter().map(String::as_str)));
                assert!(told.contains(what) && told.contains("not a file"), "{args:?}: {told}");
            }
        }
    }
    let case = Case::of(&Synthetic::example());
    let pipe = case.at("pipe.zip");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["report", "check", "unpack"] {
        fails(&mut case.numalens([command, pipe.to_str().unwrap()]));
    }
}

/// Nothing that a terminal would obey.
#[track_caller]
fn assert_shown(args: &[String], text: &str) {
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(at) = text.find(acts) {
        let from = text[..at].char_indices().rev().nth(60).map_or(0, |(at, _)| at);
        panic!("{args:?} shows {:?}", &text[from..].chars().take(120).collect::<String>());
    }
}

/// A profile all of whose texts are evil.
fn evil() -> Synthetic {
    let mut example = Synthetic::example().with_lines().with_cache().with_bounds();
    let evil = |text: &mut String| *text = format!("{EVIL}{text}");
    example
        .processes
        .iter_mut()
        .for_each(|row| [&mut row.command, &mut row.host, &mut row.end].into_iter().for_each(evil));
    example.threads.iter_mut().for_each(|row| evil(&mut row.name));
    example.modules.iter_mut().for_each(|row| evil(&mut row.path));
    example.frames.iter_mut().for_each(|row| row.file.iter_mut().for_each(evil));
    example.functions.iter_mut().for_each(|row| evil(&mut row.name));
    example.objects.iter_mut().for_each(|row| evil(&mut row.name));
    example.phases.iter_mut().for_each(|row| evil(&mut row.name));
    let meta = &mut example.meta;
    meta.command.iter_mut().for_each(evil);
    meta.notes.iter_mut().for_each(evil);
    (meta.coarsened, meta.unobserved) = (vec![EVIL.to_owned()], vec![EVIL.to_owned()]);
    meta.losses = [(EVIL.to_owned(), 3)].into();
    meta.environment = [(format!("OMP_{EVIL}"), EVIL.to_owned())].into();
    let texts = [&mut meta.cwd, &mut meta.host, &mut meta.kernel, &mut meta.exit_status, &mut meta.machine_name];
    texts.into_iter().chain([&mut meta.unit_note, &mut meta.start_time]).for_each(evil);
    meta.unit = format!("{EVIL}{}", meta.unit).into();
    example
}

#[test]
fn nothing_from_a_profile_commands_the_terminal() {
    let case = Case::of(&evil());
    for args in case.readers("out") {
        let output = run(&mut case.numalens(args.iter().map(String::as_str)));
        assert_shown(&args, &output.stdout);
        assert_shown(&args, &output.stderr);
    }
    for entry in std::fs::read_dir(case.at("out.csv")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert_shown(&["csv".to_owned()], &text);
        let formula = |line: &str| line.split(',').any(|cell| cell.trim_start_matches('"').starts_with("=1+1"));
        assert!(!text.lines().any(formula), "a spreadsheet would compute it:\n{text}");
    }
    assert_shown(
        &["callgrind".to_owned()],
        &String::from_utf8_lossy(&std::fs::read(case.at("out.callgrind")).unwrap()),
    );
    // Asked for, its colours are ours: nothing but styles begins with ESC.
    let path = case.path.to_str().unwrap();
    let output = run(&mut case.numalens(["report", path, "--color", "always", "--section", "all"]));
    for part in output.stdout.split('\u{1b}').skip(1) {
        let style = part.strip_prefix('[').and_then(|part| part.split_once('m')).map(|(style, _)| style);
        assert!(style.is_some_and(|style| style.bytes().all(|b| b.is_ascii_digit() || b == b';')), "{part:?}");
    }
}

#[test]
fn nothing_from_an_argument_commands_the_terminal() {
    let case = Case::of(&Synthetic::example());
    let path = case.path.to_str().unwrap().to_owned();
    let here = format!("{EVIL}.numalens").replace('/', "");
    std::os::unix::fs::symlink(&path, case.at(&here)).unwrap();
    std::fs::write(case.at("\u{1b}[31mno"), "none").unwrap();
    let lines: [&[&str]; 16] = [
        &["report", &here],
        &["report", EVIL],
        &["report", "\u{1b}[31mno"],
        &["report", &path, "--sort", EVIL],
        &["report", &path, "--section", EVIL],
        &["report", &path, "--phase", EVIL],
        &["report", &path, EVIL],
        &["export", &path, "--to", EVIL, "-o", "x"],
        &["export", &path, "--to", "csv", "-o", EVIL],
        &["import", EVIL],
        &["pack", &path, "-o", EVIL],
        &["unpack", EVIL],
        &["unpack", EVIL, "-o", "\u{1b}[31mout"],
        &["machine", "show", "--machine", EVIL],
        &["simulate", &path, "--policy", EVIL],
        &[EVIL],
    ];
    for args in lines {
        let output = run(&mut case.numalens(args.iter().copied()));
        let args: Vec<String> = args.iter().map(|word| word.to_string()).collect();
        assert_shown(&args, &output.stdout);
        assert_shown(&args, &output.stderr);
    }
}

#[test]
fn nothing_from_a_recorded_program_commands_the_terminal() {
    let case = Case::of(&Synthetic::example());
    let script = "printf '\\033]0;x\\007' >/proc/self/comm; exit 3";
    let line = ["record", "-o", "\u{1b}[31mout.numalens", "--", "sh", "-c", script, EVIL];
    let output = run(&mut case.numalens(line));
    assert_shown(&["record".to_owned()], &output.stderr);
    let output = run(&mut case.numalens(["record", "--", EVIL]));
    assert_shown(&["record".to_owned()], &output.stderr);
}

/// A directory of somebody's Parquet tables is not a profile, whatever its files are called.
#[test]
fn record_by_force_replaces_profiles_only() {
    let case = Case::of(&Synthetic::example());
    let data = case.at("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("sales.parquet"), "PAR1 years of work PAR1").unwrap();
    let refused = run(&mut case.numalens(["record", "-f", "-o", "data", "--", "true"]));
    let told = refused.told();
    assert!(!refused.status.success() && told.contains("--force does not replace it"), "{told}");
    assert_eq!(std::fs::read(data.join("sales.parquet")).unwrap(), b"PAR1 years of work PAR1");
    run(&mut case.numalens(["record", "-q", "-f", "-o", "app.numalens", "--", "true"])).succeeded();
    run(&mut case.numalens(["check", "app.numalens"])).succeeded();
}
