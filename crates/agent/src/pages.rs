//! First touches: giving pages their numbers and classes, and taking them back when pages go.
//!
//! The shadow table has an entry for each page of the address space. An entry without a class makes every access to its
//! page come here. On a virtual machine the first access settles it: the policy says where the page goes. On a real
//! one the page does not exist before that access, and where the kernel puts it can only be asked afterwards: the first
//! access is counted with the home that the policy of the kernel would give, the class stays open, and the next access
//! asks. If the answer differs, the collector moves that one access ([`PageRecord::first_class`]).

use crate::call;
use crate::lock::Lock;
use crate::runtime::runtime;
use crate::shared::ProcessMemory;
use crate::sys;
use crate::thread::Thread;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use hashbrown::HashMap;
use numalens_event::exact::{self, PageRecord, Placement, touch};
use numalens_translator::PageEntry;
use numalens_translator::count::{Pages, Run};
use rustc_hash::FxBuildHasher;

const PAGE_BITS: u32 = 12;
/// Page numbers of the address space.
const END: u64 = sys::USER_END >> PAGE_BITS;
/// Pages whose entries share a page of the table.
const CHUNK: u64 = 512;
/// Bytes of the shadow table.
pub const SHADOW_BYTES: u64 = END * size_of::<PageEntry>() as u64;

/// The shadow table.
pub struct Shadow {
    base: u64,
    /// Chunks that hold entries, and how many: so that unmapping a vast range does not look at all of it.
    used: Lock<HashMap<u64, u32, FxBuildHasher>>,
}

impl Shadow {
    /// The table at `base`.
    pub const fn new(base: u64) -> Self {
        Shadow { base, used: Lock::new(HashMap::with_hasher(FxBuildHasher)) }
    }

    /// Where the table is.
    pub fn base(&self) -> u64 {
        self.base
    }

    fn word(&self, page: u64) -> &AtomicU64 {
        debug_assert!(page < END);
        // SAFETY: within the table, which is never unmapped; 8 bytes, aligned.
        unsafe { &*((self.base + page * 8) as *const AtomicU64) }
    }

    fn load(&self, page: u64) -> PageEntry {
        let word = self.word(page).load(Relaxed);
        PageEntry { class: word as u32, slot: (word >> 32) as u32 }
    }

    fn store(&self, page: u64, entry: PageEntry) {
        self.word(page).store(u64::from(entry.class) | u64::from(entry.slot) << 32, Release);
    }

    /// Nobody else may change the table until [`Shadow::release`]: around a fork.
    pub fn hold(&self) {
        self.used.hold();
    }

