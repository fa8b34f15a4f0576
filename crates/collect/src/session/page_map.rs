//! Where every known page of a process lives, and who placed it.
//!
//! A 24 GB program has six million pages, so a page costs seven bytes here: the index of its home node, a reference to
//! the interned description of its first touch, and its share of a bit map. Pages stand in chunks of 512 (2 MiB);
//! chunks are shared between a process and its forked child until one of them changes, as the kernel does it with the
//! pages.
//!
//! ```text
//!   chunk number --> Chunk { home: [u16; 512], touch: [u32; 512], inferred: bits, size }
//!                                                    '--> Touch { thread, site, stack, bin, placed, fault }
//! ```

use super::touches::TouchId;
use numalens_profile::ids::Page;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Pages of a chunk.
pub const CHUNK: u64 = 512;
const NO_HOME: u16 = u16::MAX;
const NO_TOUCH: u32 = u32::MAX;

#[derive(Clone)]
struct Chunk {
    home: [u16; CHUNK as usize],
    touch: [u32; CHUNK as usize],
    inferred: [u64; CHUNK as usize / 64],
    /// The kernel maps the chunk as one 2 MiB page.
    huge: bool,
    /// The batch in which the page size was last asked for; 0: never.
    size_asked: u32,
    /// See [`PageMap::has_holes`].
    had_holes: bool,
}

/// What is known of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageState {
    /// Index of the home in the machine's nodes.
    pub home: Option<u16>,
    pub touch: TouchId,
    pub inferred: bool,
    pub huge: bool,
}

/// The placed pages of one process.
#[derive(Clone, Default)]
pub struct PageMap {
    chunks: BTreeMap<u64, Rc<Chunk>>,
}

impl PageMap {
    fn chunk(&mut self, page: Page) -> &mut Chunk {
        let chunk = self.chunks.entry(page.0 / CHUNK).or_insert_with(|| {
            Rc::new(Chunk {
                home: [NO_HOME; CHUNK as usize],
                touch: [NO_TOUCH; CHUNK as usize],
                inferred: [0; CHUNK as usize / 64],
                huge: false,
                size_asked: 0,
                had_holes: false,
            })
        });
        Rc::make_mut(chunk)
    }

    /// What is known of `page`; `None` if it was not placed, as far as we know.
    pub fn get(&self, page: Page) -> Option<PageState> {
        let chunk = self.chunks.get(&(page.0 / CHUNK))?;
        chunk.state((page.0 % CHUNK) as usize)
    }

    /// Records that `page` was placed.
    pub fn place(&mut self, page: Page, touch: TouchId, home: Option<u16>, inferred: bool) {
        let chunk = self.chunk(page);
        let at = (page.0 % CHUNK) as usize;
        chunk.touch[at] = touch.number();
        chunk.home[at] = home.unwrap_or(NO_HOME);
        chunk.mark_inferred(at, inferred);
    }

    /// Records that all of the 2 MiB around `page` was placed by one touch.
    pub fn place_huge(&mut self, page: Page, touch: TouchId, home: Option<u16>, inferred: bool) {
        let chunk = self.chunk(page);
        chunk.home = [home.unwrap_or(NO_HOME); CHUNK as usize];
        chunk.touch = [touch.number(); CHUNK as usize];
        chunk.inferred = [if inferred { u64::MAX } else { 0 }; CHUNK as usize / 64];
        (chunk.huge, chunk.had_holes) = (true, false);
    }

    /// Records that `page` was placed, or all of the 2 MiB around it.
    pub fn put(&mut self, page: Page, touch: TouchId, home: Option<u16>, inferred: bool, huge: bool) {
        if huge {
            self.place_huge(page, touch, home, inferred);
        } else {
            self.place(page, touch, home, inferred);
        }
    }

    /// Sets the home of a page that was placed before; of all its 2 MiB if they are one page.
    pub fn set_home(&mut self, page: Page, home: Option<u16>, inferred: bool) {
        let chunk = self.chunk(page);
        let at = (page.0 % CHUNK) as usize;
        if chunk.huge {
            chunk.home = [home.unwrap_or(NO_HOME); CHUNK as usize];
            chunk.inferred = [if inferred { u64::MAX } else { 0 }; CHUNK as usize / 64];
        } else {
            chunk.home[at] = home.unwrap_or(NO_HOME);
            chunk.mark_inferred(at, inferred);
        }
    }

