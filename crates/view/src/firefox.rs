//! The Firefox Profiler's format (profiler.firefox.com): every thread over time, accesses coloured by class.
//!
//! A path is a sample whose weight is its accesses; where all of them would be more than a weight can hold, it is
//! thousands of them, and so on, and the profile's name says so.

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp, WeightType,
};
use numalens_analyze::counts::metric_of;
use numalens_analyze::paths::{CallPaths, Path};
use numalens_profile::Meta;
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_profile::words::Class;
use rustc_hash::FxHashMap;

/// The document, as JSON.
///
/// # Errors
/// None that is known: the form has a place for everything.
pub fn document(paths: &CallPaths) -> Result<Vec<u8>, serde_json::Error> {
    let scale = scale(paths);
    let mut profile = empty(&paths.about.meta, scale);
    let categories = add_categories(&mut profile);
    let processes = add_processes(&mut profile, paths);
    let threads = Threads::add(&mut profile, paths, &processes);
    // What rounding leaves of a path goes to the next of its thread.
    let mut left: FxHashMap<_, u64> = FxHashMap::default();
    for path in paths.paths.iter().filter(|path| path.costs[0] > 0) {
        let (Some(thread), Some(class)) = (threads.of(path), path.class) else { continue };
        let rest = left.entry(path.thread).or_default();
        let sum = path.costs[0].saturating_add(*rest);
        *rest = sum % scale;
        let weight = i32::try_from(sum / scale).unwrap_or(i32::MAX);
        if weight == 0 {
            continue;
        }
        let stack = add_stack(&mut profile, paths, path, thread, categories[class as usize]);
        profile.add_sample(thread, time(path.time_ns), stack, CpuDelta::ZERO, weight);
    }
    serde_json::to_vec(&profile)
}

/// How many accesses a unit of weight is, so that the weight of all of them can be held.
fn scale(paths: &CallPaths) -> u64 {
    let all: u128 = paths.paths.iter().map(|path| u128::from(path.costs[0])).sum();
    let mut scale: u64 = 1;
    while all / u128::from(scale) > i32::MAX as u128 {
        scale = scale.saturating_mul(1000);
    }
    scale
}

/// A profile with its name and nothing in it.
fn empty(meta: &Meta, scale: u64) -> Profile {
    let mut name = meta.command.join(" ");
    if scale > 1 {
        name = format!("{name} (a sample is {scale} accesses)");
    }
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    Profile::new(&name, start, SamplingInterval::from_nanos(meta.bin_ns.max(1)))
}

/// A category for each class, in the order of [`Class::ALL`].
fn add_categories(profile: &mut Profile) -> Vec<CategoryHandle> {
    let add = |class: &Class| {
        let color = match class {
            Class::Local => CategoryColor::Green,
            Class::Remote => CategoryColor::Red,
            Class::UnpinnedPage | Class::UnpinnedThread | Class::UnpinnedBoth => CategoryColor::Yellow,
            Class::MemoryTierLocal => CategoryColor::LightBlue,
            Class::MemoryTierRemote => CategoryColor::Orange,
            Class::Unplaced => CategoryColor::Gray,
        };
        profile.add_category(metric_of(*class).title, color)
    };
    Class::ALL.iter().map(add).collect()
}

fn add_processes(profile: &mut Profile, paths: &CallPaths) -> FxHashMap<ProcessId, ProcessHandle> {
    let mut processes = FxHashMap::default();
    for process in &paths.processes {
        let handle = profile.add_process(&process.command, process.pid, time(process.start_ns));
        if let Some(end) = process.end_ns {
            profile.set_process_end_time(handle, time(end));
        }
        processes.insert(process.process, handle);
    }
    processes
}

/// The document's threads, by those of the recording.
struct Threads {
    by_id: FxHashMap<ThreadId, ThreadHandle>,
    /// Of paths that have no thread, as imported sums by instruction.
    nobody: Option<ThreadHandle>,
}

impl Threads {
    fn add(profile: &mut Profile, paths: &CallPaths, processes: &FxHashMap<ProcessId, ProcessHandle>) -> Self {
        let nobody = match paths.paths.iter().any(|path| path.thread.is_none()) {
            true => processes.values().next().map(|process| {
                let thread = profile.add_thread(*process, 0, time(0), true);
                profile.set_thread_name(thread, "all threads");
                thread
            }),
            false => None,
        };
        let mut rows: Vec<_> = paths.threads.values().collect();
        rows.sort_by_key(|thread| thread.thread);
        let mut by_id = FxHashMap::default();
        for row in rows {
            let Some(process) = processes.get(&row.process) else { continue };
            let is_main = paths.processes.iter().any(|p| p.process == row.process && p.pid == row.tid);
            let thread = profile.add_thread(*process, row.tid, time(row.start_ns), is_main);
            profile.set_thread_name(thread, &row.name);
            profile.set_thread_samples_weight_type(thread, WeightType::Samples);
            if let Some(end) = row.end_ns {
                profile.set_thread_end_time(thread, time(end));
            }
            by_id.insert(row.thread, thread);
        }
        Threads { by_id, nobody }
    }

    fn of(&self, path: &Path) -> Option<ThreadHandle> {
        path.thread.and_then(|thread| self.by_id.get(&thread).copied()).or(self.nobody)
    }
}

/// The frames of a path, inlined ones as well, outermost first.
fn add_stack(
    profile: &mut Profile,
    paths: &CallPaths,
    path: &Path,
    thread: ThreadHandle,
    category: CategoryHandle,
) -> Option<StackHandle> {
    let places = path.places.iter().rev().filter_map(|place| paths.places.get(*place as usize));
    let lines = places.flat_map(|place| place.lines.iter().rev());
    let labels: Vec<_> = lines.map(|line| profile.intern_string(&line.to_string())).collect();
    let frames = labels.into_iter().map(|label| FrameInfo {
        frame: Frame::Label(label),
        category_pair: category.into(),
        flags: FrameFlags::empty(),
    });
    profile.intern_stack_frames(thread, frames)
}

fn time(ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns)
}
