//! Which nodes use the pages of an object: each page the threads of one, or all of them.
//!
//! Problem: pages that share their counters look alike afterwards. Where threads have the pages of an object in turn,
//! 64 KiB each, a region of neighbours seems to be used by all nodes, and what helps would be another remedy.
//!
//! Mechanism: the counts of a few pages are drawn. How often are two accesses to one page by one node, and how often
//! two accesses to one chunk? Where the former is clearly more, the object's pages are *divided*: those that have one
//! main node share counters, and others do not share with them.
//!
//! ```text
//!   numbers   . . 8 9 10 11 . . . .  | . . . . . 180 181 182 183 . . .     four of each 128 are drawn
//! ```
//! Which four is random: threads that have pages in turn do so with a period, often a power of two.
//! Counts that are pending in last pages and direct tables are not among them: each page that is left has its own.

use super::directory::Directory;
use super::file::{OfAtomics, SessionFile};
use super::totals::flat_counts;
use numalens_event::exact::{self, Extent, PageCounts};
use numalens_profile::ids::ObjectId;
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// So many pages side by side are drawn, a cache line of counters, of so many.
const DRAWN: u32 = 4;
const OF: u32 = 128;
/// Pairs of accesses that say something, and by how much more often they must be by one node.
const LEAST_PAIRS: u64 = 1000;
const MORE: f64 = 0.1;
/// A page has been used so much that its main node is known, which makes so much of its accesses.
const KNOWN: u64 = 8;
const MAIN: f64 = 2.0 / 3.0;

/// The threads of a process with the nodes that they are bound to; 0 stands for none.
pub struct PageUsers<'a> {
    file: &'a SessionFile,
    threads: Vec<(Extent, usize)>,
    nodes: usize,
}

/// Counts of drawn pages by node, of one page behind the other.
pub struct DrawnCounts {
    counts: Vec<u64>,
    nodes: usize,
}

/// Who uses a page, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MainUser {
    /// Hardly anybody yet.
    Unknown,
    /// Mostly the threads of one node.
    Node(usize),
    Several,
}

impl<'a> PageUsers<'a> {
    /// Of a process, as far as its threads have not ended.
    pub fn of(file: &'a SessionFile, directory: &Directory, extent: Extent) -> Self {
        let threads = directory.threads_of(extent).filter(|(_, thread)| !thread.ended);
        let threads: Vec<_> =
            threads.map(|(at, thread)| (at, thread.node.map_or(0, |node| usize::from(node) + 1))).collect();
        let nodes = threads.iter().map(|(_, node)| node + 1).max().unwrap_or(0);
        PageUsers { file, threads, nodes }
    }

    /// Draws counts of pages whose numbers are below `end`.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn draw(&self, end: u32) -> io::Result<DrawnCounts> {
        let places = (end / OF + 1) * DRAWN;
        let mut drawn = DrawnCounts { counts: vec![0; places as usize * self.nodes], nodes: self.nodes };
        for &(thread, node) in &self.threads {
            let both = |counts: &PageCounts| counts.reads.load(Relaxed).wrapping_add(counts.writes.load(Relaxed));
            self.draw_of(thread, exact::thread::PAGES, end, both, |number, count| drawn.add(number, node, count))?;
            let updates = |count: &AtomicU64| count.load(Relaxed).wrapping_mul(2);
            self.draw_of(thread, exact::thread::UPDATES, end, updates, |number, count| drawn.add(number, node, count))?;
        }
        Ok(drawn)
    }

    /// Draws of one table of a thread.
    fn draw_of<T: OfAtomics>(
        &self,
        thread: Extent,
        table: u64,
        end: u32,
        count: impl Fn(&T) -> u64,
        mut add: impl FnMut(u32, u64),
    ) -> io::Result<()> {
        let size = size_of::<T>() as u64;
        for part in self.file.written(thread, table, u64::from(end) * size) {
            let map = self.file.extent(thread, part.start, (part.end - part.start) as usize)?;
            let all = map.words::<T>(0, map.len() / size as usize);
            let first = ((part.start - table) / size) as u32;
            let groups = (first / OF * OF..first + all.len() as u32).step_by(OF as usize);
            for number in groups.flat_map(|group| drawn_of(group / OF)) {
                let counts = number.checked_sub(first).and_then(|at| all.get(at as usize));
                if let Some(count) = counts.map(&count).filter(|&count| count != 0) {
                    add(number, count);
                }
            }
        }
        Ok(())
    }

    /// Who uses pages, by their numbers, in this order.
    ///
    /// # Errors
    /// The session file cannot be read.
    pub fn main_users(&self, numbers: &[u32]) -> io::Result<Vec<MainUser>> {
        let places: FxHashMap<u32, usize> = numbers.iter().copied().zip(0..).collect();
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let mut counts = vec![0u64; numbers.len() * self.nodes];
        for run in sorted.chunk_by(|one, next| one + 1 == *next) {
            let range = run[0]..run[run.len() - 1] + 1;
            for &(thread, node) in &self.threads {
                for (number, [reads, writes]) in flat_counts(self.file, thread, &range)? {
                    let count = &mut counts[places[&number] * self.nodes + node];
                    *count = count.saturating_add(reads).saturating_add(writes);
                }
            }
        }
        Ok(counts.chunks(self.nodes.max(1)).map(MainUser::by).collect())
    }
}

