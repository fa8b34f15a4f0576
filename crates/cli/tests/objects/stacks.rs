//! Call stacks at large: ten thousand allocations and ten thousand first touches whose call path is known by
//! construction, and stacks that the program shows itself. Each has its own, and no other's.

use super::*;
use numalens_profile::Profile;
use numalens_profile::ids::{FunctionId, SiteId, StackId};
use numalens_profile::tables::{Frame, Function, Module, PlacedPages, Site, Stack};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Paths of five steps each: from 7^4 to 7^5.
const FROM: u32 = 2500;
const PATHS: u32 = 10_000;
const STEPS: u32 = 7;
const LARGE: u64 = 1 << 15;

const PLAIN: &[&str] = &["-O0", "-g"];
const OPTIMISED: &[&str] = &["-O2", "-g"];
const FRAME_POINTERS: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer"];

/// Compiles a program that stands beside this file.
#[track_caller]
fn compiled(lab: &Lab, name: &str, flags: &[&str]) -> String {
    lab.build(&format!("objects/stacks/{name}"), flags)
}

/// Records a program with arguments.
#[track_caller]
fn recording(lab: &Lab, program: &str, engine: &str, arguments: &[&str]) -> Recorded {
    lab.recorded(&["--engine", engine], &[&[program], arguments].concat()).succeeded()
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

/// Compares what was found with what the paths are. `may_be_cut`: of a stack whose copy ended the innermost steps are
/// compared. Returns how many stacks were whole.
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
    let lab = Lab::exact();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS, &["-O1", "-g", "-static"]] {
        let program = compiled(&lab, "paths.cc", flags);
        let profile = recording(&lab, &program, "exact", &["blocks", &FROM.to_string(), &PATHS.to_string()]).profile();
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
    let lab = Lab::exact();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS, &["-O1", "-g", "-static"]] {
        let program = compiled(&lab, "paths.cc", flags);
        let recorded = recording(&lab, &program, "exact", &["touches", &FROM.to_string(), &PATHS.to_string()]);
        let (profile, printed) = (recorded.profile(), recorded.said());
        let found = touches(&profile, printed);
        assert_eq!(found.len() as u32, PATHS, "{flags:?}");
        compare(&format!("{flags:?}, exact"), &profile, &found, |_| false);
    }
}

#[test]
fn samples_and_faults_have_their_own_stacks() {
    let lab = Lab::exact();
    for flags in [PLAIN, OPTIMISED, FRAME_POINTERS] {
        let program = compiled(&lab, "paths.cc", flags);
        let recorded = recording(&lab, &program, "sample", &["touches", &FROM.to_string(), &PATHS.to_string()]);
        let (profile, printed) = (recorded.profile(), recorded.said());
        let found = touches(&profile, printed);
        assert!(found.len() as u32 >= PATHS * 99 / 100, "{flags:?}: {}", found.len());
        // The kernel copies a piece of the stack: without optimisation frames are large.
        let whole = compare(&format!("{flags:?}, faults"), &profile, &found, |_| true);
        assert!(flags == PLAIN || whole > found.len() / 2, "{flags:?}: {whole} are whole");
        let profile = recording(&lab, &program, "sample", &["blocks", &FROM.to_string(), &PATHS.to_string()]).profile();
        let found = blocks(&profile);
        assert!(found.len() >= 1000, "{flags:?}: {}", found.len());
        compare(&format!("{flags:?}, sampled blocks"), &profile, &found, |path| path % 16 == 5 || flags == PLAIN);
    }
}

/// What unwinds the program for itself is another unwinder: the compiler's.
#[test]
fn stacks_are_those_that_the_program_shows_itself() {
    let lab = Lab::exact();
    for (flags, engine) in [(PLAIN, "exact"), (OPTIMISED, "exact"), (FRAME_POINTERS, "exact"), (OPTIMISED, "sample")] {
        let program = compiled(&lab, "paths.cc", flags);
        let recorded = recording(&lab, &program, engine, &["shown", &FROM.to_string(), "400"]);
        let (profile, printed) = (recorded.profile(), recorded.said());
        let module = profile.rows::<Module>().unwrap().into_iter().find(|row| row.path == program).unwrap();
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

/// The names along a stack, innermost first, without parameters.
fn names(stacks: &Stacks, stack: Option<StackId>) -> Vec<&str> {
    let names = stacks.sites(stack).into_iter().filter_map(|site| stacks.names.get(&site.site));
    names.map(|name| name.split('(').next().unwrap()).collect()
}

/// Which of two functions is on a stack.
fn which<'a>(names: &[&str], two: [&'a str; 2]) -> Option<&'a str> {
    let mut found = two.into_iter().filter(|name| names.contains(name));
    found.next().filter(|_| found.next().is_none())
}

const TWO: [&[&str]; 4] = [PLAIN, OPTIMISED, FRAME_POINTERS, &["-O0", "-g", "-fomit-frame-pointer"]];

