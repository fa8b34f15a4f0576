//! Pages of memory that several processes have mapped: the first of them places a page, the others find it there.

use super::Session;
use super::pages::{CHUNK, PageMap, PageState, Touch, TouchId};
use numalens_profile::ids::Page;
use numalens_profile::words::Placed;
use rustc_hash::FxHashMap;

/// Pages by their place in each such memory.
#[derive(Default)]
pub struct Segments(FxHashMap<u64, PageMap>);

impl Session {
    /// What is known of a page of shared memory, whichever process has placed it.
    pub(super) fn placed_before(&self, pid: i32, page: Page) -> Option<PageState> {
        let address = page.address();
        let (segment, place) = self.live.get(&pid)?.vmas.find(address)?.place_in_segment(address)?;
        self.segments.0.get(&segment)?.get(place)
    }

    /// The touch of a page that was there already, as `touch` found it: not a second placement.
    pub(super) fn found_there(&self, touch: Touch, first: PageState) -> Touch {
        let by = self.touches.get(first.touch);
        let (process, bin, object) = (touch.process, touch.bin, touch.object);
        match by.placed {
            Placed::Unseen => Touch { object, ..Touch::mapped_again(process, bin, by.pinned) },
            _ => Touch { process, bin, object, moved: true, to_another: false, ..by },
        }
    }

    /// A page was placed, which other processes may have mapped, too; `huge`: all around it.
    pub(super) fn note_shared(&mut self, pid: i32, page: Page, touch: TouchId, home: Option<u16>, huge: bool) {
        let Some(live) = self.live.get(&pid) else { return };
        let pages = match huge {
            true => page.0 / CHUNK * CHUNK..(page.0 / CHUNK + 1) * CHUNK,
            false => page.0..page.0 + 1,
        };
        for page in pages.map(Page) {
            let vma = live.vmas.find(page.address());
            let Some((segment, place)) = vma.and_then(|vma| vma.place_in_segment(page.address())) else { return };
            self.segments.0.entry(segment).or_default().place(place, touch, home, false);
        }
    }
}
