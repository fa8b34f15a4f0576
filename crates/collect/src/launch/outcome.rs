//! What became of a recording, and what its caller hears meanwhile.

use super::child::LaunchError;
use crate::limits::TooLow;
use crate::perf::OpenError;
use crate::session::{OutputError, SeenCode};
use numalens_profile::Profile;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// What fails where a user may have no more of them.
pub const STARTING_THREADS: &str = "clone of a thread that writes tables";

/// What became of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// The profile.
    pub profile: PathBuf,
    /// How the launched command ended.
    pub status: Option<ExitStatus>,
}

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The exact engine cannot watch the command; it has not run.
    #[error("the command cannot be observed: {0}. It was not run; `--engine sample` may do")]
    Unobservable(String),
    #[error("process {0} does not exist")]
    NoProcess(i32),
    /// Nothing has run.
    #[error("{0}")]
    Limit(TooLow),
    #[error("{0}")]
    System(#[from] io::Error),
    /// The target ran, but its profile could not be finished; what a checkpoint wrote is at `partial`.
    #[error("the profile could not be written: {error}. {}", what_is_left(partial, *status))]
    Output { error: OutputError, partial: PathBuf, status: Option<ExitStatus> },
    #[error(transparent)]
    Create(OutputError),
}

impl From<TooLow> for RecordError {
    fn from(limit: TooLow) -> Self {
        RecordError::Limit(limit)
    }
}

/// What the caller may want to say to its user while a recording runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The profile has grown to so many bytes.
    Grown(u64),
    /// So many samples, or accesses where every one is counted, have been seen since the start.
    Seen(u64),
    /// A checkpoint could not be written; it will be tried again.
    WriteFailed(&'a OutputError),
    /// Something that limits what will be seen.
    Limited(&'a str),
    /// The target has ended, and this is its code, most likely all of it. Shares are not known yet.
    Executed(SeenCode),
    /// All has been seen, and the profile is about to be written: its code can be named meanwhile.
    Ended(SeenCode),
}

/// What a user still has after a profile could not be finished.
fn what_is_left(partial: &Path, status: Option<ExitStatus>) -> String {
    let kept = if Profile::open(partial).is_ok() {
        format!("What was collected until the last checkpoint is in {}", partial.display())
    } else {
        "Nothing had been written before".to_owned()
    };
    match status {
        Some(status) => format!("{kept}; the program itself {}", describe(status).replace("killed", "was killed")),
        None => kept,
    }
}

/// How a process ended, in the words of the profile.
pub fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        _ => "unknown".to_owned(),
    }
}