#[test]
fn blocks_of_two_callers_alike_are_those_of_their_own() {
    const BYTES: u64 = 4096 * 8;
    let lab = Lab::exact();
    for flags in TWO {
        let program = compiled(&lab, "two_callers.cc", flags);
        let profile = recording(&lab, &program, "exact", &[]).profile();
        let stacks = Stacks::of(&profile);
        let objects: HashMap<_, _> =
            profile.rows::<Object>().unwrap().into_iter().map(|row| (row.object, row.stack)).collect();
        let caller = |object| which(&names(&stacks, objects[&object]), ["Buffers::Buffers", "Tile::init"]);
        let mut blocks: HashMap<Option<&str>, u64> = HashMap::new();
        for row in profile.rows::<Allocation>().unwrap() {
            // What is allocated and cleared the compiler makes one call.
            if matches!(row.call, Call::Malloc | Call::Calloc) && row.bytes == BYTES {
                *blocks.entry(row.object.and_then(caller)).or_default() += 1;
            }
        }
        let wanted = HashMap::from([(Some("Buffers::Buffers"), 16), (Some("Tile::init"), 320)]);
        assert_eq!(blocks, wanted, "{flags:?}");
        let mut reads: HashMap<Option<&str>, u64> = HashMap::new();
        for row in profile.rows::<ObjectAccess>().unwrap() {
            *reads.entry(caller(row.object)).or_default() += row.reads;
        }
        for (caller, blocks) in wanted {
            // Blocks share the pages at their ends.
            let (found, wanted) = (reads[&caller], blocks * 10 * 4096);
            assert!(found.abs_diff(wanted) <= wanted / 6, "{flags:?}: {caller:?} has {found} reads, not {wanted}");
        }
    }
}

#[test]
fn first_touches_of_two_callers_alike_are_those_of_their_own() {
    let lab = Lab::exact();
    for (flags, engine) in
        TWO.into_iter().map(|flags| (flags, "exact")).chain([(PLAIN, "sample"), (OPTIMISED, "sample")])
    {
        let program = compiled(&lab, "two_first_touchers.cc", flags);
        let profile = recording(&lab, &program, engine, &[]).profile();
        let stacks = Stacks::of(&profile);
        let mut pages: HashMap<&str, u64> = HashMap::new();
        for row in profile.rows::<PlacedPages>().unwrap() {
            let names = names(&stacks, row.stack);
            if names.contains(&"touch") {
                *pages.entry(which(&names, ["first", "second"]).unwrap_or("neither")).or_default() += row.count;
            }
        }
        assert_eq!(pages, HashMap::from([("first", 64), ("second", 576)]), "{flags:?}, {engine}");
    }
}

/// Compiles a program for the comparison with a debugger; None: there is no compiler.
fn unwound(lab: &Lab, name: &str, level: &str) -> Option<String> {
    let program = lab.at(&name.replace('.', "_"));
    let optimised = if name.ends_with(".rs") { format!("-Copt-level={level}") } else { format!("-O{level}") };
    let flags: &[&str] = if name.ends_with(".rs") { &["-g", &optimised] } else { &["-g", &optimised, "-w"] };
    try_compile(&format!("objects/stacks/{name}"), Path::new(&program), flags)?;
    Some(program)
}

/// The steps of a line of names, those that may be jumps left out.
fn step(name: &str) -> Option<&str> {
    let begin = name.find("step_")?;
    let word = name[begin..].split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
    (word != "step_by_jump").then_some(word)
}

/// A debugger is an unwinder of its own.
#[test]
fn stacks_are_those_that_a_debugger_shows() {
    const BYTES: u64 = 7777;
    if !installed("gdb") {
        return;
    }
    let lab = Lab::exact();
    let programs = ["unwound.c", "unwound.cc", "unwound.f90", "unwound.rs"].map(|name| (name, "2"));
    for (name, level) in programs.into_iter().chain([("unwound.cc", "0")]) {
        let Some(program) = unwound(&lab, name, level) else { continue };
        let stop = format!("break malloc if $rdi == {BYTES}");
        let output = Command::new("gdb")
            .args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on"])
            .args(["-ex", "break main", "-ex", "run", "-ex", &stop])
            .args(["-ex", "continue", "-ex", "bt"])
            .arg(&program)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let frames = shown.lines().filter(|line| line.starts_with('#')).map(|line| line.split(" (").next().unwrap());
        let wanted: Vec<&str> = frames.filter_map(step).collect();
        // Where it may not trace there is nothing to compare with.
        if wanted.is_empty() {
            eprintln!("{name}, -O{level}: the debugger shows nothing: {}", String::from_utf8_lossy(&output.stderr));
            continue;
        }
        let profile = recording(&lab, &program, "exact", &[]).profile();
        let stacks = Stacks::of(&profile);
        let objects: HashMap<_, _> =
            profile.rows::<Object>().unwrap().into_iter().map(|row| (row.object, row.stack)).collect();
        let rows = profile.rows::<Allocation>().unwrap();
        let block = rows.iter().find(|row| row.call == Call::Malloc && row.bytes == BYTES);
        let object = block.and_then(|row| row.object).unwrap_or_else(|| panic!("{name}, -O{level}: no block"));
        let functions: HashMap<FunctionId, String> =
            profile.rows::<Function>().unwrap().into_iter().map(|row| (row.function, row.name)).collect();
        let mut inlined: Vec<Frame> = profile.rows::<Frame>().unwrap();
        inlined.sort_by_key(|frame| (frame.site, frame.depth));
        let mut told = Vec::new();
        for site in stacks.sites(objects[&object]) {
            let frames = inlined.iter().filter(|frame| frame.site == site.site);
            told.extend(frames.filter_map(|frame| step(&functions[&frame.function])));
        }
        assert_eq!(told, wanted, "{name}, -O{level}: {shown}");
    }
}
