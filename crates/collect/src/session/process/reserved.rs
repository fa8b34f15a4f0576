//! Addresses that a process has reserved by private memory without access, and that are no allocation before they have
//! some.

use rangemap::RangeSet;
use std::ops::Range;

/// Reserved addresses.
#[derive(Clone, Default)]
pub struct Reserved(RangeSet<u64>);

impl Reserved {
    /// A range is reserved, which is not empty.
    pub fn add(&mut self, range: Range<u64>) {
        self.0.insert(range);
    }

    /// Those of a range of addresses that are reserved get access, and are not any longer: each as far as it is in the
    /// range.
    pub fn take(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        if range.is_empty() {
            return Vec::new();
        }
        let parts = self.0.overlapping(&range);
        let taken: Vec<_> = parts.map(|part| part.start.max(range.start)..part.end.min(range.end)).collect();
        taken.iter().for_each(|part| self.0.remove(part.clone()));
        taken
    }

    /// A mapping lies elsewhere now: what was reserved of it is so there. Of `old`, nothing: it is there as well.
    pub fn moved(&mut self, old: Range<u64>, new: Range<u64>) {
        let was = self.0.contains(&old.start);
        for range in [old, new.clone()].into_iter().filter(|range| !range.is_empty()) {
            self.0.remove(range);
        }
        if was && !new.is_empty() {
            self.0.insert(new);
        }
    }
}
