//! `numalens record`

mod cache;
mod naming;
mod progress;

use super::tell::{self, tell};
use clap::ValueEnum;
use clap::builder::RangedI64ValueParser;
use naming::Naming;
use numalens_analyze::{Dataset, sections};
use numalens_collect::exact::Geometry;
use numalens_collect::sample::engine::{self, Progress, RecordError, RecordOptions, Target};
use numalens_collect::sample::launch::{LaunchError, keep_files_private};
use numalens_collect::sample::perf::Scope;
use numalens_collect::sample::session::SessionOptions;
use numalens_collect::{doctor, exact, rank};
use numalens_profile::{BY_ADDRESS, Meta, Profile, RecordedUnit};
use numalens_topology::{Machine, PagePolicy, ThreadPlacement};
use numalens_view::text::{self, Look};
use progress::{Seen, Slowdown, Ticker};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, SystemTime};

/// numalens itself failed; the numbers are those of env, nohup and timeout.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Run a program, or watch a running one, and record where its memory accesses go.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens record -- ./app --size 1000\n  numalens record -o run.numalens --machine 4x8 -- ./app\n  numalens record --pid 1234 --duration 10\n\nThe program's output, input, exit status and fatal signal stay its own. numalens' own failures exit with 125, a command that cannot be executed with 126, one that is not found with 127."
)]
pub struct Args {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present_any = ["pid", "all"], conflicts_with_all = ["pid", "all"])]
    command: Vec<OsString>,

    /// Where the profile goes; %p is replaced by the pid, %r by the MPI rank, %h by the host [default:
    /// COMMAND-PID.numalens]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// How the program is watched [default: exact where this machine can; sample for --pid, --all, --duration and
    /// --frequency]
    #[arg(long, value_enum)]
    engine: Option<Engine>,

    /// real, NxC, a preset (`numalens machine list`) or an hwloc XML file [default: real when the host has several
    /// nodes with memory, else a virtual machine of 4 nodes]
    #[arg(long, value_name = "MACHINE", default_value = "default", hide_default_value = true)]
    machine: String,

    /// Threads on a virtual machine: spread (thread i on node i mod N), compact, none (all unpinned) [default: spread]
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<ThreadPlacement>,

    /// Pages on a virtual machine: first-touch, interleave, bind:NODE, random:SEED [default: first-touch]
    #[arg(long, value_name = "POLICY")]
    policy: Option<PagePolicy>,

    /// Samples per second and CPU (sample engine) [default: 997]
    #[arg(long, value_name = "HZ", allow_negative_numbers = true, value_parser = RangedI64ValueParser::<u64>::new().range(1..=100_000))]
    frequency: Option<u64>,

    /// Watch a running process
    #[arg(short, long, value_name = "PID", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Watch the whole system
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,

    /// Stop recording after so many seconds; the program goes on
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    duration: Option<Duration>,

    /// Record what the program leaves in the background too, until all of it has ended; Ctrl-C then, or `numalens ctl
    /// end`, ends the recording sooner
    #[arg(long, conflicts_with_all = ["pid", "all"])]
    wait_all: bool,

    /// Count accesses relative to the stack pointer too
    #[arg(long)]
    stack: bool,

    /// Count where code is fetched from
    #[arg(long, value_enum, value_name = "WHETHER", num_args = 0..=1, require_equals = true, default_value = "on", default_missing_value = "on")]
    code: Switch,

    /// Count accesses by cache line too: who shares lines, and whether the same words (exact engine; 30 to 270 times
    /// slower)
    #[arg(long)]
    lines: bool,

    /// Look every access up in a private cache of its thread, and count those that miss too: 32k, 2M,16, 48k,12,64
    /// (exact engine; 30 to 270 times slower)
    #[arg(long, value_name = "SIZE[,WAYS[,LINE]]", value_parser = cache::geometry)]
    cache: Option<Geometry>,

    /// How accesses to pages that several objects share are attributed: by a few that are looked at, or each by its
    /// address (exact engine; 30 to 270 times slower)
    #[arg(long, value_enum, value_name = "HOW", default_value = "sampled")]
    objects: Objects,

    /// Do not record the children of the program
    #[arg(long, conflicts_with = "all")]
    no_follow: bool,

    /// Count nothing until the program's start mark (numalens.h) or `numalens ctl start --pid PID`
    #[arg(long)]
    start_paused: bool,

    /// Time bins of the profile at most
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    time_bins: u32,

    /// Nothing of numalens on standard error but errors
    #[arg(short, long)]
    quiet: bool,

    /// Replace an existing profile (otherwise a number is appended)
    #[arg(short, long)]
    force: bool,
}