    /// Ends [`Shadow::hold`].
    ///
    /// # Safety
    /// By the thread that held it, or in its forked child.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.used.force_free() };
    }

    /// The entry of a page that the thread touches, new or known.
    fn touch(&self, memory: &ProcessMemory, thread: &Thread, run: &Run) -> Option<PageEntry> {
        let page = run.address >> PAGE_BITS;
        let placement = runtime().session.placement();
        let known = self.load(page);
        if known.class != 0 {
            return Some(known);
        }
        let mut used = self.used.lock();
        let known = self.load(page);
        if known.class != 0 {
            return Some(known);
        }
        if known.slot != 0 {
            return Some(self.resolve(memory, page, known));
        }
        let number = memory.header().pages.fetch_add(1, AcqRel);
        if number >= exact::MOST_PAGES {
            return None;
        }
        *used.entry(page / CHUNK).or_default() += 1;
        let pinned = thread.node >= 0;
        let is_virtual = placement.is_virtual.load(Relaxed) != 0;
        let there_already = if is_virtual { None } else { query(page) };
        let home = match there_already {
            Some(home) => Some(home),
            None => predicted(placement, page, thread.node),
        };
        let class = class_of(memory, home, pinned);
        let record = memory.page(number);
        record.page.store(page, Relaxed);
        record.begin_ns.store(sys::now_ns(), Relaxed);
        record.site.store(run.site.0, Relaxed);
        record.thread.store(thread.extent.0, Relaxed);
        record.class.store(class, Relaxed);
        record.first_class.store(class, Relaxed);
        record.how.store(if there_already.is_some() { touch::UNSEEN } else { touch::FIRST }, Release);
        let slot = number * 2;
        let settled = is_virtual || there_already.is_some();
        self.store(page, PageEntry { class: if settled { class } else { 0 }, slot });
        Some(PageEntry { class, slot })
    }

    /// Asks where a page that was touched before is now.
    fn resolve(&self, memory: &ProcessMemory, page: u64, known: PageEntry) -> PageEntry {
        let record = memory.page(known.slot / 2);
        let word = memory.header().classes[record.class.load(Relaxed) as usize].load(Relaxed);
        let pinned = exact::class_meaning(word).is_some_and(|(_, pinned)| pinned);
        let home = query(page);
        let class = class_of(memory, home, pinned);
        record.class.store(class, Relaxed);
        let entry = PageEntry { class, ..known };
        // A page without a home (the shared zero page) may get one by the next access: it stays open.
        self.store(page, if home.is_some() { entry } else { known });
        entry
    }

    /// Forgets the pages of a range: they are unmapped, or their contents were given up.
    pub fn clear(&self, memory: &ProcessMemory, range: Range<u64>) {
        let mut gone = false;
        self.each(range.clone(), |shadow, page, entry| {
            gone = true;
            memory.page(entry.slot / 2).end_ns.store(sys::now_ns(), Relaxed);
            shadow.store(page, PageEntry::default());
            true
        });
        if gone {
            self.forget(range);
        }
    }

    /// The entries of pages in a range have changed: threads that stay there look again.
    pub fn forget(&self, range: Range<u64>) {
        let runtime = runtime();
        for area in runtime.areas.lock().iter() {
            area.forget(&runtime.layout, &range);
        }
    }

    /// The pages of a range moved to `to`: the same homes, other addresses.
    pub fn moved(&self, memory: &ProcessMemory, range: Range<u64>, to: u64) {
        let first = range.start >> PAGE_BITS;
        let mut arrived = alloc::vec::Vec::new();
        self.each(range.clone(), |shadow, page, entry| {
            let old = memory.page(entry.slot / 2);
            let now = sys::now_ns();
            old.end_ns.store(now, Relaxed);
            shadow.store(page, PageEntry::default());
            let number = memory.header().pages.fetch_add(1, AcqRel);
            if number < exact::MOST_PAGES {
                let new_page = (to >> PAGE_BITS) + page - first;
                let record = memory.page(number);
                copy(old, record);
                record.page.store(new_page, Relaxed);
                record.begin_ns.store(now, Relaxed);
                record.how.store(touch::MOVED, Release);
                arrived.push((new_page, PageEntry { class: entry.class, slot: number * 2 }));
            }
            true
        });
        self.forget(range);
        let mut used = self.used.lock();
        for (page, entry) in arrived {
            if page < END {
                *used.entry(page / CHUNK).or_default() += 1;
                self.store(page, entry);
            }
        }
    }

    /// Calls `gone` for each page of a range that has an entry; it says whether it took the entry away.
    fn each(&self, range: Range<u64>, mut gone: impl FnMut(&Self, u64, PageEntry) -> bool) {
        let first = range.start >> PAGE_BITS;
        let end = range.end.div_ceil(1 << PAGE_BITS).min(END);
        if first >= end {
            return;
        }
        let mut used = self.used.lock();
        let mut chunk_gone = |chunk: u64, count: &mut u32| {
            for page in (chunk * CHUNK).max(first)..(chunk * CHUNK + CHUNK).min(end) {
                let entry = self.load(page);
                if entry.slot != 0 && gone(self, page, entry) {
                    *count = count.saturating_sub(1);
                }
            }
        };
        let chunks = first / CHUNK..end.div_ceil(CHUNK);
        if chunks.end - chunks.start < used.len() as u64 {
            for chunk in chunks {
                if let Some(count) = used.get_mut(&chunk) {
                    chunk_gone(chunk, count);
                }
            }
        } else {
            for (&chunk, count) in used.iter_mut().filter(|(chunk, _)| chunks.contains(chunk)) {
                chunk_gone(chunk, count);
            }
        }
        used.retain(|_, count| *count > 0);
    }
}

