//! Programs of these folders, compiled.

use super::command::until;
use super::source::source;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// Where numalens.h is.
const HEADERS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");

/// The compilers that the first of some flags may name.
const NAMED: [&str; 2] = ["c++", "musl-gcc"];

/// The compiler of a source, and the flags that are left.
fn compiler<'a>(source: &str, flags: &'a [&'a str]) -> (Command, &'a [&'a str]) {
    if let [name, more @ ..] = flags
        && NAMED.contains(name)
    {
        return (Command::new(name), more);
    }
    let name = match Path::new(source).extension().and_then(|ending| ending.to_str()) {
        Some("cc" | "cpp") => "c++",
        Some("f90") => "gfortran",
        Some("rs") => "rustc",
        _ => "cc",
    };
    (Command::new(name), flags)
}

/// Compiles `source`, as "exact/kernel.S", into `program`; None: its compiler is not installed. The first of the flags
/// may name another compiler. Libraries stand behind the source, which needs them.
#[track_caller]
pub fn try_compile(name: &str, program: &Path, flags: &[&str]) -> Option<()> {
    let (mut compiler, flags) = compiler(name, flags);
    let (libraries, options): (Vec<&str>, Vec<&str>) =
        flags.iter().partition(|flag| flag.starts_with("-l") || flag.ends_with(".so"));
    if compiler.get_program() != "rustc" {
        compiler.arg(HEADERS);
    }
    compiler.args(options).arg(source(name)).arg("-o").arg(program).args(libraries);
    let status = compiler.status().ok()?;
    assert!(status.success(), "{name} does not compile with {flags:?}");
    Some(())
}

/// The same where the compiler must be there.
#[track_caller]
pub fn compile(name: &str, program: &Path, flags: &[&str]) {
    try_compile(name, program, flags).unwrap_or_else(|| panic!("{name}: no compiler"));
}

/// A C program that several tests of a binary use, compiled once, with `flags` besides the usual ones.
#[track_caller]
pub fn built(name: &str, flags: &[&str]) -> &'static str {
    static BUILT: Mutex<Option<HashMap<String, &'static OnceLock<String>>>> = Mutex::new(None);
    let key = format!("{name}{}", flags.concat());
    let program = *BUILT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_default()
        .entry(key)
        .or_insert_with(|| Box::leak(Box::default()));
    program.get_or_init(|| build(name, flags))
}

fn build(name: &str, flags: &[&str]) -> String {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap());
    let stem = Path::new(name).file_stem().unwrap().to_str().unwrap();
    let program = folder.path().join(format!("{stem}{}", flags.concat()));
    compile(name, &program, &[&["-O1", "-g", "-pthread"], flags].concat());
    // A child that another test forks meanwhile may still hold the file open for writing.
    until("the program is closed", || Command::new(&program).status().is_ok());
    program.to_str().unwrap().to_owned()
}
