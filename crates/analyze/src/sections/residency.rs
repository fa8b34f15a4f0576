//! Section `residency`: live and allocated bytes of the heap, and placed bytes, over time. Of what is only reserved,
//! what was touched.

use crate::dataset::Dataset;
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

/// The heap over time, in the making.
#[derive(Default)]
struct Heap {
    blocks: FxHashMap<(ProcessId, u64), u64>,
    now: u64,
    most: u64,
    total: u64,
    /// When it changed last.
    before: u64,
    byte_seconds: f64,
    /// By bin.
    allocated: Vec<u64>,
    /// The most in each bin; a bin without calls has what the one before ended with.
    peaks: Vec<Option<u64>>,
    ends: Vec<Option<u64>>,
}

impl Heap {
    /// Empty, over so many bins.
    fn over(bins: usize) -> Heap {
        Heap { allocated: vec![0; bins], peaks: vec![None; bins], ends: vec![None; bins], ..Heap::default() }
    }

    /// What it holds, it holds until then.
    fn advance(&mut self, time_ns: u64) {
        self.byte_seconds += self.now as f64 * time_ns.saturating_sub(self.before) as f64 / 1e9;
        self.before = time_ns;
    }

    /// Adds a call. They come in order of time.
    fn add(&mut self, call: &Allocation, bin: usize, committed: impl Fn(&Allocation) -> u64) {
        self.advance(call.time_ns);
        let at_begin = self.now;
        let block = (call.process, call.address);
        if matches!(call.call, Call::Free | Call::Munmap) {
            self.now = self.now.saturating_sub(self.blocks.remove(&block).unwrap_or(0));
        } else {
            let bytes = committed(call);
            self.now = self.now.saturating_sub(self.blocks.insert(block, bytes).unwrap_or(0)).saturating_add(bytes);
            self.total = self.total.saturating_add(bytes);
            self.allocated[bin] = self.allocated[bin].saturating_add(bytes);
        }
        self.most = self.most.max(self.now);
        let peak = self.peaks[bin].get_or_insert(at_begin);
        *peak = (*peak).max(self.now);
        self.ends[bin] = Some(self.now);
    }

    /// Live bytes by bin.
    fn live(&self) -> Vec<u64> {
        let mut last = 0;
        let bins = self.peaks.iter().zip(&self.ends).map(|(peak, end)| {
            let peak = peak.unwrap_or(last);
            last = end.unwrap_or(last);
            peak
        });
        bins.collect()
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let meta = &dataset.about.meta;
    let width = meta.bin_ns.max(1);
    let bins = u64::from(meta.bins).clamp(1, MOST_BINS) as usize;
    let committed = allocation_matrix::committed(dataset);
    let mut calls: Vec<&Allocation> = dataset.facts.allocations.iter().collect();
    calls.sort_by_key(|call| call.time_ns);
    let mut heap = Heap::over(bins);
    for call in calls {
        heap.add(call, ((call.time_ns / width) as usize).min(bins - 1), &committed);
    }
    heap.advance(meta.duration_ns);
    let seconds = meta.duration_ns as f64 / 1e9;
    let mut doubts: Vec<String> = dataset.facts.sums_only().into_iter().collect();
    if doubts.is_empty() && dataset.facts.allocations.is_empty() {
        doubts.push(dataset.about.none("allocations"));
    } else if dataset.facts.allocations.iter().any(|call| call.weight > call.bytes) {
        doubts.push("estimated: small allocations were sampled".to_string());
    }
    let rate = if seconds > 0.0 { Value::Number(heap.total as f64 / seconds, None) } else { Value::Absent };
    let record = vec![
        Field::new("max_live", "maximum residency", Value::Bytes(heap.most)),
        Field::new("total_allocated", "total allocation", Value::Bytes(heap.total)),
        Field::metric(&metrics::ALLOCATION_RATE, rate),
        Field::metric(&metrics::BYTE_SECONDS, Value::Number(heap.byte_seconds, None)),
        Field::new("live_at_end", "never freed", Value::Bytes(heap.now)),
    ];
    let lines = vec![
        (&metrics::LIVE, heap.live()),
        (&metrics::ALLOCATED, heap.allocated),
        (&metrics::PLACED, in_force(dataset, bins)),
    ];
    let series = Shape::Series(Series { bin_ns: meta.bin_ns, lines });
    vec![
        Report::new("residency", "residency", "heap", Shape::Record(record)).doubting(doubts),
        Report::new("residency", "residency_over_time", "heap over time", series),
    ]
}

/// Bytes of pages in force in each bin.
fn in_force(dataset: &Dataset, bins: usize) -> Vec<u64> {
    let mut changes = vec![0i128; bins + 1];
    for row in dataset.memory.pages.iter().filter(|row| row.home.is_some()) {
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
