//! Pages that have gone, or that rest: what is kept of them, and how long.

use super::super::release_memory::GROUP;
use super::*;

impl Process {
    /// A page has one of its own numbers from now on.
    pub(in crate::exact) fn lives(&mut self, page: Page, number: u32) {
        self.resting_pages.remove(&page);
        self.live_pages.insert(page, number);
    }

    /// A block has begun or ended in pages.
    pub(in crate::exact) fn rest(&mut self, pages: Range<Page>) {
        let resting: Vec<Page> = self.live_pages.range(pages).map(|(&page, _)| page).collect();
        for page in resting {
            self.resting_pages.extend(self.live_pages.remove(&page).map(|number| (page, number)));
        }
    }
}

impl Drain {
    /// Gives back what is kept of pages of a process that have gone, and reports what waits for that.
    pub(super) fn give_back(&mut self, file: &SessionFile, session: &mut Session, extent: Extent) -> io::Result<()> {
        let due = self.processes.get_mut(&extent).map(|process| process.releasable.take_due()).unwrap_or_default();
        for pages in due {
            if file.header().lines.load(Relaxed) != 0 {
                self.report_lines(file, session, extent, pages.clone())?;
            }
            let threads = self.threads.iter().filter(|(_, thread)| thread.process == extent && !thread.ended);
            discard_pages(file, extent, threads.map(|&(thread, _)| thread), &pages);
            if let Some(process) = self.processes.get_mut(&extent) {
                // What this poll has found is attributed by the next one.
                process.forgotten.push_back((self.polls + 2, pages));
            }
        }
        if !session.records_every_object() && !self.has_older_counts {
            self.forget_pages(extent);
        }
        Ok(())
    }

    /// Forgets what is known of pages that have gone (who counts by word asks for these in the end), and what threads
    /// had counted of them.
    fn forget_pages(&mut self, extent: Extent) {
        let is_due = |process: &Process| process.forgotten.front().is_some_and(|(poll, _)| *poll <= self.polls);
        if !self.processes.get(&extent).is_some_and(is_due) {
            return;
        }
        let has_children = self.processes.values().any(|process| process.parent == Some(extent));
        let Some(process) = self.processes.get_mut(&extent) else { return };
        let own = process.inherited_pages.max(1);
        let due = process.forgotten.iter().take_while(|(poll, _)| *poll <= self.polls).count();
        for (_, pages) in process.forgotten.drain(..due) {
            for group in pages.clone().step_by(GROUP as usize).map(|first| first..first + GROUP) {
                // Children ask for pages of their parents that have gone long ago, and what is uncertain is reported in
                // the end.
                if !has_children && !group.clone().any(|number| process.bounds.pages.contains_key(&number)) {
                    process.pages.forget(&(group.start - own..group.end - own));
                }
            }
            for (_, thread) in self.threads.iter_mut().filter(|(_, thread)| thread.process == extent) {
                thread.forget_pages(pages.clone());
            }
        }
    }
}
