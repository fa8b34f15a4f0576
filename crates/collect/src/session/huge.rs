//! Which pages are huge ones: what the kernel says, and what an exact engine tells of.
//!
//! An agent tells of an access before it happens, and of others that found their pages there:
//!
//! ```text
//! agent:   X is accessed   (fault)                  X+1 was there: it came with X
//! kernel:  nothing yet     512 pages as one         or fewer: a folio of 64 KiB, a `read()`, what is left of a huge one
//! here:    X may be huge   --- asked again --->     is believed unless there are holes around it
//! ```

use super::Session;
use super::counted::{PlacedBy, PlacedPage};
use super::pages::{CHUNK, Touch, TouchId};
use crate::homes::page_map;
use numalens_profile::ids::{Bin, Page};

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
pub(super) fn is_huge(pid: i32, page: Page) -> bool {
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

impl Session {
    /// How a page was placed, by what the kernel says of its size, and whether it is the first that is known of a huge one.
    pub(super) fn sized(&mut self, pid: i32, placed: &PlacedPage) -> (PlacedBy, bool) {
        let (page, by) = (placed.page, placed.by);
        let Some(process) = self.live.get_mut(&pid) else { return (by, false) };
        let is_known = process.pages.is_in_huge(page);
        match by {
            PlacedBy::Access { may_be_huge: true, .. } if !is_known => {
                let found = find(process.pid, page);
                if found == Found::Nothing {
                    process.unsized_pages.push(page);
                }
                (by, found == Found::Huge)
            }
            PlacedBy::Part(leader) if !is_known => {
                let pid = process.pid;
                let has_holes = process.pages.has_holes(page, || find(pid, page) == Found::Some);
                if has_holes { (PlacedBy::Piece(leader), false) } else { (by, true) }
            }
            _ => (by, false),
        }
    }

    /// Asks again about pages that were not there yet when it was told that they are accessed.
    pub fn ask_sizes(&mut self, pid: i32) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        for page in std::mem::take(&mut process.unsized_pages) {
            let Some(process) = self.live.get_mut(&pid).filter(|process| !process.ended) else { return };
            let Some(state) = process.pages.get(page).filter(|state| !state.huge) else { continue };
            match find(process.pid, page) {
                Found::Huge => {
                    self.grow(pid, page, state.touch, (state.home, state.inferred), None);
                }
                Found::Nothing => process.unsized_pages.push(page),
                Found::All | Found::Some => {}
            }
        }
    }

    /// An agent has found that a page with this touch is a part of a huge one.
    pub fn page_is_huge(&mut self, pid: i32, page: Page, touch: TouchId) {
        let state = self.live.get(&pid).and_then(|process| process.pages.get(page));
        if let Some(state) = state.filter(|state| state.touch == touch && !state.huge) {
            self.grow(pid, page, touch, (state.home, state.inferred), None);
        }
    }

    /// A page has gone. What goes of a huge page is told as a range.
    pub fn page_gone(&mut self, pid: i32, page: Page, time_ns: u64) {
        if self.live.get(&pid).is_some_and(|process| !process.pages.is_in_huge(page)) {
            self.pages_gone(pid, page..Page(page.0 + 1), time_ns);
        }
    }

    /// All around a page is one huge page, by the touch `by`. What was known of its pages is a part of it, if they all came by that touch; else the kernel
    /// has put them together since: in the bin `found`, or after the last of them came. Returns the touch of the huge page.
    pub(super) fn grow(
        &mut self,
        pid: i32,
        page: Page,
        by: TouchId,
        home: (Option<u16>, bool),
        found: Option<Bin>,
    ) -> TouchId {
        let first = Page(page.0 / CHUNK * CHUNK);
        let known = self.replaced(pid, first..Page(first.0 + CHUNK));
        let Some(process) = self.live.get(&pid).map(|process| process.id) else { return by };
        let touch = if known.iter().all(|run| run.state.touch == by) {
            by
        } else {
            let last = known.iter().map(|run| self.touches.get(run.state.touch).bin).max();
            let bin = found.or(last).unwrap_or(Bin(0));
            self.close_runs(process, &known, Some(bin));
            self.touches.intern(Touch { bin, ..self.touches.get(by) })
        };
        if let Some(process) = self.live.get_mut(&pid) {
            let (home, inferred) = home;
            process.pages.place_huge(page, touch, home, inferred);
        }
        touch
    }
}
