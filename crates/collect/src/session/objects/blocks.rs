//! The heap blocks of a process while they live.

use numalens_profile::ids::{ObjectId, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A heap block while it lives.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub end: u64,
    pub object: ObjectId,
    /// The object is this block alone.
    pub own: bool,
    /// Nothing else lies in the pages in which it begins and ends.
    pub whole_pages: bool,
    /// Since the start of the recording.
    pub born_ns: u64,
}

/// Whose a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Nobody's that is known.
    Nobody,
    /// All of it is one object's.
    One(ObjectId),
    /// Several objects lie in it, or part of it is nobody's that is known.
    Several,
}

impl Owner {
    /// Of a page that another object has had as well.
    pub fn and(self, other: Owner) -> Owner {
        match (self, other) {
            (Owner::Nobody, owner) | (owner, Owner::Nobody) => owner,
            (Owner::One(one), Owner::One(another)) if one == another => self,
            _ => Owner::Several,
        }
    }
}

/// The live heap blocks of a process, by address.
#[derive(Clone, Default)]
pub struct Blocks {
    pub by_start: Level,
    /// Those that an allocator of the program's own has carved out of others, or of any memory; behind them those that
    /// were carved out of these, and so on.
    pub declared: Vec<Level>,
    /// Where the C library's allocator has given blocks that are parts of larger memory: arenas of threads are mapped
    /// where nobody sees it.
    arenas: BTreeSet<Arena>,
}

/// A part of the address space in which there are blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arena(u64);

impl Arena {
    /// Bytes: as one grows by at least.
    const BYTES_LOG2: u32 = 17;

    fn of(address: u64) -> Self {
        Arena(address >> Self::BYTES_LOG2)
    }
}

/// Blocks that were declared have so many around them at most: what lies deeper ends what it overlaps.
const MOST_NESTED: usize = 7;

/// Blocks that do not overlap, by where they begin.
pub type Level = BTreeMap<u64, Block>;

/// The block of a level that holds `address`, with its start.
pub fn holder(level: &Level, address: u64) -> Option<(u64, Block)> {
    let (&start, &block) = level.range(..=address).next_back()?;
    (address < block.end).then_some((start, block))
}

/// Whose the page is, as far as the blocks of a level say.
fn owner_in(level: &Level, page: Page) -> Owner {
    let pages = page.addresses();
    let before = holder(level, pages.start).filter(|&(start, _)| start < pages.start);
    let mut inside = level.range(pages.clone()).map(|(&start, &block)| (start, block));
    match (before.or_else(|| inside.next()), inside.next()) {
        (None, _) => Owner::Nobody,
        (Some((start, block)), None) if block.whole_pages || start <= pages.start && block.end >= pages.end => {
            Owner::One(block.object)
        }
        _ => Owner::Several,
    }
}

impl Blocks {
    /// The C library's allocator has given a block that is part of larger memory.
    pub fn note_arena(&mut self, address: u64) {
        self.arenas.insert(Arena::of(address));
    }

    /// Whether it gives blocks out of `memory`, a mapping that nobody has told of: it has given some there; or the
    /// mapping begins as glibc's arenas do (HEAP_MAX_SIZE), of which no block need be known.
    pub fn is_arena(&self, memory: Range<u64>) -> bool {
        const BEGINS_AT: u64 = 64 << 20;
        let has_blocks = || self.arenas.range(Arena::of(memory.start)..=Arena::of(memory.end - 1)).next().is_some();
        !self.arenas.is_empty() && (memory.start.is_multiple_of(BEGINS_AT) || has_blocks())
    }

    /// The innermost level first.
    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.declared.iter().rev().chain([&self.by_start])
    }

    /// The innermost block that holds `address`, with its start.
    pub fn find(&self, address: u64) -> Option<(u64, Block)> {
        self.levels().find_map(|level| holder(level, address))
    }

    /// The block that holds `address`, whatever was carved out of it, with its start.
    pub fn outer(&self, address: u64) -> Option<(u64, Block)> {
        holder(&self.by_start, address)
    }

    /// The innermost block that begins at `address`.
    pub fn at(&self, address: u64) -> Option<Block> {
        self.levels().find_map(|level| level.get(&address)).copied()
    }

    /// The pages of the block that begins at `address`, and of those around it that begin there too.
    pub fn pages_at(&self, address: u64) -> Option<Range<Page>> {
        let ends = self.levels().filter_map(|level| Some(level.get(&address)?.end));
        Some(Page::of(address)..Page::behind(ends.max()?))
    }

    /// Whose the blocks on a page are, each object once.
    pub fn objects_on(&self, page: Page) -> Vec<ObjectId> {
        let range = page.addresses();
        let mut objects: Vec<ObjectId> = Vec::new();
        for level in self.levels() {
            let before = holder(level, range.start).map(|(_, block)| block);
            objects.extend(
                before.into_iter().chain(level.range(range.clone()).map(|(_, &block)| block)).map(|b| b.object),
            );
        }
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// Whose the page is, as far as blocks say.
    pub fn owner_of(&self, page: Page) -> Owner {
        let known = self.levels().map(|level| owner_in(level, page)).find(|&owner| owner != Owner::Nobody);
        known.unwrap_or(Owner::Nobody)
    }

    /// Has a sample of a runtime's objects begin at `start`, which stands for what follows: one that reaches so far
    /// ends there, or before the page, as pages are one object's where that can be. Where it ends itself: within
    /// `around` bytes, before the next one, and with the memory that both are in.
    pub fn make_room(&mut self, start: u64, around: u64) -> u64 {
        let memory = holder(&self.by_start, start).map_or(u64::MAX, |(_, block)| block.end);
        if self.declared.is_empty() {
            self.declared.push(Level::new());
        }
        let level = &mut self.declared[0];
        if let Some((&before, block)) = level.range_mut(..start).next_back() {
            let page = Page::of(start).address();
            block.end = block.end.min(if page > before { page } else { start });
        }
        let next = level.range(start + 1..).next().map_or(u64::MAX, |(&next, _)| next);
        let next = if Page::of(next) > Page::of(start) { Page::of(next).address() } else { next };
        start.saturating_add(around).min(next).min(memory).max(start + 1)
    }

    /// In which level of those that were declared a block belongs: behind all that have one around it.
    pub fn depth_of(&self, range: &Range<u64>) -> usize {
        let has_around = |level: &&Level| {
            holder(level, range.start)
                .is_some_and(|(start, block)| block.end >= range.end && (start, block.end) != (range.start, range.end))
        };
        self.declared.iter().take(MOST_NESTED).take_while(has_around).count()
    }
}
