//! The Firefox Profiler's format (profiler.firefox.com): every thread over time, accesses coloured by class.
//!
//! A path is a sample whose weight is its accesses; where all of them would be more than a weight can hold, it is
//! thousands of them, and so on, and the profile's name says so.

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp, SamplingInterval, Timestamp,
    WeightType,
};
use numalens_analyze::counts::metric_of;
use numalens_analyze::paths::CallPaths;
use numalens_profile::words::Class;
use rustc_hash::FxHashMap;

/// The document, as JSON.
///
/// # Errors
/// None that is known: the form has a place for everything.
pub fn document(paths: &CallPaths) -> Result<Vec<u8>, serde_json::Error> {
    let meta = &paths.about.meta;
    let all: u128 = paths.paths.iter().map(|path| u128::from(path.costs[0])).sum();
    let mut scale: u64 = 1;
    while all / u128::from(scale) > i32::MAX as u128 {
        scale = scale.saturating_mul(1000);
    }
    let mut name = meta.command.join(" ");
    if scale > 1 {
        name = format!("{name} (a sample is {scale} accesses)");
    }
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let mut profile = Profile::new(&name, start, SamplingInterval::from_nanos(meta.bin_ns.max(1)));
    let categories: Vec<_> = Class::ALL
        .iter()
        .map(|class| {
            let color = match class {
                Class::Local => CategoryColor::Green,
                Class::Remote => CategoryColor::Red,
                Class::UnpinnedPage | Class::UnpinnedThread | Class::UnpinnedBoth => CategoryColor::Yellow,
                Class::MemoryTierLocal => CategoryColor::LightBlue,
                Class::MemoryTierRemote => CategoryColor::Orange,
                Class::Unplaced => CategoryColor::Gray,
            };
            profile.add_category(metric_of(*class).title, color)
        })
        .collect();
    let time = Timestamp::from_nanos_since_reference;
    let mut processes = FxHashMap::default();
    for process in &paths.processes {
        let handle = profile.add_process(&process.command, process.pid, time(process.start_ns));
        if let Some(end) = process.end_ns {
            profile.set_process_end_time(handle, time(end));
        }
        processes.insert(process.process, handle);
    }
    // Imported sums by instruction have no threads.
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
    let mut threads = FxHashMap::default();
    for row in rows {
        let Some(process) = processes.get(&row.process) else { continue };
        let is_main = paths.processes.iter().any(|p| p.process == row.process && p.pid == row.tid);
        let thread = profile.add_thread(*process, row.tid, time(row.start_ns), is_main);
        profile.set_thread_name(thread, &row.name);
        profile.set_thread_samples_weight_type(thread, WeightType::Samples);
        if let Some(end) = row.end_ns {
            profile.set_thread_end_time(thread, time(end));
        }
        threads.insert(row.thread, thread);
    }
    // What rounding leaves of a path goes to the next of its thread.
    let mut left: FxHashMap<_, u64> = FxHashMap::default();
    for path in paths.paths.iter().filter(|path| path.costs[0] > 0) {
        let thread = path.thread.and_then(|thread| threads.get(&thread).copied()).or(nobody);
        let (Some(thread), Some(class)) = (thread, path.class) else { continue };
        let rest = left.entry(path.thread).or_default();
        let sum = path.costs[0].saturating_add(*rest);
        *rest = sum % scale;
        let weight = i32::try_from(sum / scale).unwrap_or(i32::MAX);
        if weight == 0 {
            continue;
        }
        let category_pair = categories[class as usize].into();
        let places = path.places.iter().rev().filter_map(|place| paths.places.get(*place as usize));
        // Outermost first.
        let labels: Vec<_> = places
            .flat_map(|place| place.lines.iter().rev())
            .map(|line| profile.intern_string(&line.to_string()))
            .collect();
        let frames = labels.into_iter().map(|label| FrameInfo {
            frame: Frame::Label(label),
            category_pair,
            flags: FrameFlags::empty(),
        });
        let stack = profile.intern_stack_frames(thread, frames);
        profile.add_sample(thread, time(path.time_ns), stack, CpuDelta::ZERO, weight);
    }
    serde_json::to_vec(&profile)
}
