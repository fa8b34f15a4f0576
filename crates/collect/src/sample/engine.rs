//! The sample engine's loop: start or find the target, watch it, take in what comes, write it down.

use crate::checkpoints::Checkpoints;
use crate::control::{Command, Control, control_answer};
use crate::ending::{self, Ending};
use crate::engine::{Engine, NameProfile};
use crate::hardware;
use crate::heap_channel::{HeapChannel, HeapOptions};
use crate::launch::{Child, Demands, Outcome, Progress, RecordError, RecordOptions, STARTING_THREADS, Target, Waiting};
use crate::launch::{describe, signals};
use crate::limits::{self, Limit, Need};
use crate::perf::{EventPlan, OpenError, PerfEvents, Scope, monotonic_ns};
use crate::refused::refused;
use crate::session::{HeapNotes, Output, Session, SessionOptions, command_line};
use numalens_profile::{Meta, RecordedUnit, Writer, start_threads};
use numalens_topology::Machine;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The rings are looked at this often, more often while much comes in.
const SLOWEST_POLL: Duration = Duration::from_millis(40);
const FASTEST_POLL: Duration = Duration::from_millis(2);
/// Records in a poll that make the next one come sooner, and later.
const MANY: usize = 2000;
const FEW: usize = 300;
/// Memory for the rings of all CPUs together, and the most for one of them; the kernel's limit on locked memory may
/// allow less. A page fault is a record of about 900 bytes, and a program can take 200,000 of them a second.
const RINGS_BYTES: usize = 64 << 20;
const RING_BYTES: usize = 32 << 20;
/// How long a process that is about to end waits for its pages to be looked up. It goes on as soon as they are, which
/// takes milliseconds unless the machine is overloaded; and at once when the collector is gone. The limit is for one
/// that hangs.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first announcement of the profile's size.
const FIRST_ANNOUNCEMENT: u64 = 64 << 20;

/// Samples, and sees page faults exactly.
pub struct SampleEngine;

impl Engine for SampleEngine {
    fn counts(&self) -> bool {
        false
    }

    fn check(&self, demands: &Demands) -> Result<(), String> {
        if demands.each_access {
            return Err("--lines, --cache and --objects exact look at every access, which sampling cannot: they need the exact engine, without --pid, --all, --duration and --frequency".to_owned());
        }
        Ok(())
    }

    fn check_machine(&self, _: &Machine) -> Result<(), String> {
        Ok(())
    }

    fn describe(&self, _: &SessionOptions, frequency: u64, meta: &mut Meta) {
        meta.engine = numalens_profile::Engine::Sample;
        meta.frequency = Some(frequency as f64);
    }

    fn record(
        &self,
        target: &Target,
        options: RecordOptions,
        path: NameProfile<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        record(target, options, path, progress)
    }
}

