//! Objects of the five kinds: which of them holds an address.

mod blocks;
mod bounds;
mod lookup;
mod segment;

use super::touches::ToldPlace;
use super::vmas::Vma;
use crate::globals::DataSymbols;
use crate::unwind::Module;
pub use blocks::{Block, Blocks, Owner};
use blocks::{Level, holder};
use bounds::Bounds;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use segment::Segment;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Heap blocks from this size on are objects of their own; smaller ones share one per allocation stack.
const OWN_OBJECT_BYTES: u64 = 64 << 10;
/// From this size on (glibc's smallest M_MMAP_THRESHOLD) a block may have a mapping of its own, of which an aligned one
/// does not tell.
const MAY_HAVE_MAPPING: u64 = 128 << 10;
/// Objects of their own that one allocation stack may have; later ones share.
const MOST_PER_STACK: u32 = 64;

/// An object ends. Not before it has begun: the agents' clock, while it is set better and better, may step back.
fn dies(row: &mut tables::Object, time_ns: u64) {
    row.death_ns = Some(time_ns.max(row.birth_ns));
}

/// What identifies an object that is not a heap block.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Global(ProcessId, ModuleId, u64),
    /// By where it is in a copy.
    ThreadLocal(ProcessId, ModuleId, u64),
    Code(ProcessId, ModuleId),
    File(ProcessId, String),
    Stack(ThreadId),
    SmallHeap(ProcessId),
    Anonymous(ProcessId),
    GoHeap(ProcessId),
    Blocks(ProcessId, Option<StackId>),
    Shared(ProcessId),
    Unknown(ProcessId),
}

/// An allocation as the interposer reports it.
pub struct NewBlock {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub time_ns: u64,
    pub address: u64,
    pub size: u64,
    /// Bytes that this allocation stands for.
    pub weight: u64,
    pub site: Option<SiteId>,
    pub stack: Option<StackId>,
    /// Nothing else lies in its first and last page.
    pub whole_pages: bool,
    /// It was carved out of memory that is there already, which may be a block too.
    pub within: bool,
    /// It is one of a runtime's objects that were sampled, and stands for what lies in so many bytes from its address
    /// on, up to the next one; 0: it is none.
    pub around: u64,
}

/// All objects of a recording.
#[derive(Default)]
pub struct Objects {
    rows: Vec<tables::Object>,
    ids: FxHashMap<Key, ObjectId>,
    own_per_stack: FxHashMap<(ProcessId, Option<StackId>), u32>,
    symbols: FxHashMap<ModuleId, Arc<DataSymbols>>,
    thread_locals: FxHashMap<ModuleId, Arc<DataSymbols>>,
    /// Where copies of thread-local variables begin.
    copies: FxHashMap<ObjectId, BTreeSet<u64>>,
    segments: FxHashMap<u64, Segment>,
    /// Every block is known: what is in none is the allocator's own.
    every: bool,
    /// What is uncertain of their accesses, of an exact recording.
    pub bounds: Bounds,
}

impl Objects {
    /// None yet; of which `every` block will be known, or some.
    pub fn new(every: bool) -> Self {
        Objects { every, ..Self::default() }
    }

    /// Where an object was allocated.
    pub fn place_of(&self, object: ObjectId) -> ToldPlace {
        let row = &self.rows[object.0 as usize];
        ToldPlace { site: row.site, stack: row.stack }
    }

    /// The rows so far.
    pub fn rows(&self) -> &[tables::Object] {
        &self.rows
    }

    /// Registers a heap block.
    pub fn allocate(&mut self, blocks: &mut Blocks, new: &NewBlock) -> ObjectId {
        let mut range = new.address..new.address.saturating_add(new.size.max(1));
        let mut depth = 0;
        if new.around > 0 {
            self.release_within(blocks, new.address, new.time_ns);
            range.end = blocks.make_room(new.address, new.around);
        } else {
            depth = if new.within { blocks.depth_of(&range) } else { 0 };
            self.release_declared(blocks, depth, range.clone(), new.time_ns);
        }
        if !new.within {
            self.release_level(&mut blocks.by_start, range.clone(), new.time_ns);
        }
        if !self.every && !new.within && !new.whole_pages && new.size < MAY_HAVE_MAPPING {
            blocks.note_arena(new.address);
        }
        let of_stack = self.own_per_stack.entry((new.process, new.stack)).or_default();
        let own = new.size >= OWN_OBJECT_BYTES && *of_stack < MOST_PER_STACK;
        *of_stack += u32::from(own);
        let count = (new.weight / new.size.max(1)).max(1);
        let row = |id| tables::Object {
            process: new.process,
            object: id,
            kind: ObjectKind::Heap,
            name: String::new(),
            base: new.address,
            size: 0,
            count: 0,
            site: new.site,
            stack: new.stack,
            thread: Some(new.thread),
            birth_ns: new.time_ns,
            death_ns: None,
        };
        let id = if own { self.push(row) } else { self.keyed(Key::Blocks(new.process, new.stack), row) };
        let object = &mut self.rows[id.0 as usize];
        object.size = object.size.saturating_add(new.weight.max(new.size));
        object.count = object.count.saturating_add(count);
        if new.within && blocks.declared.len() == depth {
            blocks.declared.push(Level::new());
        }
        let level = if new.within { &mut blocks.declared[depth] } else { &mut blocks.by_start };
        let end = range.end;
        level.insert(new.address, Block { end, object: id, own, whole_pages: new.whole_pages, born_ns: new.time_ns });
        id
    }

