//! How far a process is known, and whether it is over.

use crate::exact::clock::CLOCKS_DIFFER_NS;
use crate::session::Session;

/// How far a process is known, and whether it is over.
#[derive(Default)]
pub struct Life {
    /// How far the latest reading of its pages and blocks came.
    pub known_until: u64,
    /// It had ended when this poll began: all is known that it has reported.
    pub is_over: bool,
    /// It had said by then that it exits.
    pub exits: bool,
    /// Its last instruction has been executed.
    pub last: bool,
    /// The last poll found it gone, without a word.
    pub was_gone: bool,
    pub ended: bool,
}

impl Life {
    /// Whether all has been taken in that happened until then, on the clock of the records.
    pub fn knows_all_until(&self, time: u64) -> bool {
        self.last || self.known_until >= time
    }

    /// Whose pages were is known until then, since the start of the recording.
    pub fn attributable_until(&self, session: &Session) -> u64 {
        session.since_start(self.known_until).saturating_sub(CLOCKS_DIFFER_NS)
    }
}

/// Whether a process still has threads that can run.
pub fn is_running(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X'))
}
