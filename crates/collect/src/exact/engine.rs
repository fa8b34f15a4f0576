//! Starting a command with the agent in it, and recording until it ends.

use super::clock::Clock;
use super::drain::Drain;
use super::file::{ExactOptions, SessionFile};
use super::heap::Heap;
use super::image::{Image, image};
use super::late_processes;
use super::machine_files::MachineFiles;
use super::pace::{Kind, Pace};
use super::ranks::RankTable;
use super::spin_wait_env::spin_wait_env;
use crate::checkpoints::Checkpoints;
use crate::control::{Command, Control, control_answer};
use crate::ending::{self, Ending};
use crate::engine::{Engine, NameProfile};
use crate::futex;
use crate::launch::{Child, Demands, Outcome, Progress, RecordError, RecordOptions, STARTING_THREADS, Target, Waiting};
use crate::launch::{describe, signals};
use crate::limits::{self, Limit, Need};
use crate::perf::monotonic_ns;
use crate::refused::refused;
use crate::session::{Output, Session, SessionOptions};
use numalens_agent::inject::{self, InjectError, Plan};
use numalens_agent::program::{self, Prospect};
use numalens_event::exact::{self, Extent, Geometry};
use numalens_profile::{BY_ADDRESS, Meta, RecordedUnit, Writer, start_threads};
use numalens_topology::Machine;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

/// How often the end of the command is looked for, in the mean: at random, or programs that do one thing after the
/// other as often would show the same one always.
const NAP: Duration = Duration::from_millis(2);
/// What a recording needs of what a shell limits.
const NEEDS: [Need; 4] = [
    (Limit::OpenFiles, 64, "for the tables of the profile"),
    (Limit::FileSize, u64::MAX, "for the memory that it shares with the program; `--engine sample` needs 64 MiB"),
    (Limit::AddressSpace, 1 << 30, "for the recorder alone; `--engine sample` needs 256 MiB"),
    (Limit::Data, 64 << 20, "for the recorder alone"),
];
/// What the agent has of a program's data (`ulimit -d`) at most, unless the program makes much code.
const DATA_OF_AGENT: u64 = 1 << 30;
/// The first announcement of the profile's size.
const FIRST_ANNOUNCEMENT: u64 = 64 << 20;

/// Counts every access, by translating the program while it runs.
pub struct ExactEngine;

impl Engine for ExactEngine {
    fn counts(&self) -> bool {
        true
    }

