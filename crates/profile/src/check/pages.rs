//! Placed pages: rectangles of page numbers and time bins that must not overlap.

use super::{Checked, Failures, Found, each_row};
use crate::ids::*;
use crate::tables::PlacedPages;
use std::collections::BTreeMap;

pub(super) fn sizes(checked: &Checked<'_>) -> Found {
    let found = each_row(checked.profile, &["page", "count", "page_size"], &|row: &PlacedPages| {
        let page = row.page.0;
        if row.count == 0 {
            return Some(format!("the run at page {page:#x} has no pages"));
        }
        if page.checked_add(row.count).is_none() {
            return Some(format!("{} pages from page {page:#x} on leave the address space", row.count));
        }
        (row.page_size < Page::BYTES || !row.page_size.is_power_of_two())
            .then(|| format!("page {page:#x} has size {}", row.page_size))
    })?;
    Ok(found.into_iter().collect())
}

/// What happens to a run of pages at the start of a bin; within one bin, runs end before others begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    Begin,
}

/// Sweeps over the bins of each process with the runs in force as a map from first page to end: a new run may only
/// touch the run before it and the run behind it.
pub(super) fn overlaps(checked: &Checked<'_>) -> Found {
    let columns = ["process", "page", "count", "bin_from", "bin_to"];
    let collect = |events: &mut Vec<(ProcessId, Bin, Event, u64, u64)>, row: PlacedPages| {
        let (to, end) = (row.bin_to.unwrap_or(Bin(u32::MAX)), row.page.0.saturating_add(row.count));
        // Empty ones cover nothing; backward ones are another invariant's affair.
        if row.count > 0 && row.bin_from < to {
            events.push((row.process, row.bin_from, Event::Begin, row.page.0, end));
            events.push((row.process, to, Event::End, row.page.0, end));
        }
    };
    let mut events = checked.profile.fold(&columns, Vec::new, collect, |mut left, mut right| {
        left.append(&mut right);
        left
    })?;
    events.sort_unstable();
    let (mut failures, mut runs, mut current) = (Failures::default(), BTreeMap::<u64, u64>::new(), None);
    for (process, bin, event, first, end) in events {
        if current != Some(process) {
            runs.clear();
            current = Some(process);
        }
        if event == Event::End {
            // Only its own entry: a run that overlapped another of the same start was not entered.
            if runs.get(&first) == Some(&end) {
                runs.remove(&first);
            }
            continue;
        }
        let overlapped = runs.range(..end).next_back().filter(|&(_, &other_end)| other_end > first);
        if let Some((&other, &other_end)) = overlapped {
            failures.add(Some(format!("in bin {bin} process {process} has two homes for page {:#x}: runs {other:#x} to {other_end:#x} and {first:#x} to {end:#x}", other.max(first))));
        } else {
            runs.insert(first, end);
        }
    }
    Ok(failures.found(PlacedPages::TABLE).into_iter().collect())
}
