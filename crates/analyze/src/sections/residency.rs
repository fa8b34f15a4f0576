//! Section `residency`: live and allocated bytes of the heap, and placed bytes, over time. Of what is only reserved,
//! what was touched.

use crate::dataset::study::Study;
use crate::facts::placed;
use crate::model::metrics;
use crate::model::report::{Field, Report, Series, Shape, Value};
use crate::sections::allocation_matrix;
use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Allocation;
use numalens_profile::words::Call;
use rustc_hash::FxHashMap;

/// A damaged bin number must not become a giant series.
const MOST_BINS: u64 = 100_000;

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let meta = &study.about.meta;
    let width = meta.bin_ns.max(1);
    let bins = u64::from(meta.bins).clamp(1, MOST_BINS) as usize;
    let bin_of = |time: u64| ((time / width) as usize).min(bins - 1);
    let committed = allocation_matrix::committed(study);
    let mut calls: Vec<&Allocation> = study.allocations.iter().collect();
    calls.sort_by_key(|call| call.time_ns);
    let mut live: FxHashMap<(ProcessId, u64), u64> = FxHashMap::default();
    let (mut now, mut most, mut total, mut before) = (0u64, 0u64, 0u64, 0u64);
    let mut integral = 0.0;
    let mut allocated = vec![0u64; bins];
    // The most in each bin; a bin without calls has what the one before ended with.
    let mut peaks: Vec<Option<u64>> = vec![None; bins];
    let mut ends: Vec<Option<u64>> = vec![None; bins];
    for call in calls {
        integral += now as f64 * call.time_ns.saturating_sub(before) as f64 / 1e9;
        before = call.time_ns;
        let bin = bin_of(call.time_ns);
        let at_begin = now;
        let block = (call.process, call.address);
        if matches!(call.call, Call::Free | Call::Munmap) {
            now = now.saturating_sub(live.remove(&block).unwrap_or(0));
        } else {
            let bytes = committed(call);
            now = now.saturating_sub(live.insert(block, bytes).unwrap_or(0)).saturating_add(bytes);
            total = total.saturating_add(bytes);
            allocated[bin] = allocated[bin].saturating_add(bytes);
        }
        most = most.max(now);
        let peak = peaks[bin].get_or_insert(at_begin);
        *peak = (*peak).max(now);
        ends[bin] = Some(now);
    }
    integral += now as f64 * meta.duration_ns.saturating_sub(before) as f64 / 1e9;
    let mut last = 0;
    let resident: Vec<u64> = (0..bins)
        .map(|bin| {
            let peak = peaks[bin].unwrap_or(last);
            last = ends[bin].unwrap_or(last);
            peak
        })
        .collect();
    let lines =
        vec![(&metrics::LIVE, resident), (&metrics::ALLOCATED, allocated), (&metrics::PLACED, in_force(study, bins))];
    let seconds = meta.duration_ns as f64 / 1e9;
    let mut doubts: Vec<String> = study.sums_only().into_iter().collect();
    if doubts.is_empty() && study.allocations.is_empty() {
        doubts.push(study.about.none("allocations"));
    } else if study.allocations.iter().any(|call| call.weight > call.bytes) {
        doubts.push("estimated: small allocations were sampled".to_string());
    }
    let record = vec![
        Field::new("max_live", "maximum residency", Value::Bytes(most)),
        Field::new("total_allocated", "total allocation", Value::Bytes(total)),
        Field::metric(
            &metrics::ALLOCATION_RATE,
            if seconds > 0.0 { Value::Number(total as f64 / seconds, None) } else { Value::Absent },
        ),
        Field::metric(&metrics::BYTE_SECONDS, Value::Number(integral, None)),
        Field::new("live_at_end", "never freed", Value::Bytes(now)),
    ];
    vec![
        Report::new("residency", "residency", "heap", Shape::Record(record)).doubting(doubts),
        Report::new(
            "residency",
            "residency_over_time",
            "heap over time",
            Shape::Series(Series { bin_ns: meta.bin_ns, lines }),
        ),
    ]
}

/// Bytes of pages in force in each bin.
fn in_force(study: &Study, bins: usize) -> Vec<u64> {
    let mut changes = vec![0i128; bins + 1];
    for row in study.pages.iter().filter(|row| row.home.is_some()) {
        let from = (row.bin_from.0 as usize).min(bins);
        // A page that came and went in one bin was there.
        let to = row.bin_to.map_or(bins, |to| (to.0 as usize).max(from + 1)).min(bins);
        changes[from] += i128::from(placed::bytes(row));
        changes[to] -= i128::from(placed::bytes(row));
    }
    let mut now = 0i128;
    let sums = changes.into_iter().take(bins).map(|change| {
        now += change;
        u64::try_from(now).unwrap_or(0)
    });
    sums.collect()
}
