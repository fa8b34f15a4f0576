//! Separate debug files, moved programs, other builds, stripped programs, generated code, stubs.

mod common;

use common::*;
use numalens_profile::ids::{FunctionId, ModuleId, SiteId};
use numalens_profile::tables::{Frame, Function, Module, Site};
use numalens_symbolize::{Cause, Doubt, Options, Outcome, symbolize_rows};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A program with debug information, what binutils says about it, and its addresses.
struct Program {
    dir: TempDir,
    binary: PathBuf,
    id: String,
    addresses: Vec<u64>,
    truth: Vec<Vec<Level>>,
}

impl Program {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = compile(dir.path(), "program", &format!("gcc -O2 -Wl,--build-id {options}"), &["inlined.c"]);
        let addresses = instructions(&binary, 300);
        let (id, truth) = (build_id(&binary), oracle(&binary, &addresses));
        assert_eq!(id.len(), 40);
        Program { dir, binary, id, addresses, truth }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tool(&self, tool: &str, args: &str) {
        run(tool, self.dir.path(), &args.split(' ').collect::<Vec<_>>());
    }

    fn ask(&self, options: &Options) -> Outcome {
        symbolize(&self.binary.to_string_lossy(), &self.id, &self.addresses, options)
    }

    /// Fails unless everything is known, and no doubt is about the module's files.
    fn check(&self, what: &str, options: &Options) {
        let outcome = self.ask(options);
        compare(what, &self.addresses, &levels(&outcome, self.addresses.len()), &self.truth);
        let harmless = |cause: &Cause| matches!(cause, Cause::NoLines(_));
        assert!(outcome.doubts.iter().all(|doubt| harmless(&doubt.cause)), "{what}: {:?}", outcome.doubts);
    }

    /// Fails unless `cause` is a doubt, and no frame has a line.
    fn check_doubt(&self, options: &Options, cause: impl Fn(&Cause) -> bool) -> Outcome {
        let outcome = self.ask(options);
        let doubt = outcome.doubts.iter().find(|doubt| cause(&doubt.cause));
        let doubt = doubt.unwrap_or_else(|| panic!("{:?}", outcome.doubts));
        assert_eq!((doubt.module, doubt.sites), (Some(ModuleId(3)), self.addresses.len() as u64));
        assert!(outcome.frames.iter().all(|frame| frame.line.is_none() && frame.file.is_none()));
        outcome
    }
}

#[test]
fn by_debuglink() {
    let program = Program::new("-g");
    program.tool("objcopy", "--only-keep-debug program program.dbg");
    program.tool("objcopy", "--strip-debug --add-gnu-debuglink=program.dbg program");
    program.check("beside", &options(&[]));
    fs::create_dir(program.path(".debug")).unwrap();
    fs::rename(program.path("program.dbg"), program.path(".debug/program.dbg")).unwrap();
    program.check("in .debug", &options(&[]));
    let debug = tempfile::tempdir().unwrap();
    let under = debug.path().join(program.dir.path().strip_prefix("/").unwrap());
    fs::create_dir_all(&under).unwrap();
    fs::rename(program.path(".debug/program.dbg"), under.join("program.dbg")).unwrap();
    program.check_doubt(&options(&[]), |cause| matches!(cause, Cause::NoLines(_)));
    program.check("under the debug directory", &options(&[debug.path()]));
}

#[test]
fn by_debuglink_without_build_id() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::new("-g");
    program.binary = compile(dir.path(), "program", "gcc -O2 -g -Wl,--build-id=none", &["inlined.c"]);
    (program.dir, program.id) = (dir, String::new());
    program.addresses = instructions(&program.binary, 300);
    program.truth = oracle(&program.binary, &program.addresses);
    program.tool("objcopy", "--only-keep-debug program program.dbg");
    program.tool("objcopy", "--strip-debug --add-gnu-debuglink=program.dbg program");
    program.check("by CRC", &options(&[]));
    let mut bytes = fs::read(program.path("program.dbg")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(program.path("program.dbg"), bytes).unwrap();
    program.check_doubt(&options(&[]), |cause| matches!(cause, Cause::OtherDebugFile(_)));
}

