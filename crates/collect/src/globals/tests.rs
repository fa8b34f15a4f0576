//! Programs with known variables are compiled, stripped, and asked about by the addresses that they print.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;
use crate::homes::read_maps;
use crate::unwind::ModuleCache;

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}");
}

fn module(path: &Path) -> std::sync::Arc<Module> {
    ModuleCache::new().open(None, 0, 0, path).unwrap()
}

/// Runs the program, which prints `NAME ADDRESS` lines and waits; gives them with the load bias.
fn addresses(program: &Path) -> (HashMap<String, u64>, u64) {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut printed = HashMap::new();
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        match line.trim_end().split_once(' ') {
            Some((name, address)) => {
                printed.insert(name.to_owned(), u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap());
            }
            None => break,
        }
    }
    let maps = read_maps(child.id() as i32).unwrap();
    let code = maps.iter().find(|mapping| mapping.permissions.execute && mapping.path == program).unwrap();
    let bias = module(program).bias(code.start, code.offset, true).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    (printed, bias)
}

fn compile(directory: &Path, flags: &[&str]) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/globals.c");
    let program = directory.join("globals");
    run(Command::new("cc").arg(source).args(flags).arg("-o").arg(&program));
    program
}

/// Name, offset of the address in it and size, of what lies at a printed address.
fn at<'a>(symbols: &'a DataSymbols, printed: &HashMap<String, u64>, bias: u64, name: &str) -> (&'a str, u64, u64) {
    let svma = printed[name].wrapping_sub(bias);
    let found = symbols.lookup(svma).unwrap_or_else(|| panic!("nothing at {name}"));
    (found.name, svma - found.start, found.size)
}

fn knows_its_variables(program: &Path, symbols: &DataSymbols) {
    let (printed, bias) = addresses(program);
    assert_eq!(at(symbols, &printed, bias, "table"), ("table", 0, 4000));
    assert_eq!(at(symbols, &printed, bias, "table_end"), ("table", 3999, 4000));
    assert_eq!(at(symbols, &printed, bias, "zeroes"), ("zeroes", 0, 80_000));
    assert_eq!(at(symbols, &printed, bias, "constants"), ("constants", 0, 400));
    let (name, offset, size) = at(symbols, &printed, bias, "counter");
    assert!(name.starts_with("counter") && offset == 0 && size == 8, "a static variable of a function: {name} {size}");
    // .bss beyond the file is among the module's data.
    let ranges = data_ranges(&module(program), bias);
    for (name, writable) in [("table", true), ("zeroes", true), ("zeroes_end", true), ("constants", false)] {
        let range = ranges.iter().find(|range| range.addresses.contains(&printed[name]));
        let range = range.unwrap_or_else(|| panic!("{name} is in no range of {ranges:x?}"));
        assert_eq!(range.writable, writable || name == "table", "{name}");
    }
}

#[test]
fn variables_of_a_program() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [&["-O1"][..], &["-O1", "-no-pie"], &["-O1", "-static-pie"]] {
        let program = compile(directory.path(), flags);
        let symbols = DataSymbols::load(&module(&program));
        knows_its_variables(&program, &symbols);
        assert!(symbols.iter().is_sorted_by_key(|symbol| symbol.start));
    }
}

#[test]
fn variables_from_a_separate_debug_file() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), &["-O1", "-g", "-Wl,--build-id"]);
    let debug = directory.path().join(".debug");
    std::fs::create_dir(&debug).unwrap();
    let debug = debug.join("globals.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug));
    run(Command::new("objcopy").arg("--strip-all").arg("--add-gnu-debuglink").arg(&debug).arg(&program));
    knows_its_variables(&program, &DataSymbols::load(&module(&program)));
    // Another program's debug file is not believed.
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let stranger = compile(&other, &["-O0", "-g", "-Wl,--build-id"]);
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&stranger).arg(&debug));
    assert_eq!(DataSymbols::load(&module(&program)).iter().filter(|symbol| symbol.name == "table").count(), 0);
}

#[test]
fn a_stripped_program_has_its_sections() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), &["-O1", "-s"]);
    let symbols = DataSymbols::load(&module(&program));
    let (printed, bias) = addresses(&program);
    for (name, section) in [("table", ".data"), ("zeroes", ".bss"), ("constants", ".rodata")] {
        let svma = printed[name].wrapping_sub(bias);
        let found = symbols.lookup(svma).unwrap();
        assert_eq!((found.name, found.named), (section, false));
        assert!(found.start <= svma && svma < found.start + found.size);
    }
    assert_eq!(symbols.lookup(u64::MAX), None);
    assert_eq!(symbols.lookup(0), None);
}

fn found(start: u64, end: u64, name: &str) -> Found {
    Found { range: start..end, local: false, name: name.to_owned() }
}

#[test]
fn gaps_nesting_aliases_and_unsized_symbols() {
    let sections = vec![(100..200, ".data".to_owned()), (200..300, ".bss".to_owned())];
    let symbols = DataSymbols::from_symbols(
        vec![
            found(110, 150, "outer"),
            found(120, 124, "inner"),
            found(160, 168, "__environ"),
            found(160, 168, "environ"),
            found(170, 170, "unsized"),
            found(180, 180, "last"),
            found(250, 260, "zeroes"),
        ],
        sections,
    );
    let at = |svma| symbols.lookup(svma).map(|found| (found.name, found.start, found.size));
    assert_eq!(at(99), None);
    assert_eq!(at(100), Some((".data", 100, 10)));
    assert_eq!(at(119), Some(("outer", 110, 40)));
    assert_eq!(at(122), Some(("inner", 120, 4)));
    assert_eq!(at(140), Some(("outer", 110, 40)), "behind a nested symbol");
    assert_eq!(at(155), Some((".data", 150, 10)));
    assert_eq!(at(163), Some(("environ", 160, 8)));
    assert_eq!(at(175), Some(("unsized", 170, 10)));
    assert_eq!(at(199), Some(("last", 180, 20)), "to the end of the section");
    assert_eq!(at(200), Some((".bss", 200, 50)));
    assert_eq!(at(299), Some((".bss", 260, 40)));
    assert_eq!(at(300), None);
}
