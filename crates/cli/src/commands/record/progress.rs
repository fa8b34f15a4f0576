//! How long a recording has gone on, what it has seen and what it costs, for whoever sits before the terminal.
//!
//! The program writes to the same terminal, and nothing may come between what it writes. So there is a line only where
//! the program's output goes elsewhere; else the terminal's title says it. Both are gone when the recording ends. Where
//! standard error is no terminal, or another job's at the moment, nothing is written.

use crate::commands::tell;
use numalens_view::numbers;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// It is brought up to date this often, for the first time after as long.
const TICK: Duration = Duration::from_secs(1);

/// How much the engine has seen: it sets it, and the line shows it.
#[derive(Clone, Default)]
pub struct Seen(Arc<AtomicU64>);

impl Seen {
    pub fn set(&self, count: u64) {
        self.0.store(count, Relaxed);
    }
}

/// What can be said of how much slower the program is while it runs: nobody knows how long it would have taken alone.
#[derive(Clone, Copy)]
pub enum Slowdown {
    /// Every access counted: what is usual.
    Counted,
    /// Every access looked at by itself: what is usual.
    OneByOne,
    /// Samples: the processor time that numalens itself has taken.
    Measured,
}

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
    pub fn begin(quiet: bool, seen: &Seen, slowdown: Slowdown) -> Option<Ticker> {
        let place = Place::find().filter(|_| !quiet)?;
        let (ends, ended) = mpsc::channel();
        let began = Instant::now();
        let cpu_before = cpu_time();
        let seen = seen.clone();
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
                let cpu = cpu_time().saturating_sub(cpu_before);
                write(&place.show(&said(began.elapsed(), cpu, seen.0.load(Relaxed), slowdown)));
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

/// Processor time of this process: not the program's, which is another one.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and `time` is valid for a write.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `numalens: recording for 2 min 5 s, 3.40 G accesses so far, usually several times slower`.
fn said(elapsed: Duration, cpu: Duration, seen: u64, slowdown: Slowdown) -> String {
    let seconds = elapsed.as_secs();
    let time = match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    };
    let (what, slower) = match slowdown {
        Slowdown::Counted => ("accesses", "usually several times slower".to_owned()),
        Slowdown::OneByOne => ("accesses", "usually 2 to 60 times slower".to_owned()),
        Slowdown::Measured => {
            let share = 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
            ("samples", format!("numalens itself takes {} of a CPU", numbers::percent(share)))
        }
    };
    format!("numalens: recording for {time}, {} {what} so far, {slower}", numbers::count(seen as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        let said = |seconds| said(Duration::from_secs(seconds), Duration::ZERO, 0, Slowdown::Counted);
        assert!(said(7).starts_with("numalens: recording for 7 s, "));
        assert!(said(125).starts_with("numalens: recording for 2 min 5 s, "));
        assert!(said(7260).starts_with("numalens: recording for 2 h 1 min, "));
    }

    /// Guards that only what is measured is said as a figure of this recording.
    #[test]
    fn what_is_seen_and_what_it_costs_are_said() {
        let said = |slowdown| said(Duration::from_secs(10), Duration::from_millis(300), 3_400_000_000, slowdown);
        let line = |rest: &str| format!("numalens: recording for 10 s, 3.40 G {rest}");
        assert_eq!(said(Slowdown::Counted), line("accesses so far, usually several times slower"));
        assert_eq!(said(Slowdown::OneByOne), line("accesses so far, usually 2 to 60 times slower"));
        assert_eq!(said(Slowdown::Measured), line("samples so far, numalens itself takes 3.0 % of a CPU"));
    }

    /// Guards that the line shows what the engine has set, though another thread does.
    #[test]
    fn what_is_set_is_seen() {
        let seen = Seen::default();
        let shown = seen.clone();
        std::thread::spawn(move || seen.set(7)).join().unwrap();
        assert_eq!(shown.0.load(Relaxed), 7);
    }

    /// Guards that what was shown is gone at the end: a line is cleared, a title given back.
    #[test]
    fn what_is_shown_is_taken_back() {
        assert!(Place::Line.show("x").ends_with('\r') && Place::Line.end().contains("\x1b[K"));
        assert!(Place::Title.begin().contains("22;2t") && Place::Title.end().contains("23;2t"));
    }
}
