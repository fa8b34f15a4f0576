//! Placed pages: which rows of `pages` are first touches, and how many pages they are.
//!
//! A row is a period: a page that migrates has a row for each home. Only the first of them is a placement; the others
//! continue it. A row continues another that ended, over the same page, in the bin in which it begins, when no fault
//! began it, or when it has the same first toucher and another home. A page that came to another object with the block
//! that it is a part of was placed before, too.

use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::tables::PlacedPages;
use numalens_profile::words::{Fault, Placed, SystemCall};
use rustc_hash::FxHashMap;

/// Pages by who placed them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FirstTouches {
    pub pinned: u64,
    pub unpinned: u64,
    pub unseen: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl FirstTouches {
    /// Adds a placement.
    pub fn add(&mut self, row: &PlacedPages) {
        let pages = pages(row);
        match row.placed {
            Placed::Pinned => self.pinned += pages,
            Placed::Unpinned => self.unpinned += pages,
            Placed::Unseen => self.unseen += pages,
        }
        self.bytes += bytes(row);
    }

    /// All pages placed.
    pub fn total(&self) -> u64 {
        self.pinned + self.unpinned + self.unseen
    }

    /// Those whose first toucher was seen.
    pub fn touched(&self) -> u64 {
        self.pinned + self.unpinned
    }
}

impl std::ops::AddAssign for FirstTouches {
    fn add_assign(&mut self, other: Self) {
        self.pinned += other.pinned;
        self.unpinned += other.unpinned;
        self.unseen += other.unseen;
        self.bytes += other.bytes;
    }
}

/// Pages of a row as its pages are mapped: a huge page is one.
pub fn pages(row: &PlacedPages) -> u64 {
    bytes(row).div_ceil(row.page_size.max(Page::BYTES))
}

/// Bytes of a row.
pub fn bytes(row: &PlacedPages) -> u64 {
    row.count.saturating_mul(Page::BYTES)
}

/// What tells one placement from another.
type Toucher = (Option<ThreadId>, Option<SiteId>, Option<StackId>, Option<ObjectId>, Placed, Fault, Option<SystemCall>);

fn toucher(row: &PlacedPages) -> Toucher {
    (row.thread, row.site, row.stack, row.object, row.placed, row.fault, row.call)
}

/// The rows that are placements. `migrates`: whether pages can move at all; on a virtual machine they cannot.
pub fn placements(rows: &[PlacedPages], migrates: bool) -> Vec<PlacedPages> {
    let mut ended: FxHashMap<(ProcessId, Bin), Vec<&PlacedPages>> = FxHashMap::default();
    if migrates {
        for row in rows {
            if let Some(bin_to) = row.bin_to {
                ended.entry((row.process, bin_to)).or_default().push(row);
            }
        }
        ended.values_mut().for_each(|runs| runs.sort_by_key(|run| run.page));
    }
    let continues = |row: &PlacedPages| {
        // Somebody was seen to place it, but not now: the page came from elsewhere.
        if row.placed != Placed::Unseen && row.fault == Fault::None {
            return true;
        }
        let runs = ended.get(&(row.process, row.bin_from)).map_or(&[][..], Vec::as_slice);
        let before = runs[..runs.partition_point(|run| run.page <= row.page)].last();
        before.is_some_and(|run| {
            let moved = toucher(run) == toucher(row) && run.home != row.home;
            row.page.0 - run.page.0 < run.count && moved
        })
    };
    let places = |row: &PlacedPages| {
        !(matches!(row.fault, Fault::ZeroPage | Fault::Moved) || row.placed == Placed::Unseen && row.home.is_none())
    };
    rows.iter().filter(|row| places(row) && !continues(row)).cloned().collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use numalens_profile::ids::Page;
    use numalens_topology::NodeId;

    pub fn row(page: u64, count: u64, bins: (u32, Option<u32>), placed: Placed, fault: Fault) -> PlacedPages {
        PlacedPages {
            process: ProcessId(0),
            page: Page(page),
            count,
            bin_from: Bin(bins.0),
            bin_to: bins.1.map(Bin),
            home: Some(NodeId(0)),
            page_size: Page::BYTES,
            placed,
            fault,
            call: None,
            thread: None,
            node: None,
            site: None,
            stack: None,
            object: None,
            inferred: false,
        }
    }

    fn touches(rows: Vec<PlacedPages>) -> FirstTouches {
        let mut sum = FirstTouches::default();
        placements(&rows, true).iter().for_each(|row| sum.add(row));
        sum
    }

    #[test]
    fn a_migration_is_not_a_second_placement() {
        let rows = vec![
            row(100, 10, (0, Some(5)), Placed::Unpinned, Fault::Anonymous),
            row(104, 6, (5, None), Placed::Pinned, Fault::None),
            row(100, 4, (5, None), Placed::Unpinned, Fault::None),
        ];
        assert_eq!(touches(rows), FirstTouches { pinned: 0, unpinned: 10, unseen: 0, bytes: 40960 });
    }

    #[test]
    fn a_migration_repeats_the_first_touch_and_does_not_count_it_again() {
        let toucher = |page| PlacedPages { thread: Some(ThreadId(1)), site: Some(SiteId(2)), ..page };
        let first = toucher(row(100, 10, (0, Some(5)), Placed::Pinned, Fault::Anonymous));
        let moved =
            PlacedPages { home: Some(NodeId(1)), ..toucher(row(102, 8, (5, None), Placed::Pinned, Fault::Anonymous)) };
        assert_eq!(touches(vec![first.clone(), moved.clone()]).pinned, 10);
        assert_eq!(placements(&[first.clone(), moved.clone()], false).len(), 2, "nothing migrates");
        let another = PlacedPages { site: Some(SiteId(9)), ..moved };
        assert_eq!(touches(vec![first, another]).pinned, 18);
    }

    #[test]
    fn a_page_mapped_anew_is_placed_anew() {
        let rows = vec![
            row(1, 1, (0, Some(5)), Placed::Pinned, Fault::Anonymous),
            row(1, 1, (5, None), Placed::Pinned, Fault::Anonymous),
        ];
        assert_eq!(touches(rows).pinned, 2);
    }

    #[test]
    fn the_zero_page_and_pages_nowhere_are_no_placements() {
        let nowhere = PlacedPages { home: None, ..row(9, 1, (0, None), Placed::Unseen, Fault::None) };
        let rows = vec![
            row(1, 3, (0, None), Placed::Unpinned, Fault::ZeroPage),
            nowhere,
            row(20, 2, (0, None), Placed::Unseen, Fault::None),
        ];
        assert_eq!(touches(rows), FirstTouches { unseen: 2, bytes: 8192, ..Default::default() });
    }

    #[test]
    fn a_page_that_comes_to_another_object_was_placed_before() {
        let rows = vec![
            row(1, 1, (0, Some(5)), Placed::Pinned, Fault::Anonymous),
            row(90, 1, (5, None), Placed::Pinned, Fault::Moved),
            row(91, 1, (5, None), Placed::Unseen, Fault::Moved),
        ];
        assert_eq!(touches(rows).total(), 1);
    }

    #[test]
    fn a_huge_page_is_one() {
        let huge = PlacedPages { page_size: 2 << 20, ..row(512, 1024, (0, None), Placed::Pinned, Fault::Anonymous) };
        assert_eq!(touches(vec![huge]), FirstTouches { pinned: 2, bytes: 4 << 20, ..Default::default() });
    }
}
