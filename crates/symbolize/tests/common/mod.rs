//! Compiling small programs, and asking binutils about them.

#![allow(dead_code, reason = "each test file uses its own part")]

use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::tables::{Module, Site};
use numalens_symbolize::{Options, Outcome, demangle, symbolize_rows};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program `fixture` of tests/fixtures.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Runs a tool to its successful end and returns what it printed.
pub fn run(tool: &str, dir: &Path, args: &[impl AsRef<OsStr>]) -> String {
    let output = Command::new(tool).current_dir(dir).args(args).output().unwrap_or_else(|e| panic!("{tool}: {e}"));
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles `sources` of tests/fixtures with `command` (a compiler and its options) into `dir/NAME`.
pub fn compile(dir: &Path, name: &str, command: &str, sources: &[&str]) -> PathBuf {
    let mut words = command.split_whitespace();
    let compiler = words.next().unwrap();
    let mut args: Vec<PathBuf> = words.map(PathBuf::from).collect();
    args.extend(sources.iter().map(|source| fixture(source)));
    args.extend(["-o".into(), name.into()]);
    run(compiler, dir, &args);
    dir.join(name)
}

/// At most `most` addresses of instructions in `.text` of `binary`, spread evenly. Padding between functions is left
/// out: it is no function's, but binutils gives it to the one before.
pub fn instructions(binary: &Path, most: usize) -> Vec<u64> {
    let options = ["-d", "-j.text", "--no-show-raw-insn"].map(OsStr::new);
    let text = run("objdump", Path::new("/"), &[&options[..], &[binary.as_os_str()]].concat());
    let address = |line: &str| u64::from_str_radix(line.strip_prefix("  ")?.trim_start().split_once(':')?.0, 16).ok();
    let padding = |line: &&str| ["nop", "xchg   %ax,%ax", "int3"].iter().any(|name| line.contains(name));
    let all: Vec<u64> = text.lines().filter(|line| !padding(line)).filter_map(address).collect();
    let stride = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(stride).collect()
}

/// The build id of `binary`, in hexadecimal.
pub fn build_id(binary: &Path) -> String {
    let notes = run("readelf", Path::new("/"), &[OsStr::new("-n"), binary.as_os_str()]);
    notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap_or_default().to_string()
}

/// Options that look nowhere but in `debug_dirs`.
pub fn options(debug_dirs: &[&Path]) -> Options {
    Options {
        kept: Default::default(),
        path_map: Vec::new(),
        debug_dirs: debug_dirs.iter().map(PathBuf::from).collect(),
        jobs: 1,
        ..Options::default()
    }
}

/// A site per address, in one module.
pub fn symbolize(path: &str, build_id: &str, addresses: &[u64], options: &Options) -> Outcome {
    let site = |(index, address): (usize, &u64)| Site {
        site: SiteId(index as u32),
        module: Some(ModuleId(3)),
        address: *address,
    };
    let sites: Vec<Site> = addresses.iter().enumerate().map(site).collect();
    let module = Module { module: ModuleId(3), path: path.into(), build_id: build_id.into() };
    symbolize_rows(&sites, &[module], options, None)
}

/// One level: function, file, line; what is not known is `?`.
pub type Level = (String, String, String);

/// The levels of each of `count` sites, innermost first.
pub fn levels(outcome: &Outcome, count: usize) -> Vec<Vec<Level>> {
    let mut all = vec![Vec::new(); count];
    for frame in &outcome.frames {
        let levels = &mut all[frame.site.0 as usize];
        assert_eq!(levels.len(), frame.depth as usize, "depths are dense and in order");
        let function = &outcome.functions[frame.function.0 as usize];
        assert_eq!(function.function, frame.function);
        levels.push((
            function.name.clone(),
            frame.file.clone().unwrap_or("?".into()),
            frame.line.map_or("?".into(), |line| line.to_string()),
        ));
    }
    all
}

/// What binutils says about `addresses` of `binary`, in the same form: an independent reader of DWARF.
pub fn oracle(binary: &Path, addresses: &[u64]) -> Vec<Vec<Level>> {
    let mut args = vec![PathBuf::from("-aife"), binary.to_path_buf()];
    args.extend(addresses.iter().map(|address| format!("{address:#x}").into()));
    let text = run("addr2line", Path::new("/"), &args);
    let mut all: Vec<Vec<Level>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap().split(" (discriminator").next().unwrap();
        let (file, number) = place.rsplit_once(':').unwrap();
        let number = if number == "0" { "?" } else { number };
        // Without a line, a bare name is that of a file symbol, not of debug information.
        let unknown = file.starts_with('?') || number == "?" && !file.contains('/');
        let file = if unknown { "?".into() } else { plain(file) };
        all.last_mut().unwrap().push((demangle(line).into_owned(), file, number.into()));
    }
    assert_eq!(all.len(), addresses.len());
    all
}

/// `path` without `.` and doubled slashes, as numalens spells it.
fn plain(path: &str) -> String {
    Path::new(path).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// Fails unless `ours` equals the oracle's at every address; prints the first differences.
pub fn compare(what: &str, addresses: &[u64], ours: &[Vec<Level>], theirs: &[Vec<Level>]) {
    let differ: Vec<usize> = (0..addresses.len()).filter(|i| ours[*i] != theirs[*i]).collect();
    for i in differ.iter().take(8) {
        eprintln!("{what} {:#x}\n  ours   {:?}\n  theirs {:?}", addresses[*i], ours[*i], theirs[*i]);
    }
    assert!(differ.is_empty(), "{what}: {} of {} differ", differ.len(), addresses.len());
}
