//! Homes and classes of pages.

use super::table::CHUNK;
use crate::call;
use crate::machine;
use crate::state::maps::{Backing, Huge, Mapping};
use crate::state::runtime::{is_virtual, runtime};
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::PAGE_BITS;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use linux_raw_sys::prctl::PR_GET_THP_DISABLE;
use numalens_event::exact::{self, ProcessHeader, huge_pages};
use numalens_translator::PageEntry;

/// Where a page of memory mapped like `terrain` will land if the thread touches it first.
pub fn expected(page: u64, thread: &Thread, terrain: &Mapping) -> Option<u16> {
    // Huge pages in turn, not only those that begin with the first node's number.
    let placed = if may_be_huge(terrain, page) { page / CHUNK } else { page };
    if is_virtual() {
        // By the place in the memory, which is the same for all who map it.
        let number = if terrain.file.is_memory { terrain.file.page(page) } else { placed };
        let by_address = terrain.backing != Backing::Shared || terrain.file.is_memory;
        if let Some(home) = machine::wanted_home(thread, &terrain.policy, number, by_address) {
            return Some(home);
        }
    }
    let placement = runtime().session.placement();
    let (policy, seed) = (placement.policy.load(Relaxed), placement.seed.load(Relaxed));
    let memory_nodes = placement.memory_nodes_used.load(Relaxed);
    if let Some(drawn) = exact::home_under(policy, seed, placed, u64::from(memory_nodes)) {
        return placement.memory_nodes.get(drawn as usize).map(|node| node.load(Relaxed));
    }
    let toucher = thread.node_now()?;
    let home = placement.home_of.get(usize::from(toucher))?.load(Relaxed);
    (home != exact::NO_NODE).then_some(home)
}

/// The number of a class.
pub fn class_of(memory: &ProcessMemory, home: Option<u16>, pinned: bool) -> u32 {
    class_with(memory, exact::class_word(home, pinned))
}

/// The number of [`exact::PENDING_HOME`].
pub fn pending_home(memory: &ProcessMemory) -> u32 {
    class_with(memory, exact::PENDING_HOME)
}

/// The number of the class of such a word.
pub fn class_with(memory: &ProcessMemory, word: u32) -> u32 {
    class_in(memory.header(), word)
}

/// The number of the class of such a word, in a process of the recording. Whoever makes new ones makes them known at
/// once.
pub fn class_in(process: &ProcessHeader, word: u32) -> u32 {
    let classes = 1usize << runtime().layout.classes_log2;
    let known = &process.classes[..classes.min(exact::MOST_CLASSES)];
    for (number, class) in known.iter().enumerate().skip(PageEntry::READ_ONLY as usize + 1) {
        let found = match class.load(Relaxed) {
            0 => class.compare_exchange(0, word, AcqRel, Relaxed).err().unwrap_or(word),
            found => found,
        };
        if found == word {
            return number as u32;
        }
    }
    // There are as many as the machine can make; a full table would be a mistake of the collector's.
    known.len() as u32 - 1
}

/// Whether the kernel may place all 2 MiB around `page` at once.
pub(super) fn may_be_huge(terrain: &Mapping, page: u64) -> bool {
    let setting = runtime().session.header().huge_pages.load(Relaxed);
    let advised = match terrain.huge {
        Huge::Wanted => setting != huge_pages::NEVER,
        Huge::Default => setting == huge_pages::ALWAYS,
        Huge::Unwanted => false,
    };
    let start = page / CHUNK * CHUNK;
    let within = start << PAGE_BITS >= terrain.start && (start + CHUNK) << PAGE_BITS <= terrain.end;
    advised && within && terrain.backing == Backing::Anonymous && !are_refused(terrain.huge == Huge::Wanted)
}

/// Whether the program wants no huge pages by PR_SET_THP_DISABLE, as Redis does; those that it has asked for by
/// MADV_HUGEPAGE may be an exception (Linux 6.18).
fn are_refused(asked_for: bool) -> bool {
    const REFUSED: u64 = 1 << 0;
    const UNLESS_ASKED_FOR: u64 = 1 << 1;
    // SAFETY: a question.
    let answer = unsafe { call!(__NR_prctl, PR_GET_THP_DISABLE, 0, 0, 0, 0) }.unwrap_or(0);
    answer & REFUSED != 0 && !(asked_for && answer & UNLESS_ASKED_FOR != 0)
}