#[test]
fn by_build_id() {
    let program = Program::new("-g");
    let debug = tempfile::tempdir().unwrap();
    let place = debug.path().join(".build-id").join(&program.id[..2]);
    fs::create_dir_all(&place).unwrap();
    program.tool("objcopy", "--only-keep-debug program program.dbg");
    fs::rename(program.path("program.dbg"), place.join(format!("{}.debug", &program.id[2..]))).unwrap();
    program.tool("strip", "program");
    program.check("by build id", &options(&[debug.path()]));
    fs::remove_file(&program.binary).unwrap();
    program.check("by build id, without the program", &options(&[debug.path()]));

    // The layout of debuginfod's cache.
    let cache = tempfile::tempdir().unwrap();
    fs::create_dir(cache.path().join(&program.id)).unwrap();
    let file = place.join(format!("{}.debug", &program.id[2..]));
    fs::rename(file, cache.path().join(&program.id).join("debuginfo")).unwrap();
    program.check("by build id, in a cache", &options(&[cache.path()]));
    program.check_doubt(
        &options(&[debug.path()]),
        |cause| matches!(cause, Cause::NotFound(path) if *path == program.binary),
    );
}

#[test]
fn moved_with_a_path_map() {
    let program = Program::new("-g");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(&program.binary, elsewhere.path().join("program")).unwrap();
    let mut mapped = options(&[]);
    program.check_doubt(&mapped, |cause| matches!(cause, Cause::NotFound(_)));
    mapped.path_map = vec![(program.dir.path().into(), elsewhere.path().into())];
    program.check("moved", &mapped);

    mapped.path_map.push((fixture(""), "/home/me/src".into()));
    let outcome = program.ask(&mapped);
    let files: Vec<&str> = outcome.frames.iter().filter_map(|frame| frame.file.as_deref()).collect();
    assert!(!files.is_empty());
    let ours = files.iter().filter(|file| **file == "/home/me/src/inlined.c").count();
    assert!(ours * 2 > files.len() && !files.iter().any(|file| file.contains("fixtures")), "{files:?}");
}

#[test]
fn another_build_is_not_used() {
    let program = Program::new("-g");
    compile(program.dir.path(), "program", "gcc -O0 -g -Wl,--build-id", &["inlined.c"]);
    let now = build_id(&program.binary);
    assert_ne!(now, program.id);
    let outcome = program.check_doubt(
        &options(&[]),
        |cause| matches!(cause, Cause::OtherBuild { recorded, found, .. } if *recorded == program.id && *found == now),
    );
    assert_eq!((outcome.frames.len(), outcome.doubts.len()), (0, 1));
    let text = outcome.doubts[0].to_string();
    assert!(text.contains(&now) && text.contains(&program.id) && text.contains("not used"), "{text}");
}

#[test]
fn stripped() {
    let program = Program::new("-g -s");
    let outcome = program.ask(&options(&[]));
    assert_eq!(outcome.frames.len(), 0);
    assert!(matches!(outcome.doubts[..], [ref doubt] if matches!(doubt.cause, Cause::NoSymbols(_))));
}

/// The symbols that distributions leave in stripped programs.
#[test]
fn mini_debug_info() {
    let program = Program::new("");
    let before = levels(&program.ask(&options(&[])), program.addresses.len());
    assert!(before.iter().flatten().any(|(name, ..)| name == "sweep"));
    program.tool("objcopy", "-S --keep-symbol=sweep --keep-symbol=fill --keep-symbol=main program mini");
    program.tool("objcopy", "--only-keep-debug program mini");
    program.tool("xz", "mini");
    program.tool("strip", "program");
    assert!(program.ask(&options(&[])).frames.is_empty());
    program.tool("objcopy", "--add-section=.gnu_debugdata=mini.xz program");
    compare("mini", &program.addresses, &levels(&program.ask(&options(&[])), program.addresses.len()), &before);
}

/// `dwz` shares debug information between files; skipped where it is not installed.
#[test]
fn shared_by_dwz() {
    if std::process::Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("skipped: dwz is not installed");
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = Program::new(version);
        compile(program.dir.path(), "other", &format!("gcc -O1 {version}"), &["inlined.c"]);
        program.tool("dwz", "-m common.dwz -M common.dwz program other");
        program.check("shared", &options(&[]));
        fs::rename(program.path("common.dwz"), program.path("hidden")).unwrap();
        let outcome = program.ask(&options(&[]));
        assert!(
            outcome.doubts.iter().any(|doubt| matches!(doubt.cause, Cause::MissingCommon(_))),
            "{:?}",
            outcome.doubts
        );
        fs::create_dir(program.path(".dwz")).unwrap();
        fs::rename(program.path("hidden"), program.path(".dwz/common.dwz")).unwrap();
        program.check("shared, in .dwz", &options(&[program.dir.path()]));
    }
}