/// Samples per second and CPU: not in step with timers that tick every millisecond.
const FREQUENCY: u64 = 997;

/// The engines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Page faults exactly, accesses by sampling: a few percent of cost
    Sample,
    /// Every access counted, by translating the program while it runs: several times slower
    Exact,
}

/// Yes or no.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// How accesses are attributed to objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Objects {
    Sampled,
    Exact,
}

impl Args {
    fn engine(&self) -> Engine {
        let sampled = self.pid.is_some() || self.all || self.duration.is_some() || self.frequency.is_some();
        match self.engine {
            Some(engine) => engine,
            None if sampled || !exact::engine::works_here() => Engine::Sample,
            None => Engine::Exact,
        }
    }

    /// What the line about the progress says of it.
    fn slowdown(&self) -> Slowdown {
        match self.engine() {
            Engine::Sample => Slowdown::Measured,
            Engine::Exact if slow(self).is_some() => Slowdown::OneByOne,
            Engine::Exact => Slowdown::Counted,
        }
    }

    fn placement(&self) -> ThreadPlacement {
        self.placement.unwrap_or_default()
    }

    fn policy(&self) -> PagePolicy {
        self.policy.unwrap_or_default()
    }

    fn frequency(&self) -> u64 {
        self.frequency.unwrap_or(FREQUENCY)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "it is no number of seconds above 0".to_owned())
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    keep_files_private();
    let (options, target) = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(message) => {
            tell!("numalens: {message}");
            return Ok(ExitCode::from(2));
        }
    };
    if !args.quiet {
        tell!("numalens: {}", introduction(&args, &options));
        if let Some(warning) = slow(&args) {
            tell!("numalens: {warning}");
        }
    }
    let name = |pid| output_path(&args, pid);
    let mut naming = None;
    let seen = Seen::default();
    let mut progress = |progress: Progress<'_>| match progress {
        Progress::Seen(count) => seen.set(count),
        Progress::Ended(code) => naming = Some(Naming::begin(code)),
        progress => report_progress(args.quiet, &progress),
    };
    let ticker = Ticker::begin(args.quiet, &seen, args.slowdown());
    let recorded = match (args.engine(), &target) {
        (Engine::Exact, Target::Launch(command)) => exact::engine::record(command, options, name, &mut progress),
        _ => engine::record(&target, options, name, &mut progress),
    };
    drop(ticker);
    match recorded {
        Ok(outcome) => {
            match Profile::open(&outcome.profile) {
                Ok(profile) => {
                    if let Err(error) = naming.map_or(Ok(()), |naming| naming.write(&profile)) {
                        tell!("numalens: functions and lines could not be found: {error}");
                    }
                    if !args.quiet {
                        summarise(&profile);
                    }
                }
                Err(error) => {
                    tell!("numalens: the profile {} cannot be read: {error}", outcome.profile.display());
                }
            }
            Ok(outcome.status.map_or(ExitCode::SUCCESS, end_like))
        }
        Err(error) => Ok(failed(&error, &target)),
    }
}

