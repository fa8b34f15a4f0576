//! The sample engine's loop: watch the target, take in what comes, write it down.

use crate::checkpoints::Checkpoints;
use crate::control::{Command, Control, control_answer};
use crate::ending::{self, Ending};
use crate::heap_channel::HeapChannel;
use crate::launch::{Child, Outcome, Progress, RecordError, RecordOptions, Target, Waiting, describe, signals};
use crate::perf::{PerfEvents, monotonic_ns};
use crate::session::{HeapNotes, Session, command_line};
use numalens_profile::Meta;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The rings are looked at this often, more often while much comes in.
const SLOWEST_POLL: Duration = Duration::from_millis(40);
const FASTEST_POLL: Duration = Duration::from_millis(2);
/// Records in a poll that make the next one come sooner, and later.
const MANY: usize = 2000;
const FEW: usize = 300;
/// The first announcement of the profile's size.
const FIRST_ANNOUNCEMENT: u64 = 64 << 20;

/// A recording under way.
pub struct Recorder {
    perf: PerfEvents,
    channel: Option<HeapChannel>,
    session: Session,
    meta: Meta,
    later: HeapNotes,
    /// Empty; its memory is for the next poll.
    spare: HeapNotes,
    announced: u64,
    checkpoints: Checkpoints,
    last_reread: Instant,
    heap_lost: u64,
    began: Instant,
    control: Control,
    ending: Ending,
}

impl Recorder {
    /// Of a process, if there is one.
    pub fn new(
        perf: PerfEvents,
        channel: Option<HeapChannel>,
        session: Session,
        options: &RecordOptions,
        pid: Option<i32>,
    ) -> Self {
        Recorder {
            perf,
            channel,
            session,
            meta: options.meta.clone(),
            later: HeapNotes::default(),
            spare: HeapNotes::default(),
            announced: FIRST_ANNOUNCEMENT,
            checkpoints: Checkpoints::begin(),
            last_reread: Instant::now(),
            heap_lost: 0,
            began: Instant::now(),
            control: Control::open(pid),
            ending: Ending::new(options.wait_all),
        }
    }

    /// Takes in who is there.
    pub fn begin(&mut self, target: &Target, waiting: Option<&Waiting>) {
        signals::catch();
        match target {
            Target::Pid(pid) => {
                self.meta.command = command_line(*pid).map(|words| vec![words]).unwrap_or_default();
                self.session.adopt(*pid, "observed");
                self.perf.enable();
            }
            Target::All => {
                self.meta.command = vec!["the whole system".to_owned()];
                self.perf.enable();
            }
            Target::Launch(_) => {
                if let Some(waiting) = waiting {
                    self.session.expect(waiting.pid());
                }
            }
        }
    }

    /// Takes in what comes until the target has ended, the time is over or the user has had enough.
    pub fn watch(
        &mut self,
        target: &Target,
        child: Option<&Child>,
        limit: Option<Duration>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) {
        let mut pause = FASTEST_POLL;
        loop {
            self.pause(pause);
            self.session.take_lines();
            self.asked(target, child);
            let records = self.poll(false);
            pause = match records {
                MANY.. => (pause / 2).max(FASTEST_POLL),
                0..=FEW => (pause * 2).min(SLOWEST_POLL),
                _ => pause,
            };
            progress(Progress::Seen(self.session.tally.samples));
            self.now_and_then(progress);
            match child {
                Some(child) => self.follow(child, progress),
                None if signals::wanted_to_stop() => return,
                None => {}
            }
            let is_over = limit.is_some_and(|limit| self.began.elapsed() >= limit);
            if is_over || self.ending.is_here() || self.ending.is_asked_for() {
                return;
            }
            if let Target::Pid(pid) = target
                && ending::has_ended(*pid)
            {
                return;
            }
        }
    }

