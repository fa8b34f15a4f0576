//! Instructions that a thread has executed, as they were added up last.

use crate::exact::totals::{IN_FLIGHT_OF_CODE, grown};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;

/// Executed instructions are added up again when a thread's time has grown by one part in so many.
const POLL_SHARE: u64 = 4;

/// Instructions executed.
#[derive(Default)]
pub struct ExecutedCode {
    pages: FxHashMap<Page, u64>,
    /// When they were added up last, since the start of the recording.
    added_up_ns: u64,
}

impl ExecutedCode {
    /// Whether to add them up now, and notes that this is done: no view asks when code was executed, and it is much to
    /// add up. `settled`: nobody runs.
    pub fn is_due(&mut self, now_ns: u64, settled: bool) -> bool {
        let is_due = settled || now_ns > self.added_up_ns + self.added_up_ns / POLL_SHARE;
        if is_due {
            self.added_up_ns = now_ns;
        }
        is_due
    }

    /// How many more were executed of a page than the last time. `settled`: nobody runs.
    pub fn grown(&mut self, page: Page, now: u64, settled: bool) -> u64 {
        let in_flight = if settled { 0 } else { IN_FLIGHT_OF_CODE };
        grown(self.pages.entry(page).or_default(), now, in_flight)
    }
}
