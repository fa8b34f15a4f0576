//! What was typed.

use super::cache;
use clap::ValueEnum;
use clap::builder::RangedI64ValueParser;
use numalens_collect::exact::Geometry;
use numalens_topology::{PagePolicy, ThreadPlacement};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Run a program, or watch a running one, and record where its memory accesses go.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens record -- ./app --size 1000\n  numalens record -o run.numalens --machine 4x8 -- ./app\n  numalens record --pid 1234 --duration 10\n\nThe program's output, input, exit status and fatal signal stay its own. numalens' own failures exit with 125, a command that cannot be executed with 126, one that is not found with 127."
)]
pub struct Args {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present_any = ["pid", "all"], conflicts_with_all = ["pid", "all"])]
    pub(super) command: Vec<OsString>,

    /// Where the profile goes; %p is replaced by the pid, %r by the MPI rank, %h by the host [default:
    /// COMMAND-PID.numalens]
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,

    /// How the program is watched [default: exact where this machine can; sample for --pid, --all, --duration and
    /// --frequency]
    #[arg(long, value_enum)]
    pub(super) engine: Option<EngineName>,

    /// real, NxC, a preset (`numalens machine list`) or an hwloc XML file [default: real when the host has several
    /// nodes with memory, else a virtual machine of 4 nodes]
    #[arg(long, value_name = "MACHINE", default_value = "default", hide_default_value = true)]
    pub(super) machine: String,

    /// Threads on a virtual machine: spread (thread i on node i mod N), compact, none (all unpinned) [default: spread]
    #[arg(long, value_name = "PLACEMENT")]
    pub(super) placement: Option<ThreadPlacement>,

    /// Pages on a virtual machine: first-touch, interleave, bind:NODE, random:SEED [default: first-touch]
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<PagePolicy>,

    /// Samples per second and CPU (sample engine) [default: 997]
    #[arg(long, value_name = "HZ", allow_negative_numbers = true, value_parser = RangedI64ValueParser::<u64>::new().range(1..=100_000))]
    pub(super) frequency: Option<u64>,

    /// Watch a running process
    #[arg(short, long, value_name = "PID", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) pid: Option<i32>,

    /// Watch the whole system
    #[arg(short, long, conflicts_with = "pid")]
    pub(super) all: bool,

    /// Stop recording after so many seconds; the program goes on
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) duration: Option<Duration>,

    /// Record what the program leaves in the background too, until all of it has ended; Ctrl-C then, or `numalens ctl
    /// end`, ends the recording sooner
    #[arg(long, conflicts_with_all = ["pid", "all"])]
    pub(super) wait_all: bool,

    /// Count accesses relative to the stack pointer too
    #[arg(long)]
    pub(super) stack: bool,

    /// Count where code is fetched from
    #[arg(long, value_enum, value_name = "WHETHER", num_args = 0..=1, require_equals = true, default_value = "on", default_missing_value = "on")]
    pub(super) code: Switch,

    /// Count accesses by cache line too: who shares lines, and whether the same words (exact engine; 2 to 60 times
    /// slower)
    #[arg(long)]
    pub(super) lines: bool,

    /// Look every access up in a private cache of its thread, and count those that miss too: 32k, 2M,16, 48k,12,64
    /// (exact engine; 2 to 60 times slower)
    #[arg(long, value_name = "SIZE[,WAYS[,LINE]]", value_parser = cache::geometry)]
    pub(super) cache: Option<Geometry>,

    /// How accesses to pages that several objects share are attributed: by a few that are looked at, or each by its
    /// address (exact engine; 2 to 60 times slower)
    #[arg(long, value_enum, value_name = "HOW", default_value = "sampled")]
    pub(super) objects: Objects,

    /// Do not record the children of the program
    #[arg(long, conflicts_with = "all")]
    pub(super) no_follow: bool,

    /// Translate all code anew, and keep nothing of it for the next recording (exact engine)
    #[arg(long)]
    pub(super) no_code_cache: bool,

    /// Count nothing until the program's start mark (numalens.h) or `numalens ctl start --pid PID`
    #[arg(long)]
    pub(super) start_paused: bool,

    /// Time bins of the profile at most
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) time_bins: u32,

    /// Memory of numalens at most for what is known of single pages: 64M, 2G. Beyond it, accesses to memory that more
    /// than two threads use are kept by regions of 2 MiB (exact engine) [default: 512M, or a twentieth of this host's
    /// memory if that is less]
    #[arg(long, value_name = "SIZE", value_parser = cache::size, allow_negative_numbers = true)]
    pub(super) memory_budget: Option<u64>,

    /// Nothing of numalens on standard error but errors
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Replace an existing profile (otherwise a number is appended)
    #[arg(short, long)]
    pub(super) force: bool,
}

/// The engines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Page faults exactly, accesses by sampling: a few percent of cost
    Sample,
    /// Every access counted, by translating the program while it runs: several times slower
    Exact,
}

/// Yes or no.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// How accesses are attributed to objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Objects {
    Sampled,
    Exact,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "it is no number of seconds above 0".to_owned())
}