impl MainUser {
    /// Of a page with these counts by node.
    fn by(counts: &[u64]) -> Self {
        let sum: u64 = counts.iter().sum();
        let (node, most) = counts.iter().copied().enumerate().max_by_key(|&(_, count)| count).unwrap_or((0, 0));
        match sum {
            ..KNOWN => MainUser::Unknown,
            _ if most as f64 >= sum as f64 * MAIN => MainUser::Node(node),
            _ => MainUser::Several,
        }
    }
}

impl DrawnCounts {
    fn add(&mut self, number: u32, node: usize, count: u64) {
        let at = Self::place(number) * self.nodes + node;
        self.counts[at] = self.counts[at].saturating_add(count);
    }

    /// Of a number that is drawn.
    fn place(number: u32) -> usize {
        (number / OF * DRAWN + number % DRAWN) as usize
    }

    /// The counts of a page, if it is drawn.
    fn of(&self, number: u32) -> Option<&[u64]> {
        let at = Self::place(number) * self.nodes;
        drawn_of(number / OF).contains(&number).then(|| self.counts.get(at..at + self.nodes)).flatten()
    }
}

/// Which numbers of a group are drawn: always the same.
fn drawn_of(group: u32) -> Range<u32> {
    const GOLDEN: u32 = 0x9e37_79b9;
    let line = group.wrapping_mul(GOLDEN) >> (32 - (OF / DRAWN).ilog2());
    let first = group * OF + line * DRAWN;
    first..first + DRAWN
}

/// How often two accesses are by one node.
#[derive(Clone, Copy, Default, Debug)]
struct Pairs {
    by_one: f64,
    all: f64,
}

impl Pairs {
    fn add(&mut self, counts: &[u64]) {
        let pairs = |count: u64| count as f64 * count.saturating_sub(1) as f64;
        self.by_one += counts.iter().map(|&count| pairs(count)).sum::<f64>();
        self.all += pairs(counts.iter().sum());
    }

    fn share(self) -> f64 {
        self.by_one / self.all.max(1.0)
    }
}

/// Which objects have pages that are divided among nodes.
#[derive(Default)]
pub struct Division {
    /// Of each object: pairs of accesses to one page, and to one chunk.
    objects: FxHashMap<ObjectId, [Pairs; 2]>,
}

impl Division {
    /// Adds pages of a chunk, by their objects and numbers.
    pub fn add_chunk(&mut self, drawn: &DrawnCounts, pages: impl Iterator<Item = (ObjectId, u32)>) {
        let mut chunk: FxHashMap<ObjectId, Vec<u64>> = FxHashMap::default();
        for (object, number) in pages {
            let Some(counts) = drawn.of(number) else { continue };
            self.objects.entry(object).or_default()[0].add(counts);
            let all = chunk.entry(object).or_insert_with(|| vec![0; counts.len()]);
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        for (object, counts) in chunk {
            self.objects.entry(object).or_default()[1].add(&counts);
        }
    }

    /// Whether those of an object are; none: too little was drawn to tell.
    pub fn is_divided(&self, object: ObjectId) -> Option<bool> {
        let [page, chunk] = self.objects.get(&object)?;
        (page.all >= LEAST_PAIRS as f64).then(|| page.share() > chunk.share() + MORE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of the pages of a chunk, by two nodes.
    fn drawn(of_page: impl Fn(u32) -> [u64; 2]) -> DrawnCounts {
        let mut drawn = DrawnCounts { counts: vec![0; 2 * 16], nodes: 2 };
        for number in (0..512 / OF).flat_map(drawn_of) {
            (0..2).for_each(|node| drawn.add(number, node, of_page(number)[node]));
        }
        drawn
    }

    fn is_divided(of_page: impl Fn(u32) -> [u64; 2]) -> Option<bool> {
        let mut division = Division::default();
        division.add_chunk(&drawn(of_page), (0..512).map(|number| (ObjectId(7), number)));
        assert_eq!(division.is_divided(ObjectId(8)), None);
        division.is_divided(ObjectId(7))
    }

    #[test]
    fn pages_that_nodes_have_in_turn_are_divided() {
        assert_eq!(is_divided(|number| if number / 16 % 8 < 4 { [100, 1] } else { [0, 100] }), Some(true));
        assert_eq!(is_divided(|number| if number / OF % 4 < 2 { [100, 1] } else { [0, 100] }), Some(true));
        assert_eq!(is_divided(|number| if number % 4 < 2 { [100, 0] } else { [0, 100] }), Some(true));
        assert_eq!(is_divided(|_| [50, 50]), Some(false), "all use each");
        assert_eq!(is_divided(|_| [100, 0]), Some(false), "one has all");
        assert_eq!(is_divided(|number| if number % 4 < 2 { [1, 0] } else { [0, 1] }), None, "hardly used");
    }

    #[test]
    fn a_page_has_a_main_user_once_it_is_used() {
        let users = [[7, 0], [8, 0], [6, 3], [5, 4]].map(|counts| MainUser::by(&counts));
        assert_eq!(users, [MainUser::Unknown, MainUser::Node(0), MainUser::Node(0), MainUser::Several]);
    }
}
