//! Polls of what threads have counted.

/// How a poll takes what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// Threads run: what they may take back is left to the next poll.
    Running,
    /// All that is counted now is taken: another part of the recording begins.
    Settled,
    /// They count no more; of logs, all that was said is read, whenever it happened.
    Last,
    /// They go on, and the recording ends: nobody polls again.
    Cut,
}

impl Poll {
    /// Nobody polls the thread again.
    pub fn is_last(self) -> bool {
        matches!(self, Poll::Last | Poll::Cut)
    }

    /// All that is counted is taken, whatever threads may take back.
    pub fn is_settled(self) -> bool {
        self != Poll::Running
    }

    /// Sites and pages of a thread are to be made equal: it has ended and `waits` for no page's record, or it goes on
    /// unseen.
    pub fn balances(self, waits: bool) -> bool {
        self == Poll::Cut || self == Poll::Last && !waits
    }
}