    /// The program has named a block's object.
    pub fn name(&mut self, block: Block, name: &str) {
        name.clone_into(&mut self.rows[block.object.0 as usize].name);
    }

    /// A block was freed, and with it what was carved out of it; returns its object and size.
    pub fn release(&mut self, blocks: &mut Blocks, address: u64, time_ns: u64) -> Option<(ObjectId, u64)> {
        let end = blocks.by_start.get(&address)?.end;
        self.release_declared(blocks, 0, address..end, time_ns);
        self.release_in(&mut blocks.by_start, address, time_ns)
    }

    /// A block was given back to the program's own allocator, and with it what was carved out of it: the innermost that
    /// begins there.
    pub fn release_within(&mut self, blocks: &mut Blocks, address: u64, time_ns: u64) {
        let innermost = |(depth, level): (usize, &Level)| Some((depth, level.get(&address)?.end));
        let Some((depth, end)) = blocks.declared.iter().enumerate().rev().find_map(innermost) else { return };
        self.release_declared(blocks, depth + 1, address..end, time_ns);
        self.release_in(&mut blocks.declared[depth], address, time_ns);
    }

    /// Blocks that programs declared, of a level and those behind it, are gone.
    fn release_declared(&mut self, blocks: &mut Blocks, depth: usize, range: Range<u64>, time_ns: u64) {
        for level in blocks.declared.iter_mut().skip(depth) {
            self.release_level(level, range.clone(), time_ns);
        }
    }

    fn release_in(&mut self, level: &mut Level, address: u64, time_ns: u64) -> Option<(ObjectId, u64)> {
        let block = level.remove(&address)?;
        if block.own {
            dies(&mut self.rows[block.object.0 as usize], time_ns);
        }
        Some((block.object, block.end - address))
    }

    /// A block, or some pages of it, lie elsewhere now, and are the object that they were. Of `old`, nothing: they are
    /// there as well.
    pub fn moved(&mut self, blocks: &mut Blocks, old: Range<u64>, new: Range<u64>, time_ns: u64) {
        // What is reported late, as the mapping moves in which a block was that has been reported to have ended, is of
        // what was there before.
        let there = holder(&blocks.by_start, old.start).filter(|(_, block)| block.born_ns <= time_ns);
        let Some((start, block)) = there else {
            // A file, which is no block, takes the place of some all the same.
            if old.start != new.start {
                self.unmap(blocks, new, time_ns);
            }
            return;
        };
        let pages_end = |address: u64| Page::behind(address).address();
        let whole = start == old.start && pages_end(block.end) <= pages_end(old.end);
        if !old.is_empty() {
            let end = if whole { block.end } else { pages_end(old.end) };
            self.unmap(blocks, old.start..end, time_ns);
        }
        self.unmap(blocks, new.clone(), time_ns);
        let row = &mut self.rows[block.object.0 as usize];
        row.death_ns = None;
        if block.own && whole {
            (row.base, row.size) = (new.start, row.size.max(new.end - new.start));
        }
        blocks.by_start.insert(new.start, Block { end: new.end, ..block });
    }

    /// What is in pages that several objects share, as far as they cannot be told apart.
    pub fn shared(&mut self, process: ProcessId, time_ns: u64) -> ObjectId {
        self.keyed(Key::Shared(process), |id| {
            let name = "objects that share a page, not told apart".to_owned();
            plain(process, id, ObjectKind::Unknown, name, 0, 0, time_ns)
        })
    }

    /// What is in memory that the program has not mapped: what the loader does there to load the preloaded library.
    pub fn unmapped(&mut self, process: ProcessId, time_ns: u64) -> ObjectId {
        self.keyed(Key::Unknown(process), |id| {
            let name = "memory of the library that numalens preloads".to_owned();
            plain(process, id, ObjectKind::Unknown, name, 0, 0, time_ns)
        })
    }