/// Records `target` into the profile that `path` names once the target's pid is known.
///
/// # Errors
/// See [`RecordError`]; nothing has run when the error is one of `Launch`, `Open` or `Create`.
fn record(
    target: &Target,
    mut options: RecordOptions,
    path: NameProfile<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, RecordError> {
    let cpus: Vec<u32> = online_cpus();
    signals::survive_limits();
    limits::raise(&needs(cpus.len()))?;
    start_threads().map_err(|error| refused(STARTING_THREADS, &error))?;
    keep_freed_memory();
    let (channel, no_heap) = open_heap(target, progress);
    let waiting = match target {
        Target::Launch(command) => {
            let theirs = std::env::var_os("LD_PRELOAD");
            let extra = channel.as_ref().map(|channel| channel.environment(theirs.as_deref())).unwrap_or_default();
            Some(Waiting::start(command, &extra)?)
        }
        _ => None,
    };
    let scope = match (&waiting, target) {
        (Some(waiting), _) => Scope::FromExec(waiting.pid()),
        (None, Target::Pid(pid)) => Scope::Running(*pid),
        _ => Scope::Everything,
    };
    let pid = match target {
        Target::Pid(pid) => Some(*pid),
        _ => waiting.as_ref().map(Waiting::pid),
    };
    let (mut perf, plans) = open_events(scope, &cpus, &mut options, progress).map_err(|error| match scope {
        Scope::Running(pid) if error.gone => RecordError::NoProcess(pid),
        _ => RecordError::Open(error),
    })?;
    if let Target::Pid(pid) = target {
        watch_other_threads(&mut perf, *pid, &plans, &cpus);
    }
    let writer = Writer::create(&path(pid), options.force).map_err(RecordError::Create)?;
    let partial = writer.partial().to_owned();
    let mut session = Session::new(options.session.clone(), Output::new(writer), monotonic_ns());
    if let Some(why) = no_heap {
        session.without_heap(why);
    }
    let mut recorder = Recorder::new(perf, channel, session, &options, pid);
    recorder.begin(target, waiting.as_ref());
    let child = match waiting.map(Waiting::release).transpose() {
        Ok(child) => child,
        Err(error) => {
            // Nothing ran: there is nothing to keep. What cannot be removed is an empty directory.
            drop(recorder);
            let _ = std::fs::remove_dir_all(&partial);
            return Err(error.into());
        }
    };
    recorder.watch(target, child.as_ref(), options.duration, progress);
    recorder.finish(target, child.as_ref(), partial, progress)
}

/// The channel to the library that reports heap blocks, or why there is none.
fn open_heap(target: &Target, progress: &mut dyn FnMut(Progress<'_>)) -> (Option<HeapChannel>, Option<String>) {
    match target {
        Target::Launch(_) => match open_channel(progress) {
            Ok(channel) => (Some(channel), None),
            Err(error) => (None, Some(error.to_string())),
        },
        _ => (None, Some("what runs already does not have the library that tells of them".to_owned())),
    }
}

/// Every poll fills and empties the same large buffers. The C library would give them back to the kernel each time, and
/// have it clear them again: two fifths of the collector's time when a program touches much memory.
fn keep_freed_memory() {
    // SAFETY: mallopt has no preconditions; where it fails, all stays as it was.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}

/// Opens the events: hardware samples of memory accesses where there are any, else the clock.
fn open_events(
    scope: Scope,
    cpus: &[u32],
    options: &mut RecordOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(PerfEvents, Vec<EventPlan>), OpenError> {
    let always = [EventPlan::side(), EventPlan::faults()];
    let ring_bytes = (RINGS_BYTES / cpus.len().max(1)).clamp(1 << 19, RING_BYTES);
    let ring_pages = (ring_bytes / 4096 + 1).next_power_of_two() / 2;
    let frequency = options.frequency.max(1);
    if let Some(hardware) = hardware::detect(Path::new("/sys")) {
        let sampled = hardware.events.iter().map(|event| EventPlan::hardware(event, frequency));
        let plans: Vec<_> = always.iter().cloned().chain(sampled).collect();
        match PerfEvents::open(scope, &plans, cpus, ring_pages) {
            Ok(perf) => {
                options.session.period = 1;
                options.meta.period = 1;
                options.meta.unit = RecordedUnit::EstimatedAccesses;
                options.meta.unit_note =
                    "accesses sampled by the processor, each counted as many as it stands for".to_owned();
                return Ok((perf, plans));
            }
            Err(error) => progress(Progress::Limited(&format!("{error}; the CPU clock is used instead"))),
        }
    }
    let period = 1_000_000_000 / frequency;
    options.session.period = period;
    options.meta.period = period;
    options.meta.unit = RecordedUnit::TimeAtMemory;
    options.meta.unit_note =
        "clock samples weigh time: slow accesses count more than fast ones; they do not count accesses".to_owned();
    let plans: Vec<_> = always.into_iter().chain([EventPlan::clock(period)]).collect();
    Ok((PerfEvents::open(scope, &plans, cpus, ring_pages)?, plans))
}

fn open_channel(progress: &mut dyn FnMut(Progress<'_>)) -> io::Result<HeapChannel> {
    let options = HeapOptions { handshake: Some(HANDSHAKE), ..HeapOptions::default() };
    HeapChannel::create(&options)
        .inspect_err(|error| progress(Progress::Limited(&format!("heap objects will not be told apart: {error}"))))
}

/// A running process has threads already; each must be watched by itself.
fn watch_other_threads(perf: &mut PerfEvents, pid: i32, plans: &[EventPlan], cpus: &[u32]) {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
    let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    for tid in tids.filter(|&tid| tid != pid) {
        // A thread that ends meanwhile is no error.
        let _ = perf.add(Scope::Running(tid), plans, cpus);
    }
}

struct Recorder {
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
    fn new(
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
    fn begin(&mut self, target: &Target, waiting: Option<&Waiting>) {
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
    fn watch(
        &mut self,
        target: &Target,
        child: Option<&Child>,
        limit: Option<Duration>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) {
        let mut pause = FASTEST_POLL;
        loop {
            self.pause(pause);
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
    fn finish(
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

fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    numalens_topology::CpuSet::parse(text.trim()).map(|cpus| cpus.iter().collect()).unwrap_or_else(|_| vec![0])
}

/// What a recording needs of what a shell limits.
fn needs(cpus: usize) -> [Need; 4] {
    /// Events on one CPU, with those of hardware.
    const EVENTS: u64 = 8;
    const FILES: u64 = 64;
    /// What the collector has of a small program.
    const MEMORY: u64 = 256 << 20;
    [
        (Limit::OpenFiles, FILES + EVENTS * cpus as u64, "for the events of each CPU and the tables of the profile"),
        (Limit::FileSize, 64 << 20, "for what programs tell of their heaps, and for the profile"),
        (Limit::AddressSpace, MEMORY, "for the recorder alone"),
        (Limit::Data, MEMORY / 4, "for the recorder alone"),
    ]
}
