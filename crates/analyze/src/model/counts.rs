//! Accesses split by class, read and write: the sum that every level of attribution carries.

use crate::model::intervals::{self, Interval};
use crate::model::metrics::{self, Metric};
use crate::model::report::{Column, Field, Shown, Value};
use crate::model::tally::Bound;
use crate::model::tally::{Tally, sum};
use numalens_profile::words::Class;
use std::cmp::Reverse;
use std::ops::AddAssign;

/// Accesses by class. The classes' sum is the number of accesses: it is not kept apart, so it cannot differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    classes: [u64; Class::ALL.len()],
    pub reads: u64,
    pub writes: u64,
    pub samples: u64,
    pub estimated: u64,
    squares: u128,
}

impl Counts {
    /// Adds accesses of one class.
    pub fn add(&mut self, class: Class, tally: Tally) {
        let of_class = &mut self.classes[class as usize];
        *of_class = sum(*of_class, tally.accesses());
        self.reads = sum(self.reads, tally.reads);
        self.writes = sum(self.writes, tally.writes);
        self.samples = sum(self.samples, tally.samples);
        self.estimated = sum(self.estimated, tally.estimated);
        self.squares = self.squares.saturating_add(tally.squares);
    }

    /// Reads and writes.
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Reads and writes as a figure: with its interval when it comes from samples.
    pub fn total(&self) -> Value {
        let exact = self.accesses().saturating_sub(self.estimated) as f64;
        let interval = intervals::count(self.estimated as f64, self.effective());
        interval.map_or(Value::Count(self.accesses()), |(low, high)| {
            Value::Estimate(self.accesses(), (exact + low, exact + high))
        })
    }

    /// Equal samples that tell as much as these: fewer where some stand for much more than others. All, where nothing
    /// is exact.
    fn effective(&self) -> u64 {
        let estimated = u128::from(self.estimated);
        if self.samples == 0 || self.estimated == self.accesses() || self.squares == 0 {
            return self.samples;
        }
        u64::try_from((estimated * estimated / self.squares).max(1)).unwrap_or(u64::MAX).min(self.samples)
    }

    /// The share of `part` in these. Of what is exact nothing is uncertain; what is estimated is a share of what is
    /// estimated of all.
    pub fn share_of(&self, part: &Counts) -> Value {
        let all = self.accesses();
        if all == 0 {
            return Value::Absent;
        }
        let percent = part.accesses() as f64 * 100.0 / all as f64;
        if part.samples == 0 && self.estimated < all {
            return Value::Percent(percent, None);
        }
        let estimated = self.estimated.max(1) as f64;
        let exact = part.accesses().saturating_sub(part.estimated) as f64;
        let of_all = |share: f64| (share / 100.0 * estimated + exact) * 100.0 / all as f64;
        let interval = intervals::share(part.estimated as f64 * 100.0 / estimated, self.effective());
        Value::Percent(percent, interval.map(|(low, high)| (of_all(low).min(percent), of_all(high).max(percent))))
    }

