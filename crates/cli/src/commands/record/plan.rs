//! What is meant by what was typed.

use super::args::{Args, EngineName, Objects, Switch};
use super::cache;
use super::profile_name::{ProfileName, refuse_folder};
use super::progress::Slowdown;
use numalens_collect::engine::Engine;
use numalens_collect::exact::engine::{ExactEngine, works_here};
use numalens_collect::launch::{Demands, RecordOptions, Target};
use numalens_collect::sample::engine::SampleEngine;
use numalens_collect::session::SessionOptions;
use numalens_profile::Meta;
use numalens_topology::Machine;
use std::time::SystemTime;

/// Samples per second and CPU: not in step with timers that tick every millisecond.
const FREQUENCY: u64 = 997;

/// A recording as it is meant.
pub struct RecordPlan {
    pub engine: &'static dyn Engine,
    pub target: Target,
    pub options: RecordOptions,
    pub name: ProfileName,
    /// Nothing is said but errors.
    pub quiet: bool,
}

impl RecordPlan {
    /// What was typed means this.
    ///
    /// # Errors
    /// What does not go together, or with this machine, for people.
    pub fn of(args: Args) -> Result<Self, String> {
        let engine = engine(&args);
        let target = match args.pid {
            Some(pid) => Target::Pid(pid),
            None if args.all => Target::All,
            None => Target::Launch(args.command.clone()),
        };
        let every_object = args.objects == Objects::Exact;
        let frequency = args.frequency.unwrap_or(FREQUENCY);
        check(&args, engine, &target)?;
        let host = Machine::host().map_err(|error| error.to_string())?;
        let machine = machine(&args, &host)?;
        if let Some(output) = &args.output {
            refuse_folder(output)?;
        }
        engine.check_machine(&machine)?;
        let session = SessionOptions {
            machine,
            placement: args.placement.unwrap_or_default(),
            policy: args.policy.unwrap_or_default(),
            time_bins: args.time_bins,
            stack: args.stack,
            code: args.code == Switch::On,
            lines: args.lines,
            cache: args.cache,
            every_object,
            memory_budget: args.memory_budget.unwrap_or_else(|| memory_budget(&host)),
            period: 1,
            follow: !args.no_follow,
            counted: engine.counts(),
            start_paused: args.start_paused,
        };
        let mut meta = meta(&args, &session);
        engine.describe(&session, frequency, &mut meta);
        let (duration, wait_all, force) = (args.duration, args.wait_all, args.force);
        let code_cache = !args.no_code_cache;
        let options = RecordOptions { session, frequency, duration, wait_all, force, code_cache, meta };
        let name = ProfileName { wanted: args.output, target: target.clone(), force };
        Ok(RecordPlan { engine, target, options, name, quiet: args.quiet })
    }

    /// What the line about the progress says of it.
    pub fn slowdown(&self) -> Slowdown {
        match self.engine.counts() {
            false => Slowdown::Measured,
            true if self.slow().is_some() => Slowdown::OneByOne,
            true => Slowdown::Counted,
        }
    }

    /// What is done, in a line.
    pub fn introduction(&self) -> String {
        let SessionOptions { machine, placement, policy, start_paused, .. } = &self.options.session;
        let counts = self.engine.counts();
        let what = if machine.is_virtual {
            format!(
                "simulating placement on the virtual machine {} ({} nodes; the program {}), threads {placement}, pages {policy}",
                machine.name,
                machine.nodes.len(),
                if counts { "sees it" } else { "does not see it" },
            )
        } else {
            format!("on this machine's {} nodes", machine.nodes.len())
        };
        let what = if *start_paused { format!("{what}; paused until a start") } else { what };
        match counts {
            false => format!("sampling at {} Hz, {what}", self.options.frequency),
            true => format!("counting every access, {what}"),
        }
    }

    /// What to know before a recording that looks at every access one by one; docs/reference/cost.md has the figures.
    pub fn slow(&self) -> Option<String> {
        let SessionOptions { lines, cache, every_object, .. } = self.options.session;
        let slow = [(lines, "--lines"), (cache.is_some(), "--cache"), (every_object, "--objects exact")];
        let given: Vec<&str> = slow.into_iter().filter(|(given, _)| *given).map(|(_, option)| option).collect();
        (!given.is_empty()).then(|| {
            format!(
                "{}: every access is looked at one by one, which takes 2 to 60 times the program's own time; choose a small input, or leave {} out",
                given.join(", "),
                if given.len() == 1 { "it" } else { "them" }
            )
        })
    }
}

fn engine(args: &Args) -> &'static dyn Engine {
    let sampled = args.pid.is_some() || args.all || args.duration.is_some() || args.frequency.is_some();
    match args.engine {
        Some(EngineName::Sample) => &SampleEngine,
        Some(EngineName::Exact) => &ExactEngine,
        None if sampled || !works_here() => &SampleEngine,
        None => &ExactEngine,
    }
}

/// Whether what was typed goes together, and the engine can do it.
fn check(args: &Args, engine: &dyn Engine, target: &Target) -> Result<(), String> {
    let each_access = args.lines || args.cache.is_some() || args.objects == Objects::Exact;
    let whole_command = matches!(target, Target::Launch(_)) && args.duration.is_none();
    let demands = Demands { whole_command, frequency: args.frequency, each_access };
    // What the exact engine cannot comes first, what sampling cannot last.
    if engine.counts() {
        engine.check(&demands)?;
    }
    if args.lines && args.start_paused {
        return Err(
            "--lines counts from the beginning of a process to its end: it does not go with --start-paused".to_owned()
        );
    }
    engine.check(&demands)
}

/// The machine that is meant, for which placement and policy go.
fn machine(args: &Args, host: &Machine) -> Result<Machine, String> {
    let machine = Machine::parse(&args.machine, host).map_err(|error| error.to_string())?;
    if !machine.is_virtual && (args.placement.is_some() || args.policy.is_some()) {
        return Err("--placement and --policy say where a virtual machine has threads and pages; on this host the system decides, and numactl tells it: give --machine one of `numalens machine list`".to_owned());
    }
    args.policy.unwrap_or_default().check(&machine).map_err(|error| error.to_string())?;
    Ok(machine)
}

/// What is known of a recording beforehand, whichever engine makes it.
fn meta(args: &Args, session: &SessionOptions) -> Meta {
    let machine = &session.machine;
    Meta {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
        host: host_name(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        numalens_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine_name: machine.name.clone(),
        machine_virtual: machine.is_virtual,
        placement: machine.is_virtual.then_some(session.placement).into(),
        policy: machine.is_virtual.then_some(session.policy).into(),
        start_time: rfc3339(SystemTime::now()),
        extra: args.cache.map(cache::describe).into_iter().collect(),
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .filter(|(name, _)| matters_to_placement(name))
            .collect(),
        // Lines wait, and so do names that nobody could look for: whoever reads the profile does.
        lines_wait: true,
        ..Meta::default()
    }
}

fn matters_to_placement(name: &str) -> bool {
    ["OMP_", "GOMP_", "KMP_", "SLURM_", "GOMAXPROCS", "GHCRTS", "MALLOC_"].iter().any(|prefix| name.starts_with(prefix))
}

/// What a recording may take of this host's memory if nobody says.
fn memory_budget(host: &Machine) -> u64 {
    const MOST: u64 = 512 << 20;
    const PART: u64 = 20;
    let total: u64 = host.nodes.iter().map(|node| node.memory_bytes).sum();
    (total / PART).min(MOST)
}

/// What this host calls itself.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
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
