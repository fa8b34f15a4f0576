//! Call stacks at large: ten thousand allocations and ten thousand first touches whose call path is known by
//! construction, and stacks that the program shows itself. Each has its own, and no other's.

use numalens_profile::Profile;
use numalens_profile::ids::{FunctionId, SiteId, StackId};
use numalens_profile::tables::{Allocation, Frame, Function, Module, Object, PlacedPages, Site, Stack};
use numalens_profile::words::Call;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths of five steps each: from 7^4 to 7^5.
const FROM: u32 = 2500;
const PATHS: u32 = 10_000;
const STEPS: u32 = 7;
const LARGE: u64 = 1 << 15;

const PLAIN: &[&str] = &["-O0", "-g"];
const OPTIMISED: &[&str] = &["-O2", "-g"];
const FRAME_POINTERS: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer"];

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

fn compiled(directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks").join(name);
    let program = directory.join(name.split('.').next().unwrap());
    let status = Command::new("c++").args(flags).arg(source).arg("-o").arg(&program).status().unwrap();
    assert!(status.success(), "{name} does not compile with {flags:?}");
    program
}

/// Records a program with arguments: the profile, and what the program wrote.
fn recorded(program: &Path, engine: &str, arguments: &[&str]) -> (Profile, String) {
    let profile = program.with_extension("numalens");
    let output = numalens()
        .args(["record", "-q", "-f", "--machine", "4x2", "--engine", engine, "-o"])
        .arg(&profile)
        .arg("--")
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (Profile::open(&profile).unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// The stacks of a profile, with the names of their functions.
struct Stacks {
    tree: HashMap<StackId, Stack>,
    names: HashMap<SiteId, String>,
    sites: HashMap<SiteId, Site>,
}

impl Stacks {
    fn of(profile: &Profile) -> Self {
        let functions: HashMap<FunctionId, String> =
            profile.rows::<Function>().unwrap().into_iter().map(|row| (row.function, row.name)).collect();
        let name = |frame: Frame| (frame.site, functions[&frame.function].clone());
        Stacks {
            tree: profile.rows::<Stack>().unwrap().into_iter().map(|row| (row.stack, row)).collect(),
            names: profile.rows::<Frame>().unwrap().into_iter().filter(|frame| frame.depth == 0).map(name).collect(),
            sites: profile.rows::<Site>().unwrap().into_iter().map(|row| (row.site, row)).collect(),
        }
    }

    /// The sites of a stack, innermost first.
    fn sites(&self, stack: Option<StackId>) -> Vec<&Site> {
        // Parents are callers.
        let chain = std::iter::successors(stack.map(|stack| &self.tree[&stack]), |row| {
            row.parent.map(|parent| &self.tree[&parent])
        });
        chain.map(|row| &self.sites[&row.site]).collect()
    }

    /// Its steps, innermost first: names without parameters, of those that leave frames whatever the compiler does.
    fn steps(&self, stack: Option<StackId>) -> Vec<&str> {
        const ALL: [&str; 9] = [
            "plain_a",
            "plain_b",
            "with_alloca",
            "with_array",
            "recursive",
            "Last::~Last",
            "while_unwinding",
            "on_signal",
            "compare",
        ];
        let names = self.sites(stack).into_iter().filter_map(|site| self.names.get(&site.site));
        let plain = names.map(|name| name.split('(').next().unwrap());
        plain.filter(|name| ALL.contains(name) || *name == "main").collect()
    }
}

/// The steps that `paths.cc` takes on a path, innermost first.
fn steps_of(path: u32) -> Vec<&'static str> {
    let mut outermost_first = vec!["main"];
    match path % 16 {
        5 => outermost_first.push("on_signal"),
        11 => outermost_first.push("compare"),
        _ => {}
    }
    let mut rest = path;
    while rest > 0 {
        outermost_first.extend_from_slice(match rest % STEPS {
            0 => &["plain_a"],
            1 => &["plain_b"],
            2 => &["with_alloca"],
            3 => &["with_array"],
            4 => &["recursive"; 3],
            5 => &[],
            _ => &["while_unwinding", "Last::~Last"],
        });
        rest /= STEPS;
    }
    outermost_first.into_iter().rev().collect()
}

/// The stack of each block that was recorded, by its path.
fn blocks(profile: &Profile) -> Vec<(u32, Option<StackId>)> {
    let objects: HashMap<_, _> =
        profile.rows::<Object>().unwrap().into_iter().map(|row| (row.object, row.stack)).collect();
    let all = profile.rows::<Allocation>().unwrap().into_iter().filter(|row| row.call == Call::Malloc);
    let of_a_path = all.filter_map(|row| {
        let path = u32::try_from(row.bytes.checked_sub(LARGE)? / 16).ok()?;
        let is_one = (FROM..FROM + PATHS).contains(&path) && row.bytes % 16 == 0;
        is_one.then(|| (path, row.object.and_then(|object| objects[&object])))
    });
    of_a_path.collect()
}

/// The stack of the first touch of each page of the pool, by its path. `printed`: where the pool begins.
fn touches(profile: &Profile, printed: &str) -> Vec<(u32, Option<StackId>)> {
    let pool = u64::from_str_radix(printed.trim(), 16).unwrap();
    let mut found = Vec::new();
    for row in profile.rows::<PlacedPages>().unwrap() {
        for page in row.page.0..row.page.0 + row.count {
            let path = page.checked_sub(pool).and_then(|path| u32::try_from(path).ok());
            found.extend(path.filter(|path| (FROM..FROM + PATHS).contains(path)).map(|path| (path, row.stack)));
        }
    }
    found
}

/// Compares what was found with what the paths are. `may_be_cut`: of a stack whose copy ended the innermost steps are compared.
/// Returns how many stacks were whole.
fn compare(what: &str, profile: &Profile, found: &[(u32, Option<StackId>)], may_be_cut: impl Fn(u32) -> bool) -> usize {
    let stacks = Stacks::of(profile);
    let (mut wrong, mut whole) = (Vec::new(), 0);
    for &(path, stack) in found {
        let (steps, wanted) = (stacks.steps(stack), steps_of(path));
        whole += usize::from(steps == wanted);
        if steps != wanted && !(may_be_cut(path) && !steps.is_empty() && wanted.starts_with(&steps)) {
            wrong.push(format!("path {path} of {what}: {steps:?}, not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong, as {}", wrong.len(), found.len(), wrong[wrong.len() / 2]);
    whole
}

#[test]
fn ten_thousand_allocations_have_their_own_stacks() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS, &["-O1", "-g", "-static"]] {
        let program = compiled(directory.path(), "paths.cc", flags);
        let (profile, _) = recorded(&program, "exact", &["blocks", &FROM.to_string(), &PATHS.to_string()]);
        let found = blocks(&profile);
        // So many a second are told one by one, and the program makes them in less.
        assert!(found.len() as u32 >= PATHS * 9 / 10, "{flags:?}: {}", found.len());
        // The frame of a signal is as large as the processor's registers.
        let whole = compare(&format!("{flags:?}, exact"), &profile, &found, |path| path % 16 == 5 || flags == PLAIN);
        assert!(whole > found.len() * 9 / 10, "{flags:?}: {whole} are whole");
    }
}

#[test]
fn ten_thousand_first_touches_have_their_own_stacks() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS, &["-O1", "-g", "-static"]] {
        let program = compiled(directory.path(), "paths.cc", flags);
        let (profile, printed) = recorded(&program, "exact", &["touches", &FROM.to_string(), &PATHS.to_string()]);
        let found = touches(&profile, &printed);
        assert_eq!(found.len() as u32, PATHS, "{flags:?}");
        compare(&format!("{flags:?}, exact"), &profile, &found, |_| false);
    }
}

