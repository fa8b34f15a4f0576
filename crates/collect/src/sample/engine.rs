//! The sample engine: starts or finds the target, opens the events, and has them recorded.

use super::recorder::Recorder;
use crate::engine::{Engine, NameProfile};
use crate::hardware;
use crate::heap_channel::{HeapChannel, HeapOptions};
use crate::launch::signals;
use crate::launch::{Demands, Outcome, Progress, RecordError, RecordOptions, STARTING_THREADS, Target, Waiting};
use crate::limits::{self, Limit, Need};
use crate::perf::{EventPlan, OpenError, PerfEvents, Scope, monotonic_ns};
use crate::refused::refused;
use crate::session::{Output, Session, SessionOptions};
use numalens_event::page::PAGE;
use numalens_profile::{Meta, RecordedUnit, Writer, start_threads};
use numalens_topology::Machine;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Memory for the rings of all CPUs together, and the most for one of them; the kernel's limit on locked memory may
/// allow less. A page fault is a record of about 900 bytes, and a program can take 200,000 of them a second.
const RINGS_BYTES: usize = 64 << 20;
const RING_BYTES: usize = 32 << 20;
/// How long a process that is about to end waits for its pages to be looked up. It goes on as soon as they are, which
/// takes milliseconds unless the machine is overloaded; and at once when the collector is gone. The limit is for one
/// that hangs.
const HANDSHAKE: Duration = Duration::from_secs(10);
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
    let (mut channel, no_heap) = open_heap(target, progress);
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
    session.listen_to_runtimes(channel.as_mut().and_then(HeapChannel::take_runtime_log));
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
    let ring_pages = (ring_bytes / PAGE as usize + 1).next_power_of_two() / 2;
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