    /// Sees whether the command, and what it has left, still run.
    fn follow(&mut self, child: &Child, progress: &mut dyn FnMut(Progress<'_>)) {
        if self.ending.status().is_none() {
            signals::pass_on(child);
            let Some(status) = child.try_wait() else { return };
            self.ending.command_ended(status);
            // Whoever has its pid after it is another process.
            self.session.ended(child.pid, describe(status));
        } else {
            self.ending.poll(|| ending::running(&self.session.live_pids()));
            if let Some(text) = self.ending.announcement() {
                progress(Progress::Limited(&text));
            }
        }
    }

    /// Sees to what the user asks for.
    fn asked(&mut self, target: &Target, child: Option<&Child>) {
        let pid = match target {
            Target::Pid(pid) => *pid,
            _ => child.map_or(0, |child| child.pid),
        };
        for request in self.control.requests() {
            let now = monotonic_ns();
            let answer = match &request.command {
                Command::Mark(name) => {
                    self.session.marked_by_user(pid, now, name);
                    format!("marked `{name}`")
                }
                Command::End => {
                    self.ending.ask();
                    "the recording ends".to_owned()
                }
                command => {
                    let counting = *command == Command::Start;
                    let changed = self.session.is_counting() != counting;
                    if changed {
                        self.session.count_from(now, counting);
                    }
                    control_answer(changed, counting)
                }
            };
            request.answer(Ok(answer));
        }
    }

    fn pause(&mut self, time: Duration) {
        match &mut self.channel {
            Some(channel) => {
                channel.wait(time);
            }
            None => std::thread::sleep(time),
        }
    }

    /// Takes in what the rings hold; returns how many records.
    fn poll(&mut self, all: bool) -> usize {
        let mut notes = std::mem::replace(&mut self.later, std::mem::take(&mut self.spare));
        if let Some(channel) = &mut self.channel {
            let summary = channel.drain(&mut |event| notes.push(event));
            self.heap_lost += summary.lost;
        }
        // A process that waits to end is quiet: all that it did is in the rings.
        let waiting = std::mem::take(&mut notes.waiting);
        let batch = self.perf.drain(all || !waiting.is_empty());
        notes.hold_back_after(batch.horizon, &mut self.later);
        let mut records = batch.records.iter().peekable();
        for note in notes.iter() {
            while let Some(record) = records.next_if(|record| record.time <= note.time) {
                self.session.handle(&batch, record);
            }
            self.session.handle_heap(&notes, note);
        }
        records.for_each(|record| self.session.handle(&batch, record));
        self.session.settle();
        if !waiting.is_empty() {
            let mut seen = HeapNotes::default();
            self.session.observe_placements(true, monotonic_ns(), &mut seen);
            seen.iter().for_each(|note| self.session.handle_heap(&seen, note));
        }
        for pid in waiting {
            self.session.reconcile(pid as i32);
            if let Some(channel) = &mut self.channel {
                channel.acknowledge(pid);
            }
        }
        notes.clear();
        self.spare = notes;
        let count = batch.records.len();
        self.perf.recycle(batch);
        count
    }

    /// What need not be done at every poll.
    fn now_and_then(&mut self, progress: &mut dyn FnMut(Progress<'_>)) {
        let reread_due = self.last_reread.elapsed() > Duration::from_millis(500);
        self.session.observe_placements(reread_due, monotonic_ns(), &mut self.later);
        if reread_due {
            self.last_reread = Instant::now();
            let _ = self.session.reread_homes();
        }
        if self.checkpoints.are_due() {
            let begun = Instant::now();
            self.session.live_pids().into_iter().for_each(|pid| self.session.reconcile(pid));
            self.note_losses();
            if let Err(error) = self.session.checkpoint(&mut self.meta) {
                progress(Progress::WriteFailed(&error));
            }
            self.checkpoints.done(begun);
        }
        if self.session.bytes_written() >= self.announced {
            progress(Progress::Grown(self.session.bytes_written()));
            self.announced *= 2;
        }
    }

    fn note_losses(&mut self) {
        if self.heap_lost > 0 {
            self.meta.losses.insert("heap records".to_owned(), self.heap_lost);
        }
        if self.perf.unreadable > 0 {
            self.meta.losses.insert("unreadable perf records".to_owned(), self.perf.unreadable);
        }
    }

    /// Takes in the last, and finishes the profile.
    pub fn finish(
        mut self,
        target: &Target,
        child: Option<&Child>,
        partial: PathBuf,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        let status = self.ending.status();
        let status = self.wind_up(child, status);
        let Recorder { session, mut meta, .. } = self;
        meta.exit_status = match (status, target) {
            (Some(status), _) => describe(status),
            (None, Target::Pid(pid)) if ending::has_ended(*pid) => "ended".to_owned(),
            _ => "still running".to_owned(),
        };
        let finished = session.finish(&mut meta, |code| progress(Progress::Ended(code)));
        signals::release();
        let profile = finished.map_err(|error| RecordError::Output { error, partial, status })?;
        Ok(Outcome { profile, status })
    }

    /// The end: what is still in the rings, and the status of a command that outlives its recording.
    fn wind_up(&mut self, child: Option<&Child>, status: Option<ExitStatus>) -> Option<ExitStatus> {
        if status.is_none() {
            self.session.live_pids().into_iter().for_each(|pid| self.session.reconcile(pid));
        }
        self.perf.disable();
        self.poll(true);
        self.session.lost_in_all(self.perf.lost());
        self.note_losses();
        if self.session.has_pages_from_before() {
            self.meta.notes.push(
                "pages that were there before the recording began have no home on a virtual machine: accesses to them are \
                 unplaced; record the program from its start"
                    .to_owned(),
            );
        }
        let still_running = self.session.live_pids();
        let others: Vec<i32> =
            still_running.into_iter().filter(|&pid| child.is_none_or(|child| child.pid != pid)).collect();
        if child.is_some() {
            self.meta.notes.extend(self.ending.note(ending::running(&others)));
        }
        // The channel closes with the recorder: nobody may wait for it any more.
        self.channel = None;
        match (child, status) {
            (Some(child), None) => loop {
                signals::pass_on(child);
                if let Some(status) = child.try_wait() {
                    return Some(status);
                }
                std::thread::sleep(SLOWEST_POLL);
            },
            (_, status) => status,
        }
    }
}
