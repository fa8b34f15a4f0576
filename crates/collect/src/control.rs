//! `numalens ctl`: a line of text to a recorder that runs, and its answer.
//!
//! A recorder listens on sockets whose names say which process it is and which one it observes. The names are abstract:
//! nothing is left on disk, and nobody's rights on a folder matter. Who may speak is decided by the kernel's word on
//! who is at the other end: the recorder's user and root, and the recorder must be theirs as well.
//!
//! ```text
//!   ctl -> recorder   "start\n" | "stop\n" | "mark NAME\n" | "end\n"
//!   recorder -> ctl   "done TEXT\n" | "failed TEXT\n"
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// The longest line.
const MOST_BYTES: usize = 1024;
/// How long somebody may take to say what they want.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer may take: a recorder may be writing a large profile.
const ANSWER: Duration = Duration::from_secs(60);
/// Those who speak at once.
const MOST_CLIENTS: usize = 16;

/// What a user asks of a recorder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Count from now on.
    Start,
    /// Count no more.
    Stop,
    /// Name this moment.
    Mark(String),
    /// Record no more, and write the profile; programs go on.
    End,
}

impl Command {
    fn line(&self) -> String {
        match self {
            Command::Start => "start\n".to_owned(),
            Command::Stop => "stop\n".to_owned(),
            Command::Mark(name) => format!("mark {}\n", name.replace(char::is_control, " ")),
            Command::End => "end\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Command> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("start", "") => Some(Command::Start),
            ("stop", "") => Some(Command::Stop),
            ("end", "") => Some(Command::End),
            ("mark", name) if !name.is_empty() => Some(Command::Mark(name.to_owned())),
            _ => None,
        }
    }
}

fn address(pid: i32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("numalens-recorder-of-{pid}"))
}

/// The recorder's side.
pub struct Control {
    listeners: Vec<UnixListener>,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    since: Instant,
}

/// A command that waits for its answer.
pub struct Request {
    pub command: Command,
    stream: UnixStream,
}

impl Request {
    /// Answers the user what has become of it. Whoever has gone does not hear it.
    pub fn answer(mut self, done: Result<String, String>) {
        reply(&mut self.stream, done);
    }
}

/// What a user hears after `start` or `stop`; `changed`: it was not so before.
pub fn control_answer(changed: bool, counting: bool) -> String {
    let what = if counting { "counting" } else { "paused" };
    if changed { what.to_owned() } else { format!("{what}, as before") }
}

fn reply(stream: &mut UnixStream, done: Result<String, String>) {
    let line = match done {
        Ok(text) => format!("done {text}\n"),
        Err(text) => format!("failed {text}\n"),
    };
    // It is short, and fits into the socket.
    let _ = stream.write_all(line.as_bytes());
}

impl Control {
    /// Listens as the recorder of this process and of `target`. Where that is not possible (another recorder observes
    /// the same process; no sockets), a recording is as good without.
    pub fn open(target: Option<i32>) -> Self {
        let listen = |pid| {
            let listener = UnixListener::bind_addr(&address(pid)?)?;
            listener.set_nonblocking(true)?;
            io::Result::Ok(listener)
        };
        let pids = target.into_iter().chain([std::process::id() as i32]);
        Control { listeners: pids.filter_map(|pid| listen(pid).ok()).collect(), clients: Vec::new() }
    }

    /// What was asked for since the last time. Does not wait.
    pub fn requests(&mut self) -> Vec<Request> {
        for listener in &self.listeners {
            while let Ok((stream, _)) = listener.accept() {
                let allowed = peer(&stream).is_some_and(|(user, _)| user == 0 || user == own_user());
                if allowed && self.clients.len() < MOST_CLIENTS && stream.set_nonblocking(true).is_ok() {
                    self.clients.push(Client { stream, line: Vec::new(), since: Instant::now() });
                }
            }
        }
        let mut requests = Vec::new();
        for mut client in std::mem::take(&mut self.clients) {
            match client.read() {
                None if client.since.elapsed() < PATIENCE => self.clients.push(client),
                None => {}
                Some(line) => {
                    let mut stream = client.stream;
                    match Command::parse(&line) {
                        Some(command) => requests.push(Request { command, stream }),
                        None => reply(&mut stream, Err("this recorder does not know the command".to_owned())),
                    }
                }
            }
        }
        requests
    }
}

impl Client {
    /// The line, when all of it is there; an empty one when there will be none.
    fn read(&mut self) -> Option<String> {
        let mut bytes = [0u8; MOST_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Some(String::new()),
                Ok(count) => self.line.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => return Some(String::new()),
            }
            if let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                return Some(String::from_utf8_lossy(&self.line[..end]).into_owned());
            }
            if self.line.len() > MOST_BYTES {
                return Some(String::new());
            }
        }
    }
}

