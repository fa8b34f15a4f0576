//! What Go's own tools say of programs that its linker has made, in each way of linking.

use numalens_pclntab::{Level, Module, Table, find};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"package main

import "fmt"

type table struct{ cells []int }

func (t *table) at(i int) int { return t.cells[i&7] * 3 }

//go:noinline
func (t *table) sum(n int) (s int) {
    for i := 0; i < n; i++ {
        s += t.at(i)
    }
    return
}

func main() {
    t := &table{make([]int, 8)}
    fmt.Println(t.sum(100))
}
"#;
const WITH_C: &str = "package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nvar one = C.one()\n";

fn built(directory: &Path, name: &str, flags: &[&str], with_c: bool) -> Option<PathBuf> {
    std::fs::write(directory.join("go.mod"), "module app\n\ngo 1.17\n").unwrap();
    std::fs::write(directory.join("main.go"), SOURCE).unwrap();
    if with_c {
        std::fs::write(directory.join("c.go"), WITH_C).unwrap();
    }
    let made = directory.join(name);
    let mut go = Command::new("go");
    go.args(["build", "-o"])
        .arg(&made)
        .args(flags)
        .current_dir(directory)
        .env("CGO_ENABLED", if with_c { "1" } else { "0" });
    go.status().ok()?.success().then_some(made)
}

/// Entry and name of each function of Go, by `go tool nm`.
fn symbols(program: &Path) -> BTreeMap<u64, String> {
    let output = Command::new("go").args(["tool", "nm"]).arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of_main = |line: &str| {
        let (address, rest) = line.trim_start().split_once(' ')?;
        let (kind, name) = rest.trim_start().split_once(' ')?;
        let is_go = ["main.", "fmt.", "runtime.mallocgc", "runtime.gcSweep", "runtime.(*mheap)"];
        let wanted = kind.eq_ignore_ascii_case("t") && is_go.iter().any(|prefix| name.starts_with(prefix));
        let name = name.trim_end_matches(".abi0").to_owned();
        wanted.then(|| Some((u64::from_str_radix(address, 16).ok()?, name)))?
    };
    text.lines().filter_map(of_main).collect()
}

fn text_of(level: &Level<'_>) -> (String, Option<String>, Option<u32>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let file = level.file.map(|file| text(file).rsplit('/').next().unwrap().to_owned());
    (text(level.function), file, level.line)
}

fn names_and_lines_of(directory: &Path, name: &str, flags: &[&str], with_c: bool) {
    let Some(whole) = built(directory, name, flags, with_c) else {
        eprintln!("skipped: no Go that builds {flags:?}");
        return;
    };
    let stripped = [flags, &["-ldflags=-s -w"]].concat();
    let stripped = built(directory, &format!("{name}-stripped"), &stripped, with_c).unwrap();
    for program in [&whole, &stripped] {
        let bytes = std::fs::read(program).unwrap();
        let table = find(&*bytes).expect("a table");
        let functions: BTreeMap<u64, String> = table
            .functions()
            .map(|function| (function.addresses().start, String::from_utf8_lossy(function.name().unwrap()).into()))
            .collect();
        // The linker lays the code of both out alike.
        let symbols = symbols(&whole);
        assert!(symbols.len() > 50, "{flags:?}: {symbols:?}");
        let missing: Vec<_> = symbols.iter().filter(|(at, name)| functions.get(at) != Some(name)).collect();
        assert!(missing.is_empty(), "{program:?}: {missing:?}");
        let (&at, _) = functions.iter().find(|(_, name)| *name == "main.(*table).sum").unwrap();
        let function = table.find(at + 1).unwrap();
        let levels: Vec<Vec<_>> = function
            .addresses()
            .map(|address| function.levels(address).map(|level| text_of(&level)).collect())
            .collect();
        let sum = |line| ("main.(*table).sum".to_owned(), Some("main.go".to_owned()), Some(line));
        let inlined = ("main.(*table).at".to_owned(), Some("main.go".to_owned()), Some(7));
        assert!(levels.contains(&vec![inlined, sum(12)]), "{program:?}: {levels:?}");
        assert!(levels.contains(&vec![sum(11)]), "{program:?}: {levels:?}");
        assert!(levels.iter().all(|levels| levels.last().unwrap().0 == "main.(*table).sum"), "{levels:?}");
        assert_eq!(table.find(0).map(|function| function.addresses()), None);
    }
}

#[test]
fn names_and_lines_are_those_of_gos_own_tools() {
    let directory = tempfile::tempdir().unwrap();
    names_and_lines_of(directory.path(), "static", &[], false);
    names_and_lines_of(directory.path(), "pie", &["-buildmode=pie"], false);
}

#[test]
fn with_code_in_c_as_well() {
    let directory = tempfile::tempdir().unwrap();
    names_and_lines_of(directory.path(), "mixed", &[], true);
    names_and_lines_of(directory.path(), "mixed-pie", &["-buildmode=pie"], true);
}

#[test]
fn what_is_no_program_has_none() {
    for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
        assert!(find(bytes).is_none());
    }
}

proptest! {
    #[test]
    fn any_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), version in 0u32..3, address: u64) {
        let magics = [0xffff_fffau32, 0xffff_fff0, 0xffff_fff1];
        let head = [&magics[version as usize].to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        bytes.splice(..8.min(bytes.len()), head);
        // Small numbers lead somewhere.
        for word in bytes.iter_mut().skip(8).take(64).enumerate().filter(|(at, _)| at % 8 > 1).map(|(_, byte)| byte) {
            *word = 0;
        }
        let module = Module { text: Some(0x1000), calls: Some(&bytes[bytes.len() / 2..]) };
        if let Some(table) = Table::parse(&bytes, &module) {
            let _ = table.find(address % 0x1_0000);
            for function in table.functions().take(100) {
                let _ = (function.name(), function.levels(function.addresses().start).count());
            }
        }
    }
}
