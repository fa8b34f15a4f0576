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

use super::Session;
use super::counts::{Bound, CountedObject, Who};
use super::facts::ObjectKey;
use super::heap::HeapHandler;
use super::heap_changes::Change;
use super::heap_notes::{HeapNote, HeapNotes};
use super::objects::Owner;
use super::stacks::StackAccess;
use numalens_aggregate::Counts;
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Access, Class, Found};
use rustc_hash::FxHashMap;
use std::ops::Range;

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
        let (node, home) = (self.node_id(seen.node), self.node_id(seen.home));
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
        HeapHandler { session: self }.apply(notes, note)
    }

    /// Whether a thread is known that an event speaks of.
    pub fn knows_thread(&self, note: &HeapNote) -> bool {
        let process = self.processes.get(note.pid).map(|live| live.id);
        process.is_some_and(|process| self.threads.at(process, note.tid, self.since_start(note.time)).is_some())
    }

    /// Whose a page is now.
    pub fn owner_of(&mut self, pid: i32, page: Page, time_ns: u64) -> Owner {
        let Some(process) = self.processes.get(pid) else { return Owner::Nobody };
        self.objects.owner_of(process, &self.threads, page, time_ns)
    }

    /// Whose a page is now, as far as heap blocks say.
    pub fn owner_by_blocks(&self, pid: i32, page: Page) -> Owner {
        self.processes.get(pid).map_or(Owner::Nobody, |live| live.blocks.owner_of(page))
    }

    /// The heap blocks on a page: whose they are.
    pub fn holders_on(&self, pid: i32, page: Page) -> Vec<ObjectId> {
        self.processes.get(pid).map_or_else(Vec::new, |live| live.blocks.objects_on(page))
    }

    /// Whether an object is a heap block, or several of one place.
    pub fn is_block(&self, object: ObjectId) -> bool {
        self.objects.is_block(object)
    }

    /// Whether variables of a module may lie on a page.
    pub fn has_variables(&self, pid: i32, page: Page) -> bool {
        let (start, end) = (page.address(), page.addresses().end);
        self.processes.get(pid).is_some_and(|live| live.variables.has_data_in(start..end))
    }

    /// The object that an access touched that placed a page, where it is known more closely than by its mapping.
    pub fn object_placed(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        self.holder_of(pid, address, time_ns).filter(|&object| !self.objects.is_rest(object))
    }

    /// The object that holds an address now.
    pub fn holder_of(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        self.objects.holder_of(self.processes.get(pid)?, &self.threads, address, time_ns)
    }

    /// The object that holds an address now; what lies in no mapping of the program is an object as well.
    pub fn any_holder_of(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        let process = self.processes.get(pid)?;
        let holder = self.objects.holder_of(process, &self.threads, address, time_ns);
        Some(holder.unwrap_or_else(|| self.objects.unmapped(process.id, time_ns)))
    }

    /// What stands for memory that is nobody's more closely.
    pub fn object_of_mapping(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        self.objects.of_mapping_at(self.processes.get(pid)?, &self.threads, address, time_ns)
    }

    /// Whose a page is that is known as `object`'s and was accessed at a time, by a thread: stacks are handed on.
    pub fn stack_instead(
        &mut self,
        (process, pid): (ProcessId, i32),
        page: Page,
        object: ObjectId,
        thread: Option<ThreadId>,
        time_ns: u64,
    ) -> ObjectId {
        let accessed = StackAccess { process, pid, page, object, thread, time_ns };
        self.objects.stack_instead(self.processes.get(pid), &self.threads, &accessed)
    }

    /// A thread has ended, which is taken in when all that it has counted is.
    pub fn thread_will_end(&mut self, tid: i32, id: ThreadId, time: u64) {
        let time_ns = self.since_start(time);
        self.threads.will_end(tid as u32, id, time_ns);
    }

    /// Thread-local variables of a thread lie below an address. Returns the pages on which these are the executable's:
    /// they may be another's now.
    pub fn thread_pointer(&mut self, pid: i32, pointer: u64) -> Range<Page> {
        let Some(process) = self.processes.get_mut(pid) else { return Page(0)..Page(0) };
        let range = process.variables.thread_locals.pointer(pointer);
        Page::of(range.start)..Page::behind(range.end)
    }

    /// No program of this recording has the library that reports heap blocks; `why` is for people.
    pub fn without_heap(&mut self, why: String) {
        self.unobserved.without_heap(why);
    }

    /// What stands for the objects of pages that could not be told apart.
    pub fn objects_that_share(&mut self, process: ProcessId) -> ObjectId {
        self.objects.shared(process, self.clock.now_ns)
    }

    /// What is uncertain of objects, and, of variables, by the pages on which they lie.
    pub fn bound_objects(
        &mut self,
        process: ProcessId,
        bounds: FxHashMap<ObjectId, Bound>,
        pages: &FxHashMap<Page, Bound>,
    ) {
        self.objects.bound(process, bounds, pages);
    }

    /// Forgets what was uncertain of objects, which is to be reported anew.
    pub fn unbound_objects(&mut self) {
        self.objects.bounds.clear();
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
