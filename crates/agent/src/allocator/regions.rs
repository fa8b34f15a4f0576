//! OpenMP's parallel regions of static programs, published as phases by the place in the program that begins them. The
//! twin of `crates/interpose/c/openmp.c`, which says why instances that follow each other closely are published as one.
//!
//! The call of the runtime that a compiler makes for a region returns when the region has ended: two of the watched
//! addresses.

use alloc::vec::Vec;

/// Instances that follow within this time go into the span before.
const AT_ONCE_NS: u64 = 1_000_000;
/// Regions of one thread within each other, and places of which spans wait, at most.
const MOST: usize = 64;

/// What is known of a thread's regions.
#[derive(Default)]
pub struct Regions {
    underway: Vec<Underway>,
    waiting: Vec<Waiting>,
}

/// A region that has not ended.
struct Underway {
    /// Where the return address lies, and what it is.
    sp: u64,
    back: u64,
    call: u64,
    begun_ns: u64,
}

/// Instances of a region, one closely after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The region's place: its code, or where the call returns to; see there.
    pub call: u64,
    /// When the first began.
    pub begun_ns: u64,
    /// When the last ended.
    pub ended_ns: u64,
}

/// What is not published yet of a place that begins regions.
struct Waiting {
    call: u64,
    span: Option<Span>,
    /// When something was published of it.
    published_ns: u64,
}

impl Regions {
    /// The region at `call` is about to begin: its call will return to `back`, an address that lies at `sp`.
    pub fn begin(&mut self, sp: u64, back: u64, call: u64, begun_ns: u64) {
        // Calls that were left by a jump lie below.
        self.underway.retain(|outer| outer.sp > sp);
        if self.underway.len() < MOST {
            self.underway.push(Underway { sp, back, call, begun_ns });
        }
    }

    /// The program comes to `ip`, with this stack pointer. What is to be published now, if a region ends by that.
    pub fn reach(&mut self, ip: u64, sp: u64, now: u64) -> Option<Span> {
        let ended = self.underway.pop_if(|inner| inner.back == ip && inner.sp + 8 == sp)?;
        self.lasted(Span { call: ended.call, begun_ns: ended.begun_ns, ended_ns: now })
    }

    fn lasted(&mut self, span: Span) -> Option<Span> {
        let Some(known) = self.waiting.iter_mut().find(|waiting| waiting.call == span.call) else {
            if self.waiting.len() < MOST {
                self.waiting.push(Waiting { call: span.call, span: None, published_ns: span.ended_ns });
            }
            return Some(span);
        };
        let span = Span { begun_ns: known.span.map_or(span.begun_ns, |first| first.begun_ns), ..span };
        if span.ended_ns - known.published_ns < AT_ONCE_NS {
            known.span = Some(span);
            return None;
        }
        (known.span, known.published_ns) = (None, span.ended_ns);
        Some(span)
    }

    /// What still waits, as the thread or its process ends.
    pub fn rest(&mut self) -> impl Iterator<Item = Span> {
        self.waiting.iter_mut().filter_map(|waiting| waiting.span.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(call: u64, begun_ns: u64, ended_ns: u64) -> Span {
        Span { call, begun_ns, ended_ns }
    }

    #[test]
    fn regions_nest_and_are_published_when_they_end() {
        let mut regions = Regions::default();
        regions.begin(0x1000, 7, 17, 10);
        regions.begin(0x800, 8, 18, 20);
        assert_eq!(regions.reach(7, 0x1008, 25), None, "the inner one has not ended");
        assert_eq!(regions.reach(8, 0x800, 25), None, "another stack pointer");
        assert_eq!(regions.reach(8, 0x808, 30), Some(span(18, 20, 30)));
        assert_eq!(regions.reach(7, 0x1008, 40), Some(span(17, 10, 40)));
        // One that a jump has left is forgotten when another begins above.
        regions.begin(0x800, 9, 19, 50);
        regions.begin(0x1000, 7, 17, 2_000_000);
        assert_eq!(regions.reach(7, 0x1008, 2_000_010), Some(span(17, 2_000_000, 2_000_010)));
        assert_eq!(regions.reach(9, 0x808, 2_000_020), None);
    }

    #[test]
    fn instances_that_follow_closely_are_one() {
        let mut regions = Regions::default();
        let mut told = Vec::new();
        for instance in 0..3000 {
            regions.begin(0x1000, 7, 17, instance * 1000);
            told.extend(regions.reach(7, 0x1008, instance * 1000 + 500));
        }
        assert_eq!(told, [span(17, 0, 500), span(17, 1000, 1_000_500), span(17, 1_001_000, 2_000_500)]);
        assert_eq!(regions.rest().collect::<Vec<_>>(), [span(17, 2_001_000, 2_999_500)]);
        assert_eq!(regions.rest().count(), 0);
    }
}
