//! Where memory lies and what it holds: pages, the objects on them, and whose the pages are.

use crate::dataset::program::Program;
use crate::dataset::source::Request;
use crate::facts::filter::RowFilter;
use crate::facts::fold::Need;
use crate::facts::placed;
use crate::facts::placement_targets::{Pinning, PlacementTargets};
use crate::facts::policies::Policies;
use numalens_profile::Error;
use numalens_profile::ids::ObjectId;
use numalens_profile::tables::{Object, PageRegion, PlacedPages};
use numalens_topology::Machine;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Pages and objects.
#[derive(Default)]
pub struct Memory {
    pub objects: FxHashMap<ObjectId, Object>,
    /// Every period of every page, for questions about homes.
    pub pages: Vec<PlacedPages>,
    /// Those of them that are placements (see `placed`).
    pub placed: Vec<PlacedPages>,
    pub targets: Arc<PlacementTargets>,
}

/// Whoever needs one of these asks where pages are and whose.
const BY_PAGES: [Need; 6] =
    [Need::Placed, Need::Objects, Need::Pages, Need::PageUse, Need::PageSums, Need::PageUseByTime];
/// Whoever needs one of these has targets.
const OF_TARGETS: [Need; 2] = [Need::PageUse, Need::PageSums];

impl Memory {
    /// What the request asks for, as it is without the filter.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn load(request: &Request<'_>, machine: &Machine, program: &Program) -> Result<Memory, Error> {
        let Request { profile, only, known, .. } = *request;
        let is_asked_for = RowFilter::asks_for_pages(&request.options.filter);
        if !is_asked_for && !Memory::is_of(request.needs) {
            return Ok(Memory::default());
        }
        let pages: Vec<PlacedPages> = only.rows(profile, |row: &PlacedPages| row.process)?;
        let objects: Vec<Object> = only.rows(profile, |row: &Object| row.process)?;
        let objects: FxHashMap<ObjectId, Object> = objects.into_iter().map(|row| (row.object, row)).collect();
        let placed = placed::placements(&pages, !machine.is_virtual);
        let by_page =
            [Need::PageUse, Need::PageSums, Need::PageUseByTime, Need::Pages].into_iter().any(|need| request.has(need));
        let whole = OF_TARGETS.into_iter().find_map(|need| known.whole(need));
        let targets = match (by_page || is_asked_for, whole) {
            (true, Some(whole)) => whole.memory.targets.clone(),
            (true, None) => {
                let policies = Policies::new(&program.placements, profile.meta.bin_ns, machine.is_virtual);
                let pinning = Pinning { nodes: &program.pinning, policies: &policies };
                let regions: Vec<PageRegion> = only.rows(profile, |row: &PageRegion| row.process)?;
                let targets = PlacementTargets::new(&pages, &placed, &objects, &pinning, &program.processes);
                Arc::new(targets.with_regions(&regions))
            }
            (false, _) => Arc::default(),
        };
        Ok(Memory { objects, pages, placed, targets })
    }

    /// Whether any of these is about pages.
    pub fn is_of(needs: &[Need]) -> bool {
        BY_PAGES.into_iter().any(|need| needs.contains(&need))
    }

    /// Has what was read for `needs` from another one of the same part.
    pub fn take(&mut self, more: Memory, needs: &[Need]) {
        if Memory::is_of(needs) {
            (self.pages, self.placed, self.objects) = (more.pages, more.placed, more.objects);
        }
        if OF_TARGETS.into_iter().any(|need| needs.contains(&need)) {
            self.targets = more.targets;
        }
    }
}
