//! Objects where every access is counted: whose each page is.
//!
//! Accesses are counted by page, so those to a page that is all one object's, from the page's beginning on, are that
//! object's, exactly. What is known of a page only grows: whoever has it as well, even later, makes it a page of
//! several.
//!
//! ```text
//!   page begins ----> blocks there? data of a module? stack, file, code?  ---> Owner
//!   block comes ----> pages that it lies on                               ---> Owner and its own
//! ```

use super::counts::{Bound, CountedObject, Who};
use super::facts::ObjectKey;
use super::heap::{HeapNote, What};
use super::objects::Owner;
use super::pages::{Touch, TouchId};
use super::vmas::Vma;
use super::{HeapNotes, Session};
use crate::heap_channel::Call;
use numalens_aggregate::Counts;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Access, Class, Found, ObjectKind};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes that glibc has before a block in a mapping of its own.
const HEADER: u64 = 16;

/// The farthest that a stack grows below what was seen of it.
const LARGEST_STACK: u64 = 64 << 20;

/// Memory that an object has taken.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub object: ObjectId,
    pub pages: Range<Page>,
    /// The thread that took it, and since when it was about to, since the start of the recording: pages that it touched
    /// meanwhile are the object's.
    pub tid: u32,
    pub since_ns: u64,
    /// The allocator may have filled it: cleared it, or copied what was in a block that grows.
    pub filled: bool,
    /// It is a block that was there before, perhaps where it was.
    pub grown: bool,
}

/// What an event of the library has changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object has memory.
    Claimed(Claimed),
    /// What had these pages has them no more.
    Released(Range<Page>),
    /// The same, and the pages go with it, or what becomes of them is told next.
    Unmapped,
}

/// One access that was looked at.
#[derive(Clone, Copy, Debug)]
pub struct SeenAccess {
    pub process: ProcessId,
    pub time_ns: u64,
    pub thread: ThreadId,
    /// Index of the node that the thread was bound to.
    pub node: Option<u16>,
    pub site: SiteId,
    pub address: u64,
    pub access: Access,
    pub object: ObjectId,
    /// Index of the page's home.
    pub home: Option<u16>,
    /// The page was placed by a pinned thread.
    pub pinned: bool,
}

impl Session {
    /// Adds an access to the samples. Its counts are in the facts already.
    pub fn access_seen(&mut self, seen: &SeenAccess) {
        let machine = &self.options.machine;
        let id = |index: u16| machine.nodes.get(usize::from(index)).map(|node| node.id);
        let (node, home): (Option<NodeId>, Option<NodeId>) = (seen.node.and_then(id), seen.home.and_then(id));
        self.output.add_sample(tables::Sample {
            process: seen.process,
            time_ns: seen.time_ns,
            thread: seen.thread,
            cpu: 0,
            site: seen.site,
            stack: None,
            address: seen.address,
            found: Found::At,
            access: seen.access,
            object: Some(seen.object),
            node,
            home,
            class: Class::from(machine.locality(node, home, seen.pinned)),
            latency: None,
            source: None,
            period: 1,
        });
    }

