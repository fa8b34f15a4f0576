//! Time of a recording: nanoseconds since its start, from the clock of the records.

/// How far a recording has come.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// On the clock of the records.
    start_ns: u64,
    /// Time of the last record, since the start.
    pub now_ns: u64,
}

impl Clock {
    /// Of a recording that starts now, on the clock of the records.
    pub fn new(start_ns: u64) -> Self {
        Clock { start_ns, now_ns: 0 }
    }

    /// Nanoseconds since the start.
    pub fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start_ns)
    }

    /// The recording has come to `time_ns` since the start.
    pub fn come_to(&mut self, time_ns: u64) {
        self.now_ns = self.now_ns.max(time_ns);
    }
}
