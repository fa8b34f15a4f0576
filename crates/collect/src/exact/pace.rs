//! When the counters are polled, and when accesses are sampled one by one: often enough, and cheaply.

use std::time::{Duration, Instant};

/// The counters are polled this often at most, sooner while the program is young; less often when a poll is dear.
const FASTEST_POLL: Duration = Duration::from_millis(50);
/// Where samples divide what is counted: they are drawn by time, so code that accesses faster has too few between two
/// polls.
const FASTEST_POLL_TO_DIVIDE: Duration = Duration::from_millis(10);
const FIRST_POLL: Duration = Duration::from_millis(5);
/// Polling may cost one part in so many of the time.
const POLL_SHARE: u32 = 20;
/// The same where every block is reported: then programs wait for the reader.
const POLL_SHARE_OF_BLOCKS: u32 = 2;
const FASTEST_POLL_FOR_BLOCKS: Duration = Duration::from_millis(10);
/// A few accesses are sampled one by one whenever so long a part of the recording has passed: at every nap in the
/// beginning, ever more seldom then.
const SAMPLINGS: u32 = 2000;
/// That may cost one part in so many of the time.
const SAMPLING_SHARE: u32 = 100;
/// A piece of every process's pages is looked at for migrations this often.
const REREAD: Duration = Duration::from_millis(500);

/// What something took the last two times. One time is no rule: the first poll reads what all later ones know, and on a
/// busy host any may have been waiting for a processor. To stay away for a multiple of that would miss pages that come
/// and go.
#[derive(Clone, Copy, Default)]
struct Cost([Duration; 2]);

impl Cost {
    fn add(&mut self, took: Duration) {
        self.0 = [self.0[1], took];
    }

    fn usual(self) -> Duration {
        self.0[0].min(self.0[1])
    }
}

/// Polls because a phase has begun or ended. The first ones come at once, as most programs have few phases; later ones
/// when polling is cheap.
#[derive(Default)]
struct Marks(u32);

impl Marks {
    const AT_ONCE: u32 = 200;

    /// A poll may cost one part in so many of the time.
    fn share(&self) -> u32 {
        if self.0 < Self::AT_ONCE { 1 } else { POLL_SHARE }
    }

    fn polled(&mut self, for_a_mark: bool) {
        self.0 = self.0.saturating_add(for_a_mark.into());
    }
}

/// What decides how often to poll.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Every block is reported.
    EveryBlock,
    /// Samples divide much of what is counted.
    Dividing,
    Usual,
}

impl Kind {
    /// The longest time between polls of a program that is not young, and which part of the time they may cost.
    fn limits(self) -> (Duration, u32) {
        match self {
            Kind::EveryBlock => (FASTEST_POLL_FOR_BLOCKS, POLL_SHARE_OF_BLOCKS),
            Kind::Dividing => (FASTEST_POLL_TO_DIVIDE, POLL_SHARE),
            Kind::Usual => (FASTEST_POLL, POLL_SHARE),
        }
    }
}

/// When what was done last, and what it took.
pub struct Pace {
    began: Instant,
    last_poll: Instant,
    poll_cost: Cost,
    last_sampling: Instant,
    sampling_cost: Cost,
    last_reread: Instant,
    marks: Marks,
    /// A phase has begun or ended since the last poll.
    mark_waits: bool,
}

impl Pace {
    /// Nothing was done yet.
    pub fn begin() -> Self {
        let now = Instant::now();
        Pace {
            began: now,
            last_poll: now,
            poll_cost: Cost::default(),
            last_sampling: now,
            sampling_cost: Cost::default(),
            last_reread: now,
            marks: Marks::default(),
            mark_waits: false,
        }
    }

    /// Whether a phase has begun or ended: what was counted before belongs to the time before.
    pub fn marked(&mut self, is_new: bool) {
        self.mark_waits |= is_new;
    }

    /// Samples accesses, if that is due.
    pub fn sample(&mut self, sample: impl FnOnce()) {
        let least = (self.began.elapsed() / SAMPLINGS).max(self.sampling_cost.usual() * SAMPLING_SHARE);
        if self.last_sampling.elapsed() >= least {
            let begun = Instant::now();
            sample();
            self.sampling_cost.add(begun.elapsed());
            self.last_sampling = Instant::now();
        }
    }

    /// Polls, if that is due, or `now`.
    pub fn poll(&mut self, kind: Kind, now: bool, poll: impl FnOnce()) {
        let mark_is_due = self.mark_waits && self.last_poll.elapsed() > self.poll_cost.usual() * self.marks.share();
        let (slowest, share) = kind.limits();
        let fastest = (self.began.elapsed() / 4).clamp(FIRST_POLL, slowest);
        let is_due = self.last_poll.elapsed() > fastest.max(self.poll_cost.usual() * share);
        if now || mark_is_due || is_due {
            self.marks.polled(mark_is_due);
            self.mark_waits = false;
            let begun = Instant::now();
            poll();
            self.poll_cost.add(begun.elapsed());
            self.last_poll = Instant::now();
        }
    }

    /// Looks for pages that have moved, if that is due.
    pub fn reread(&mut self, reread: impl FnOnce()) {
        if self.last_reread.elapsed() > REREAD {
            reread();
            self.last_reread = Instant::now();
        }
    }
}
