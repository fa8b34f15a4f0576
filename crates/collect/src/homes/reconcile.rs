//! Pages that the kernel placed without a fault anybody saw.
//!
//! `read()` into fresh memory, MAP_POPULATE, fault-around of files and pages that were there before the recording began
//! leave no page fault of their own. What is present now, minus what was seen, is what the kernel placed unseen.
//! Zero pages have no home and are not counted; neither is memory that is no page: devices, \[vvar\].

use std::io;

use numalens_profile::ids::Page;
use numalens_topology::NodeId;

use super::{Mapping, PageHome, PageRun, page_map, query_homes};

/// 4 KiB pages in a 2 MiB page.
const PAGES_PER_HUGE: u64 = 512;
/// Pages asked for at a time.
const BATCH: usize = 16_384;

/// Consecutive pages of one mapping on one node that nobody was seen to touch first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnseenRun {
    /// Index in the mappings given.
    pub mapping: usize,
    /// The first page.
    pub start: Page,
    /// How many pages of 4 KiB.
    pub count: u64,
    /// Where they live.
    pub home: NodeId,
    /// Of a file, or shared anonymous memory.
    pub file_or_shared: bool,
    /// Parts of huge pages.
    pub huge: bool,
}

/// Lists the pages of `mappings` that are present in process `pid` and that `seen` does not know, by address.
///
/// A huge page counts as seen when any of its pages is. Costs one scan of the page tables, one call of `seen` a
/// present page, and one query an unseen page (one in 512 for huge ones); memory for the answer only.
///
/// # Errors
/// Those of [`page_map`] and [`query_homes`]: the process is gone, or may not be traced.
pub fn unseen_pages(pid: i32, mappings: &[Mapping], mut seen: impl FnMut(Page) -> bool) -> io::Result<Vec<UnseenRun>> {
    let mut result = Vec::new();
    let mut pending = Pending::default();
    for (index, mapping) in mappings.iter().enumerate() {
        if mapping.path.to_str().is_some_and(|path| path.starts_with("[v")) {
            continue;
        }
        for run in page_map(pid, mapping.start, mapping.end)? {
            if !run.present || run.zero {
                continue;
            }
            let mut page = run.start.0;
            let end = run.start.0 + run.count;
            while page < end {
                let block_end =
                    if run.huge { ((page / PAGES_PER_HUGE + 1) * PAGES_PER_HUGE).min(end) } else { page + 1 };
                if !(page..block_end).any(|page| seen(Page(page))) {
                    pending.pages.push(Page(page));
                    pending.about.push((index, block_end - page, run));
                    if pending.pages.len() == BATCH {
                        pending.resolve(pid, &mut result)?;
                    }
                }
                page = block_end;
            }
        }
    }
    pending.resolve(pid, &mut result)?;
    Ok(result)
}

/// Unseen pages whose homes are still to be asked for.
#[derive(Default)]
struct Pending {
    pages: Vec<Page>,
    /// Mapping, pages that share the answer, the run they are from.
    about: Vec<(usize, u64, PageRun)>,
    homes: Vec<PageHome>,
}

impl Pending {
    fn resolve(&mut self, pid: i32, result: &mut Vec<UnseenRun>) -> io::Result<()> {
        query_homes(pid, &self.pages, &mut self.homes)?;
        for ((&start, &(mapping, count, run)), home) in self.pages.iter().zip(&self.about).zip(&self.homes) {
            let PageHome::Node(home) = *home else {
                continue;
            };
            let unseen = UnseenRun { mapping, start, count, home, file_or_shared: run.file_or_shared, huge: run.huge };
            match result.last_mut() {
                Some(last)
                    if last.start.0 + last.count == start.0
                        && (UnseenRun { start: last.start, count: last.count, ..unseen }) == *last =>
                {
                    last.count += count;
                }
                _ => result.push(unseen),
            }
        }
        self.pages.clear();
        self.about.clear();
        Ok(())
    }
}
