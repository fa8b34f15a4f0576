//! Running numalens and other programs: what they did, what they printed, and conditions that come true in time.

use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The program under test.
pub const NUMALENS: &str = env!("CARGO_BIN_EXE_numalens");

/// How long a condition may take that comes true at once on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// `numalens ARGS`
pub fn numalens(args: &[&str]) -> Command {
    let mut command = in_order(Command::new(NUMALENS));
    command.args(args);
    command
}

/// Nothing that asks for colors. (A `Command` whose environment was changed hands it on sorted.)
pub fn in_order(mut command: Command) -> Command {
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// A program by itself, with the environment that it has when it is recorded.
pub fn native(program: impl AsRef<std::ffi::OsStr>) -> Command {
    in_order(Command::new(program))
}

pub fn is_root() -> bool {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Whether a program is installed.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The outcome, which must be a success.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}: {}", self.status, self.stderr);
        self
    }

    /// What was said on standard error, without the breaks of its lines: they may be wrapped at the edge of the screen.
    pub fn told(&self) -> String {
        self.stderr.replace(['\n', '│'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `command`, with nothing to read, until it has ended. Output goes to files: what is left running does not keep
/// the test waiting.
#[track_caller]
pub fn run(command: &mut Command) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let status = wait(&mut command.spawn().unwrap());
    let text = |path: &Path| text(&std::fs::read(path).unwrap());
    Outcome { status, stdout: text(&out), stderr: text(&err) }
}

/// Runs `command`, with nothing to read, until it and all that hold its output have ended, however long that takes.
#[track_caller]
pub fn output(command: &mut Command) -> Outcome {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

/// The same with something to read.
#[track_caller]
pub fn fed(command: &mut Command, input: &[u8]) -> Outcome {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Who refuses it need not read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap().into()
    })
}

/// What a command prints that must succeed.
#[track_caller]
pub fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}: {}", output.status, text(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that must fail with a status.
#[track_caller]
pub fn failure(command: &mut Command, code: i32) -> String {
    let outcome = output(command);
    assert_eq!(outcome.code(), Some(code), "{command:?}: {}", outcome.stderr);
    outcome.told()
}

/// The document of a command of numalens that must succeed.
#[track_caller]
pub fn json(command: &mut Command) -> Value {
    let printed = stdout(command.args(["--format", "json"]));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{command:?}: {error}: {printed}"))
}

/// `numalens check` finds nothing.
#[track_caller]
pub fn check(profile: &Path) {
    let outcome = output(numalens(&["check"]).arg(profile));
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
}

/// Waits for the end of a child; it is killed when that does not come.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the child did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
