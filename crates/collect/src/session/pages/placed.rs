//! Pages that an engine has found placed, whose homes it knows.

use super::Pages;
use super::huge::{At, sized};
use crate::session::page_map::{CHUNK, Run};
use crate::session::process::LiveProcess;
use crate::session::touches::{PlacedBy, PlacedPage, ToldPlace, Touch, TouchId};
use numalens_profile::ids::{Bin, ObjectId, Page};
use numalens_profile::words::Fault;
use numalens_topology::NodeId;

impl Pages {
    /// A page was placed, in `bin`. Returns the touch that it has from now on, and whether that is the touch of a whole
    /// huge page.
    pub fn placed(&mut self, process: &mut LiveProcess, placed: &PlacedPage, bin: Bin) -> (TouchId, bool) {
        let PlacedPage { page, home, inferred, .. } = *placed;
        let (by, is_huge) = sized(process, placed);
        if let (PlacedBy::Unseen | PlacedBy::Piece(_), Some(state)) = (by, process.pages.get(page))
            && self.touches.get(state.touch).fault != Fault::ZeroPage
        {
            // What is left of a huge page.
            return (state.touch, false);
        }
        self.inferred_homes += u64::from(inferred && home.is_some());
        if let PlacedBy::Part(leader) = by {
            let at = At { home, inferred };
            let touch = if is_huge { self.grow(process, page, leader, at, Some(bin)) } else { leader };
            return (touch, true);
        }
        let first = if is_huge { Page(page.0 / CHUNK * CHUNK) } else { page };
        let gone: Vec<Run> = self.replaced(process, first..Page(first.0 + if is_huge { CHUNK } else { 1 }));
        self.close_runs(process.id, &gone, Some(bin));
        let touch = self.touch_by(by, process, placed, bin);
        let touch = self.touches.intern(touch);
        process.pages.put(page, touch, home, inferred, is_huge);
        (touch, is_huge)
    }

    fn touch_by(&self, by: PlacedBy, process: &LiveProcess, placed: &PlacedPage, bin: Bin) -> Touch {
        let (id, pinned, object) = (process.id, placed.pinned, placed.object);
        match by {
            PlacedBy::Access { thread, node, site, stack, fault, call, .. } => {
                let node = self.node(node);
                Touch { call, ..Touch::first(id, thread, node, site, stack, bin, pinned, fault, object) }
            }
            PlacedBy::Moved(Some(touch)) => Touch { bin, moved: true, to_another: false, ..self.touches.get(touch) },
            PlacedBy::Part(touch) | PlacedBy::Piece(touch) => self.touches.get(touch),
            PlacedBy::Another => Touch { object, ..Touch::mapped_again(id, bin, pinned) },
            PlacedBy::Moved(None) | PlacedBy::Unseen => Touch { object, ..Touch::unseen(id, bin, pinned) },
        }
    }

    /// The node of an index.
    pub fn node(&self, index: Option<u16>) -> Option<NodeId> {
        index.and_then(|index| self.nodes.get(usize::from(index))).copied()
    }

    /// The kernel says where a page is whose home was inferred.
    pub fn found(&mut self, process: &mut LiveProcess, page: Page, home: u16) {
        if process.pages.get(page).is_some_and(|state| state.inferred) {
            process.pages.set_home(page, Some(home), false);
            self.inferred_homes = self.inferred_homes.saturating_sub(1);
        }
    }

    /// A page was touched for an object that was on its way: it has that object's touch from now on.
    pub fn touched_for(
        &mut self,
        process: Option<&mut LiveProcess>,
        page: Page,
        touch: TouchId,
        object: ObjectId,
        told: Option<ToldPlace>,
    ) -> TouchId {
        let state = process.as_ref().and_then(|process| process.pages.get(page));
        // Of a page that has been moved since: that of the period in force.
        let before = self.touches.get(state.map_or(touch, |state| state.touch));
        // Fresh to the object, not fresh: its allocator has brought it along from the block that was there before.
        let to_another = before.moved && before.object != Some(object);
        let ToldPlace { site, stack } = told.unwrap_or(ToldPlace { site: before.site, stack: before.stack });
        let touch = self.touches.intern(Touch { object: Some(object), site, stack, to_another, ..before });
        if let (Some(process), Some(state)) = (process, state) {
            process.pages.put(page, touch, state.home, state.inferred, state.huge);
        }
        touch
    }
}
