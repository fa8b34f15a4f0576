//! Periods of pages that have ended: rows of the profile.

use numalens_profile::ids::Bin;
use numalens_profile::tables;

/// Ended page periods kept one by one.
const MOST_CLOSED: usize = 400_000;

/// Periods of pages that have ended.
#[derive(Default)]
pub struct ClosedPages {
    pub rows: Vec<tables::PlacedPages>,
    /// Pages whose periods were counted but not kept.
    pub dropped: u64,
}

impl ClosedPages {
    /// Adds a period that has ended.
    pub fn add(&mut self, row: tables::PlacedPages) {
        if let Some(last) = self.rows.last_mut()
            && last.page.0 + last.count == row.page.0
            && (tables::PlacedPages { page: last.page, count: last.count, ..row.clone() }) == *last
        {
            last.count += row.count;
            return;
        }
        if self.rows.len() < MOST_CLOSED {
            self.rows.push(row);
        } else {
            self.dropped += row.count;
        }
    }

    /// Bins became wider by 2 to the power of `halvings`.
    pub fn coarsen(&mut self, halvings: u32) {
        let halve = |bin: Bin| Bin(bin.0.checked_shr(halvings).unwrap_or(0));
        for row in &mut self.rows {
            row.bin_from = halve(row.bin_from);
            row.bin_to = row.bin_to.map(halve);
        }
    }
}
