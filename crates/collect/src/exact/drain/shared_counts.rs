//! Counts of pages that several objects share: where they are divided, and what is uncertain of that.

use crate::exact::access_sampler::AccessSampler;
use crate::exact::directory::Directory;
use crate::session::{Bound, Session};
use numalens_profile::ids::{ObjectId, Page, ProcessId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What is uncertain of a process's objects, and of pages of which is not known what lies there.
#[derive(Default)]
struct Uncertain {
    objects: FxHashMap<ObjectId, Bound>,
    pages: FxHashMap<Page, Bound>,
}

/// Puts counts of a thread, by its place in the directory, where they are divided.
pub fn gather(directory: &mut Directory, sampler: &AccessSampler, number: usize) {
    let (_, thread) = &mut directory.threads[number];
    let shared = std::mem::take(&mut thread.unattributed.shared);
    let untold = std::mem::take(&mut thread.unattributed.untold);
    let Some(process) = directory.processes.get_mut(&thread.process) else { return };
    for (object, untold) in untold {
        process.shared.add_untold(object, untold);
    }
    for counted in shared {
        process.shared.count(counted, |before, now| sampler.was_drawable(before, now));
    }
}

/// Divides where there are samples enough.
pub fn divide_full(directory: &mut Directory, session: &mut Session) {
    for process in directory.processes.values_mut().filter(|process| process.shared.is_full()) {
        process.shared.divide(session, process.id);
    }
}

/// Divides all, and reports what is uncertain.
pub fn divide_all(directory: &mut Directory, session: &mut Session) {
    session.unbound_objects();
    // A process that executes another program goes on in another extent.
    let mut bounds: BTreeMap<ProcessId, Uncertain> = BTreeMap::new();
    for extent in directory.extents() {
        let Some(process) = directory.processes.get_mut(&extent) else { continue };
        process.shared.divide(session, process.id);
        let Some(process) = directory.process(extent) else { continue };
        let Uncertain { objects, pages } = bounds.entry(process.id).or_default();
        for (&object, &bound) in &process.shared.bounds.objects {
            objects.entry(object).or_default().add(bound);
        }
        let page = |(&number, &bound)| Some((directory.known_page(process, number)?.page, bound));
        for (page, bound) in process.shared.bounds.pages.iter().filter_map(page) {
            pages.entry(page).or_default().add(bound);
        }
    }
    for (process, Uncertain { objects, pages }) in bounds {
        session.bound_objects(process, objects, &pages);
    }
}
