//! Memory that several mappings show: its bytes count once.

use numalens_profile::ids::ObjectId;
use std::ops::Range;

/// Memory that several processes may have mapped, or one more than once: its bytes count once.
pub struct Segment {
    /// The object that stands for them: that of the process that was seen with it first.
    pub object: ObjectId,
    /// Ranges of it that were seen mapped, apart from each other, in order.
    seen: Vec<Range<u64>>,
}

impl Segment {
    /// Of an object, of which nothing was seen mapped yet.
    pub fn new(object: ObjectId) -> Self {
        Segment { object, seen: Vec::new() }
    }

    /// Adds a range; returns how many bytes of it are new.
    pub fn see(&mut self, range: Range<u64>) -> u64 {
        if self.seen.iter().any(|seen| seen.start <= range.start && range.end <= seen.end) {
            return 0;
        }
        let bytes = |seen: &[Range<u64>]| seen.iter().map(|range| range.end - range.start).sum::<u64>();
        let before = bytes(&self.seen);
        self.seen.push(range);
        self.seen.sort_unstable_by_key(|range| range.start);
        let apart = |joined: &mut Range<u64>, next: &mut Range<u64>| {
            let touches = joined.start <= next.end && next.start <= joined.end;
            if touches {
                joined.end = joined.end.max(next.end);
            }
            touches
        };
        self.seen.dedup_by(|next, joined| apart(joined, next));
        bytes(&self.seen) - before
    }
}
