//! Where the slow walk over all pages of a process goes on, which looks for those that have moved.

use numalens_profile::ids::Page;

/// What is still to be looked at of a process's pages.
#[derive(Default)]
pub struct PageWalk {
    /// Where it goes on.
    pub from: Page,
    /// Somebody moved pages on purpose, from this time on, in ns since the start of the recording, and no walk has seen
    /// all of them since: what is found elsewhere counts as placed by a pinned thread.
    pub moved_since: Option<u64>,
    /// Pages that the kernel did not have yet when their accesses were reported: they may be huge.
    pub unsized_pages: Vec<Page>,
    /// When what is mapped was last compared with what had been seen, since the start of the recording.
    pub reconciled_ns: u64,
}

impl PageWalk {
    /// Pages were moved on purpose, from `since` on: looks at all of them again.
    pub fn moved_on_purpose(&mut self, since: u64) {
        self.from = Page(0);
        self.moved_since = Some(self.moved_since.map_or(since, |earlier| earlier.min(since)));
    }

    /// It goes on at a page, or has seen all.
    pub fn goes_on(&mut self, next: Option<Page>) {
        self.from = next.unwrap_or(Page(0));
    }
}