    /// Whether an object is a block, or several of one place.
    pub fn is_block(&self, object: ObjectId) -> bool {
        self.rows[object.0 as usize].kind == ObjectKind::Heap && !self.is_rest(object)
    }

    /// Whether an object stands for what is not known more closely.
    pub fn is_rest(&self, object: ObjectId) -> bool {
        let row = &self.rows[object.0 as usize];
        row.kind == ObjectKind::Heap && row.site.is_none() && row.stack.is_none()
    }

    /// Whether an object stands for plain memory of which nothing else is known, or that malloc seems to have.
    pub fn is_anonymous(&self, process: ProcessId, object: ObjectId) -> bool {
        [Key::Anonymous(process), Key::SmallHeap(process)].iter().any(|key| self.ids.get(key) == Some(&object))
    }

    /// Memory was unmapped: what lies in it is gone, of blocks that reach beyond it that part.
    pub fn unmap(&mut self, blocks: &mut Blocks, range: Range<u64>, time_ns: u64) {
        let first = holder(&blocks.by_start, range.start).filter(|(_, block)| block.end > range.start);
        let last =
            holder(&blocks.by_start, range.end).filter(|(start, block)| *start < range.end && block.end > range.end);
        let before = first
            .filter(|(start, _)| *start < range.start)
            .map(|(start, block)| (start, Block { end: range.start, ..block }));
        let behind = last.map(|(_, block)| (range.end, block));
        self.release_range(blocks, range, time_ns);
        // An object ends with the last that is left of it.
        for (start, block) in before.into_iter().chain(behind) {
            self.rows[block.object.0 as usize].death_ns = None;
            blocks.by_start.insert(start, block);
        }
    }

    /// Memory is somebody else's: the blocks in it are gone.
    pub fn release_range(&mut self, blocks: &mut Blocks, range: Range<u64>, time_ns: u64) {
        self.release_declared(blocks, 0, range.clone(), time_ns);
        self.release_level(&mut blocks.by_start, range, time_ns);
    }

    fn release_level(&mut self, level: &mut Level, range: Range<u64>, time_ns: u64) {
        let first = holder(level, range.start).map(|(start, _)| start);
        let starts: Vec<u64> = first.into_iter().chain(level.range(range).map(|(&start, _)| start)).collect();
        for start in starts {
            self.release_in(level, start, time_ns);
        }
    }

    /// A process has ended or become another program: what its blocks were is over.
    pub fn release_all(&mut self, blocks: &mut Blocks, time_ns: u64) {
        let Blocks { by_start, declared, .. } = std::mem::take(blocks);
        for (_, block) in declared.into_iter().chain([by_start]).flatten() {
            if block.own {
                dies(&mut self.rows[block.object.0 as usize], time_ns);
            }
        }
    }

    /// A variable of a module's data, or a stretch of one of its sections, with its addresses.
    pub fn global(
        &mut self,
        process: ProcessId,
        module: ModuleId,
        image: &Module,
        bias: u64,
        address: u64,
        time_ns: u64,
    ) -> Option<(ObjectId, Range<u64>)> {
        let symbols = self.symbols.entry(module).or_insert_with(|| Arc::new(DataSymbols::load(image))).clone();
        let symbol = symbols.lookup(address.wrapping_sub(bias))?;
        let name =
            if symbol.named { symbol.name.to_owned() } else { format!("{} of {}", symbol.name, file_name(image)) };
        let start = symbol.start.wrapping_add(bias);
        let object = self.keyed(Key::Global(process, module, symbol.start), |id| {
            plain(process, id, ObjectKind::Global, name, start, symbol.size, time_ns)
        });
        Some((object, start..start.saturating_add(symbol.size)))
    }

    /// A thread-local variable of a module, all threads' copies of it, with the addresses of that of which a copy
    /// begins at `copy`.
    pub fn thread_local(
        &mut self,
        process: ProcessId,
        module: ModuleId,
        image: &Module,
        copy: u64,
        address: u64,
        time_ns: u64,
    ) -> Option<(ObjectId, Range<u64>)> {
        let load = || Arc::new(DataSymbols::thread_local(image));
        let symbols = self.thread_locals.entry(module).or_insert_with(load).clone();
        let symbol = symbols.lookup(address.wrapping_sub(copy))?;
        let name = match symbol.named {
            true => format!("{}{}", symbol.name, tables::THREAD_LOCAL),
            false => format!("{} of {}", symbol.name, file_name(image)),
        };
        let start = symbol.start.wrapping_add(copy);
        let object = self.keyed(Key::ThreadLocal(process, module, symbol.start), |id| {
            plain(process, id, ObjectKind::Global, name, start, symbol.size, time_ns)
        });
        self.copies.entry(object).or_default().insert(start);
        Some((object, start..start.saturating_add(symbol.size)))
    }

