//! When accesses are counted: the program, or the user, may pause the counting, and begin with a pause.

/// Pauses that are kept one by one: what is asked for is of the last seconds.
const MOST_CHANGES: usize = 1 << 16;

/// The spans in which accesses are counted. Times are nanoseconds since the start of the recording.
pub struct Observed {
    /// What held before the first change that is kept.
    before: bool,
    /// When that began, and how much had been counted by then.
    since_ns: u64,
    counted_ns: u64,
    /// Changes, by time.
    changes: Vec<(u64, bool)>,
    /// It was ever paused.
    paused: bool,
}

impl Observed {
    /// From the beginning, or not before somebody says so.
    pub fn new(start_paused: bool) -> Self {
        Observed { before: !start_paused, since_ns: 0, counted_ns: 0, changes: Vec::new(), paused: start_paused }
    }

    /// Whether accesses are counted from the last change on.
    pub fn now(&self) -> bool {
        self.changes.last().map_or(self.before, |&(_, counting)| counting)
    }

    /// Whether they were at a time.
    pub fn at(&self, time_ns: u64) -> bool {
        match self.changes.last() {
            None => self.before,
            Some(&(last, counting)) if last <= time_ns => counting,
            Some(_) => {
                let after = self.changes.partition_point(|&(change, _)| change <= time_ns);
                after.checked_sub(1).map_or(self.before, |index| self.changes[index].1)
            }
        }
    }

    /// Whether anything was ever left out.
    pub fn ever_paused(&self) -> bool {
        self.paused
    }

    /// From `time_ns` on they are counted, or not. Changes may come late, behind others.
    pub fn change(&mut self, time_ns: u64, counting: bool) {
        let at = self.changes.partition_point(|&(change, _)| change <= time_ns);
        self.changes.insert(at, (time_ns.max(self.since_ns), counting));
        self.paused |= !counting;
        if self.changes.len() > MOST_CHANGES {
            let rest = self.changes.split_off(MOST_CHANGES / 2);
            for (change, counting) in std::mem::replace(&mut self.changes, rest) {
                if self.before {
                    self.counted_ns += change - self.since_ns;
                }
                (self.since_ns, self.before) = (change, counting);
            }
        }
    }

    /// How long accesses were counted until `now_ns`; none: always.
    pub fn counted_ns(&self, now_ns: u64) -> Option<u64> {
        let (mut since, mut counting, mut sum) = (self.since_ns, self.before, self.counted_ns);
        for &(change, next) in self.changes.iter().chain([&(now_ns.max(self.since_ns), false)]) {
            let change = change.clamp(since, now_ns.max(since));
            sum += if counting { change - since } else { 0 };
            (since, counting) = (change, next);
        }
        self.paused.then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_when() {
        let mut observed = Observed::new(true);
        assert_eq!((observed.at(5), observed.counted_ns(10)), (false, Some(0)));
        observed.change(10, true);
        observed.change(30, false);
        // This one came late.
        observed.change(20, true);
        assert_eq!([9, 10, 29, 30, 99].map(|time| observed.at(time)), [false, true, true, false, false]);
        assert_eq!((observed.now(), observed.counted_ns(100)), (false, Some(20)));
        // A change beyond the end adds nothing.
        assert_eq!(observed.counted_ns(15), Some(5));
        let mut always = Observed::new(false);
        assert_eq!((always.at(0), always.counted_ns(7)), (true, None));
        always.change(3, true);
        assert_eq!(always.counted_ns(7), None);
        always.change(4, false);
        assert_eq!(always.counted_ns(7), Some(4));
    }

    #[test]
    fn many_pauses_are_summed() {
        let mut observed = Observed::new(false);
        let all = MOST_CHANGES as u64 * 3;
        for time in 1..=all {
            observed.change(time * 10, time % 2 == 0);
        }
        // The first ten, and ten of every twenty from then on.
        assert_eq!(observed.counted_ns(all * 10), Some(10 + (all / 2 - 1) * 10));
        assert!(observed.changes.len() <= MOST_CHANGES);
    }
}