#[test]
fn samples_and_faults_have_their_own_stacks() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS] {
        let program = compiled(directory.path(), "paths.cc", flags);
        let (profile, printed) = recorded(&program, "sample", &["touches", &FROM.to_string(), &PATHS.to_string()]);
        let found = touches(&profile, &printed);
        assert!(found.len() as u32 >= PATHS * 99 / 100, "{flags:?}: {}", found.len());
        // The kernel copies a piece of the stack: without optimisation frames are large.
        let whole = compare(&format!("{flags:?}, faults"), &profile, &found, |_| true);
        assert!(flags == PLAIN || whole > found.len() / 2, "{flags:?}: {whole} are whole");
        let (profile, _) = recorded(&program, "sample", &["blocks", &FROM.to_string(), &PATHS.to_string()]);
        let found = blocks(&profile);
        assert!(found.len() >= 1000, "{flags:?}: {}", found.len());
        compare(&format!("{flags:?}, sampled blocks"), &profile, &found, |path| path % 16 == 5 || flags == PLAIN);
    }
}

/// What unwinds the program for itself is another unwinder: the compiler's.
#[test]
fn stacks_are_those_that_the_program_shows_itself() {
    let directory = tempfile::tempdir().unwrap();
    for (flags, engine) in [(PLAIN, "exact"), (OPTIMISED, "exact"), (FRAME_POINTERS, "exact"), (OPTIMISED, "sample")] {
        let program = compiled(directory.path(), "paths.cc", flags);
        let (profile, printed) = recorded(&program, engine, &["shown", &FROM.to_string(), "400"]);
        let module = profile.rows::<Module>().unwrap().into_iter().find(|row| Path::new(&row.path) == program).unwrap();
        let (stacks, found) = (Stacks::of(&profile), blocks(&profile));
        let mut compared = 0;
        for line in printed.lines() {
            let (path, offsets) = line.split_once(':').unwrap();
            let path: u32 = path.parse().unwrap();
            // Where the block was allocated and where the stack was asked for are two places.
            let shown = offsets.split_whitespace().skip(1).map(|offset| u64::from_str_radix(offset, 16).unwrap());
            let shown: Vec<u64> = shown.filter(|offset| *offset < 1 << 24).collect();
            let Some((_, stack)) = found.iter().find(|(found, _)| *found == path) else { continue };
            let ours = stacks.sites(*stack).into_iter().skip(1);
            let told: Vec<u64> =
                ours.filter(|site| site.module == Some(module.module)).map(|site| site.address + 1).collect();
            let is_cut = (path % 16 == 5 || flags == PLAIN) && shown.starts_with(&told);
            assert!(told == shown || is_cut, "path {path}, {flags:?}, {engine}: {told:x?}, not {shown:x?}");
            compared += 1;
        }
        assert_eq!(compared, 400, "{flags:?}, {engine}");
    }
}