#[test]
fn missing_split_files() {
    let program = Program::new("-g -gsplit-dwarf");
    fs::remove_file(program.path("program-inlined.dwo")).unwrap();
    let outcome = program.ask(&options(&[]));
    let name = "program-inlined.dwo";
    let missing = |cause: &Cause| matches!(cause, Cause::MissingSplit { files: 1, first } if first.ends_with(name));
    assert!(outcome.doubts.iter().any(|doubt| missing(&doubt.cause)), "{:?}", outcome.doubts);
    // Functions by symbols and lines by the part that stayed.
    let all = levels(&outcome, program.addresses.len());
    assert!(
        all.iter().flatten().any(|(name, file, line)| name == "sweep" && file.ends_with("inlined.c") && line != "?")
    );
}

#[test]
fn split_files_moved_with_a_path_map() {
    let program = Program::new("-g -gsplit-dwarf");
    let whole = compile(program.dir.path(), "whole", "gcc -O2 -g", &["inlined.c"]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(program.path("program-inlined.dwo"), elsewhere.path().join("program-inlined.dwo")).unwrap();
    let mut mapped = options(&[]);
    mapped.path_map = vec![(program.path("program-inlined.dwo"), elsewhere.path().join("program-inlined.dwo"))];
    let ours = levels(&program.ask(&mapped), program.addresses.len());
    compare("moved split file", &program.addresses, &ours, &oracle(&whole, &program.addresses));
}

#[test]
fn stubs() {
    for options_of_gcc in
        ["", "-fcf-protection=full -Wl,-z,now", "-fcf-protection=full -Wl,-z,lazy", "-fcf-protection=none -Wl,-z,lazy"]
    {
        let program = Program::new(options_of_gcc);
        let text = run("objdump", program.dir.path(), &["-d", "--no-show-raw-insn", "program"]);
        let mut expected: Vec<(u64, String)> = Vec::new();
        for line in text.lines().filter(|line| line.ends_with("@plt>:")) {
            let (address, name) = line.split_once(" <").unwrap();
            let name = name.trim_end_matches(">:").to_string();
            expected.push((u64::from_str_radix(address, 16).unwrap() + 4, name));
        }
        assert!(expected.iter().any(|(_, name)| name == "malloc@plt"), "{options_of_gcc}: {text}");
        let addresses: Vec<u64> = expected.iter().map(|(address, _)| *address).collect();
        let outcome = symbolize(&program.binary.to_string_lossy(), "", &addresses, &options(&[]));
        for ((_, name), levels) in expected.iter().zip(levels(&outcome, addresses.len())) {
            assert_eq!(levels.first().map(|(name, ..)| name), Some(name), "{options_of_gcc}");
        }
    }
}

#[test]
fn generated_code() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("perf-77.map"), "1000 100 LMain;::work\n2000 10 Interpreter\n").unwrap();
    let mut mapped = options(&[]);
    mapped.path_map = vec![("/tmp".into(), dir.path().into())];
    let outcome = symbolize("perf-map:77", "", &[0x1010, 0x2000, 0x3000], &mapped);
    let names: Vec<_> =
        levels(&outcome, 3).into_iter().map(|levels| levels.first().map(|level| level.0.clone())).collect();
    assert_eq!(names, [Some("LMain;::work".into()), Some("Interpreter".into()), None]);
    assert!(
        matches!(outcome.doubts[..], [ref doubt] if doubt.sites == 1 && matches!(doubt.cause, Cause::NoSymbols(_)))
    );

    let outcome = symbolize("perf-map:78", "", &[0x1010], &mapped);
    assert!(matches!(&outcome.doubts[..], [doubt] if matches!(doubt.cause, Cause::NoPerfMap(_))));
    fs::create_dir(dir.path().join("perf-x")).unwrap();
    fs::write(dir.path().join("perf-x/77.map"), "1000 100 other\n").unwrap();
    let no_numbers = ["perf-map:x/77", "perf-map:../perf-77", "perf-map:", "perf-map:-77"];
    for path in ["[anon]", "//anon", "", "[heap]", "/memfd:doublemapper (deleted)"].into_iter().chain(no_numbers) {
        let outcome = symbolize(path, "", &[0x1010], &mapped);
        assert!(matches!(&outcome.doubts[..], [doubt] if doubt.cause == Cause::Generated), "{path}");
    }
}

