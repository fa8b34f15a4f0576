//! Running numalens, waiting with a deadline, reading what it left.

use numalens_profile::Profile;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a condition may take that comes true at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `numalens ARGS`
pub fn numalens(args: &[&str]) -> Command {
    let mut command = in_order(Command::new(env!("CARGO_BIN_EXE_numalens")));
    command.args(args);
    command
}

/// Nothing that asks for colors. (A `Command` whose environment was changed hands it on sorted.)
pub fn in_order(mut command: Command) -> Command {
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// Why programs cannot be recorded here, if they cannot.
pub fn unable() -> Option<&'static str> {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoid.trim().parse::<i32>() {
        Err(_) => Some("the kernel has no perf events"),
        Ok(level) if level > 2 && !is_root() => Some("perf events are for root only here"),
        Ok(_) => None,
    }
}

/// Returns from the test, saying why, when programs cannot be recorded.
macro_rules! need_recording {
    () => {
        if let Some(why) = crate::support::unable() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}
pub(crate) use need_recording;

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
}

/// Runs `command`, with nothing to read, until it and all that hold its output have ended. Output goes to files: what
/// is left running does not keep the test waiting.
pub fn run(command: &mut Command) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let status = wait(&mut command.spawn().unwrap());
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    Outcome { status, stdout: text(&out), stderr: text(&err) }
}

/// Waits for the end of a child; it is killed when that does not come.
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

/// Where numalens.h is.
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");

/// A C program of this folder, compiled once.
pub fn built(source: &'static str, extra: &[&str]) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap());
    let program = folder.path().join(format!("{source}{}", extra.concat()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record").join(source).with_extension("c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-pthread", "-I", HEADERS, "-o"]).arg(&program).arg(source).args(extra);
    assert!(compiler.status().unwrap().success(), "cc");
    // A child that another test forks meanwhile may still hold the file open for writing.
    until("the program is closed", || Command::new(&program).status().is_ok());
    program
}

/// Programs that do odd things: `awkward KIND`.
pub fn awkward() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("awkward", &[]))
}

/// The same without a loader, so that nothing can be preloaded.
pub fn awkward_static() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("awkward", &["-static"]))
}

/// A program that touches pages: `pages KIND COUNT`.
pub fn pages() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("pages", &[]))
}

/// The same without a loader: nobody waits for its pages to be looked up, nobody tells of its `munmap`.
pub fn pages_static() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("pages", &["-static"]))
}

/// A program that says when to count: `marks KIND`.
pub fn marks() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("marks", &[]))
}

/// A folder for one profile.
pub struct Lab {
    pub folder: TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Lab { folder: tempfile::tempdir().unwrap() }
    }

    pub fn profile(&self) -> PathBuf {
        self.folder.path().join("run.numalens")
    }

    pub fn partial(&self) -> PathBuf {
        self.folder.path().join("run.numalens.partial")
    }

    /// `numalens record -q -o PROFILE OPTIONS -- `, in the folder; with the sample engine unless the options say
    /// otherwise.
    pub fn recorder(&self, options: &[&str]) -> Command {
        let mut command = numalens(&["record", "-q", "-o"]);
        command.arg(self.profile());
        if !options.contains(&"--engine") {
            command.args(["--engine", "sample"]);
        }
        command.args(options).arg("--").current_dir(self.folder.path());
        command
    }

    /// Records `program`, which must succeed, and opens its sound profile.
    #[track_caller]
    pub fn record(&self, options: &[&str], program: &[&str]) -> (Outcome, Profile) {
        let outcome = run(self.recorder(options).args(program));
        assert_eq!(outcome.code(), Some(0), "{program:?}: {outcome:?}");
        (outcome, self.sound())
    }

    /// The finished profile, after `numalens check`.
    #[track_caller]
    pub fn sound(&self) -> Profile {
        assert!(!self.partial().exists(), "a .partial was left");
        check(&self.profile());
        Profile::open(&self.profile()).unwrap()
    }
}

/// `numalens check` finds nothing.
#[track_caller]
pub fn check(profile: &Path) {
    let outcome = run(numalens(&["check"]).arg(profile));
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
}

/// `awkward serve` under numalens: it works until `finish`, or until it is killed.
pub struct Served {
    pub numalens: Child,
    pub pid: i32,
    input: Option<std::process::ChildStdin>,
    output: Option<std::process::ChildStdout>,
}

/// Starts it, and returns when it works.
pub fn serve(mut command: Command) -> Served {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut numalens = command.spawn().unwrap();
    let (input, mut output) = (numalens.stdin.take(), numalens.stdout.take().unwrap());
    let (mut line, mut byte) = (String::new(), [0]);
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(char::from(byte[0]));
    }
    let pid = line.parse().unwrap_or_else(|_| panic!("`{line}` is no pid"));
    Served { numalens, pid, input, output: Some(output) }
}

impl Served {
    /// Sends `signal` to the program.
    pub fn signal(&self, signal: i32) {
        kill(self.pid, signal);
    }

    /// Lets the program end. Returns what it wrote since it began to work.
    pub fn finish(&mut self) -> String {
        self.input = None;
        self.rest()
    }

    /// What the program writes until its end.
    pub fn rest(&mut self) -> String {
        until_end(self.output.take().unwrap())
    }

    /// Kills numalens and buries it; the program lives on.
    pub fn kill_numalens(&mut self) {
        self.numalens.kill().unwrap();
        wait(&mut self.numalens);
    }

    /// How numalens ended, and what it had to say. The program must have ended, or be about to: it can write there too.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.numalens);
        (status, until_end(self.numalens.stderr.take().unwrap()))
    }
}

/// All that comes out of a pipe, which must end in time.
fn until_end(mut pipe: impl Read + Send + 'static) -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    receiver.recv_timeout(PATIENCE).expect("somebody still holds the pipe").unwrap()
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: a plain call; the processes are this test's children, or groups of them.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {pid}");
}

/// The letter of /proc/PID/stat.
pub fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
