//! Kernels compiled, input generated, commands found.

use super::suite::{Program, Suite};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles all kernels of the suite into `folder` and writes its input files there; those that are there already and
/// not older than the suite's file stay.
///
/// # Errors
/// The compiler is missing or complains; a file cannot be written.
pub fn prepare(suite: &Suite, suite_file: &Path, kernels: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let of_programs = suite.program.iter().filter_map(|program| program.kernel.as_ref());
    for kernel in of_programs.chain(suite.file.iter().map(|file| &file.kernel)) {
        let haskell = kernels.join(format!("{kernel}.hs"));
        if !haskell.exists() {
            compile(&kernels.join(format!("{kernel}.c")), &folder.join(kernel))?;
        } else if find("ghc").is_some() {
            compile_haskell(&haskell, &folder.join(kernel), folder)?;
        }
    }
    for file in &suite.file {
        let (path, partial) = (folder.join(&file.name), folder.join(format!("{}.partial", file.name)));
        let generator = folder.join(&file.kernel);
        if is_newer(&path, &generator) && is_newer(&path, suite_file) {
            continue;
        }
        succeed(Command::new(&generator).args(&file.arguments).stdout(File::create(&partial)?))?;
        fs::rename(&partial, &path)?;
    }
    Ok(())
}

fn compile(source: &Path, program: &Path) -> io::Result<()> {
    if is_newer(program, source) {
        return Ok(());
    }
    succeed(Command::new("cc").args(["-O2", "-g", "-fopenmp", "-pthread", "-o"]).arg(program).arg(source).arg("-lm"))
}

fn compile_haskell(source: &Path, program: &Path, folder: &Path) -> io::Result<()> {
    if is_newer(program, source) {
        return Ok(());
    }
    let options = ["-O1", "-threaded", "-rtsopts", "-with-rtsopts=-N2", "-v0", "-o"];
    succeed(Command::new("ghc").args(options).arg(program).arg("-outputdir").arg(folder).arg(source))
}

fn is_newer(path: &Path, than: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    matches!((time(path), time(than)), (Some(path), Some(than)) if path > than)
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let shown = format!("{:?}", command.get_program());
    let status = command.status().map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{shown}: {status}"))) }
}

/// The words to execute; `None` when the command is not installed.
pub fn command(program: &Program, folder: &Path) -> Option<Vec<String>> {
    match &program.kernel {
        Some(kernel) => {
            let path = folder.join(kernel);
            let path = path.exists().then(|| path.to_string_lossy().into_owned())?;
            Some(std::iter::once(path).chain(program.arguments.iter().cloned()).collect())
        }
        None => find(program.needs()).map(|_| program.command.clone()),
    }
}

/// Where a command is, by `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

/// The bytes of all files in a folder.
pub fn bytes_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_of(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_path() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-command-anywhere"), None);
    }

    #[test]
    fn bytes_are_those_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), [0; 30]).unwrap();
        fs::write(folder.path().join("c"), [0; 4]).unwrap();
        assert_eq!(bytes_of(folder.path()).unwrap(), 34);
    }
}
