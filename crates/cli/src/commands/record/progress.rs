//! How long a recording has gone on, for whoever sits before the terminal.
//!
//! The program writes to the same terminal, and nothing may come between what it writes. So there is a line only where
//! the program's output goes elsewhere; else the terminal's title says it. Both are gone when the recording ends. Where
//! standard error is no terminal, or another job's at the moment, nothing is written.

use crate::commands::tell;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// It is brought up to date this often, for the first time after as long.
const TICK: Duration = Duration::from_secs(1);

/// Says how long it has gone on, until it is dropped.
pub struct Ticker {
    /// Closed to end the thread.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where it is shown.
#[derive(Clone, Copy)]
enum Place {
    Line,
    Title,
}

impl Place {
    /// None: nobody would see it, or it would end in a file.
    fn find() -> Option<Place> {
        let knows_sequences =
            std::env::var_os("TERM").is_some_and(|terminal| !terminal.is_empty() && terminal != "dumb");
        if !std::io::stderr().is_terminal() || !knows_sequences {
            return None;
        }
        Some(if std::io::stdout().is_terminal() { Place::Title } else { Place::Line })
    }

    fn begin(self) -> &'static str {
        match self {
            Place::Line => "",
            // Terminals that keep titles get the old one back.
            Place::Title => "\x1b[22;2t",
        }
    }

    fn show(self, words: &str) -> String {
        match self {
            Place::Line => format!("\r\x1b[K{words}\r"),
            Place::Title => format!("\x1b]2;{words}\x07"),
        }
    }

    fn end(self) -> &'static str {
        match self {
            Place::Line => "\r\x1b[K",
            Place::Title => "\x1b]2;\x07\x1b[23;2t",
        }
    }
}

impl Ticker {
    /// Begins; `quiet`: it does not.
    pub fn begin(quiet: bool) -> Option<Ticker> {
        let place = Place::find().filter(|_| !quiet)?;
        let (ends, ended) = mpsc::channel();
        let began = Instant::now();
        let tick = move || {
            let mut shown = false;
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                // A job in the background would be stopped for writing.
                if !tell::is_in_foreground() {
                    continue;
                }
                if !shown {
                    write(place.begin());
                    shown = true;
                }
                write(&place.show(&said(began.elapsed())));
            }
            if shown {
                write(place.end());
            }
        };
        let thread = Builder::new().name("progress".to_owned()).spawn(tick).ok()?;
        Some(Ticker { ends: Some(ends), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.ends = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write(text: &str) {
    // In one piece, as the program writes there too; who has closed it does not want it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// `numalens: recording for 2 min 5 s`.
fn said(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..120 => format!("numalens: recording for {seconds} s"),
        120..7200 => format!("numalens: recording for {} min {} s", seconds / 60, seconds % 60),
        _ => format!("numalens: recording for {} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        let said = |seconds| said(Duration::from_secs(seconds));
        assert_eq!(said(7), "numalens: recording for 7 s");
        assert_eq!(said(125), "numalens: recording for 2 min 5 s");
        assert_eq!(said(7260), "numalens: recording for 2 h 1 min");
    }

    /// Guards that what was shown is gone at the end: a line is cleared, a title given back.
    #[test]
    fn what_is_shown_is_taken_back() {
        assert!(Place::Line.show("x").ends_with('\r') && Place::Line.end().contains("\x1b[K"));
        assert!(Place::Title.begin().contains("22;2t") && Place::Title.end().contains("23;2t"));
    }
}
