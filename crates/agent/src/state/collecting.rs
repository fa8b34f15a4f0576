//! What a thread does in collections of garbage: how many objects it processes, by area and home (see
//! `runtimes/ghc.rs`, whose heap this knows).

use crate::state::runtime::runtime;
use crate::sys::{self, PAGE_BITS};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::log;

/// Bits of a pointer that are its tag.
const TAG: u64 = 7;
/// Bytes of a megablock, and of a block.
const MEGABLOCK: u64 = 1 << 20;
const BLOCK: u64 = 1 << 12;
/// A descriptor is so many times smaller than its block, a power of two.
const SMALLER: u32 = 6;
/// Where a descriptor has the number of the generation (16 bits), in the word at this offset.
const GENERATION: u64 = 40;
/// Generations that are told apart.
const MOST_GENERATIONS: u64 = 16;
/// Objects of a thread that wait for the homes of their pages, at most.
const MOST_LATER: usize = 4096;

/// A thread's part in a collection that is under way.
pub struct Part {
    /// Where the return address lies, and what it is.
    pub sp: u64,
    pub back: u64,
    pub begun_ns: u64,
    /// It is the thread that the collection was begun by.
    pub leads: bool,
}

/// What a thread does of collections.
#[derive(Default)]
pub struct Collecting {
    pub part: Option<Part>,
    heap: Range<u64>,
    /// Objects, by area (the static one, then generations) and home (none, then nodes).
    counts: Vec<u64>,
    /// Homes that are told apart.
    homes: usize,
    /// Objects on pages whose homes were not known: page and area.
    later: Vec<(u64, usize)>,
}

impl Collecting {
    /// The thread begins its part, while the heap is there.
    pub fn begin(&mut self, part: Part, heap: Range<u64>) {
        if self.counts.is_empty() {
            self.homes = 1 + runtime().session.placement().nodes.load(Relaxed) as usize;
            self.counts.resize((1 + MOST_GENERATIONS as usize) * self.homes, 0);
        }
        (self.part, self.heap) = (Some(part), heap);
    }

    /// The thread is about to process what a word points to.
    pub fn processes(&mut self, word: u64, home_of: impl Fn(u64) -> Option<u16>) {
        if self.part.is_none() {
            return;
        }
        let object = word & !TAG;
        let area = if self.heap.contains(&object) {
            let descriptor = (object & (MEGABLOCK - 1) & !(BLOCK - 1)) >> SMALLER | object & !(MEGABLOCK - 1);
            if home_of(descriptor >> PAGE_BITS).is_none() && !sys::is_readable(descriptor + GENERATION) {
                return;
            }
            // SAFETY: on a page that was touched or can be read; the thread itself is about to read it.
            let generation = unsafe { ((descriptor + GENERATION) as *const u64).read_volatile() } & 0xffff;
            1 + generation.min(MOST_GENERATIONS - 1) as usize
        } else {
            0
        };
        let page = object >> PAGE_BITS;
        match home_of(page) {
            None if self.later.len() < MOST_LATER => self.later.push((page, area)),
            home => self.add(area, home),
        }
    }

    fn add(&mut self, area: usize, home: Option<u16>) {
        let home = home.map_or(0, |home| 1 + usize::from(home));
        if let Some(count) = self.counts.get_mut(area * self.homes + home.min(self.homes - 1)) {
            *count += 1;
        }
    }

    /// The part of a thread, by its extent and the node that it is on, is over: so into the log with it.
    pub fn end(
        &mut self,
        part: &Part,
        (thread, node): (u32, Option<u16>),
        generation: u32,
        home_of: impl Fn(u64) -> Option<u16>,
    ) {
        for (page, area) in core::mem::take(&mut self.later) {
            self.add(area, home_of(page));
        }
        let node = node.map_or(0, |node| 1 + u64::from(node));
        let mut words = Vec::from([u64::from(thread), node, generation.into(), part.begun_ns, u64::from(part.leads)]);
        for (at, count) in self.counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            words.push(((at / self.homes) as u64) << log::COLLECTED_AREA | (at % self.homes) as u64);
            words.push(core::mem::take(count));
        }
        runtime().process().log(log::COLLECTED, &words, &[]);
    }
}
