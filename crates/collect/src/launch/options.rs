//! What to record, and how.

use crate::session::SessionOptions;
use numalens_profile::Meta;
use std::ffi::OsString;
use std::time::Duration;

/// What to record.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command, from its first instruction on.
    Launch(Vec<OsString>),
    /// A running process.
    Pid(i32),
    /// All that runs on this machine.
    All,
}

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    pub session: SessionOptions,
    /// Samples per second and CPU.
    pub frequency: u64,
    /// Stop after so long.
    pub duration: Option<Duration>,
    /// Go on until the processes have ended that a launched command leaves.
    pub wait_all: bool,
    /// Replace an existing profile.
    pub force: bool,
    /// Keep translations for the next recording, and use what others have kept.
    pub code_cache: bool,
    /// What is known about the recording beforehand.
    pub meta: Meta,
}

/// What is asked of an engine beyond what every engine can do.
#[derive(Clone, Copy, Debug)]
pub struct Demands {
    /// A command is observed from its start to its end.
    pub whole_command: bool,
    /// Samples are taken so often.
    pub frequency: Option<u64>,
    /// Every access is looked at by itself.
    pub each_access: bool,
}
