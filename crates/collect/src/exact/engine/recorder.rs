//! Recording until the command has ended, or all that it has left.

use crate::checkpoints::Checkpoints;
use crate::control::{Command, Control, control_answer};
use crate::ending::{self, Ending};
use crate::exact::clock::Clock;
use crate::exact::drain::Drain;
use crate::exact::file::SessionFile;
use crate::exact::pace::{Kind, Pace};
use crate::exact::persisted::PersistedCode;
use crate::futex;
use crate::launch::{Child, Outcome, Progress, RecordError, describe, signals};
use crate::perf::monotonic_ns;
use crate::session::Session;
use numalens_profile::Meta;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

/// How often the end of the command is looked for, in the mean: at random, or programs that do one thing after the
/// other as often would show the same one always.
const NAP: Duration = Duration::from_millis(2);
/// The first announcement of the profile's size.
const FIRST_ANNOUNCEMENT: u64 = 64 << 20;

/// A recording under way.
pub struct Recorder {
    pub file: SessionFile,
    pub clock: Option<Clock>,
    pub session: Session,
    pub drain: Drain,
    pub persisted: Option<PersistedCode>,
    pub control: Control,
    pub meta: Meta,
    pub ending: Ending,
}

impl Recorder {
    /// Polls until the command has ended, or all that it has left.
    pub fn watch(&mut self, child: &Child, progress: &mut dyn FnMut(Progress<'_>)) {
        let mut pace = Pace::begin();
        let mut checkpoints = Checkpoints::begin();
        let mut announced = FIRST_ANNOUNCEMENT;
        loop {
            let nap = NAP.mul_f64(self.drain.sampler().around_one());
            let header = self.file.header();
            futex::sleep_on(&header.requests, header.answered.load(Relaxed), nap);
            let asked = self.file.header().requests.load(Acquire);
            pace.marked(self.asked(child.pid, asked));
            let nobody_runs = self.follow(child, progress);
            if self.ending.is_here() {
                return;
            }
            pace.sample(|| self.drain.draw(&self.file));
            let has_lines = self.session.take_lines();
            // What cannot be read now will be by the next poll.
            let _ = self.drain.keep_up(&self.file, &mut self.session);
            let kind = match self.session.records_every_object() {
                true => Kind::EveryBlock,
                false if has_lines || self.drain.sampler().is_much_shared() => Kind::Dividing,
                false => Kind::Usual,
            };
            pace.poll(kind, nobody_runs || self.drain.is_behind(&self.file), || self.poll(progress));
            self.answer(asked);
            pace.reread(|| self.drain.reread_homes(&self.file, &mut self.session));
            if checkpoints.are_due() {
                let begun = Instant::now();
                self.checkpoint(progress);
                checkpoints.done(begun);
            }
            if self.session.bytes_written() >= announced {
                progress(Progress::Grown(self.session.bytes_written()));
                announced *= 2;
            }
        }
    }

    fn poll(&mut self, progress: &mut dyn FnMut(Progress<'_>)) {
        if let Some(clock) = &self.clock
            && !self.session.records_every_object()
        {
            clock.set(self.file.header());
            if let Some(heap) = self.drain.heap() {
                heap.use_clock(self.file.header());
            }
        }
        if let Err(error) = self.drain.poll(&self.file, &mut self.session) {
            progress(Progress::Limited(&format!("the counters could not be read ({error}); they will be again")));
        }
        self.hear_of_code();
        progress(Progress::Seen(self.session.tally.counted));
    }

    /// Passes on what agents say of the code that is executed.
    fn hear_of_code(&mut self) {
        let news = self.drain.take_code_news();
        if let Some(persisted) = &self.persisted {
            persisted.hear(news);
        }
    }

    /// Makes what was counted so far readable on disk.
    fn checkpoint(&mut self, progress: &mut dyn FnMut(Progress<'_>)) {
        self.drain.notes().add_to(&self.file, &mut self.meta);
        self.drain.divide(&mut self.session);
        if let Err(error) = self.session.checkpoint(&mut self.meta) {
            progress(Progress::WriteFailed(&error));
        }
    }

    /// Sees whether the command, and what it has left, still run. `true`: the recording ends if the next poll finds
    /// nobody.
    fn follow(&mut self, child: &Child, progress: &mut dyn FnMut(Progress<'_>)) -> bool {
        if self.ending.status().is_some() {
            let nobody_runs = self.ending.poll(|| ending::running(&self.session.live_pids()));
            if let Some(text) = self.ending.announcement() {
                progress(Progress::Limited(&text));
            }
            return nobody_runs;
        }
        signals::pass_on(child);
        let Some(status) = child.try_wait() else { return false };
        self.ending.command_ended(status);
        if self.ending.waits() {
            // Whoever has its pid after it is another process.
            self.session.ended(child.pid, describe(status));
        }
        false
    }

    /// What was asked for until then has been seen to, and what was counted until then read: who waits goes on.
    fn answer(&self, asked: u32) {
        let header = self.file.header();
        if header.answered.swap(asked, Release) != asked {
            futex::wake(&header.answered);
        }
    }

    /// Sees to what programs and the user ask for. `asked`: how often programs have. `true`: a poll should come soon.
    fn asked(&mut self, pid: i32, asked: u32) -> bool {
        let header = self.file.header();
        let wanted = header.wanted.load(Acquire) != 0;
        let is_new = asked != header.answered.load(Relaxed);
        if is_new {
            // Where the counters cannot be read they will be by the next poll; the program must not wait for that.
            let _ = self.count(wanted);
        }
        for request in self.control.requests() {
            let done = match &request.command {
                Command::Mark(name) => {
                    self.session.marked_by_user(pid, monotonic_ns(), name);
                    Ok(format!("marked `{name}`"))
                }
                Command::End if self.ending.waits() => {
                    self.ending.ask();
                    Ok("the recording ends".to_owned())
                }
                Command::End => {
                    Err("the exact engine records a command to its end: `ctl stop` pauses the counting".to_owned())
                }
                command => {
                    let counting = *command == Command::Start;
                    self.file.header().wanted.store(counting.into(), Release);
                    let done = self.count(counting).map_err(|error| format!("the counters could not be read: {error}"));
                    done.map(|changed| control_answer(changed, counting))
                }
            };
            request.answer(done);
        }
        is_new
    }

    /// Has accesses counted, or not; returns whether that is a change.
    fn count(&mut self, counting: bool) -> std::io::Result<bool> {
        if self.session.is_counting() == counting {
            return Ok(false);
        }
        self.drain.switch(&self.file, &mut self.session, counting)?;
        self.file.header().counting.store(counting.into(), Release);
        Ok(true)
    }

    /// Takes in the last, and finishes the profile.
    pub fn finish(
        mut self,
        child: &Child,
        partial: PathBuf,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        self.session.take_lines();
        // What cannot be read now is an error below.
        let _ = self.drain.read_code(&self.file, &mut self.session);
        progress(Progress::Executed(self.session.code_so_far()));
        let status = self.ending.status();
        let end = status.map_or_else(|| "unknown".to_owned(), describe);
        self.drain.first_ended(&self.file, &mut self.session, child.pid, end.clone())?;
        self.hear_of_code();
        if let Some(persisted) = &self.persisted {
            persisted.end();
        }
        self.meta.exit_status = end;
        self.drain.notes().add_to(&self.file, &mut self.meta);
        if let Some(heap) = self.drain.heap() {
            heap.note(&mut self.meta);
        }
        for what in &self.meta.unobserved {
            progress(Progress::Limited(&format!("not observed: {what}")));
        }
        for what in self.drain.notes().refused() {
            progress(Progress::Limited(&format!("refused, as memory of numalens is there: {what}")));
        }
        self.meta.notes.extend(self.drain.notes().failures());
        self.meta.notes.extend(self.ending.note(ending::running(&self.session.live_pids())));
        let finished = self.session.finish(&mut self.meta, |code| progress(Progress::Ended(code)));
        signals::release();
        // To take apart what was mapped takes milliseconds, for which nobody has to wait: it is memory, and gone when
        // we are.
        self.drain.close_heap();
        if let Some(persisted) = self.persisted {
            persisted.settle();
        }
        let taken_apart = (self.file, self.drain);
        let _ = thread::Builder::new().spawn(move || drop(taken_apart));
        let profile = finished.map_err(|error| RecordError::Output { error, partial, status })?;
        Ok(Outcome { profile, status })
    }
}
