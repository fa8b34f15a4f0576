//! Starting the target so that nothing of it escapes: it waits before its exec until it is watched.

use super::signals;
use crate::limits;
use std::ffi::{CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};

/// Why a command cannot be run, before anything ran.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("`{0}`: command not found")]
    NotFound(String),
    #[error("`{0}` cannot be run: {1}")]
    NotExecutable(String, String),
    #[error("cannot start the command: {0}")]
    System(#[from] io::Error),
    /// The recorder had raised them for itself.
    #[error(
        "cannot start the command: the limits of this shell (ulimit) cannot be set for it: prlimit: {0}. Where a system call filter refuses \
         that, record from a shell with high limits"
    )]
    Limits(#[source] io::Error),
}

/// The user's `umask`, where this process has another one; else [`NONE`].
static UMASK: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = u32::MAX;

/// Files that this process makes from now on are its user's alone, whatever the `umask` says (one of 0777 would keep
/// them from the recorder itself): profiles tell much of a program. What is launched has the user's own.
pub fn keep_files_private() {
    // SAFETY: changes what this process makes; has no preconditions.
    let before = unsafe { libc::umask(0o077) };
    let _ = UMASK.compare_exchange(NONE, before, Ordering::Relaxed, Ordering::Relaxed);
}

/// In a child before its exec. Async-signal-safe.
fn give_back_umask() {
    let umask = UMASK.load(Ordering::Relaxed);
    if umask != NONE {
        // SAFETY: as above.
        unsafe { libc::umask(umask) };
    }
}

/// A child that waits to be released.
pub struct Waiting {
    pid: i32,
    release: std::fs::File,
    outcome: std::fs::File,
    name: String,
    path: PathBuf,
}

/// A child that runs.
pub struct Child {
    pub pid: i32,
}

impl Waiting {
    /// Forks a child that will run `command` with `extra` variables in its environment, once released.
    ///
    /// # Errors
    /// The command does not exist, is a directory, or may not be executed: found out before anything runs.
    pub fn start(command: &[OsString], extra: &[(OsString, OsString)]) -> Result<Self, LaunchError> {
        let program = command.first().ok_or_else(|| LaunchError::NotFound(String::new()))?;
        let name = program.to_string_lossy().into_owned();
        let path = find(program.as_ref(), &name)?;
        let c = |text: &std::ffi::OsStr| {
            CString::new(text.as_bytes()).map_err(|_| {
                LaunchError::NotExecutable(name.clone(), "its name or an argument holds a NUL byte".into())
            })
        };
        let file = path;
        let path = c(file.as_os_str())?;
        let arguments = command.iter().map(|word| c(word)).collect::<Result<Vec<_>, _>>()?;
        // What the user has set keeps its place: programs print their environment.
        let value_of = |name: &OsString| extra.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let kept = std::env::vars_os().map(|(name, value)| {
            let value = value_of(&name).unwrap_or(value);
            (name, value)
        });
        let added = extra.iter().filter(|(name, _)| std::env::var_os(name).is_none()).cloned();
        let variables = kept.chain(added).map(|(name, value)| {
            let mut pair = name.into_vec();
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            CString::new(pair).map_err(io::Error::from)
        });
        let variables = variables.collect::<Result<Vec<_>, _>>()?;
        let (go, release) = pipe()?;
        let (outcome, failed) = pipe()?;
        let pointers = |words: &[CString]| -> Vec<*const libc::c_char> {
            words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&arguments), pointers(&variables));
        // SAFETY: the child calls only async-signal-safe functions (close, read, signal, execve, write, _exit) on
        // memory prepared before the fork.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error().into()),
            0 => {
                // SAFETY: as above; all pointers are to live, NUL-terminated arrays of this copy of the memory.
                unsafe {
                    let mut byte = 0u8;
                    libc::close(release.as_raw_fd());
                    // End of file instead of a byte: the collector died or gave up, so nothing must run unwatched.
                    if libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
                        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                        signals::keep_limits_for_exec();
                        give_back_umask();
                        libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
                        let errno = *libc::__errno_location();
                        libc::write(failed.as_raw_fd(), (&raw const errno).cast(), 4);
                    }
                    libc::_exit(127)
                }
            }
            _ => {
                let waiting = Waiting { pid, release: release.into(), outcome: outcome.into(), name, path: file };
                // It waits to hear that it may run, and ends when it hears nothing.
                limits::give_back(pid).map_err(LaunchError::Limits)?;
                Ok(waiting)
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The file that it will execute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the child exec.
    ///
    /// # Errors
    /// The exec itself failed.
    pub fn release(self) -> Result<Child, LaunchError> {
        self.release_watched(|_| ()).map(|(child, ())| child)
    }

    /// The same with something to do while the child is on its way through exec: `watch` gets its pid.
    ///
    /// # Errors
    /// The exec itself failed.
    pub fn release_watched<T>(mut self, watch: impl FnOnce(i32) -> T) -> Result<(Child, T), LaunchError> {
        self.release.write_all(&[1])?;
        drop(self.release);
        let seen = watch(self.pid);
        let mut errno = [0u8; 4];
        match self.outcome.read_exact(&mut errno) {
            Ok(()) => {
                let _ = (Child { pid: self.pid }).wait();
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                let why = match error.raw_os_error() {
                    Some(libc::ENOEXEC) if is_elf(&self.path) => {
                        "a damaged program, or one for another processor or system (see `file`)".to_owned()
                    }
                    _ => explain(&error),
                };
                Err(LaunchError::NotExecutable(self.name, why))
            }
            // The pipe closed at the exec.
            Err(_) => Ok((Child { pid: self.pid }, seen)),
        }
    }
}

impl Child {
    /// How it ended, if it has.
    pub fn try_wait(&self) -> Option<ExitStatus> {
        self.wait_with(libc::WNOHANG)
    }

    fn wait(&self) -> Option<ExitStatus> {
        self.wait_with(0)
    }

    fn wait_with(&self, flags: i32) -> Option<ExitStatus> {
        let mut status = 0;
        // SAFETY: a word for the status; waits for our own child.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, flags) };
        (pid == self.pid).then(|| ExitStatus::from_raw(status))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child that has not been waited for: the pid cannot have been reused.
        unsafe { libc::kill(self.pid, signal) };
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(io::Error::from)
}

fn find(program: &Path, name: &str) -> Result<PathBuf, LaunchError> {
    let found = if name.contains('/') {
        program.to_owned()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let candidates: Vec<PathBuf> =
            std::env::split_paths(&path).map(|folder| folder.join(program)).filter(|file| file.is_file()).collect();
        let executable = candidates.iter().find(|file| may_execute(file));
        executable.or(candidates.first()).cloned().ok_or_else(|| LaunchError::NotFound(name.to_owned()))?
    };
    let refused = |why: &str| LaunchError::NotExecutable(name.to_owned(), why.to_owned());
    match found.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LaunchError::NotFound(name.to_owned())),
        Err(error) => Err(refused(&explain(&error))),
        Ok(meta) if meta.is_dir() => Err(refused("it is a directory")),
        Ok(_) if !may_execute(&found) => Err(refused("permission denied (is it executable? chmod +x)")),
        Ok(_) => Ok(found),
    }
}

fn may_execute(file: &Path) -> bool {
    nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok()
}

fn is_elf(file: &Path) -> bool {
    let mut start = [0; 4];
    std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"\x7fELF"
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => "not a program: neither an ELF file nor a script that begins with #!".to_owned(),
        Some(libc::ENOENT) => "its interpreter (the loader, or what #! names) does not exist".to_owned(),
        _ => error.to_string(),
    }
}
