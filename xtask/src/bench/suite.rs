//! The suite as data: `bench/suite.toml`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What is run, and the files it needs.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    #[serde(default)]
    pub file: Vec<InputFile>,
    pub program: Vec<Program>,
}

/// A file that a kernel writes to its standard output.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    pub name: String,
    pub kernel: String,
    pub arguments: Vec<String>,
}

/// A program of the suite: a kernel with arguments, or an installed command.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    pub about: String,
    pub kernel: Option<String>,
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What it measures is its start: it is not part of the mean of ratios.
    #[serde(default)]
    pub start: bool,
    #[serde(default)]
    pub command: Vec<String>,
    /// The package of Debian that has the command, where it is not called as that is.
    pub package: Option<String>,
    /// Does nothing but what costs a recording most: shown, but apart from the mean of programs.
    #[serde(default)]
    pub worst_case: bool,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl Program {
    /// The command that has to be installed; for a kernel its compiler.
    pub fn needs(&self) -> &str {
        self.command.first().map_or("ghc", String::as_str)
    }

    /// What to do where it is not installed.
    pub fn hint(&self) -> String {
        let needs = self.needs();
        let package = self.package.as_deref().unwrap_or(needs);
        format!("{needs} is not installed: apt-get install {package}")
    }
}

impl Suite {
    /// Reads the suite.
    ///
    /// # Errors
    /// The file cannot be read, or a program is not exactly one of kernel and command.
    pub fn read(path: &Path) -> io::Result<Self> {
        let wrong = |text: String| io::Error::other(format!("{}: {text}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let suite: Suite = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match suite.program.iter().find(|program| program.kernel.is_some() != program.command.is_empty()) {
            Some(program) => Err(wrong(format!("{} has to have one of `kernel` and `command`", program.name))),
            None => Ok(suite),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_lists_exists() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench");
        for list in ["suite", "exact", "threads", "scale", "wide", "options", "starts"] {
            let suite = Suite::read(&bench.join(format!("{list}.toml"))).unwrap();
            let of_programs = suite.program.iter().filter_map(|program| program.kernel.as_ref());
            for kernel in of_programs.chain(suite.file.iter().map(|file| &file.kernel)) {
                let exists = |end| bench.join(format!("kernels/{kernel}.{end}")).exists();
                assert!(exists("c") || exists("hs"), "{kernel}");
            }
            let mut names: Vec<_> = suite.program.iter().map(|program| &program.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), suite.program.len(), "names in {list} are unique");
        }
    }

    #[test]
    fn a_program_is_a_kernel_or_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let read = |program: &str| {
            let path = folder.path().join("suite.toml");
            std::fs::write(&path, format!("file = []\n[[program]]\nname = \"x\"\nabout = \"y\"\n{program}\n")).unwrap();
            Suite::read(&path).map(|suite| suite.program.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read("kernel = \"k\""), Ok(1));
        assert_eq!(read("command = [\"c\"]"), Ok(1));
        assert!(read("").unwrap_err().ends_with("suite.toml: x has to have one of `kernel` and `command`"));
        assert!(read("kernel = \"k\"\ncommand = [\"c\"]").is_err());
        assert!(read("kernal = \"k\"").unwrap_err().contains("kernal"));
    }
}