/// The kernel's shared object has functions when the recording was made under the same kernel.
#[test]
fn vdso() {
    let other = symbolize("[vdso]", "00000000", &[0x1000], &options(&[]));
    assert!(matches!(&other.doubts[..], [doubt] if doubt.cause == Cause::Kernel), "{:?}", other.doubts);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vdso");
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let ends: Vec<u64> = line[..25].split('-').map(|end| u64::from_str_radix(end, 16).unwrap()).collect();
    let mut image = vec![0; (ends[1] - ends[0]) as usize];
    fs::File::open("/proc/self/mem").unwrap().read_exact_at(&mut image, ends[0]).unwrap();
    fs::write(&file, image).unwrap();
    let symbols = run("nm", dir.path(), &["-D", "vdso"]);
    let symbol = symbols.lines().find(|line| line.contains(" T ")).unwrap();
    let (address, name) = symbol.split_once(" T ").unwrap();
    let address = u64::from_str_radix(address, 16).unwrap();
    let outcome = symbolize("[vdso]", &build_id(&file), &[address], &options(&[]));
    // `clock_gettime` is a weak name of `__vdso_clock_gettime`.
    let found = &levels(&outcome, 1)[0][0].0;
    assert_eq!(found.trim_start_matches("__vdso_"), name.split('@').next().unwrap().trim_start_matches("__vdso_"));
}

#[test]
fn files_that_are_no_programs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "plain text").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    run("mkfifo", dir.path(), &["pipe"]);
    for name in ["data", "empty", "pipe", ""] {
        let outcome = symbolize(&dir.path().join(name).to_string_lossy(), "", &[1, 2], &options(&[]));
        assert!(
            matches!(&outcome.doubts[..], [Doubt { sites: 2, cause: Cause::Unreadable { .. }, .. }]),
            "{name}: {:?}",
            outcome.doubts
        );
    }
    let outcome = symbolize("/nowhere/app (deleted)", "", &[1], &options(&[]));
    assert!(
        matches!(&outcome.doubts[..], [Doubt { cause: Cause::NotFound(path), .. }] if path == Path::new("/nowhere/app"))
    );
}

/// A second run on another machine keeps what the first found, adds what it can, and is stable.
#[test]
fn what_is_known_is_kept() {
    let program = Program::new("-g");
    let site = |index: usize| Site {
        site: SiteId(index as u32),
        module: Some(ModuleId(0)),
        address: program.addresses[index],
    };
    let sites: Vec<Site> = (0..program.addresses.len()).map(site).collect();
    let modules =
        [Module { module: ModuleId(0), path: program.binary.to_string_lossy().into(), build_id: program.id.clone() }];
    let half = sites.len() / 2;
    let first = symbolize_rows(&sites[..half], &modules, &options(&[]), None);
    let both = symbolize_rows(&sites, &modules, &options(&[]), Some((&first.functions, &first.frames)));
    assert_eq!(both.functions[..first.functions.len()], first.functions);
    assert_eq!(levels(&both, sites.len()), program.truth);
    let fresh = symbolize_rows(&sites, &modules, &options(&[]), None);
    assert_eq!(both.functions.len(), fresh.functions.len(), "what is found now joins what was found then");

    fs::remove_file(&program.binary).unwrap();
    let gone = symbolize_rows(&sites, &modules, &options(&[]), Some((&both.functions, &both.frames)));
    assert_eq!((&gone.functions, &gone.frames), (&both.functions, &both.frames));
}

/// A function with internal linkage has no linker's name in the DWARF of GCC; the symbol table knows its namespace.
#[test]
fn internal_linkage() {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), "program", "g++ -O2 -g", &["templates.cpp"]);
    let addresses = instructions(&binary, 1000);
    let outcome = symbolize(&binary.to_string_lossy(), "", &addresses, &options(&[]));
    let names: Vec<&str> = outcome.functions.iter().map(|function| function.name.as_str()).collect();
    assert!(names.contains(&"grid::(anonymous namespace)::hidden(int)"), "{names:?}");
    assert!(names.contains(&"grid::Matrix<double>::trace() const"), "{names:?}");
}

/// Names alone give way to names with lines when debug information turns up.
#[test]
fn lines_replace_names_alone() {
    let program = Program::new("-g");
    let at = program.truth.iter().position(|levels| levels.len() > 1).unwrap();
    let sites = [Site { site: SiteId(0), module: Some(ModuleId(0)), address: program.addresses[at] }];
    let modules =
        [Module { module: ModuleId(0), path: program.binary.to_string_lossy().into(), build_id: String::new() }];
    let functions = [Function { function: FunctionId(0), module: Some(ModuleId(0)), name: "old".into() }];
    let frames = [Frame { site: SiteId(0), depth: 0, function: FunctionId(0), file: None, line: None }];
    let outcome = symbolize_rows(&sites, &modules, &options(&[]), Some((&functions, &frames)));
    assert_eq!(levels(&outcome, 1)[0], program.truth[at]);
}

#[test]
fn sites_outside_modules() {
    let sites = [Site { site: SiteId(0), module: None, address: 7 }];
    let outcome = symbolize_rows(&sites, &[], &options(&[]), None);
    assert!(matches!(&outcome.doubts[..], [doubt] if doubt.cause == Cause::NoModule && doubt.sites == 1));
}
