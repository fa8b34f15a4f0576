//! Keeping the number of recorded allocations near what the collector can unwind.

use std::time::Instant;

/// The mean distance in bytes between sampled small allocations, widened while there are too many per second.
pub(super) struct Pace {
    mean: u64,
    asked: u64,
    per_second: f64,
    since: Option<Instant>,
    count: u64,
}

/// The largest mean that the pace chooses by itself.
const WIDEST: u64 = 1 << 32;

impl Pace {
    pub(super) fn new(mean: u64, per_second: u32) -> Self {
        Pace { mean, asked: mean, per_second: f64::from(per_second.max(1)), since: None, count: 0 }
    }

    pub(super) fn mean(&self) -> u64 {
        self.mean
    }

    /// Counts samples; every tenth of a second decides, and returns the new mean when it changes: as many times the old
    /// one (a power of two) as there were too many, or half of it when there were less than a quarter.
    pub(super) fn after(&mut self, sampled: u64, now: Instant) -> Option<u64> {
        self.count += sampled;
        let since = *self.since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since).as_secs_f64();
        if elapsed < 0.1 {
            return None;
        }
        let excess = self.count as f64 / elapsed / self.per_second;
        (self.since, self.count) = (Some(now), 0);
        let mean = if excess > 1.0 {
            self.mean.saturating_mul((excess.ceil() as u64).next_power_of_two()).min(self.asked.max(WIDEST))
        } else if excess < 0.25 {
            (self.mean / 2).max(self.asked)
        } else {
            self.mean
        };
        (mean != self.mean).then(|| {
            self.mean = mean;
            mean
        })
    }
}

/// How many large allocations may be recorded one by one.
pub(super) struct Credit {
    pub(super) burst: i32,
    per_second: u32,
    since: Option<Instant>,
}

impl Credit {
    pub(super) fn new(burst: u32, per_second: u32) -> Self {
        Credit { burst: i32::try_from(burst).unwrap_or(i32::MAX), per_second, since: None }
    }

    /// What to add to the `left` credit at this time.
    pub(super) fn more(&mut self, left: i32, now: Instant) -> i32 {
        let since = *self.since.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_secs_f64() * f64::from(self.per_second);
        if earned < 1.0 {
            return 0;
        }
        self.since = Some(now);
        let room = self.burst.saturating_sub(left).clamp(0, self.burst);
        if earned < f64::from(room) { earned as i32 } else { room }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_mean_follows_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 100);
        let mut after = |sampled, tenths: u64| pace.after(sampled, start + Duration::from_millis(tenths * 100));
        assert_eq!(after(0, 0), None);
        assert_eq!(after(50, 1), Some(8000), "five times too many");
        assert_eq!(after(5, 2), None, "50 a second are within");
        assert_eq!(after(20, 3), Some(16000));
        assert_eq!(after(1, 4), Some(8000));
        assert_eq!(after(1, 5), Some(4000));
        assert_eq!(after(0, 6), Some(2000));
        assert_eq!(after(0, 7), Some(1000));
        assert_eq!(after(0, 8), None, "never below what was asked for");
    }

    #[test]
    fn credit_is_earned_with_time_up_to_the_burst() {
        let start = Instant::now();
        let mut credit = Credit::new(100, 50);
        let mut more = |left, ms| credit.more(left, start + Duration::from_millis(ms));
        assert_eq!(more(100, 0), 0);
        assert_eq!(more(0, 10), 0, "half of one");
        assert_eq!(more(0, 1000), 50);
        assert_eq!(more(90, 3000), 10);
        assert_eq!(more(-3, 3010), 0);
        assert_eq!(more(-3, 60_000), 100);
        assert_eq!(more(i32::MIN, 120_000), 100, "whatever a target writes there");
    }
}