    fn check(&self, demands: &Demands) -> Result<(), String> {
        if !demands.whole_command {
            return Err("the exact engine observes a command from its start to its end: --pid, --all and --duration need `--engine sample`".to_owned());
        }
        if demands.frequency.is_some() {
            return Err(
                "the exact engine counts every access and takes no samples: --frequency needs `--engine sample`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_machine(&self, machine: &Machine) -> Result<(), String> {
        check_machine(machine)
    }

    fn describe(&self, session: &SessionOptions, _: u64, meta: &mut Meta) {
        meta.engine = numalens_profile::Engine::Exact;
        meta.unit = RecordedUnit::Accesses;
        meta.unit_note = counted_note(session);
        let text = |word: OsString| word.to_string_lossy().into_owned();
        let added = spin_wait_env(&session.machine).into_iter();
        meta.environment.extend(added.map(|(name, value)| (text(name), text(value))));
    }

    fn record(
        &self,
        target: &Target,
        options: RecordOptions,
        path: NameProfile<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        match target {
            Target::Launch(command) => record(command, options, path, progress),
            Target::Pid(_) | Target::All => Err(RecordError::Unobservable("it runs already".to_owned())),
        }
    }
}

/// What is counted, for people. Recordings with different caches are not alike.
fn counted_note(session: &SessionOptions) -> String {
    let stack = if session.stack { "included" } else { "left out" };
    let cache = session.cache.map(|cache| format!("; apart, those that miss a private cache of {}", in_words(cache)));
    let objects = if session.every_object { format!("; {BY_ADDRESS}") } else { String::new() };
    format!(
        "every access of an instruction to memory, those relative to the stack pointer {stack}{}{objects}",
        cache.unwrap_or_default()
    )
}

/// A cache, for people.
fn in_words(cache: Geometry) -> String {
    let bytes = (u64::from(cache.sets) * u64::from(cache.ways)) << cache.line_log2;
    format!("{bytes} bytes, {} ways, lines of {} bytes", cache.ways, 1 << cache.line_log2)
}

/// Records `command`, every access of it, into the profile that `path` names once its pid is known.
///
/// # Errors
/// See [`RecordError`]; nothing of the command has run when it is `Launch`, `Create` or `Unobservable`.
fn record(
    command: &[OsString],
    options: RecordOptions,
    path: NameProfile<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, RecordError> {
    check_processor()?;
    signals::survive_limits();
    limits::raise(&NEEDS)?;
    start_threads().map_err(|error| refused(STARTING_THREADS, &error))?;
    let mut prepared = Prepared::new(&options.session, progress)?;
    let waiting = prepared.start(command, &options.session.machine)?;
    let writer = Writer::create(&path(Some(waiting.pid())), options.force).map_err(RecordError::Create)?;
    let partial = writer.partial().to_owned();
    // Until the end: without them, programs see the machine as it is, and ranks are counted anew.
    let (mut files, _ranks) = (prepared.files.take(), prepared.ranks.take());
    let released = prepared.release(waiting, writer, &options);
    let (mut recorder, child) = released.inspect_err(|_| {
        // Nothing ran: there is nothing to keep. What cannot be removed is an empty directory.
        let _ = std::fs::remove_dir_all(&partial);
    })?;
    recorder.watch(&child, progress);
    late_processes::let_load(&recorder.file);
    if let Some(failure) = files.as_mut().and_then(MachineFiles::settle) {
        progress(Progress::Limited(&failure));
        recorder.meta.notes.push(failure);
    }
    thread::scope(|scope| {
        // Without a thread for it they are removed here, as what it would have owned is dropped.
        let _ = thread::Builder::new().spawn_scoped(scope, move || drop(files));
        recorder.finish(&child, partial, progress)
    })
}

/// What a recording needs before its command is started.
struct Prepared {
    image: Image,
    file: SessionFile,
    /// Of a virtual machine.
    files: Option<MachineFiles>,
    ranks: Option<RankTable>,
    /// Of the session file, for the command alone.
    descriptor: i32,
    heap: Option<Heap>,
    /// Why there is none.
    heap_refused: Option<String>,
}

impl Prepared {
    fn new(session: &SessionOptions, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self, RecordError> {
        let image = image().map_err(RecordError::Unobservable)?;
        let file = SessionFile::create(&image, &ExactOptions::of(session))?;
        let files = if session.machine.is_virtual { Some(MachineFiles::create(&file)?) } else { None };
        // Without it, or if its name does not fit, the recording has a table of its own.
        let ranks = RankTable::of_this_job(&session.machine);
        if let Some(ranks) = &ranks {
            let _ = file.set_common(ranks.path());
        }
        let descriptor = file.inheritable()?;
        let (heap, heap_refused) = match Heap::create(session.every_object) {
            Ok(heap) => (Some(heap), None),
            Err(error) => {
                progress(Progress::Limited(&format!("heap objects will not be told apart: {error}")));
                (None, Some(error.to_string()))
            }
        };
        Ok(Prepared { image, file, files, ranks, descriptor, heap, heap_refused })
    }

    /// Starts the command, which waits before it executes the program.
    fn start(&mut self, command: &[OsString], machine: &Machine) -> Result<Waiting, RecordError> {
        let mut extra = self.heap.as_ref().map(Heap::environment).unwrap_or_default();
        extra.extend(spin_wait_env(machine));
        let waiting = Waiting::start(command, &extra);
        // SAFETY: a descriptor that `inheritable` made for the child alone.
        unsafe { libc::close(self.descriptor) };
        let waiting = waiting?;
        check_observable(waiting.path())?;
        if let Some(files) = &mut self.files {
            files.begin(machine, &self.file)?;
        }
        Ok(waiting)
    }

    /// Lets the command execute its program, with the agent in it.
    fn release(
        self,
        waiting: Waiting,
        writer: Writer,
        options: &RecordOptions,
    ) -> Result<(Recorder, Child), RecordError> {
        let Prepared { image, file, descriptor, heap, heap_refused, .. } = self;
        let plan = Plan {
            descriptor,
            image_offset: exact::IMAGE_OFFSET,
            image_bytes: image.bytes.len() as u64,
            image_entry: image.entry,
            vdso_syscall: file.header().vdso_syscall.load(Relaxed).checked_sub(1),
            parent: Extent::NONE.0,
            caller: Extent::NONE.0,
            or_kill: true,
        };
        file.header().command_pid.store(waiting.pid() as u32, Relaxed);
        inject::seize(waiting.pid()).map_err(|error| cannot_enter(InjectError::Refused("seize", error)))?;
        let mut session = Session::new(options.session.clone(), Output::new(writer), monotonic_ns());
        if let Some(why) = heap_refused {
            session.without_heap(why);
        }
        lift_limit(&file, waiting.pid())?;
        signals::catch();
        let clock = Clock::start(file.header(), session.records_every_object());
        if let Some(heap) = &heap {
            heap.use_clock(file.header());
        }
        let (child, entered) = waiting.release_watched(|pid| inject::enter_at_exec(pid, true, &plan))?;
        entered.map_err(cannot_enter)?;
        let (meta, control) = (options.meta.clone(), Control::open(Some(child.pid)));
        let ending = Ending::new(options.wait_all);
        Ok((Recorder { file, clock, session, drain: Drain::new(heap), control, meta, ending }, child))
    }
}

fn cannot_enter(error: InjectError) -> RecordError {
    let way_out = match error {
        InjectError::Refused("seize", _) => {
            ": ptrace is refused by a container (docker run --cap-add SYS_PTRACE), by Yama (sysctl kernel.yama.ptrace_scope, 3 forbids it), or \
             as another debugger has the process"
        }
        _ => "",
    };
    RecordError::Unobservable(format!("{error}{way_out}"))
}

/// Whether the tables of the exact engine have room for a machine.
///
/// # Errors
/// What it has too many of.
fn check_machine(machine: &Machine) -> Result<(), String> {
    let (most_nodes, most_cpus) = (exact::MOST_NODES, exact::MOST_CPUS);
    let last = |numbers: Option<u32>| numbers.map_or(0, |last| last as usize + 1);
    let nodes = last(machine.nodes.last().map(|node| node.id.0.into()));
    let cpus = last(machine.cpus().iter().last());
    if nodes <= most_nodes && cpus <= most_cpus {
        return Ok(());
    }
    Err(format!(
        "the exact engine counts for machines with nodes 0 to {} and CPUs 0 to {} at most; {} has nodes up to {} and CPUs up to {}: choose a \
         smaller --machine, or `--engine sample`",
        most_nodes - 1,
        most_cpus - 1,
        machine.name,
        nodes.saturating_sub(1),
        cpus.saturating_sub(1)
    ))
}

/// Whether this machine can run translated code.
pub fn works_here() -> bool {
    check_processor().is_ok()
}

/// Translated code uses instructions of processors since 2013, and one that the kernel must allow (Linux 5.9).
fn check_processor() -> Result<(), RecordError> {
    const FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    let allowed = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    let missing = match () {
        () if !std::is_x86_feature_detected!("bmi2") => "this processor does not have BMI2",
        () if allowed & FSGSBASE == 0 => "this kernel or processor does not let programs read FS (FSGSBASE)",
        () => return Ok(()),
    };
    Err(RecordError::Unobservable(missing.to_owned()))
}

/// Refuses, before it runs, a program that could not be observed.
fn check_observable(path: &Path) -> Result<(), RecordError> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(()) };
    // SAFETY: a NUL-terminated path.
    match unsafe { program::prospect(libc::AT_FDCWD, name.as_ptr().cast(), 0) } {
        Prospect::Unobservable(obstacle) => Err(RecordError::Unobservable(obstacle.to_string())),
        Prospect::Observable | Prospect::NoProgram => Ok(()),
    }
}

/// The agent's tables need much address space, though little memory: a limit (`ulimit -v`) is lifted for the kernel and
/// kept by the agent.
fn lift_limit(file: &SessionFile, pid: i32) -> Result<(), RecordError> {
    const WHAT: libc::__rlimit_resource_t = libc::RLIMIT_AS;
    let mut given = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of our own for the answer.
    if unsafe { libc::prlimit(pid, WHAT, std::ptr::null(), &raw mut given) } != 0 {
        return Err(refused("prlimit", &std::io::Error::last_os_error()).into());
    }
    let limit = &file.header().address_space;
    limit[0].store(given.rlim_cur, Relaxed);
    limit[1].store(given.rlim_max, Relaxed);
    check_data(pid)?;
    if given.rlim_cur == libc::RLIM_INFINITY {
        return Ok(());
    }
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of our own.
    if unsafe { libc::prlimit(pid, WHAT, &raw const none, std::ptr::null_mut()) } == 0 {
        return Ok(());
    }
    Err(RecordError::Unobservable(format!(
        "its address space is limited to {} MiB (ulimit -v), and the tables of the exact engine need {} GiB of it, though little \
         memory; raise the hard limit",
        given.rlim_cur >> 20,
        exact::ADDRESS_SPACE_NEEDED >> 30,
    )))
}

/// What the agent maps for itself counts as the program's data for the kernel.
fn check_data(pid: i32) -> Result<(), RecordError> {
    let mut given = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of our own for the answer.
    if unsafe { libc::prlimit(pid, libc::RLIMIT_DATA, std::ptr::null(), &raw mut given) } != 0 {
        return Err(refused("prlimit", &std::io::Error::last_os_error()).into());
    }
    if given.rlim_cur >= DATA_OF_AGENT {
        return Ok(());
    }
    Err(RecordError::Unobservable(format!(
        "its data is limited to {} MiB (ulimit -d, RLIMIT_DATA), and what the exact engine keeps in it counts as data, {} MiB of it at most, \
         most of which is never used; raise the limit",
        given.rlim_cur >> 20,
        DATA_OF_AGENT >> 20,
    )))
}

struct Recorder {
    file: SessionFile,
    clock: Option<Clock>,
    session: Session,
    drain: Drain,
    control: Control,
    meta: Meta,
    ending: Ending,
}

impl Recorder {
    /// Polls until the command has ended, or all that it has left.
    fn watch(&mut self, child: &Child, progress: &mut dyn FnMut(Progress<'_>)) {
        let mut pace = Pace::begin();
        let mut checkpoints = Checkpoints::begin();
        let mut announced = FIRST_ANNOUNCEMENT;
        loop {
            let nobody_runs = self.follow(child, progress);
            if self.ending.is_here() {
                return;
            }
            let nap = NAP.mul_f64(self.drain.sampler().around_one());
            let header = self.file.header();
            futex::sleep_on(&header.requests, header.answered.load(Relaxed), nap);
            pace.marked(self.asked(child.pid));
            pace.sample(|| self.drain.draw(&self.file));
            let kind = match self.session.records_every_object() {
                true => Kind::EveryBlock,
                false if self.drain.sampler().is_much_shared() => Kind::Dividing,
                false => Kind::Usual,
            };
            pace.poll(kind, nobody_runs, || self.poll(progress));
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
        progress(Progress::Seen(self.session.tally.counted));
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

    /// Sees to what programs and the user ask for. `true`: a poll should come soon.
    fn asked(&mut self, pid: i32) -> bool {
        let header = self.file.header();
        let (asked, wanted) = (header.requests.load(Acquire), header.wanted.load(Acquire) != 0);
        let is_new = asked != header.answered.load(Relaxed);
        if is_new {
            // Where the counters cannot be read they will be by the next poll; the program must not wait for that.
            let _ = self.count(wanted);
            let header = self.file.header();
            header.answered.store(asked, Release);
            futex::wake(&header.answered);
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

    fn finish(
        mut self,
        child: &Child,
        partial: PathBuf,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError> {
        let status = self.ending.status();
        let end = status.map_or_else(|| "unknown".to_owned(), describe);
        self.drain.first_ended(&self.file, &mut self.session, child.pid, end.clone())?;
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
        let taken_apart = (self.file, self.drain);
        let _ = thread::Builder::new().spawn(move || drop(taken_apart));
        let profile = finished.map_err(|error| RecordError::Output { error, partial, status })?;
        Ok(Outcome { profile, status })
    }
}
