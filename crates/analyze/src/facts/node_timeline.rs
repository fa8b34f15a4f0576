//! Accesses over time by node, home and class: `site_accesses`, folded.

use crate::facts::counter_polls::{self, CounterPolls};
use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::about::About;
use crate::model::counts::Counts;
use crate::model::tally::{Sums, merge};
use numalens_profile::ids::Bin;
use numalens_profile::tables::{ObjectAccess, SiteAccess};
use numalens_profile::words::Class;
use numalens_topology::NodeId;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Accesses by time, thread's node, home and class.
#[derive(Clone, Default)]
pub struct NodeTimes(pub Sums<(Bin, Option<NodeId>, Option<NodeId>, Class)>);

impl NodeTimes {
    fn add_times(&mut self, (node, home, class): (Option<NodeId>, Option<NodeId>, Class), times: Times<'_>) {
        for (bin, tally) in times.iter() {
            *self.0.entry((bin, node, home, class)).or_default() += tally;
        }
    }

    /// The same with what each poll at the counters found spread over the time since the poll before, as counts of the
    /// exact engine belong to the poll that found them; and how many bins of time at most were filled so. Sums stay.
    pub fn spread(&self, about: &About) -> (Cow<'_, Self>, u32) {
        let Some(polls) = CounterPolls::of(about) else { return (Cow::Borrowed(self), 1) };
        let most =
            u32::try_from(counter_polls::MOST_BETWEEN_NS / about.meta.bin_ns).unwrap_or(u32::MAX).saturating_add(1);
        let found: BTreeSet<u32> = self.0.keys().map(|(bin, ..)| bin.0).collect();
        let mut begins: BTreeMap<u32, u32> = BTreeMap::new();
        let mut next = 0;
        for bin in found {
            let begin = match polls.last() {
                // Whatever the polls before the list's end found is of the time since the poll before.
                Some(last) if bin <= last => polls.before(bin).map_or(0, |before| before + 1).max(next),
                Some(_) => bin,
                // Nobody knows when it was polled: longer than between two polls nothing was accessed.
                None if bin - next < most => next,
                None => bin,
            };
            begins.insert(bin, begin);
            next = bin.saturating_add(1);
        }
        let longest = begins.iter().map(|(bin, begin)| bin - begin + 1).max().unwrap_or(1);
        if longest == 1 {
            return (Cow::Borrowed(self), 1);
        }
        let mut spread: Sums<(Bin, Option<NodeId>, Option<NodeId>, Class)> = Sums::default();
        for ((bin, node, home, class), tally) in &self.0 {
            let begin = begins[&bin.0];
            let bins = u64::from(bin.0 - begin) + 1;
            for (at, number) in (begin..=bin.0).enumerate() {
                let part = tally.part(at as u64, bins);
                if part.accesses() > 0 {
                    *spread.entry((Bin(number), *node, *home, *class)).or_default() += part;
                }
            }
        }
        (Cow::Owned(NodeTimes(spread)), longest)
    }

    /// Accesses by time and class.
    pub fn classes(&self) -> BTreeMap<Bin, Counts> {
        let mut bins: BTreeMap<Bin, Counts> = BTreeMap::new();
        for ((bin, _, _, class), tally) in &self.0 {
            bins.entry(*bin).or_default().add(*class, *tally);
        }
        bins
    }
}

impl Fold for NodeTimes {
    type Facts = Self;
    const NEED: Need = Need::NodeTimes;

    fn merge(self, other: Self) -> Self {
        NodeTimes(merge(self.0, other.0))
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<SiteAccess> for NodeTimes {
    const COLUMNS: &'static [&'static str] =
        &["process", "bin", "node", "home", "class", "reads", "writes", "samples", "period"];

    fn add(&mut self, row: &SiteAccess, times: Times<'_>, _: &Context<'_>) {
        self.add_times((row.node, row.home, row.class), times);
    }
}

/// For figures of one object.
impl FoldOf<ObjectAccess> for NodeTimes {
    const COLUMNS: &'static [&'static str] = ObjectAccess::COLUMNS;

    fn add(&mut self, row: &ObjectAccess, times: Times<'_>, _: &Context<'_>) {
        self.add_times((row.node, row.home, row.class), times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tally::Tally;
    use numalens_profile::{Engine, LOOKS, Meta, RecordedUnit};

    /// Guards timelines of short exact recordings: a poll's counts do not stand at the poll alone, sums stay, and a
    /// pause longer than between polls is a pause.
    #[test]
    fn what_a_poll_finds_is_spread_over_the_time_before_it() {
        let meta = Meta {
            engine: Engine::Exact,
            unit: RecordedUnit::Accesses,
            bin_ns: 10_000_000,
            bins: 40,
            ..Meta::default()
        };
        let mut times = NodeTimes::default();
        for (bin, reads) in [(0, 10), (4, 103), (30, 7)] {
            times.0.insert((Bin(bin), None, None, Class::Local), Tally { reads, ..Tally::default() });
        }
        let by_bin = |times: &NodeTimes| -> Vec<(u32, u64)> {
            times.classes().iter().map(|(bin, counts)| (bin.0, counts.accesses())).collect()
        };
        let (spread, longest) = times.spread(&About::new(meta.clone()));
        assert_eq!(by_bin(&spread), [(0, 10), (1, 25), (2, 26), (3, 26), (4, 26), (30, 7)]);
        assert_eq!(longest, 4);
        // Where the recording says when it was polled, that says it.
        let mut polled = About::new(meta.clone());
        polled
            .meta
            .extra
            .insert(LOOKS.into(), [5_000_000u64, 25_000_000, 45_000_000, 95_000_000, 305_000_000].to_vec().into());
        let bins = by_bin(&times.spread(&polled).0);
        assert_eq!(bins[..3], [(0, 10), (3, 51), (4, 52)]);
        assert!(bins[3..].iter().all(|(bin, reads)| (10..=30).contains(bin) && *reads == 1), "{bins:?}");
        assert_eq!(bins.len(), 10);
        let sampled = About::new(Meta { unit: RecordedUnit::TimeAtMemory, ..meta });
        assert_eq!(by_bin(&times.spread(&sampled).0), by_bin(&times));
    }
}