    /// Whether the page size around `page` has to be asked for, and notes that batch number `batch` (from 1) does so:
    /// when a page of the chunk is placed for the first time, and, once a batch, when one is placed `again`.
    pub fn ask_size(&mut self, page: Page, again: bool, batch: u32) -> bool {
        let chunk = self.chunk(page);
        let ask = chunk.size_asked == 0 || (again && chunk.size_asked != batch);
        if ask {
            chunk.size_asked = batch;
            chunk.huge = false;
        }
        ask
    }

    /// Whether the 2 MiB around `page` are known as one page.
    pub fn is_in_huge(&self, page: Page) -> bool {
        self.chunks.get(&(page.0 / CHUNK)).is_some_and(|chunk| chunk.huge)
    }

    /// Whether there are no pages at some places around `page`, as `ask` says; once it has been so, they are taken to
    /// come one by one.
    pub fn has_holes(&mut self, page: Page, ask: impl FnOnce() -> bool) -> bool {
        let chunk = self.chunk(page);
        chunk.had_holes = chunk.had_holes || ask();
        chunk.had_holes
    }

    /// Forgets the pages in `first..end` and returns them as runs.
    pub fn forget(&mut self, first: Page, end: Page) -> Vec<Run> {
        self.forget_where(first, end, |_| true)
    }

    /// Forgets those of the pages in `first..end` that `is_meant`, and returns them as runs.
    pub fn forget_where(&mut self, first: Page, end: Page, is_meant: impl Fn(&PageState) -> bool) -> Vec<Run> {
        let mut gone = Runs::default();
        // What programs and their agents say may be anything.
        if first >= end {
            return gone.runs;
        }
        let chunks: Vec<u64> =
            self.chunks.range(first.0 / CHUNK..=end.0.saturating_sub(1) / CHUNK).map(|(&number, _)| number).collect();
        for number in chunks {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            let base = number * CHUNK;
            let from = first.0.max(base) - base;
            let to = (end.0.min(base + CHUNK)).saturating_sub(base);
            let known = (from..to).filter_map(|at| Some((at, chunk.state(at as usize)?)));
            let (meant, kept): (Vec<_>, Vec<_>) = known.partition(|(_, state)| is_meant(state));
            meant.iter().for_each(|&(at, state)| gone.add(Page(base + at), state));
            if (from, to) == (0, CHUNK) && kept.is_empty() {
                self.chunks.remove(&number);
            } else if to > from && (kept.is_empty() || !meant.is_empty()) {
                let chunk = Rc::make_mut(chunk);
                for (at, _) in meant {
                    chunk.touch[at as usize] = NO_TOUCH;
                    chunk.home[at as usize] = NO_HOME;
                }
                chunk.size_asked = 0;
                chunk.had_holes |= chunk.huge;
                chunk.huge = false;
            }
        }
        gone.runs
    }

    /// All placed pages as runs of equal neighbours, by address.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Runs::default();
        for (&number, chunk) in &self.chunks {
            for at in 0..CHUNK {
                if let Some(state) = chunk.state(at as usize) {
                    runs.add(Page(number * CHUNK + at), state);
                }
            }
        }
        runs.runs
    }

    /// The placed pages from `start` on, at most `limit`, and where to go on (`None`: reached the end).
    pub fn some_pages(&self, start: Page, limit: usize) -> (Vec<Page>, Option<Page>) {
        let mut pages = Vec::new();
        for (&number, chunk) in self.chunks.range(start.0 / CHUNK..) {
            if pages.len() >= limit {
                return (pages, Some(Page(number * CHUNK)));
            }
            let step = if chunk.huge { CHUNK } else { 1 };
            pages.extend(
                (0..CHUNK)
                    .step_by(step as usize)
                    .filter(|&at| chunk.touch[at as usize] != NO_TOUCH)
                    .map(|at| Page(number * CHUNK + at)),
            );
        }
        (pages, None)
    }
}