/// Why a command did not reach a recorder, or was not done.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("there is no process {0}")]
    NoProcess(i32),
    #[error(
        "process {0} is not being recorded, nor is any that it descends from: `--pid` takes the pid of `numalens record`, of the program that it \
         records, or of one of its children (in the same container)"
    )]
    NotRecorded(i32),
    #[error("process {pid} is recorded by user {user}: only that user and root can say when")]
    OtherUser { pid: i32, user: u32 },
    #[error("the recorder of process {pid} does not answer: {error}")]
    NoAnswer { pid: i32, error: io::Error },
    #[error("{0}")]
    Failed(String),
}

/// Has the recorder of process `pid`, or of one that it descends from, do something. Returns its answer.
///
/// # Errors
/// See [`ControlError`].
pub fn send(pid: i32, command: &Command) -> Result<String, ControlError> {
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        return Err(ControlError::NoProcess(pid));
    }
    let mut of = pid;
    let stream = loop {
        match address(of).and_then(|address| UnixStream::connect_addr(&address)) {
            Ok(stream) => break stream,
            Err(_) => {
                of = parent_and_start(of)
                    .map(|(parent, _)| parent)
                    .filter(|&parent| parent > 1)
                    .ok_or(ControlError::NotRecorded(pid))?
            }
        }
    };
    let (user, _) = peer(&stream).ok_or(ControlError::NotRecorded(pid))?;
    if own_user() != 0 && user != own_user() {
        return Err(ControlError::OtherUser { pid, user });
    }
    let answer = exchange(stream, command).map_err(|error| ControlError::NoAnswer { pid, error })?;
    match answer.split_once(' ') {
        Some(("done", text)) => Ok(text.to_owned()),
        Some(("failed", text)) => Err(ControlError::Failed(text.to_owned())),
        _ => {
            let error = io::Error::new(ErrorKind::UnexpectedEof, "it has hung up; the recording may have just ended");
            Err(ControlError::NoAnswer { pid, error })
        }
    }
}

fn exchange(mut stream: UnixStream, command: &Command) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(command.line().as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

/// The parent of a process, and when the process began, in ticks since the host did.
pub(crate) fn parent_and_start(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything.
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    Some((words.nth(1)?.parse().ok()?, words.nth(17)?.parse().ok()?))
}

/// Whom this process acts for.
pub(crate) fn own_user() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}

/// The user and the process at the other end of a connection, by the kernel's word.
fn peer(stream: &UnixStream) -> Option<(u32, i32)> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a structure of our own for the answer, and its size.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    (failed == 0).then_some((found.uid, found.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_way() {
        for command in [Command::Start, Command::Stop, Command::End, Command::Mark("two words".to_owned())] {
            assert_eq!(Command::parse(command.line().trim_end_matches('\n')), Some(command));
        }
        assert_eq!(Command::Mark("a\nstop".to_owned()).line(), "mark a stop\n");
        assert_eq!(["", "mark", "mark ", "start now", "go"].map(Command::parse), [const { None }; 5]);
    }

    #[test]
    fn a_recorder_is_found_by_its_pid_and_answers() {
        let own = std::process::id() as i32;
        let mut control = Control::open(None);
        let asked = std::thread::spawn(move || send(own, &Command::Mark("now".to_owned())));
        let request = loop {
            if let Some(request) = control.requests().pop() {
                break request;
            }
            std::thread::yield_now();
        };
        assert_eq!(request.command, Command::Mark("now".to_owned()));
        request.answer(Ok("marked".to_owned()));
        assert_eq!(asked.join().unwrap().unwrap(), "marked");
        // What is no command is refused, and a recorder that has gone is not found.
        let mut stream = UnixStream::connect_addr(&address(own).unwrap()).unwrap();
        stream.write_all(b"dance\n").unwrap();
        while control.requests().is_empty() && stream_is_silent(&stream) {}
        let mut answer = String::new();
        stream.set_nonblocking(false).unwrap();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "failed this recorder does not know the command\n");
        drop(control);
        assert!(matches!(send(own, &Command::Stop), Err(ControlError::NotRecorded(_))));
        assert!(matches!(send(i32::MAX, &Command::Stop), Err(ControlError::NoProcess(_))));
    }

    fn stream_is_silent(stream: &UnixStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        let mut byte = [0u8; 1];
        // SAFETY: a byte of our own; it stays in the socket.
        unsafe { libc::recv(stream.as_raw_fd(), byte.as_mut_ptr().cast(), 1, libc::MSG_PEEK) < 0 }
    }
}