    /// Where a variable begins, each copy of it.
    pub fn begins_of(&self, row: &tables::Object) -> Vec<u64> {
        self.copies.get(&row.object).map_or_else(|| vec![row.base], |copies| copies.iter().copied().collect())
    }

    /// The object that a mapping is, when nothing finer is known.
    pub fn of_mapping(&mut self, process: ProcessId, vma: &Vma, time_ns: u64) -> ObjectId {
        let path = vma.path.to_string_lossy();
        let size = vma.end - vma.start;
        if vma.permissions.execute
            && let Some((module, _, _)) = &vma.image
        {
            let name = path.into_owned();
            return self.keyed(Key::Code(process, *module), |id| {
                plain(process, id, ObjectKind::Code, name, vma.start, size, time_ns)
            });
        }
        let (key, kind, name) = match path.as_ref() {
            "[heap]" => return self.small_blocks(process, vma, time_ns),
            _ if vma.is_file() => (Key::File(process, path.to_string()), ObjectKind::File, path.into_owned()),
            _ if vma.permissions.execute => (
                Key::File(process, path.to_string()),
                ObjectKind::Code,
                format!("generated code {path}").trim_end().to_owned(),
            ),
            _ if vma.is_shared() => (
                Key::File(process, format!("{path}:{}", vma.segment)),
                ObjectKind::File,
                format!("shared memory {path}").trim_end().to_owned(),
            ),
            _ => (
                Key::Anonymous(process),
                ObjectKind::Heap,
                "anonymous memory whose allocation was not observed".to_owned(),
            ),
        };
        if kind != ObjectKind::File || vma.segment == 0 {
            return self.keyed(key, |id| plain(process, id, kind, name, vma.start, size, time_ns));
        }
        let id =
            self.keyed(key, |id| tables::Object { count: 0, ..plain(process, id, kind, name, vma.start, 0, time_ns) });
        let segment = self.segments.entry(vma.segment).or_insert(Segment::new(id));
        let new = segment.see(vma.offset..vma.offset.saturating_add(size));
        if new > 0 {
            let row = &mut self.rows[segment.object.0 as usize];
            (row.size, row.count) = (row.size.saturating_add(new), row.count.max(1));
        }
        id
    }

    /// What the C library's allocator has beside blocks that are known.
    pub fn small_blocks(&mut self, process: ProcessId, vma: &Vma, time_ns: u64) -> ObjectId {
        // How much of the heap blocks are that were not sampled nobody knows.
        let (name, size) = match self.every {
            true => ("heap beside its blocks", vma.end - vma.start),
            false => (tables::UNSAMPLED_BLOCKS, 0),
        };
        self.keyed(Key::SmallHeap(process), |id| {
            plain(process, id, ObjectKind::Heap, name.to_owned(), vma.start, size, time_ns)
        })
    }

    /// The heap of Go's runtime, where its parts are not known.
    pub fn go_heap(&mut self, process: ProcessId, vma: &Vma, time_ns: u64) -> ObjectId {
        self.keyed(Key::GoHeap(process), |id| {
            let (name, size) = ("Go heap".to_owned(), vma.end - vma.start);
            plain(process, id, ObjectKind::Heap, name, vma.start, size, time_ns)
        })
    }

    /// A thread's stack.
    pub fn stack_of(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        tid: u32,
        range: Range<u64>,
        time_ns: u64,
    ) -> ObjectId {
        self.keyed(Key::Stack(thread), |id| {
            let mut row = plain(
                process,
                id,
                ObjectKind::Stack,
                format!("stack of thread {tid}"),
                range.start,
                range.end - range.start,
                time_ns,
            );
            row.thread = Some(thread);
            row
        })
    }

    fn keyed(&mut self, key: Key, row: impl FnOnce(ObjectId) -> tables::Object) -> ObjectId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let id = self.push(row);
        self.ids.insert(key, id);
        id
    }

    fn push(&mut self, row: impl FnOnce(ObjectId) -> tables::Object) -> ObjectId {
        let id = ObjectId(self.rows.len() as u32);
        self.rows.push(row(id));
        id
    }
}

fn plain(
    process: ProcessId,
    object: ObjectId,
    kind: ObjectKind,
    name: String,
    base: u64,
    size: u64,
    birth_ns: u64,
) -> tables::Object {
    tables::Object {
        process,
        object,
        kind,
        name,
        base,
        size,
        count: 1,
        site: None,
        stack: None,
        thread: None,
        birth_ns,
        death_ns: None,
    }
}

fn file_name(image: &Module) -> String {
    image
        .path()
        .file_name()
        .map_or_else(|| image.path().display().to_string(), |name| name.to_string_lossy().into_owned())
}
