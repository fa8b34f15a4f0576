//! The pages of all processes: which touch has placed each, and when that came to an end.

mod closed;
mod huge;
mod placed;
mod segments;

use super::page_map::{CHUNK, PageState, Run};
use super::process::LiveProcess;
use super::touches::{Touch, Touches};
use crate::homes::kernel_balances;
use closed::ClosedPages;
pub use huge::is_huge;
use numalens_profile::ids::{Bin, Page, ProcessId};
use numalens_profile::tables;
use numalens_profile::words::Fault;
use numalens_topology::{Machine, NodeId};
use segments::Segments;
use std::ops::Range;

/// What is known of pages beside the map that each process has of its own.
pub struct Pages {
    /// Homes by their indices.
    nodes: Vec<NodeId>,
    pub touches: Touches,
    /// Those of memory that several processes have mapped.
    pub segments: Segments,
    pub closed: ClosedPages,
    /// The kernel moves them to where they are used.
    pub balancing: bool,
    /// Those of adopted processes that are on no node of the virtual machine.
    pub from_before: u64,
    /// Those whose home was inferred because they were gone before it could be asked for.
    pub inferred_homes: u64,
    /// Those that the kernel moved to another node while we watched.
    pub migrated: u64,
}

impl Pages {
    /// None yet, on a machine.
    pub fn new(machine: &Machine) -> Self {
        Pages {
            nodes: machine.nodes.iter().map(|node| node.id).collect(),
            touches: Touches::default(),
            segments: Segments::default(),
            closed: ClosedPages::default(),
            balancing: !machine.is_virtual && kernel_balances(),
            from_before: 0,
            inferred_homes: 0,
            migrated: 0,
        }
    }

    /// Bins became wider by 2 to the power of `halvings`.
    pub fn coarsen(&mut self, halvings: u32) {
        if halvings > 0 {
            self.touches.coarsen(halvings);
            self.closed.coarsen(halvings);
        }
    }

    /// The memory of a process is no more: `end` is the bin in which another program took the process over; none when
    /// the process itself ended.
    pub fn close(&mut self, process: &mut LiveProcess, end: Option<Bin>) {
        let runs = std::mem::take(&mut process.pages).runs();
        self.close_runs(process.id, &runs, end);
    }

    /// Pages of a process have gone. Returns what they were.
    pub fn gone(&mut self, process: &mut LiveProcess, first: Page, end: Page, bin: Bin) -> Vec<Run> {
        let gone = process.pages.forget(first, end);
        self.close_runs(process.id, &gone, Some(bin));
        gone
    }

    /// Something else was mapped in `bin` where pages were: those have gone that another process
    /// placed, or this one in an earlier bin.
    pub fn made_room(&mut self, process: &mut LiveProcess, mapped: Range<Page>, bin: Bin) {
        let (id, touches) = (process.id, &self.touches);
        let is_older = |state: &PageState| {
            let touch = touches.get(state.touch);
            touch.process != id || touch.bin < bin
        };
        let gone = process.pages.forget_where(mapped.start, mapped.end, is_older);
        self.close_runs(id, &gone, Some(bin));
    }

    /// Pages of a process have gone, or live elsewhere: their periods end, in the bin `end` if the process goes on.
    pub fn close_runs(&mut self, process: ProcessId, runs: &[Run], end: Option<Bin>) {
        for run in runs {
            let touch = self.touches.get(run.state.touch);
            // What a forked child inherited was placed by its parent, and stands in the parent's rows.
            if touch.process == process {
                let row = self.row(run, touch, end);
                self.closed.add(row);
            }
        }
    }

    fn row(&self, run: &Run, touch: Touch, end: Option<Bin>) -> tables::PlacedPages {
        tables::PlacedPages {
            process: touch.process,
            page: run.page,
            count: run.count,
            bin_from: touch.bin,
            // Exclusive: a page that came and went within a bin has an empty range.
            bin_to: end,
            home: run.state.home.and_then(|index| self.nodes.get(usize::from(index))).copied(),
            page_size: if run.state.huge { 2 << 20 } else { 4 << 10 },
            placed: touch.placed,
            fault: match touch {
                Touch { to_another: true, .. } => Fault::Moved,
                Touch { moved: true, .. } => Fault::None,
                _ => touch.fault,
            },
            call: touch.call,
            thread: touch.thread,
            node: touch.node,
            site: touch.site,
            stack: touch.stack,
            object: touch.object,
            inferred: run.state.inferred,
        }
    }

    /// The rows of the table: periods that have ended, and those of the pages of processes that live.
    pub fn rows<'a>(&self, live: impl Iterator<Item = &'a LiveProcess>) -> Vec<tables::PlacedPages> {
        let mut rows = self.closed.rows.clone();
        for process in live {
            for run in process.pages.runs() {
                let touch = self.touches.get(run.state.touch);
                if touch.process == process.id {
                    rows.push(self.row(&run, touch, None));
                }
            }
        }
        rows.retain(|row| row.fault != Fault::ZeroPage || row.bin_to.is_none());
        rows.sort_by_key(|row| (row.process, row.page, row.bin_from));
        rows
    }

    /// The kernel says that a page of a process lives on the node with index `home` now. If it lived elsewhere, that
    /// period ends in `bin` and a new one begins with the same touch. `since`: the bin since when somebody moves pages
    /// on purpose.
    pub fn found_at(&mut self, process: &mut LiveProcess, page: Page, home: u16, bin: Bin, since: Option<Bin>) {
        let Some(state) = process.pages.get(page) else { return };
        match state.home {
            Some(known) if known == home => {
                if let Some(since) = since {
                    self.found_before_report(process, page, state, since);
                }
                return;
            }
            // What was inferred has to give way to what was seen; so does not knowing.
            None => return process.pages.set_home(page, Some(home), false),
            Some(_) if state.inferred => return process.pages.set_home(page, Some(home), false),
            Some(_) => {}
        }
        let (first, count) = if state.huge { (Page(page.0 / CHUNK * CHUNK), CHUNK) } else { (page, 1) };
        self.migrated += count;
        self.gone(process, first, Page(first.0 + count), bin);
        let mut touch = Touch { bin, moved: true, to_another: false, ..self.touches.get(state.touch) };
        if since.is_some() {
            touch.by_pinned();
        }
        let touch = self.touches.intern(touch);
        process.pages.put(first, touch, Some(home), false, state.huge);
    }

    /// A page that was found elsewhere while the call that moved it still ran: only now is it known to have been one.
    fn found_before_report(&mut self, process: &mut LiveProcess, page: Page, state: PageState, since: Bin) {
        let mut touch = self.touches.get(state.touch);
        if !touch.moved || touch.pinned || touch.bin < since {
            return;
        }
        touch.by_pinned();
        let touch = self.touches.intern(touch);
        process.pages.put(page, touch, state.home, state.inferred, state.huge);
    }
}
