//! A folder in which programs are built and recorded, and what came of a recording.

use super::command::{Outcome, check, json, numalens, output, run};
use super::compile::compile;
use numalens_profile::Profile;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use tempfile::TempDir;

/// A folder for programs and one profile.
pub struct Lab {
    folder: Rc<TempDir>,
    /// Options with a value that recordings have unless they say otherwise.
    usual: &'static [[&'static str; 2]],
    /// Options without one that all recordings have.
    always: &'static [&'static str],
}

impl Lab {
    /// For recordings with the sample engine of the host's machine.
    pub fn new() -> Self {
        Lab::with(&[["--engine", "sample"]], &["-q"])
    }

    /// For recordings with the exact engine on a virtual machine, each in place of the one before.
    pub fn exact() -> Self {
        Lab::with(&[["--engine", "exact"], ["--machine", "4x2"]], &["-q", "-f"])
    }

    fn with(usual: &'static [[&'static str; 2]], always: &'static [&'static str]) -> Self {
        Lab { folder: Rc::new(tempfile::tempdir().unwrap()), usual, always }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder, as an argument.
    pub fn at(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn profile(&self) -> PathBuf {
        self.path().join("run.numalens")
    }

    pub fn partial(&self) -> PathBuf {
        self.path().join("run.numalens.partial")
    }

    /// Compiles a source of tests/ into the folder, under its name without the ending.
    #[track_caller]
    pub fn build(&self, source: &str, flags: &[&str]) -> String {
        let program = self.at(Path::new(source).file_stem().unwrap().to_str().unwrap());
        compile(source, Path::new(&program), flags);
        program
    }

    /// `numalens record -o PROFILE OPTIONS -- `, in the folder, with what is usual.
    pub fn recorder(&self, options: &[&str]) -> Command {
        let mut command = numalens(&["record"]);
        command.args(self.recording(options)).current_dir(self.path());
        command
    }

    /// What stands between `record` and the program.
    pub fn recording(&self, options: &[&str]) -> Vec<String> {
        let usual = self.usual.iter().filter(|[name, _]| !options.contains(name)).flatten();
        let profile = ["-o".to_owned(), self.at("run.numalens")];
        let words = self.always.iter().chain(usual).chain(options).map(|&word| word.to_owned());
        words.chain(profile).chain(["--".to_owned()]).collect()
    }

    /// Records `program`, which must succeed in time, and opens its sound profile.
    #[track_caller]
    pub fn record(&self, options: &[&str], program: &[&str]) -> (Outcome, Profile) {
        let outcome = run(self.recorder(options).args(program));
        assert_eq!(outcome.code(), Some(0), "{program:?}: {outcome:?}");
        (outcome, self.sound())
    }

    /// Records `program`, however it ends.
    #[track_caller]
    pub fn recorded(&self, options: &[&str], program: &[&str]) -> Recorded {
        self.finished(self.recorder(options).args(program))
    }

    /// The same of a whole command, which is one of `recorder`.
    #[track_caller]
    pub fn finished(&self, command: &mut Command) -> Recorded {
        self.outcome(output(command))
    }

    /// The same of one that was started, when it has ended.
    #[track_caller]
    pub fn waited(&self, recording: Child) -> Recorded {
        self.outcome(recording.wait_with_output().unwrap().into())
    }

    fn outcome(&self, outcome: Outcome) -> Recorded {
        Recorded { outcome, path: self.profile(), _folder: Rc::clone(&self.folder) }
    }

    /// The document of a command that reads the profile.
    #[track_caller]
    pub fn json(&self, command: &[&str]) -> Value {
        json(numalens(command).arg(self.profile()))
    }

    /// The finished profile, after `numalens check`.
    #[track_caller]
    pub fn sound(&self) -> Profile {
        assert!(!self.partial().exists(), "a .partial was left");
        check(&self.profile());
        Profile::open(&self.profile()).unwrap()
    }
}

/// What a recording has come to. The lab's folder is there as long as this is.
pub struct Recorded {
    pub outcome: Outcome,
    pub path: PathBuf,
    _folder: Rc<TempDir>,
}

impl Recorded {
    /// The recording, which must be a success.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        Recorded { outcome: self.outcome.succeeded(), ..self }
    }

    /// The recording, in whose profile `numalens check` finds nothing.
    #[track_caller]
    pub fn sound(self) -> Self {
        check(&self.path);
        self
    }

    /// What the program has printed.
    pub fn said(&self) -> &str {
        &self.outcome.stdout
    }

    #[track_caller]
    pub fn profile(&self) -> Profile {
        Profile::open(&self.path).unwrap()
    }

    /// The document of a command that reads the profile.
    #[track_caller]
    pub fn json(&self, command: &[&str]) -> Value {
        json(numalens(command).arg(&self.path))
    }

    #[track_caller]
    pub fn report(&self) -> Value {
        self.json(&["report"])
    }

    #[track_caller]
    pub fn advice(&self) -> Value {
        self.json(&["advise"])
    }
}