    /// Accesses of one class.
    pub fn class(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// Accesses of several classes.
    pub fn of(&self, classes: &[Class]) -> u64 {
        classes.iter().map(|class| self.class(*class)).sum()
    }

    /// What a program pays for: accesses known to have left the thread's node.
    pub const REMOTE: [Class; 2] = [Class::Remote, Class::MemoryTierRemote];

    /// Those.
    pub fn remote(&self) -> u64 {
        self.of(&Self::REMOTE)
    }

    /// Accesses whose distance is not defined, because thread or page were free to be anywhere.
    pub fn unpinned(&self) -> u64 {
        self.of(&[Class::UnpinnedPage, Class::UnpinnedThread, Class::UnpinnedBoth])
    }

    /// `part` of these accesses in percent, with its interval when they come from samples.
    pub fn percent(&self, part: u64) -> Value {
        let all = self.accesses();
        if all == 0 {
            return Value::Absent;
        }
        let percent = part as f64 * 100.0 / all as f64;
        // Of what is exact nothing is uncertain.
        let estimated = self.estimated as f64 / all as f64;
        let interval = intervals::share(percent, self.effective());
        let scaled = |(low, high)| (percent - (percent - low) * estimated, percent + (high - percent) * estimated);
        Value::Percent(percent, interval.map(scaled))
    }

    /// Whether remote traffic decides which parts of this whole come first. Where next to nothing is remote, a stray
    /// sample must not outdo what the program does all the time.
    pub fn leads_by_remote(&self) -> bool {
        self.remote() * 20 >= self.accesses()
    }

    /// The order in which tables show parts of this whole: most remote traffic first, where that leads, then most
    /// traffic.
    pub fn order(&self) -> impl Fn(&Counts) -> Reverse<(u64, u64)> + use<> {
        let by_remote = self.leads_by_remote();
        move |part| Reverse((if by_remote { part.remote() } else { 0 }, part.accesses()))
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.classes.iter_mut().zip(other.classes) {
            *mine = sum(*mine, theirs);
        }
        self.reads = sum(self.reads, other.reads);
        self.writes = sum(self.writes, other.writes);
        self.samples = sum(self.samples, other.samples);
        self.estimated = sum(self.estimated, other.estimated);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// A count that `samples` samples estimate; exact when there are none.
pub fn estimate(n: u64, samples: u64) -> Value {
    intervals::count(n as f64, samples).map_or(Value::Count(n), |interval| Value::Estimate(n, interval))
}

/// `part` of `whole` in percent; `samples` are those behind `whole`. Nothing when `whole` is 0.
pub fn percent(part: u64, whole: u64, samples: u64) -> Value {
    if whole == 0 {
        return Value::Absent;
    }
    let percent = part as f64 * 100.0 / whole as f64;
    Value::Percent(percent, intervals::share(percent, samples))
}

/// The metric of a class.
pub fn metric_of(class: Class) -> &'static Metric {
    match class {
        Class::Local => &metrics::LOCAL,
        Class::Remote => &metrics::REMOTE,
        Class::UnpinnedPage => &metrics::UNPINNED_PAGE,
        Class::UnpinnedThread => &metrics::UNPINNED_THREAD,
        Class::UnpinnedBoth => &metrics::UNPINNED_BOTH,
        Class::MemoryTierLocal => &metrics::MEMORY_TIER_LOCAL,
        Class::MemoryTierRemote => &metrics::MEMORY_TIER_REMOTE,
        Class::Unplaced => &metrics::UNPLACED,
    }
}

/// The columns of accesses: what [`values`] fills. `noun` says what the counts are over their column.
pub fn columns(noun: &'static str) -> Vec<Column> {
    vec![
        Column { title: noun, ..Column::metric(&metrics::ACCESSES) },
        Column::metric(&metrics::SHARE),
        Column::metric(&metrics::REMOTE_SHARE),
        Column::metric(&metrics::UNPINNED_SHARE),
        Column::metric(&metrics::READS).only(Shown::Data),
        Column::metric(&metrics::WRITES).only(Shown::Data),
        Column::at("classes.local", &metrics::LOCAL).only(Shown::Data),
        Column::at("classes.remote", &metrics::REMOTE).only(Shown::Data),
        Column::at("classes.unpinned_page", &metrics::UNPINNED_PAGE).only(Shown::Data),
        Column::at("classes.unpinned_thread", &metrics::UNPINNED_THREAD).only(Shown::Data),
        Column::at("classes.unpinned_both", &metrics::UNPINNED_BOTH).only(Shown::Data),
        Column::at("classes.memory_tier_local", &metrics::MEMORY_TIER_LOCAL).only(Shown::Data),
        Column::at("classes.memory_tier_remote", &metrics::MEMORY_TIER_REMOTE).only(Shown::Data),
        Column::at("classes.unplaced", &metrics::UNPLACED).only(Shown::Data),
        Column::metric(&metrics::SAMPLES).only(Shown::Data),
    ]
}

/// Columns of tables of accesses, the longest but few.
const MOST_COLUMNS: usize = 20;

/// The values of [`columns`] for a part of `total`.
pub fn values(part: &Counts, total: &Counts) -> Vec<Value> {
    // Room for what callers put behind them: there may be a hundred thousand rows.
    let mut values = Vec::with_capacity(MOST_COLUMNS);
    values.extend([
        part.total(),
        total.share_of(part),
        part.percent(part.remote()),
        part.percent(part.unpinned()),
        Value::Count(part.reads),
        Value::Count(part.writes),
    ]);
    values.extend(Class::ALL.iter().map(|class| Value::Count(part.class(*class))));
    values.push(Value::Count(part.samples));
    values
}

/// Accesses are looked at by time: where code takes so many times as long for an access to one object as other code for
/// one to another, that one is seen as much too often, which nothing tells.
const SPEEDS: f64 = 16.0;

/// [`values`] of an object that has shared pages with others, as far as `bound` says: any of what was divided may be
/// its own, with the probability that samples give, and any of what was not told apart.
pub fn bounded(part: &Counts, bound: &Bound, total: &Counts) -> Vec<Value> {
    let (divided, estimated) = (bound.divided.max(part.estimated) as f64, part.estimated as f64);
    // Samples that would tell as much if each stood for as many accesses.
    let samples = if bound.squares > 0.0 { divided * divided / bound.squares } else { 0.0 };
    let own = samples * estimated / divided.max(1.0);
    let alike = Counts { samples: part.samples.min((own.round() as u64).max(1)), ..*part };
    let mut values = values(&alike, total);
    if let Some(last) = values.last_mut() {
        *last = Value::Count(part.samples);
    }
    let known = part.accesses();
    let exact = known.saturating_sub(part.estimated) as f64;
    let (low, high) = intervals::proportion((estimated / divided.max(1.0)).min(1.0), samples);
    let (low, high) = (low / (low + (1.0 - low) * SPEEDS), high * SPEEDS / (high * SPEEDS + 1.0 - high));
    let skewed = bound.skewed as f64;
    let (low, high) = ((low * divided - skewed).max(0.0), (high * divided + skewed).min(divided));
    let interval = ((exact + low).min(known as f64), (exact + high).max(known as f64) + bound.untold as f64);
    values[0] = match bound.untold {
        0 => Value::Estimate(known, interval),
        _ => Value::Within(known, interval),
    };
    if let Value::Percent(share, _) = values[1] {
        let percent = |accesses: f64| (accesses * 100.0 / total.accesses().max(1) as f64).min(100.0);
        values[1] = Value::Percent(share, Some((percent(interval.0).min(share), percent(interval.1).max(share))));
    }
    values
}

/// Makes [`values`] those of a part that may have so many accesses more, of which nobody knows whose they are.
pub fn at_least(values: &mut [Value], beyond: u64, total: &Counts) {
    let all = total.accesses().max(1) as f64;
    if let (Value::Count(known) | Value::Estimate(known, _), (low, high)) = (&values[0], bounds(&values[0])) {
        values[0] = Value::Within(*known, (low, high + beyond as f64));
    }
    if let (Value::Percent(share, _), (low, high)) = (&values[1], bounds(&values[1])) {
        values[1] = Value::Percent(*share, Some((low, (high + beyond as f64 * 100.0 / all).min(100.0))));
    }
}

/// The least and the most that a figure may be.
fn bounds(value: &Value) -> Interval {
    value.interval().unwrap_or(match value {
        Value::Count(n) => (*n as f64, *n as f64),
        Value::Percent(share, _) => (*share, *share),
        _ => (0.0, 0.0),
    })
}

/// Every class as a field of a record.
pub fn class_fields(counts: &Counts) -> Vec<Field> {
    Class::ALL.iter().map(|class| Field::metric(metric_of(*class), Value::Count(counts.class(*class)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tally::MOST;
    use crate::model::tally::Weight;

    #[test]
    fn sums_of_forged_counts_stop() {
        let forged = Weight::Period.tally(u64::MAX, 7, u32::MAX, u64::MAX);
        let mut counts = Counts::default();
        for _ in 0..100_000 {
            counts.add(Class::Remote, forged);
        }
        counts += counts;
        assert_eq!((counts.remote(), counts.reads), (MOST, MOST));
        assert_eq!(counts.order()(&counts).0, (MOST, 2 * MOST));
    }

    #[test]
    fn columns_follow_the_order_of_classes() {
        let classes: Vec<_> = columns("accesses").iter().filter_map(|c| c.key.strip_prefix("classes.")).collect();
        assert_eq!(classes, Class::ALL.iter().map(|c| c.word()).collect::<Vec<_>>());
        assert_eq!(values(&Counts::default(), &Counts::default()).len(), columns("accesses").len());
    }

    #[test]
    fn only_what_is_estimated_is_uncertain() {
        let exact = Tally { reads: 900, ..Tally::default() };
        let estimated = Tally { reads: 100, samples: 10, estimated: 100, squares: 1000, ..Tally::default() };
        let [mut part, mut other, mut all] = [Counts::default(); 3];
        part.add(Class::Local, exact);
        other.add(Class::Local, estimated);
        all.add(Class::Local, exact);
        all.add(Class::Local, estimated);
        assert_eq!(part.total(), Value::Count(900));
        assert_eq!(all.share_of(&part), Value::Percent(90.0, None));
        let Value::Percent(share, Some((low, high))) = all.share_of(&other) else {
            panic!("an estimate has an interval")
        };
        assert!(
            (share - 10.0).abs() < 1e-9 && (7.0..10.0).contains(&low) && (high - 10.0).abs() < 1e-9,
            "{low} {high}"
        );
        let Value::Estimate(1000, (low, high)) = all.total() else { panic!("an estimate has an interval") };
        assert!((940.0..960.0).contains(&low) && (1070.0..1100.0).contains(&high), "{low} {high}");
        // Samples that stand for much beside others that stand for little tell less.
        let uneven = Tally { squares: 9000, ..estimated };
        let mut wide = Counts::default();
        wide.add(Class::Local, exact);
        wide.add(Class::Local, uneven);
        let Value::Estimate(_, (lower, _)) = wide.total() else { panic!("an estimate has an interval") };
        assert!(lower < low);
    }

    #[test]
    fn classes_sum_to_accesses() {
        let mut counts = Counts::default();
        for (i, class) in Class::ALL.iter().enumerate() {
            counts.add(*class, Tally { reads: i as u64, writes: 2, samples: 1, ..Tally::default() });
        }
        assert_eq!(counts.of(Class::ALL), counts.accesses());
        assert_eq!(counts.accesses(), 28 + 16);
    }
}
