//! GHC's collector of garbage, of programs that have the runtime linked in with its symbols (9.0 and later).
//!
//! ```text
//!   GarbageCollect(generation, ...)    the thread that leads a collection, from its entry to its return
//!   gcWorkerThread(capability)         each other thread that takes part
//!   evacuate(StgClosure **p)           an object is processed: *p, with a tag in its lowest bits
//! ```
//! An object is counted once for each pointer to it that a thread comes to, by where it lies then. It is in the heap if
//! it is within `mblock_address_space`, else static. Of one in the heap the generation stands in the descriptor of its
//! block, which is found by arithmetic: memory comes in megablocks of 1 MiB that begin with the descriptors of their
//! blocks of 4 KiB.
//!
//! ```text
//!   megablock   | descriptor 0 | descriptor 1 | ... 64 bytes each |   blocks ...            |
//!   object p    |                      ^ (p & 0xff000) >> 6       |        p & ~0xfffff ... |
//! ```
//! 1. The program is about to read the object's word and its descriptor itself, so they are there. A descriptor on a
//!    page that nobody has touched is not read: then the pointer is no closure's, and is not counted.
//! 2. A page whose home is not known yet waits until the thread's part of the collection is over.
//! 3. A thread adds up in memory of its own, and logs when its part is over: what a killed program had under way is
//!    lost.

use crate::code;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE_BITS, user};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::log;
use numalens_isa::convention::function::{ARGUMENTS, STACK_POINTER};
use numalens_translator::Watch;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{LittleEndian, ReadRef};

/// A section that GHC puts into what it links.
const MADE_BY_GHC: &[u8] = b".debug-ghc-link-info";
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

/// The generation of the latest collection that has begun. Other threads take part in it before and until it has ended.
static GENERATION_NOW: AtomicU32 = AtomicU32::new(0);

/// Where the runtime of this program has its functions and variables.
#[derive(Default)]
pub struct Ghc {
    leads: u64,
    helps: u64,
    evacuates: [u64; 2],
    /// `mblock_address_space`: the first address of the heap, and the last.
    space: u64,
}

impl Ghc {
    /// That of the program of this process, whose file this is and which begins with the first stack `stack`.
    pub fn find<'a>(stack: u64, data: impl ReadRef<'a>) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        if !sections.iter().any(|section| sections.section_name(endian, section) == Ok(MADE_BY_GHC)) {
            return None;
        }
        let moved_by = if header.e_type(endian) == elf::ET_EXEC {
            0
        } else {
            user::entry_of_program(stack)?.wrapping_sub(header.e_entry(endian))
        };
        let symbols = sections.symbols(endian, data, elf::SHT_SYMTAB).ok()?;
        let mut ghc = Ghc::default();
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            let Ok(name) = symbols.symbol_name(endian, symbol) else { continue };
            let place = match name {
                b"GarbageCollect" => &mut ghc.leads,
                b"gcWorkerThread" => &mut ghc.helps,
                b"evacuate" => &mut ghc.evacuates[0],
                b"evacuate1" => &mut ghc.evacuates[1],
                b"mblock_address_space" => &mut ghc.space,
                _ => continue,
            };
            *place = symbol.st_value(endian).wrapping_add(moved_by);
        }
        // Without threads there are no helpers, and one way of evacuating.
        (ghc.leads != 0 && ghc.evacuates[0] != 0 && ghc.space != 0).then_some(ghc)
    }

    /// What is to be watched.
    pub fn watched(&self) -> Vec<(u64, Watch)> {
        let pointee = Watch::Pointee(ARGUMENTS[0].number());
        let functions = [self.leads, self.helps].map(|at| (at, Watch::Reached));
        let all = self.evacuates.map(|at| (at, pointee)).into_iter().chain(functions);
        all.filter(|&(at, _)| at != 0).collect()
    }

    /// The program has come to one of these, or to where one returns to.
    pub fn reached(&self, thread: &mut Thread, ip: u64, home_of: impl Fn(u64) -> Option<u16>) {
        let sp = thread.context.register(STACK_POINTER);
        let part = thread.collecting.get_mut().part.take_if(|part| part.back == ip && part.sp + 8 == sp);
        if let Some(part) = part {
            let node = thread.node_now();
            thread.collecting.get_mut().end(&part, thread.first.0, node, home_of);
        }
        if ip != self.leads && ip != self.helps {
            return;
        }
        let Ok(back) = user::read_own_stack(sp) else { return };
        let leads = ip == self.leads;
        if leads {
            // The lowest member of a structure in the versions that hand one over.
            GENERATION_NOW.store(thread.context.register(ARGUMENTS[0]) as u32, Relaxed);
        }
        let [first, last] = user::read::<[u64; 2]>(self.space).unwrap_or_default();
        thread.collecting.get_mut().begin(Part { sp, back, begun_ns: sys::now_ns(), leads }, first..last);
        code::watch(back);
    }
}

/// A thread's part in a collection that is under way.
struct Part {
    /// Where the return address lies, and what it is.
    sp: u64,
    back: u64,
    begun_ns: u64,
    /// It is the thread that the collection was begun by.
    leads: bool,
}

/// What a thread does of collections.
#[derive(Default)]
pub struct Collecting {
    part: Option<Part>,
    heap: Range<u64>,
    /// Objects, by area (the static one, then generations) and home (none, then nodes).
    counts: Vec<u64>,
    /// Homes that are told apart.
    homes: usize,
    /// Objects on pages whose homes were not known: page and area.
    later: Vec<(u64, usize)>,
}

impl Collecting {
    fn begin(&mut self, part: Part, heap: Range<u64>) {
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

    /// The thread's part is over: so into the log with it.
    fn end(&mut self, part: &Part, thread: u32, node: Option<u16>, home_of: impl Fn(u64) -> Option<u16>) {
        for (page, area) in core::mem::take(&mut self.later) {
            self.add(area, home_of(page));
        }
        let node = node.map_or(0, |node| 1 + u64::from(node));
        let generation = u64::from(GENERATION_NOW.load(Relaxed));
        let mut words = Vec::from([u64::from(thread), node, generation, part.begun_ns, u64::from(part.leads)]);
        for (at, count) in self.counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            words.push(((at / self.homes) as u64) << log::COLLECTED_AREA | (at % self.homes) as u64);
            words.push(core::mem::take(count));
        }
        runtime().process().log(log::COLLECTED, &words, &[]);
    }
}
