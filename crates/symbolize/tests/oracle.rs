//! Functions, files, lines and inlined chains against `addr2line` of binutils.

mod common;

use common::*;
use std::fs;
use std::path::Path;

/// Compares every level at a few hundred addresses of a compiled program.
fn check(name: &str, command: &str, source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), name, command, &[source]);
    check_against(name, &binary, &binary);
}

/// Compares what we say about `binary` with what binutils says about `oracle_binary`, which has the same code.
fn check_against(name: &str, binary: &Path, oracle_binary: &Path) {
    let addresses = instructions(oracle_binary, 400);
    assert!(addresses.len() > 50, "{name} has {} instructions", addresses.len());
    assert_eq!(addresses, instructions(binary, 400), "{name}: the code is the same");
    let outcome = symbolize(&binary.to_string_lossy(), &build_id(binary), &addresses, &options(&[]));
    compare(name, &addresses, &levels(&outcome, addresses.len()), &oracle(oracle_binary, &addresses));
}

#[test]
fn c_with_inlines() {
    check("c", "gcc -O2 -g", "inlined.c");
    check("c-dwarf4", "gcc -O2 -gdwarf-4", "inlined.c");
    check("c-O3", "gcc -O3 -g -ffunction-sections", "inlined.c");
}

#[test]
fn cpp() {
    check("cpp", "g++ -O2 -g", "templates.cpp");
    check("cpp-O0", "g++ -O0 -g", "templates.cpp");
}

#[test]
fn rust() {
    check("rust-v0", "rustc -O -g -Csymbol-mangling-version=v0", "chain.rs");
    // The old scheme is behind a switch in new compilers, and all that old ones have.
    let legacy = "env RUSTC_BOOTSTRAP=1 rustc -O -g -Zunstable-options -Csymbol-mangling-version=legacy";
    check("rust-legacy", legacy, "chain.rs");
}

#[test]
fn fortran() {
    check("fortran", "gfortran -O2 -g", "heat.f90");
}

#[test]
fn compressed_sections() {
    check("zlib", "gcc -O2 -g -gz=zlib", "inlined.c");
}

/// binutils does not read split files, so it is asked about the same program with everything in one.
#[test]
fn split_dwarf() {
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let dir = tempfile::tempdir().unwrap();
        let whole = compile(dir.path(), "whole", &format!("gcc -O2 {version}"), &["inlined.c"]);
        let split = compile(dir.path(), "split", &format!("gcc -O2 {version} -gsplit-dwarf"), &["inlined.c"]);
        check_against("split files", &split, &whole);
        // The packer of binutils 2.40 fails on DWARF 5.
        if version == "-gdwarf-4" {
            run("dwp", dir.path(), &["-e", "split"]);
            remove_split_files(dir.path());
            check_against("package of split files", &split, &whole);
        }
    }
}

/// Against ourselves with everything in one file, which `rust` compares with binutils (whose chains of DWARF 4 lack
/// levels here and there).
#[test]
fn package_of_rust() {
    for version in ["4", "5"] {
        let dir = tempfile::tempdir().unwrap();
        let command = |split| format!("rustc -O -g -Cdwarf-version={version} -Csplit-debuginfo={split}");
        let whole = compile(dir.path(), "whole", &command("off"), &["chain.rs"]);
        let split = compile(dir.path(), "split", &command("packed"), &["chain.rs"]);
        assert!(dir.path().join("split.dwp").exists());
        let addresses = instructions(&whole, 400);
        assert_eq!(addresses, instructions(&split, 400));
        let ask = |binary: &Path| levels(&symbolize(&binary.to_string_lossy(), "", &addresses, &options(&[])), 400);
        let (whole, split) = (ask(&whole), ask(&split));
        assert!(whole.iter().flatten().count() > addresses.len());
        compare("rust-package", &addresses, &split, &whole);
    }
}

fn remove_split_files(dir: &Path) {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let split = files.filter(|path| path.extension().is_some_and(|extension| extension == "dwo"));
    assert!(split.map(|path| fs::remove_file(path).unwrap()).count() > 0);
}

/// Symbol tables alone, of a program with the C library in it: many names, aliases, assembly. The oracle is `nm`.
#[test]
fn symbol_tables() {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), "static", "gcc -O2 -static", &["inlined.c"]);
    let addresses = instructions(&binary, 2000);
    let outcome = symbolize(&binary.to_string_lossy(), "", &addresses, &options(&[]));
    let text = run("nm", dir.path(), &["-S", "--defined-only", "static"]);
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut table: Vec<(u64, u64, &str)> = Vec::new();
    for line in text.lines() {
        if let [start, size, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..]
            && "tTwWiI".contains(kind)
        {
            table.push((number(start).unwrap(), number(size).unwrap(), demangle_version(name)));
        }
    }
    let mut named = 0;
    for (address, levels) in addresses.iter().zip(levels(&outcome, addresses.len())) {
        let around = |(start, size, _): &&(u64, u64, &str)| (*start..start + size).contains(address);
        let start = table.iter().filter(around).map(|(start, ..)| *start).max();
        let names: Vec<&str> = table.iter().filter(|(s, ..)| Some(*s) == start).map(|(.., name)| *name).collect();
        match (&levels[..], &names[..]) {
            ([(name, file, line)], [_, ..]) => {
                assert!(names.contains(&name.as_str()), "{address:#x}: {name}, not of {names:?}");
                assert_eq!((file.as_str(), line.as_str()), ("?", "?"));
                named += 1;
            }
            // Symbols without size, and stubs, which nm does not show.
            ([(name, ..)], []) => assert!(text.contains(&format!(" {name}\n")) || name.ends_with("@plt"), "{name}"),
            ([], []) => {}
            other => panic!("{address:#x}: {other:?}"),
        }
    }
    assert!(named * 10 > addresses.len() * 9, "{named} of {}", addresses.len());
}

fn demangle_version(name: &str) -> &str {
    name.split('@').next().unwrap()
}
