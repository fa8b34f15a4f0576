//! Damaged files: doubts and no panic, whatever is cut off or flipped, and memory within bounds.

mod common;

use common::*;
use std::fs;
use std::path::Path;

/// A small generator of numbers (xorshift64), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Offsets and sizes of the sections of `binary` that names come from.
fn sections(binary: &Path) -> Vec<(usize, usize)> {
    let text = run("readelf", Path::new("/"), &["-SW".as_ref(), binary.as_os_str()]);
    let wanted = [".debug_", ".symtab", ".strtab", ".dynsym", ".rela.plt", ".plt", ".note.gnu.build-id", ".gnu_debug"];
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let mut all = Vec::new();
    for line in text.lines().filter_map(|line| line.split_once("] .")) {
        let fields: Vec<&str> = line.1.split_whitespace().collect();
        if wanted.iter().any(|name| format!(".{}", fields[0]).starts_with(name)) {
            all.push((number(fields[3]), number(fields[4])));
        }
    }
    assert!(all.len() > 6, "{text}");
    all
}

/// Asks about all addresses of the damaged `bytes`; panics that the library contains are failures of the reader, and
/// what remains must be consistent tables.
fn survive(path: &Path, bytes: &[u8], addresses: &[u64]) -> bool {
    fs::write(path, bytes).unwrap();
    let outcome = symbolize(&path.to_string_lossy(), "", addresses, &options(&[]));
    let all = levels(&outcome, addresses.len());
    outcome.doubts.iter().any(|doubt| !doubt.to_string().is_empty()) || all.iter().all(|levels| !levels.is_empty())
}

fn damage(command: &str, source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), "program", command, &[source]);
    let addresses = instructions(&binary, 60);
    let whole = fs::read(&binary).unwrap();
    let sections = sections(&binary);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let path = dir.path().join("damaged");
    for part in 0..40 {
        let length = whole.len() * part / 40;
        assert!(survive(&path, &whole[..length], &addresses), "cut at {length}");
    }
    for round in 0..600 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(20) {
            let (offset, size) = match round % 4 {
                0 => (0, 64),
                1 => (whole.len() - 64 * 30, 64 * 30),
                _ => sections[random.below(sections.len())],
            };
            let at = offset + random.below(size.max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        assert!(survive(&path, &bytes, &addresses), "round {round}");
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 512 << 10, "{peak} KiB");
}

#[test]
fn c() {
    damage("gcc -O2 -g", "inlined.c");
}

#[test]
fn cpp_compressed() {
    damage("g++ -O2 -g -gz=zlib", "templates.cpp");
}

#[test]
fn dwarf_4_of_fortran() {
    damage("gfortran -O2 -gdwarf-4", "heat.f90");
}

/// A section that states more than it can unpack to must not be believed.
#[test]
fn boasting_section() {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), "program", "g++ -O2 -g -gz=zlib", &["templates.cpp"]);
    let addresses = instructions(&binary, 10);
    let mut bytes = fs::read(&binary).unwrap();
    for (offset, _) in sections(&binary) {
        // An Elf64_Chdr: type 1 (zlib), four bytes of padding, the size.
        if bytes[offset..offset + 8] == [1, 0, 0, 0, 0, 0, 0, 0] {
            bytes[offset + 8..offset + 16].copy_from_slice(&(1u64 << 40).to_le_bytes());
        }
    }
    fs::write(&binary, bytes).unwrap();
    let outcome = symbolize(&binary.to_string_lossy(), "", &addresses, &options(&[]));
    assert!(outcome.doubts.iter().any(|doubt| doubt.to_string().contains("cannot unpack")), "{:?}", outcome.doubts);
    assert!(levels(&outcome, addresses.len()).iter().all(|levels| levels.len() == 1), "functions by symbols");
}
