//! Time bins of equal width, at most a given number of them.

/// Divides the time of a recording into bins; all times in nanoseconds from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBins {
    width_ns: u64,
    limit: u32,
}

impl TimeBins {
    /// Bins of `width_ns` to start with, never more than `limit` of them (each at least 1).
    pub fn new(width_ns: u64, limit: u32) -> Self {
        TimeBins { width_ns: width_ns.max(1), limit: limit.max(1) }
    }

    /// Width of every bin.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The bin of `time_ns`, and how often the bins so far must be halved (`old >> halvings`) before it fits.
    pub fn bin(&mut self, time_ns: u64) -> (u32, u32) {
        let mut halvings = 0;
        while time_ns / self.width_ns >= u64::from(self.limit) {
            self.width_ns = self.width_ns.saturating_mul(2);
            halvings += 1;
        }
        ((time_ns / self.width_ns) as u32, halvings)
    }

    /// Makes the bins twice as wide to save memory.
    pub fn coarsen(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// Bins that a recording of `duration_ns` has.
    pub fn count(&self, duration_ns: u64) -> u32 {
        (duration_ns / self.width_ns) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen_when_they_run_out_and_never_exceed_the_limit() {
        let mut bins = TimeBins::new(10, 4);
        assert_eq!(bins.bin(39), (3, 0));
        assert_eq!(bins.bin(40), (2, 1));
        assert_eq!(bins.width_ns(), 20);
        assert_eq!(bins.bin(1_000), (3, 4));
        assert_eq!(bins.bin(u64::MAX).0, 3);
    }
}
