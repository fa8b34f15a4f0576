//! When the exact engine has polled at the counters, and of what time the counts of a time bin are.
//!
//! ```text
//!   poll        poll     mark poll            mark   poll
//!    |-----------|---------!-|------------------!------|     counts of a poll are of the time since the poll before
//!   bins  |  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7
//!                 ^ of 0..1   ^ of 1..3                 ^ of 3..7
//! ```
//! A bin has what the polls in it have found, which is of the time since the last poll before the bin. A span of time
//! gets the bins whose time is of it for the greater part. When a phase begins or ends the collector polls, so those of
//! a phase are right to some milliseconds.

use crate::model::about::{About, Unit};
use numalens_profile::{Engine, LOOKS, MOST_LOOKS};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// From when to when, in nanoseconds since the start; open where there is none.
pub type Span = (Option<u64>, Option<u64>);

/// Time between two polls at the counters at most, unless a poll is dear; see the collector's.
pub const MOST_BETWEEN_NS: u64 = 60_000_000;

/// The polls of a recording, as far as it tells of them.
pub struct CounterPolls {
    bin_ns: u64,
    /// The latest poll of each bin that has any, in nanoseconds since the start.
    latest: BTreeMap<u32, u64>,
}

impl CounterPolls {
    /// None where counts are of the time at which they were seen: samples.
    pub fn of(about: &About) -> Option<Self> {
        let bin_ns = about.meta.bin_ns;
        if about.unit != Unit::Accesses || about.meta.engine != Engine::Exact || bin_ns == 0 {
            return None;
        }
        let list = about.meta.extra.get(LOOKS).and_then(|polls| polls.as_array());
        let times = list.into_iter().flatten().take(MOST_LOOKS).filter_map(|time| time.as_u64());
        let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
        for time in times {
            let of_bin = latest.entry(u32::try_from(time / bin_ns).unwrap_or(u32::MAX)).or_default();
            *of_bin = time.max(*of_bin);
        }
        Some(CounterPolls { bin_ns, latest })
    }

    /// The last bin of which it is known when it was polled.
    pub fn last(&self) -> Option<u32> {
        self.latest.keys().next_back().copied()
    }

    /// The last bin before another in which it was polled.
    pub fn before(&self, bin: u32) -> Option<u32> {
        self.latest.range(..bin).next_back().map(|(before, _)| *before)
    }

    /// What is to be known of spans of time: how long it was not polled at most.
    pub fn words(&self) -> Option<String> {
        let ms = self.longest_ns() as f64 / 1e6;
        (!self.latest.is_empty())
            .then(|| format!("counters are looked at when a phase begins or ends, and up to {ms:.0} ms apart here"))
    }

    /// The longest time between two polls, in nanoseconds, as bins tell it.
    fn longest_ns(&self) -> u64 {
        let times = || self.latest.values();
        std::iter::once(&0).chain(times()).zip(times()).map(|(one, next)| next - one).max().unwrap_or(0)
    }

    /// The bins whose counts are of a span of time for the greater part, none where it is too short for that. Those in
    /// which it was not polled go with the polls beside them.
    pub fn bins(&self, span: Span) -> Option<RangeInclusive<u32>> {
        let (start, end) = (span.0.unwrap_or(0), span.1.unwrap_or(u64::MAX));
        // Those that begin in it; of those with a poll, what the poll has found decides.
        let first = |ns: u64| u32::try_from(ns.div_ceil(self.bin_ns)).unwrap_or(u32::MAX);
        let (mut from, mut until) = (first(start), first(end));
        let mut before = 0;
        for (&bin, &look) in &self.latest {
            let middle = before / 2 + look / 2;
            before = look;
            if middle < start {
                from = from.max(bin.saturating_add(1));
            } else if middle < end {
                from = from.min(bin);
                until = until.max(bin.saturating_add(1));
            } else {
                until = until.min(bin);
                break;
            }
        }
        (from < until).then(|| from..=if until == u32::MAX { until } else { until - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::{Meta, RecordedUnit};

    fn polled(times_ms: &[u64]) -> CounterPolls {
        let mut meta =
            Meta { engine: Engine::Exact, unit: RecordedUnit::Accesses, bin_ns: 10_000_000, ..Meta::default() };
        let times: Vec<u64> = times_ms.iter().map(|ms| ms * 1_000_000).collect();
        meta.extra.insert(LOOKS.into(), times.into());
        CounterPolls::of(&About::new(meta)).unwrap()
    }

    fn bins(polls: &CounterPolls, from_ms: u64, to_ms: u64) -> Option<RangeInclusive<u32>> {
        polls.bins((Some(from_ms * 1_000_000), Some(to_ms * 1_000_000)))
    }

    /// Guards phases of short exact recordings: what the poll at a phase's begin finds is of before, what the poll at
    /// its end finds is its own, though both bins begin before.
    #[test]
    fn a_phase_has_what_the_poll_at_its_end_finds() {
        let polls = polled(&[5, 61, 941, 1000]);
        assert_eq!(bins(&polls, 60, 940), Some(7..=94));
        assert_eq!(bins(&polls, 0, 60), Some(0..=6));
        assert_eq!(bins(&polls, 940, 1000), Some(95..=100));
        assert_eq!(polls.bins((None, None)), Some(0..=u32::MAX));
        assert_eq!(polls.longest_ns(), 880_000_000);
    }

    /// A poll that comes late gives all it has found to whom most of it is of; spans side by side have each bin once.
    #[test]
    fn each_bin_is_of_one_span() {
        let polls = polled(&[5, 300, 420, 990]);
        assert_eq!(bins(&polls, 0, 310), Some(0..=30));
        assert_eq!(bins(&polls, 310, 700), Some(31..=69));
        assert_eq!(bins(&polls, 0, 1), None, "most that the first look finds is of later");
        for edge in [4, 5, 100, 299, 300, 350, 400, 419, 600, 704] {
            let (one, other) = (bins(&polls, 0, edge).unwrap(), bins(&polls, edge, 990).unwrap());
            assert_eq!((*one.start(), one.end() + 1, *other.end()), (0, *other.start(), 99), "{edge}");
        }
    }

    #[test]
    fn samples_have_the_time_at_which_they_were_seen() {
        let meta = Meta { unit: RecordedUnit::TimeAtMemory, bin_ns: 10, ..Meta::default() };
        assert!(CounterPolls::of(&About::new(meta)).is_none());
    }
}