fn prepare(args: &Args) -> Result<(RecordOptions, Target), String> {
    let exact = args.engine() == Engine::Exact;
    if exact && (args.pid.is_some() || args.all || args.duration.is_some()) {
        return Err("the exact engine observes a command from its start to its end: --pid, --all and --duration need `--engine sample`".to_owned());
    }
    if exact && args.frequency.is_some() {
        return Err(
            "the exact engine counts every access and takes no samples: --frequency needs `--engine sample`".to_owned()
        );
    }
    let every_object = args.objects == Objects::Exact;
    if args.lines && args.start_paused {
        return Err(
            "--lines counts from the beginning of a process to its end: it does not go with --start-paused".to_owned()
        );
    }
    if !exact && (args.lines || args.cache.is_some() || every_object) {
        return Err("--lines, --cache and --objects exact look at every access, which sampling cannot: they need the exact engine, without --pid, --all, --duration and --frequency".to_owned());
    }
    let host = Machine::host().map_err(|error| error.to_string())?;
    let machine = Machine::parse(&args.machine, &host).map_err(|error| error.to_string())?;
    if !machine.is_virtual && (args.placement.is_some() || args.policy.is_some()) {
        return Err("--placement and --policy say where a virtual machine has threads and pages; on this host the system decides, and numactl tells it: give --machine one of `numalens machine list`".to_owned());
    }
    args.policy().check(&machine).map_err(|error| error.to_string())?;
    if let Some(output) = &args.output {
        refuse_folder(output)?;
    }
    if exact {
        exact::engine::check_machine(&machine)?;
    }
    let target = match args.pid {
        Some(pid) => Target::Pid(pid),
        None if args.all => Target::All,
        None => Target::Launch(args.command.clone()),
    };
    let added = if exact { exact::spin_wait_env::spin_wait_env(&machine) } else { Vec::new() };
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let added = added.into_iter().map(|(name, value)| (text(name), text(value)));
    let meta = Meta {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
        host: host_name(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        numalens_version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: if exact { numalens_profile::Engine::Exact } else { numalens_profile::Engine::Sample },
        unit: if exact { RecordedUnit::Accesses } else { RecordedUnit::Unsaid },
        unit_note: if exact { counted_note(args.stack, args.cache, every_object) } else { String::new() },
        machine_name: machine.name.clone(),
        machine_virtual: machine.is_virtual,
        placement: machine.is_virtual.then(|| args.placement()).into(),
        policy: machine.is_virtual.then(|| args.policy()).into(),
        start_time: rfc3339(SystemTime::now()),
        frequency: (!exact).then_some(args.frequency() as f64),
        extra: args.cache.map(cache::describe).into_iter().collect(),
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .filter(|(name, _)| matters_to_placement(name))
            .chain(added)
            .collect(),
        // Lines wait, and so do names that nobody could look for: whoever reads the profile does.
        lines_wait: true,
        ..Meta::default()
    };
    let session = SessionOptions {
        machine,
        placement: args.placement(),
        policy: args.policy(),
        time_bins: args.time_bins,
        stack: args.stack,
        code: args.code == Switch::On,
        lines: args.lines,
        cache: args.cache,
        every_object,
        period: 1,
        follow: !args.no_follow,
        counted: exact,
        start_paused: args.start_paused,
    };
    let options = RecordOptions {
        session,
        frequency: args.frequency(),
        duration: args.duration,
        wait_all: args.wait_all,
        force: args.force,
        meta,
    };
    Ok((options, target))
}

fn counted_note(stack: bool, cache: Option<Geometry>, every_object: bool) -> String {
    let stack = if stack {
        "those relative to the stack pointer included"
    } else {
        "those relative to the stack pointer left out"
    };
    // Recordings with different caches are not alike.
    let cache = cache.map(|cache| format!("; apart, those that miss a private cache of {}", cache::in_words(cache)));
    let objects = if every_object { format!("; {BY_ADDRESS}") } else { String::new() };
    format!("every access of an instruction to memory, {stack}{}{objects}", cache.unwrap_or_default())
}

fn matters_to_placement(name: &str) -> bool {
    ["OMP_", "GOMP_", "KMP_", "SLURM_", "GOMAXPROCS", "GHCRTS", "MALLOC_"].iter().any(|prefix| name.starts_with(prefix))
}

fn introduction(args: &Args, options: &RecordOptions) -> String {
    let machine = &options.session.machine;
    let what = if machine.is_virtual {
        format!(
            "simulating placement on the virtual machine {} ({} nodes; the program {}), threads {}, pages {}",
            machine.name,
            machine.nodes.len(),
            if args.engine() == Engine::Exact { "sees it" } else { "does not see it" },
            args.placement(),
            args.policy()
        )
    } else {
        format!("on this machine's {} nodes", machine.nodes.len())
    };
    let what = if args.start_paused { format!("{what}; paused until a start") } else { what };
    match args.engine() {
        Engine::Sample => format!("sampling at {} Hz, {what}", args.frequency()),
        Engine::Exact => format!("counting every access, {what}"),
    }
}

/// What to know before a recording that looks at every access one by one; docs/reference/cost.md has the figures.
fn slow(args: &Args) -> Option<String> {
    let every_object = args.objects == Objects::Exact;
    let slow = [(args.lines, "--lines"), (args.cache.is_some(), "--cache"), (every_object, "--objects exact")];
    let given: Vec<&str> = slow.into_iter().filter(|(given, _)| *given).map(|(_, option)| option).collect();
    (!given.is_empty()).then(|| {
        format!(
            "{}: every access is looked at one by one, which takes 30 to 270 times the program's own time; choose a small input, or leave {} out",
            given.join(", "),
            if given.len() == 1 { "it" } else { "them" }
        )
    })
}

/// A folder for profiles is no name of one: `.` would become `./.-2`, which nobody finds.
fn refuse_folder(output: &Path) -> Result<(), String> {
    let is_profile = |folder: std::fs::ReadDir| {
        folder.filter_map(Result::ok).any(|entry| entry.path().extension().is_some_and(|ending| ending == "parquet"))
    };
    let refused = match std::fs::read_dir(output) {
        Ok(folder) => output.file_name().is_none() || !is_profile(folder),
        Err(_) if output.metadata().is_ok_and(|there| !there.is_file()) => {
            return Err(format!(
                "{} is no file, and a profile is a directory: name one, such as app.numalens",
                output.display()
            ));
        }
        Err(_) => output.file_name().is_none(),
    };
    if refused {
        let inside = output.join("app.numalens");
        return Err(format!(
            "{} is a directory that is no profile: name one in it, such as {}",
            output.display(),
            inside.display()
        ));
    }
    Ok(())
}

/// The profile's path: what the user asked for with its placeholders filled, or COMMAND-PID.numalens; numbered when it
/// exists and may not be replaced.
fn output_path(args: &Args, pid: Option<i32>) -> PathBuf {
    let pid = pid.map_or_else(|| "all".to_owned(), |pid| pid.to_string());
    let wanted = match &args.output {
        Some(path) => {
            let text = path.to_string_lossy();
            PathBuf::from(
                text.replace("%p", &pid)
                    .replace("%r", &rank::own().unwrap_or(0).to_string())
                    .replace("%h", &host_name()),
            )
        }
        None => {
            let program = args.command.first().and_then(|program| Path::new(program).file_name());
            let program = program.map_or_else(|| "system".to_owned(), |name| name.to_string_lossy().into_owned());
            PathBuf::from(if args.all { "system.numalens".to_owned() } else { format!("{program}-{pid}.numalens") })
        }
    };
    if args.force {
        return wanted;
    }
    let taken = |path: &Path| path.exists() || with_suffix(path, ".partial").exists();
    let stem = wanted.with_extension("");
    let extension = wanted.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    std::iter::once(wanted.clone())
        .chain((2u32..).map(|number| with_suffix(&stem, &format!("-{number}{extension}"))))
        .find(|path| !taken(path))
        .unwrap_or(wanted)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

fn report_progress(quiet: bool, progress: &Progress<'_>) {
    match progress {
        Progress::WriteFailed(error) => {
            tell!(
                "numalens: the profile could not be brought up to date ({error}); recording goes on, and it will be tried again"
            );
        }
        Progress::Grown(bytes) if !quiet => tell!("numalens: the profile has grown to {} MiB", bytes >> 20),
        Progress::Limited(what) if !quiet => tell!("numalens: {what}"),
        _ => {}
    }
}

/// The lines at the end: the verdict, and what comes first in each section.
fn summarise(profile: &Profile) {
    let wanted: Vec<_> =
        sections::ALL.iter().filter(|section| text::CLOSING_SECTIONS.contains(&section.name)).collect();
    match Dataset::load(profile, &Default::default(), &text::closing_needs()) {
        Ok(dataset) => {
            let reports = sections::first_of(&dataset, &wanted, 1);
            let color = std::io::stderr().is_terminal()
                && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            let summary = text::closing_summary(&reports, profile.path(), Look { color, width: tell::width() });
            tell::styled(&summary);
            // This process ends: taking a hundred thousand things apart one by one would only take time.
            std::mem::forget((dataset, reports));
        }
        Err(error) => {
            tell!("numalens: the profile {} cannot be summarised: {error}", profile.path().display());
        }
    }
}

/// Ends as the program ended: its exit status, or its fatal signal.
fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // SAFETY: plain calls with valid arguments; the process is about to end. No core dump: it would be numalens'.
        unsafe {
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return ExitCode::from(128u8.saturating_add(u8::try_from(signal).unwrap_or(0)));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

fn failed(error: &RecordError, target: &Target) -> ExitCode {
    tell!("numalens: {error}");
    match error {
        RecordError::Launch(LaunchError::NotFound(_)) => ExitCode::from(NOT_FOUND),
        RecordError::Launch(LaunchError::NotExecutable(..)) => ExitCode::from(NOT_EXECUTABLE),
        RecordError::Open(open) => {
            let scope = match target {
                Target::All => Scope::Everything,
                Target::Pid(pid) => Scope::Running(*pid),
                Target::Launch(_) => Scope::FromExec(0),
            };
            let paranoid = doctor::perf_event_paranoid();
            tell!("numalens: {}", doctor::explain_perf_open_failure(open, paranoid, scope));
            ExitCode::from(FAILED)
        }
        _ => ExitCode::from(FAILED),
    }
}

/// A time as RFC 3339 in UTC, to the second.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()) as libc::time_t;
    // SAFETY: an all-zero tm is valid; gmtime_r only fills it.
    let parts = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut parts);
        parts
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}