impl Chunk {
    fn state(&self, at: usize) -> Option<PageState> {
        (self.touch[at] != NO_TOUCH).then(|| PageState {
            home: (self.home[at] != NO_HOME).then_some(self.home[at]),
            touch: TouchId::of(self.touch[at]),
            inferred: self.inferred[at / 64] >> (at % 64) & 1 != 0,
            huge: self.huge,
        })
    }

    fn mark_inferred(&mut self, at: usize, inferred: bool) {
        let bit = 1 << (at % 64);
        if inferred {
            self.inferred[at / 64] |= bit;
        } else {
            self.inferred[at / 64] &= !bit;
        }
    }
}

/// Neighbouring pages in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub page: Page,
    pub count: u64,
    pub state: PageState,
}

#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
}

impl Runs {
    fn add(&mut self, page: Page, state: PageState) {
        match self.runs.last_mut() {
            Some(run) if run.page.0 + run.count == page.0 && run.state == state => run.count += 1,
            _ => self.runs.push(Run { page, count: 1, state }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::touches::{Touch, Touches};
    use super::*;
    use numalens_profile::ids::{Bin, ProcessId, SiteId, ThreadId};
    use numalens_profile::words::Fault;

    fn touch(touches: &mut Touches, thread: u32) -> TouchId {
        let fault = Fault::Anonymous;
        touches.intern(Touch::first(ProcessId(0), ThreadId(thread), None, SiteId(0), None, Bin(5), true, fault, None))
    }

    #[test]
    fn neighbours_placed_alike_are_one_run_across_chunks() {
        let (mut touches, mut pages) = (Touches::default(), PageMap::default());
        let one = touch(&mut touches, 1);
        for page in 500..530 {
            pages.place(Page(page), one, Some(2), false);
        }
        let runs = pages.runs();
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].page, runs[0].count), (Page(500), 30));
    }

    #[test]
    fn an_empty_range_has_nothing_to_forget() {
        let (mut touches, mut pages) = (Touches::default(), PageMap::default());
        let one = touch(&mut touches, 1);
        pages.place(Page(511), one, Some(0), false);
        pages.place(Page(512), one, Some(0), false);
        // At the bound of 2 MiB, and as no agent says it.
        for (first, end) in [(512, 512), (0, 0), (4096, 512)] {
            assert!(pages.forget(Page(first), Page(end)).is_empty(), "{first} to {end}");
        }
        assert_eq!(pages.runs()[0].count, 2);
    }

    #[test]
    fn a_forked_copy_keeps_its_pages_when_the_parent_forgets_them() {
        let (mut touches, mut parent) = (Touches::default(), PageMap::default());
        let one = touch(&mut touches, 1);
        parent.place(Page(1), one, Some(0), false);
        let child = parent.clone();
        let gone = parent.forget(Page(0), Page(CHUNK));
        assert_eq!(gone.len(), 1);
        assert_eq!(parent.get(Page(1)), None);
        assert_eq!(child.get(Page(1)).map(|state| state.home), Some(Some(0)));
    }

    #[test]
    fn a_huge_page_moves_as_a_whole() {
        let (mut touches, mut pages) = (Touches::default(), PageMap::default());
        let one = touch(&mut touches, 1);
        pages.place_huge(Page(CHUNK + 7), one, Some(0), false);
        pages.set_home(Page(CHUNK), Some(1), false);
        let runs = pages.runs();
        assert_eq!((runs.len(), runs[0].count, runs[0].state.home), (1, CHUNK, Some(1)));
        assert_eq!(pages.some_pages(Page(0), 10).0.len(), 1);
    }

    #[test]
    fn partly_forgotten_chunks_keep_the_rest() {
        let (mut touches, mut pages) = (Touches::default(), PageMap::default());
        let one = touch(&mut touches, 1);
        for page in 0..10 {
            pages.place(Page(page), one, None, true);
        }
        assert_eq!(pages.forget(Page(3), Page(5)).iter().map(|run| run.count).sum::<u64>(), 2);
        assert_eq!(pages.runs().iter().map(|run| run.count).collect::<Vec<_>>(), [3, 5]);
    }
}