fn copy(from: &PageRecord, to: &PageRecord) {
    to.site.store(from.site.load(Relaxed), Relaxed);
    to.thread.store(from.thread.load(Relaxed), Relaxed);
    to.class.store(from.class.load(Relaxed), Relaxed);
    to.first_class.store(from.first_class.load(Relaxed), Relaxed);
}

/// Where the page will land if a thread bound to `node` (negative: unpinned) touches it first.
fn predicted(placement: &Placement, page: u64, node: i32) -> Option<u8> {
    let (policy, seed) = (placement.policy.load(Relaxed), placement.seed.load(Relaxed));
    let memory_nodes = placement.memory_nodes_used.load(Relaxed);
    if let Some(drawn) = exact::home_under(policy, seed, page, u64::from(memory_nodes)) {
        return placement.memory_nodes.get(drawn as usize).map(|node| node.load(Relaxed));
    }
    let toucher = match usize::try_from(node) {
        Ok(node) => Some(node),
        Err(_) if placement.is_virtual.load(Relaxed) != 0 => {
            // An unpinned thread runs anywhere: the host's CPUs stand for the nodes in turn.
            let nodes = placement.cpu_nodes_used.load(Relaxed).max(1);
            placement.cpu_nodes.get((sys::cpu() % nodes) as usize).map(|node| usize::from(node.load(Relaxed)))
        }
        Err(_) => placement.node_of_cpu.get(sys::cpu() as usize).map(|node| usize::from(node.load(Relaxed))),
    };
    let home = placement.home_of.get(toucher?)?.load(Relaxed);
    (home != exact::NO_NODE).then_some(home)
}

/// Where the kernel has put a page; `None` where there is none. The page is not touched.
fn query(page: u64) -> Option<u8> {
    let address = page << PAGE_BITS;
    let mut status = -1i32;
    // SAFETY: one address to look up, one word for the answer; without target nodes nothing is moved.
    let asked = unsafe { call!(__NR_move_pages, 0, 1, &raw const address, 0, &raw mut status, 0) };
    let node = asked.ok().and_then(|_| u32::try_from(status).ok())?;
    let nodes = &runtime().session.placement().kernel_nodes;
    nodes.iter().position(|known| known.load(Relaxed) == node + 1).and_then(|index| u8::try_from(index).ok())
}

/// The number of a class; called with the table locked.
fn class_of(memory: &ProcessMemory, home: Option<u8>, pinned: bool) -> u32 {
    let word = exact::class_word(home, pinned);
    let classes = 1usize << runtime().layout.classes_log2;
    let known = &memory.header().classes[..classes.min(exact::MOST_CLASSES)];
    for (number, class) in known.iter().enumerate().skip(1) {
        match class.load(Relaxed) {
            0 => {
                class.store(word, Release);
                return number as u32;
            }
            found if found == word => return number as u32,
            _ => {}
        }
    }
    // There are as many as the machine can make; a full table would be a mistake of the collector's.
    known.len() as u32 - 1
}

/// What a thread uses to count out of line.
pub struct Toucher<'a> {
    /// Itself.
    pub thread: &'a Thread,
}

impl Pages for Toucher<'_> {
    fn entry(&mut self, run: &Run) -> Option<PageEntry> {
        // What no program can map faults before it is an access.
        if run.address >= sys::USER_END {
            return None;
        }
        let runtime = runtime();
        runtime.shadow.touch(runtime.process(), self.thread, run)
    }
}
