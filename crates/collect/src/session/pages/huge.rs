//! Which pages are huge ones: what the kernel says, and what an exact engine reports.
//!
//! An agent reports an access before it happens, and of others that found their pages there:
//!
//! ```text
//! agent:   X is accessed   (fault)                X+1 was there: it came with X
//! kernel:  nothing yet     512 pages as one       or fewer: a folio of 64 KiB, a `read()`, the rest of a huge one
//! here:    X may be huge   --- asked again --->   is believed unless there are holes around it
//! ```

use super::Pages;
use crate::homes::page_map;
use crate::session::page_map::{CHUNK, Run};
use crate::session::process::LiveProcess;
use crate::session::touches::{PlacedBy, PlacedPage, Touch, TouchId};
use numalens_profile::ids::{Bin, Page};
use numalens_profile::words::Fault;
use std::ops::Range;

/// What the kernel has at a page that may be huge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// A huge page.
    Huge,
    /// All 512 pages, though it does not say that they are one: kernels before 6.7 may not. Or it cannot be asked.
    All,
    /// This page, and not all around it.
    Some,
    /// No page: not yet, or no more.
    Nothing,
}

/// Whether the kernel maps the 2 MiB around `page` as one page.
pub fn is_huge(pid: i32, page: Page) -> bool {
    find(pid, page) == Found::Huge
}

fn find(pid: i32, page: Page) -> Found {
    let start = page.0 / CHUNK * CHUNK;
    let Ok(runs) = page_map(pid, Page(start).address(), Page(start + CHUNK).address()) else { return Found::All };
    if runs.iter().any(|run| run.huge) {
        Found::Huge
    } else if !runs.iter().any(|run| (run.start.0..run.start.0 + run.count).contains(&page.0)) {
        Found::Nothing
    } else if runs.iter().map(|run| run.count).sum::<u64>() < CHUNK {
        Found::Some
    } else {
        Found::All
    }
}

/// Where a page is: the index of its home, and whether that is inferred.
#[derive(Clone, Copy)]
pub struct At {
    pub home: Option<u16>,
    pub inferred: bool,
}

/// How a page was placed, by what the kernel says of its size, and whether it is the first that is known of a huge one.
pub fn sized(process: &mut LiveProcess, placed: &PlacedPage) -> (PlacedBy, bool) {
    let (page, by, pid) = (placed.page, placed.by, process.pid);
    let is_known = process.pages.is_in_huge(page);
    match by {
        PlacedBy::Access { may_be_huge: true, .. } if !is_known => {
            let found = find(pid, page);
            if found == Found::Nothing {
                process.walk.unsized_pages.push(page);
            }
            (by, found == Found::Huge)
        }
        PlacedBy::Part(leader) if !is_known => {
            let has_holes = process.pages.has_holes(page, || find(pid, page) == Found::Some);
            if has_holes { (PlacedBy::Piece(leader), false) } else { (by, true) }
        }
        _ => (by, false),
    }
}

impl Pages {
    /// Asks again about pages that were not there yet when their accesses were reported.
    pub fn ask_sizes(&mut self, process: &mut LiveProcess) {
        for page in std::mem::take(&mut process.walk.unsized_pages) {
            if process.ended {
                return;
            }
            let Some(state) = process.pages.get(page).filter(|state| !state.huge) else { continue };
            match find(process.pid, page) {
                Found::Huge => {
                    let at = At { home: state.home, inferred: state.inferred };
                    self.grow(process, page, state.touch, at, None);
                }
                Found::Nothing => process.walk.unsized_pages.push(page),
                Found::All | Found::Some => {}
            }
        }
    }

    /// An agent has found that a page with this touch is a part of a huge one.
    pub fn is_huge(&mut self, process: &mut LiveProcess, page: Page, touch: TouchId) {
        if let Some(state) = process.pages.get(page).filter(|state| state.touch == touch && !state.huge) {
            let at = At { home: state.home, inferred: state.inferred };
            self.grow(process, page, touch, at, None);
        }
    }

    /// All around a page is one huge page, by the touch `by`. What was known of its pages is a part of it, if they all
    /// came by that touch; else the kernel has put them together since: in the bin `found`, or after the last of them
    /// came. Returns the touch of the huge page.
    pub fn grow(&mut self, process: &mut LiveProcess, page: Page, by: TouchId, at: At, found: Option<Bin>) -> TouchId {
        let first = Page(page.0 / CHUNK * CHUNK);
        let known = self.replaced(process, first..Page(first.0 + CHUNK));
        let touch = if known.iter().all(|run| run.state.touch == by) {
            by
        } else {
            let last = known.iter().map(|run| self.touches.get(run.state.touch).bin).max();
            let bin = found.or(last).unwrap_or(Bin(0));
            self.close_runs(process.id, &known, Some(bin));
            self.touches.intern(Touch { bin, ..self.touches.get(by) })
        };
        process.pages.place_huge(page, touch, at.home, at.inferred);
        touch
    }

    /// Pages are replaced by others at the same addresses. Returns those whose periods end: not the zero page.
    pub fn replaced(&mut self, process: &mut LiveProcess, pages: Range<Page>) -> Vec<Run> {
        let alone = pages.end.0 - pages.start.0 == 1;
        if alone && process.pages.get(pages.start).is_none_or(|state| state.huge) {
            return Vec::new();
        }
        let mut gone = process.pages.forget(pages.start, pages.end);
        gone.retain(|run| self.touches.get(run.state.touch).fault != Fault::ZeroPage);
        gone
    }
}