    /// Takes in one event of the preloaded library. Where threads and pages are is not its to say: the agents know.
    /// Returns what memory has changed hands.
    pub fn apply_heap_event(&mut self, notes: &HeapNotes, note: &HeapNote) -> Option<Change> {
        let time_ns = self.advance(note.time);
        let live = self.live.get_mut(&note.pid)?;
        match &note.what {
            What::Alloc { call, before, own_mapping, .. } => {
                let since_ns = if *before == 0 { time_ns } else { self.since_start(*before) };
                let (object, place) = self.allocated(notes, note, time_ns)?;
                let end = match own_mapping {
                    0 => place.end,
                    bytes => (place.start & !4095).saturating_add(*bytes),
                };
                let pages = Page::of(place.start)..Page::of(end.saturating_add(4095));
                let grown = *call == Call::Realloc;
                // What is mapped is clear.
                let filled = grown || *call == Call::Calloc && *own_mapping == 0;
                Some(Change::Claimed(Claimed { object, pages, tid: note.tid, since_ns, filled, grown }))
            }
            What::Free { address, inner } => {
                let pages = live.blocks.pages_at(*address);
                let is_alone = !inner && live.blocks.outer(*address).is_some_and(|(_, block)| block.whole_pages);
                self.freed(note, time_ns, *address, *inner);
                if is_alone { Some(Change::Unmapped) } else { pages.map(Change::Released) }
            }
            What::Named { address, name } => {
                self.block_named(note.pid, *address, name);
                None
            }
            &What::Parallel { call, begun, ended, of } => {
                self.parallel(note.pid, of, call, begun, ended);
                None
            }
            What::Unmapped { address, size } => {
                let end = address.saturating_add(*size);
                self.blocks_unmapped(note, time_ns, *address..end);
                Some(Change::Unmapped)
            }
            What::Moved { old, old_size, new, new_size } => {
                let (start, end) = (*new, new.saturating_add(*new_size));
                self.objects.moved(&mut live.blocks, *old..old.saturating_add(*old_size), start..end, time_ns);
                live.move_reserved(*old..old.saturating_add(*old_size), start..end);
                // What an allocator makes smaller or larger in its place may be a block that nobody tells of.
                let has_stayed = old == new && live.blocks.outer(start.saturating_add(HEADER)).is_none();
                has_stayed.then(|| Change::Released(Page::of(start)..Page::of(end.saturating_add(4095))))
            }
            What::Began => {
                self.processes[live.id.0 as usize].heap_observed = true;
                None
            }
            _ => None,
        }
    }

    /// Whether a thread is known that an event speaks of.
    pub fn knows_thread(&self, note: &HeapNote) -> bool {
        let process = self.live.get(&note.pid).map(|live| live.id);
        process.is_some_and(|process| self.threads.at(process, note.tid, self.since_start(note.time)).is_some())
    }

    /// Whose a page is now.
    pub fn owner_of(&mut self, pid: i32, page: Page, time_ns: u64) -> Owner {
        let Some(live) = self.live.get(&pid) else { return Owner::Nobody };
        let by_blocks = live.blocks.owner_of(page);
        if by_blocks != Owner::Nobody {
            return by_blocks;
        }
        let start = page.address();
        let end = start + 4096;
        let has_data = live.has_data_in(start..end);
        match self.variable_at(pid, start, time_ns) {
            Some((object, range)) if range.start <= start && end <= range.end => return Owner::One(object),
            _ if has_data => return Owner::Several,
            _ => {}
        }
        match self.object_of_mapping(pid, start, time_ns) {
            Some(object) => Owner::One(object),
            None => Owner::Nobody,
        }
    }

    /// The same, as far as heap blocks tell.
    pub fn owner_by_blocks(&self, pid: i32, page: Page) -> Owner {
        self.live.get(&pid).map_or(Owner::Nobody, |live| live.blocks.owner_of(page))
    }

    /// The heap blocks on a page: whose they are.
    pub fn holders_on(&self, pid: i32, page: Page) -> Vec<ObjectId> {
        self.live.get(&pid).map_or_else(Vec::new, |live| live.blocks.objects_on(page))
    }

    /// Whether an object is a heap block, or several of one place.
    pub fn is_block(&self, object: ObjectId) -> bool {
        self.objects.is_block(object)
    }

    /// Whether variables of a module may lie on a page.
    pub fn has_variables(&self, pid: i32, page: Page) -> bool {
        let (start, end) = (page.address(), page.address() + 4096);
        self.live.get(&pid).is_some_and(|live| live.has_data_in(start..end))
    }

    /// The object that an access touched that placed a page, where it is known more closely than by its mapping.
    pub fn object_placed(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        self.holder_of(pid, address, time_ns).filter(|&object| !self.objects.is_rest(object))
    }

