//! Looking up neighbouring pages.

use super::{PlacementTargets, RunId};
use numalens_profile::ids::{Bin, Page, ProcessId};
use numalens_topology::NodeId;

/// Looks up rows of pages one after the other: neighbours are often of one row, or of the next, which is then not
/// looked for again.
#[derive(Default)]
pub struct Cursor(Option<(ProcessId, RunId)>);

impl Cursor {
    /// The row of a page, where there is but one of it at any time.
    #[inline]
    pub fn always(&mut self, targets: &PlacementTargets, process: ProcessId, page: Page) -> Option<RunId> {
        let covers = |id: &RunId| {
            let run = targets.run(*id);
            run.alone && run.page <= page && page.0 - run.page.0 < run.count
        };
        if let Some((_, last)) = self.0.filter(|(of, _)| *of == process) {
            if covers(&last) {
                return Some(last);
            }
            let end = targets.processes.get(&process).map_or(0, |(_, end)| *end);
            if let Some(next) = Some(RunId(last.0 + 1)).filter(|next| next.0 < end).filter(covers) {
                self.0 = Some((process, next));
                return Some(next);
            }
        }
        // Where there is one row, it is the newest whatever the time.
        let Some(found) = targets.own_run_of(process, page, Bin(0), None) else {
            // Not kept: of the pages beside it the process may have placed some itself.
            return targets.run_of(process, page, Bin(0), None).filter(covers);
        };
        self.0 = Some((process, found));
        Some(found).filter(covers)
    }

    /// As [`PlacementTargets::run_of`].
    pub fn run_of(
        &mut self,
        targets: &PlacementTargets,
        process: ProcessId,
        page: Page,
        bin: Bin,
        home: Option<NodeId>,
    ) -> Option<RunId> {
        self.always(targets, process, page).or_else(|| targets.run_of(process, page, bin, home))
    }
}
