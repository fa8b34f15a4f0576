//! When a recording of a command ends: with the command, or with the last process that it has left in the background
//! (`--wait-all`).

use crate::launch::signals;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Who runs is asked this often.
const PAUSE: Duration = Duration::from_millis(50);
/// Nobody has to be found so often in a row, with a poll in between: a process that was forked just now is known by
/// then.
const EMPTY: u32 = 2;

/// How far the end has come.
pub struct Ending {
    wait_all: bool,
    status: Option<ExitStatus>,
    asked: Instant,
    pause: Duration,
    empty: u32,
    /// Of whom the user has not heard.
    unannounced: Option<usize>,
    is_announced: bool,
    is_asked_for: bool,
}

impl Ending {
    /// The command begins. `wait_all`: its end is not that of the recording.
    pub fn new(wait_all: bool) -> Self {
        Ending {
            wait_all,
            status: None,
            asked: Instant::now(),
            pause: PAUSE,
            empty: 0,
            unannounced: None,
            is_announced: false,
            is_asked_for: false,
        }
    }

    /// The command has ended. Signals are meant for the recording from now on.
    pub fn command_ended(&mut self, status: ExitStatus) {
        self.status = Some(status);
        signals::forget();
    }

    /// How the command has ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Whether processes are waited for that the command has left.
    pub fn waits(&self) -> bool {
        self.wait_all && self.status.is_some()
    }

    /// The user has had enough.
    pub fn ask(&mut self) {
        self.is_asked_for = true;
    }

    /// Whether the user has had enough.
    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// Asks now and then, after the command's end, how many processes of the recording run. `true`: none was found, and
    /// the recording ends if the next poll finds none either.
    pub fn poll(&mut self, running: impl FnOnce() -> usize) -> bool {
        if !self.waits() || self.asked.elapsed() < self.pause {
            return false;
        }
        self.asked = Instant::now();
        let running = running();
        self.empty = if running == 0 { self.empty + 1 } else { 0 };
        self.unannounced = Some(running).filter(|&running| running > 0 && !self.is_announced);
        self.empty > 0
    }

    /// Whether the recording ends.
    pub fn is_here(&self) -> bool {
        let all_ended = !self.wait_all || self.empty >= EMPTY;
        self.status.is_some() && (all_ended || self.is_asked_for || signals::wanted_to_stop())
    }

    /// What to say to the user, once, as the recording goes on without the command.
    pub fn announcement(&mut self) -> Option<String> {
        let (count, verb) = processes(self.unannounced.take()?);
        self.is_announced = true;
        Some(format!(
            "the command has ended; {count} of it still {verb} recorded, to the end of the last one. Ctrl-C, or `numalens ctl end --pid {}`, ends \
             the recording sooner",
            std::process::id()
        ))
    }

    /// What a reader must know of processes that have outlived their recording.
    pub fn note(&self, running: usize) -> Option<String> {
        let way_out = if self.wait_all { "" } else { "; `record --wait-all` records them to their end" };
        let (count, verb) = processes(running);
        (running > 0).then(|| {
            format!(
                "{count} of the command still ran when the recording ended, and {verb} not recorded any more{way_out}"
            )
        })
    }
}

fn processes(count: usize) -> (String, &'static str) {
    if count == 1 { ("1 process".to_owned(), "is") } else { (format!("{count} processes"), "are") }
}

/// How many of these processes have not ended.
pub fn running(pids: &[i32]) -> usize {
    pids.iter().filter(|&&pid| !has_ended(pid)).count()
}

/// Whether a process that need not be our child is over: gone, or a zombie that nobody has waited for yet. (A process
/// whose first thread has ended while others go on looks like a zombie too, but has more than one task.)
pub fn has_ended(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('Z' | 'X')) && std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_recording_ends_with_the_command_unless_all_are_waited_for() {
        let ended = ExitStatus::from_raw(0);
        let mut alone = Ending::new(false);
        assert!(!alone.is_here());
        alone.command_ended(ended);
        assert!(alone.is_here() && !alone.waits());
        let waiting = || Ending { pause: Duration::ZERO, ..Ending::new(true) };
        let mut all = waiting();
        assert!(!all.poll(|| 0) && !all.poll(|| 0) && !all.is_here(), "the command runs");
        all.command_ended(ended);
        for (running, is_here) in [(1, false), (0, false), (2, false), (0, false), (0, true)] {
            assert_eq!(all.poll(|| running), running == 0);
            assert_eq!(all.is_here(), is_here, "{running}");
        }
        let mut asked = waiting();
        asked.command_ended(ended);
        asked.poll(|| 1);
        assert!(asked.announcement().unwrap().contains("1 process of it still is recorded"));
        asked.poll(|| 2);
        assert_eq!(asked.announcement(), None, "told once");
        asked.ask();
        assert!(asked.is_here());
    }

    #[test]
    fn who_is_left_is_said_with_the_way_out() {
        assert_eq!(Ending::new(false).note(0), None);
        let text = Ending::new(false).note(2).unwrap();
        assert!(text.starts_with("2 processes of the command still ran") && text.contains("--wait-all"), "{text}");
        assert!(!Ending::new(true).note(1).unwrap().contains("--wait-all"));
        assert!(!has_ended(std::process::id() as i32) && has_ended(-1));
    }
}