    /// A page that was touched for an object that was on its way: it has that object's touch from now on.
    pub fn touched_for(&mut self, pid: i32, page: Page, touch: TouchId, claimed: &Claimed) -> Option<TouchId> {
        // Of a page that has been moved since: that of the period in force.
        let in_force = self.live.get(&pid).and_then(|live| live.pages.get(page)).map_or(touch, |state| state.touch);
        let before = self.touches.get(in_force);
        // Fresh to the object, not fresh: its allocator has brought it along from the block that was there before.
        let to_another = before.moved && before.object != Some(claimed.object);
        let touch = Touch { object: Some(claimed.object), to_another, ..before };
        let touch = self.touches.intern(touch);
        if let Some(live) = self.live.get_mut(&pid)
            && let Some(state) = live.pages.get(page)
        {
            if state.huge {
                live.pages.place_huge(page, touch, state.home, state.inferred);
            } else {
                live.pages.place(page, touch, state.home, state.inferred);
            }
        }
        Some(touch)
    }

    /// The object that holds an address now.
    pub fn holder_of(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        self.block_or_variable_at(pid, address, time_ns).or_else(|| self.object_of_mapping(pid, address, time_ns))
    }

    /// The same; what lies in no mapping of the program is an object as well.
    pub fn any_holder_of(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        let process = self.live.get(&pid)?.id;
        let holder = self.holder_of(pid, address, time_ns);
        Some(holder.unwrap_or_else(|| self.objects.unmapped(process, time_ns)))
    }

    /// What stands for memory that is nobody's more closely.
    pub fn object_of_mapping(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        let live = self.live.get(&pid)?;
        let process = live.id;
        let vma: Vma = match live.vmas.find(address) {
            Some(vma) => vma.clone(),
            // A stack that has grown.
            None => {
                let above = live.vmas.above(address)?;
                let is_stack = above.path.as_os_str() == "[stack]" && above.start - address < LARGEST_STACK;
                is_stack.then(|| above.clone())?
            }
        };
        if let Some((thread, tid)) = self.stack_owner(process, &vma, pid, time_ns) {
            return Some(self.objects.stack_of(process, thread, tid, vma.start..vma.end, time_ns));
        }
        Some(self.objects.of_mapping(process, &vma, time_ns))
    }

    /// What stands for the objects of pages that could not be told apart.
    pub fn objects_that_share(&mut self, process: ProcessId) -> ObjectId {
        self.objects.shared(process, self.now_ns)
    }

    /// What is uncertain of objects, and, of variables, by the pages on which they lie.
    pub fn bound_objects(
        &mut self,
        process: ProcessId,
        mut bounds: FxHashMap<ObjectId, Bound>,
        pages: &FxHashMap<Page, Bound>,
    ) {
        let rows = if pages.is_empty() { &[][..] } else { self.objects.rows() };
        for row in rows.iter().filter(|row| row.process == process && row.kind == ObjectKind::Global) {
            // Only pages at its ends are not its own.
            let ends = |base: u64| [Page::of(base), Page::of(base.saturating_add(row.size.max(1) - 1))];
            let ends: BTreeSet<Page> = self.objects.begins_of(row).into_iter().flat_map(ends).collect();
            for &bound in ends.iter().filter_map(|page| pages.get(page)) {
                bounds.entry(row.object).or_default().add(bound);
            }
        }
        let bounds = bounds.into_iter().map(|(object, bound)| tables::ObjectBound {
            process,
            object,
            divided: bound.divided,
            squares: bound.squares,
            untold: bound.untold,
            skewed: bound.skewed,
        });
        self.object_bounds.extend(bounds);
    }

    /// Forgets what was uncertain of objects, which is to be told anew.
    pub fn unbound_objects(&mut self) {
        self.object_bounds.clear();
    }

    /// Adds a thread's accesses to an object.
    pub fn count_object(&mut self, counted: &CountedObject) {
        let &CountedObject {
            process,
            who: Who { thread, node, class: (home, pinned) },
            time_ns,
            object,
            counts,
            samples,
        } = counted;
        let (node, home) = (self.node_id(node), self.node_id(home));
        let class = Class::from(self.options.machine.locality(node, home, pinned));
        let (bin, [reads, writes], estimated) = (self.bin_of(time_ns), counts, samples > 0);
        let key = ObjectKey { process, bin, thread, node, site: None, object, home, class, estimated };
        self.facts.add_object(key, Counts { reads, writes, samples });
    }
}
