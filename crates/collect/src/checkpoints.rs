//! When the profile on disk is brought up to date, so that a recorder that is killed leaves what it has seen.

use std::time::{Duration, Instant};

/// The first one comes early: many recordings are short, and killed ones shorter still.
const FIRST: Duration = Duration::from_millis(100);
/// The others come so often at most.
const LATER: Duration = Duration::from_secs(2);
/// They may cost one part in so many of the time.
const SHARE: u32 = 20;

/// The time until the next checkpoint.
pub struct Checkpoints {
    last: Instant,
    wait: Duration,
}

impl Checkpoints {
    /// The recording begins.
    pub fn begin() -> Self {
        Checkpoints { last: Instant::now(), wait: FIRST }
    }

    /// Whether the next one is due.
    pub fn are_due(&self) -> bool {
        self.last.elapsed() > self.wait
    }

    /// One was written, or could not be, which began at `begun`.
    pub fn done(&mut self, begun: Instant) {
        (self.last, self.wait) = (Instant::now(), wait_after(begun.elapsed()));
    }
}

/// How long nothing is written after a checkpoint that took so long.
fn wait_after(took: Duration) -> Duration {
    LATER.max(took * SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_checkpoint_comes_at_a_tenth_of_a_second() {
        let mut checkpoints = Checkpoints::begin();
        assert_eq!(checkpoints.wait, Duration::from_millis(100));
        checkpoints.done(Instant::now());
        assert!(checkpoints.wait >= LATER);
        assert_eq!(wait_after(Duration::from_millis(10)), LATER);
        assert_eq!(wait_after(Duration::from_secs(1)), Duration::from_secs(20));
    }
}
