//! `awkward serve` and other programs that run until they are told to end.

use super::*;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};

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
