//! Pages of memory that several processes have mapped: the first of them places a page, the others find it there.

use crate::session::page_map::{CHUNK, PageMap, PageState};
use crate::session::process::LiveProcess;
use crate::session::touches::TouchId;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;

/// Pages by their place in each such memory.
#[derive(Default)]
pub struct Segments(FxHashMap<u64, PageMap>);

impl Segments {
    /// What is known of a page of shared memory, whichever process has placed it.
    pub fn placed_before(&self, process: &LiveProcess, page: Page) -> Option<PageState> {
        let address = page.address();
        let (segment, place) = process.vmas.find(address)?.place_in_segment(address)?;
        self.0.get(&segment)?.get(place)
    }

    /// A page was placed, which other processes may have mapped, too; `huge`: all around it.
    pub fn note(&mut self, process: &LiveProcess, page: Page, touch: TouchId, home: Option<u16>, huge: bool) {
        let pages = match huge {
            true => page.0 / CHUNK * CHUNK..(page.0 / CHUNK + 1) * CHUNK,
            false => page.0..page.0 + 1,
        };
        for page in pages.map(Page) {
            let vma = process.vmas.find(page.address());
            let Some((segment, place)) = vma.and_then(|vma| vma.place_in_segment(page.address())) else { return };
            self.0.entry(segment).or_default().place(place, touch, home, false);
        }
    }
}
