//! From pages and objects to targets.

use super::runs::Run;
use super::{PlacementTarget, PlacementTargets, TargetId};
use crate::facts::ancestry::Ancestry;
use crate::facts::placed;
use crate::facts::policies::Policies;
use crate::model::object_group::Group;
use crate::model::tally;
use numalens_profile::PinningLog;
use numalens_profile::ids::{ObjectId, Page, SiteId, StackId};
use numalens_profile::tables::{Object, PlacedPages, Process};
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;

/// What makes memory one target.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Key {
    Objects(Group),
    Touched(Option<StackId>, Option<SiteId>),
}

/// Which nodes and policies threads were bound to, and when.
pub struct Pinning<'a> {
    pub nodes: &'a PinningLog,
    pub policies: &'a Policies,
}

/// Targets by what makes them one, while they are found.
struct Ids<'a> {
    objects: &'a FxHashMap<ObjectId, Object>,
    of_keys: FxHashMap<Key, TargetId>,
    /// The same by object, as pages are many.
    of_objects: FxHashMap<ObjectId, TargetId>,
}

impl PlacementTargets {
    /// From the rows of the tables; `placed` are those of `pages` that are placements.
    pub fn new(
        pages: &[PlacedPages],
        placed: &[PlacedPages],
        objects: &FxHashMap<ObjectId, Object>,
        pinning: &Pinning<'_>,
        processes: &[Process],
    ) -> PlacementTargets {
        let mut targets = PlacementTargets { ancestry: Ancestry::new(processes), ..PlacementTargets::default() };
        let mut ids = Ids { objects, of_keys: FxHashMap::default(), of_objects: FxHashMap::default() };
        let mut rows: Vec<&PlacedPages> = pages.iter().collect();
        rows.sort_by_key(|row| (row.process, row.page, row.bin_from));
        for row in rows {
            targets.add_run(&mut ids, row, pinning.nodes);
        }
        for row in placed {
            targets.add_placement(&mut ids, row, pinning);
        }
        for target in &mut targets.all {
            let most = target.touchers.iter().max_by_key(|(_, bytes)| **bytes);
            target.maker = most.map(|(toucher, _)| toucher.and_then(|(_, node)| node));
        }
        targets.add_objects(&ids);
        targets
    }

    /// Adds a row of `pages`. They come in the order of processes, pages and time.
    fn add_run(&mut self, ids: &mut Ids<'_>, row: &PlacedPages, pinning: &PinningLog) {
        let target = self.target(ids, row);
        if row.home.is_some() {
            *self.all[target.0 as usize].homes.entry(row.home).or_default() += placed::bytes(row);
        }
        let at = self.runs.len() as u32;
        let (first, end) = self.processes.entry(row.process).or_insert((at, at));
        let before = match self.runs[*first as usize..].last_mut() {
            Some(last) => {
                last.alone &= last.reach <= row.page.0;
                last.reach
            }
            None => 0,
        };
        *end = at + 1;
        self.runs.push(Run {
            page: row.page,
            count: row.count,
            bins: (row.bin_from, row.bin_to),
            home: row.home,
            small_pages: u32::try_from(row.page_size / Page::BYTES).unwrap_or(u32::MAX).max(1),
            thread: row.thread,
            node: row.thread.and_then(|thread| row.node.or_else(|| pinning.at_end_of(thread, row.bin_from))),
            object: row.object,
            placed: row.placed,
            target,
            reach: row.page.0.saturating_add(row.count).max(before),
            alone: before <= row.page.0,
        });
        self.layers.entry(row.process).or_default().add(&self.runs, at);
    }

    /// Adds who placed a row of `pages`, and how.
    fn add_placement(&mut self, ids: &mut Ids<'_>, row: &PlacedPages, pinning: &Pinning<'_>) {
        let id = self.target(ids, row);
        let (target, bytes) = (&mut self.all[id.0 as usize], placed::bytes(row));
        // Who binds itself only when its memory is there works on that where it is bound to.
        let toucher = row.thread.map(|thread| (thread, row.node.or_else(|| pinning.nodes.last(thread))));
        *target.touchers.entry(toucher).or_default() += bytes;
        *target.places.entry((row.stack, row.site)).or_default() += bytes;
        *target.placed.entry(row.placed).or_default() += bytes;
        if let Some(call) = row.call {
            *target.calls.entry(call).or_default() += bytes;
        }
        target.bytes += bytes;
        if let Some(policy) = row.thread.and_then(|thread| pinning.policies.at_end_of(thread, row.bin_from)) {
            *target.policies.entry(policy.clone()).or_default() += bytes;
        }
    }

    /// Adds sizes and examples.
    fn add_objects(&mut self, ids: &Ids<'_>) {
        // In the order of ids, so that equal profiles give equal answers.
        let mut sorted: Vec<&Object> = ids.objects.values().collect();
        sorted.sort_by_key(|object| object.object);
        for object in sorted {
            let Some(id) = ids.of_keys.get(&Key::Objects(Group::of(object))) else { continue };
            let target = &mut self.all[id.0 as usize];
            target.kind = Some(object.kind);
            tally::add(&mut target.size, object.size);
            tally::add(&mut target.count, object.count);
            if target.example.as_ref().is_none_or(|example| example.size < object.size) {
                target.example = Some(object.clone());
            }
        }
    }

    fn target(&mut self, ids: &mut Ids<'_>, row: &PlacedPages) -> TargetId {
        if let Some(known) = row.object.and_then(|object| ids.of_objects.get(&object)) {
            return *known;
        }
        let object = row.object.and_then(|id| ids.objects.get(&id)).filter(|object| object.kind != ObjectKind::Unknown);
        let key = match object {
            Some(object) => Key::Objects(Group::of(object)),
            None => Key::Touched(row.stack, row.site),
        };
        let target = *ids.of_keys.entry(key).or_insert_with(|| {
            self.all.push(PlacementTarget::default());
            TargetId(self.all.len() as u32 - 1)
        });
        if let Some(object) = object {
            ids.of_objects.insert(object.object, target);
        }
        target
    }
}
