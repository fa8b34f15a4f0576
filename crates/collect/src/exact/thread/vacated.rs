//! What a thread has counted under numbers whose counters were given back, as their pages are counted in regions.

use crate::exact::file::SessionFile;
use crate::exact::process::{Process, is_region};
use crate::exact::release_memory::discard_counters;
use crate::exact::totals::flat_counts;
use numalens_event::exact::Extent;
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;

/// By region.
#[derive(Default)]
pub struct Vacated {
    counts: FxHashMap<u32, [u64; 2]>,
    /// Pages of the process that were assigned to regions, as far as the thread has taken notice.
    assignments: usize,
}

impl Vacated {
    /// Whether pages were assigned since the last time.
    pub fn are_behind(&mut self, process: &Process) -> bool {
        let now = process.regions.assignments();
        std::mem::replace(&mut self.assignments, now) != now
    }

    /// All, to be added to what stands in the file.
    pub fn counts(&self) -> impl Iterator<Item = (u32, [u64; 2])> {
        self.counts.iter().map(|(&region, &counts)| (region, counts))
    }

    /// Gives back the counters of pages, by their numbers, that are counted in regions or have gone.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn vacate(
        &mut self,
        file: &SessionFile,
        thread: Extent,
        process: &Process,
        pages: &Range<u32>,
    ) -> io::Result<()> {
        for (number, counts) in flat_counts(file, thread, pages)? {
            let region = process.counted_in(number);
            if is_region(region) {
                let all = self.counts.entry(region).or_default();
                *all = [0, 1].map(|kind| all[kind].wrapping_add(counts[kind]));
            }
        }
        discard_counters(file, thread, pages);
        Ok(())
    }
}
