//! Cache lines: who accessed each last, and whether what two threads do there concerns each other.
//!
//! The accesses of one thread to a line from the moment on at which it finds another thread to be the last one are its
//! *turn*. A turn is compared with the one before it, by words of 4 bytes:
//!
//! ```text
//!   thread 1 writes word 0    |  thread 2 reads word 0                     true sharing: the value travels
//!   thread 1 writes word 0    |  thread 2 writes word 3                    false sharing: only the line travels
//!   thread 1 writes word 0    |  thread 2 writes word 3, then reads word 0  false at first, then true
//!   thread 1 reads word 0     |  thread 2 reads word 0                     neither: both keep their copies
//! ```
//!
//! Counts are the thread's own. What threads share is 16 bytes for each line, which change at once: the last thread and
//! its node, the words that its turn has accessed and written, and those of the turn before. While a turn goes on and
//! accesses nothing new, they are only read.

use crate::state::page_id::PageId;
use crate::state::runtime::Runtime;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, LINE_BYTES, LINES_OF_PAGE, LastAccess, LineCounts, log};
use numalens_isa::Kind;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// log2 of the bytes of a word.
const WORD_BITS: u64 = 2;
/// Bits of a thread's number in [`LastAccess::who`].
const THREAD_BITS: u32 = 32;
const NODE_BITS: u32 = 16;

/// Whether a turn concerns the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sharing {
    /// There was none before it.
    First,
    /// Both have only read.
    Reads,
    /// One has written, other words than the other has accessed.
    False,
    /// One has accessed what the other has written.
    True,
}

/// Words of a line, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Words {
    accessed: u16,
    written: u16,
}

impl Words {
    fn of(run: &Run) -> Self {
        let first = run.address % LINE_BYTES;
        // Where the size is not known, it is much (`xsave`). What lies in the next line is left out.
        let bytes = if run.size == 0 { LINE_BYTES } else { u64::from(run.size).saturating_mul(run.count) };
        let last = (first + bytes - 1).min(LINE_BYTES - 1);
        let accessed = ((2u32 << (last >> WORD_BITS)) - (1 << (first >> WORD_BITS))) as u16;
        Words { accessed, written: if run.kind == Kind::Read { 0 } else { accessed } }
    }

    fn with(self, more: Words) -> Self {
        Words { accessed: self.accessed | more.accessed, written: self.written | more.written }
    }

    fn after(self, before: Words) -> Sharing {
        if self.accessed & before.written | self.written & before.accessed != 0 {
            Sharing::True
        } else if self.written | before.written != 0 {
            Sharing::False
        } else {
            Sharing::Reads
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.accessed) | u64::from(self.written) << 16
    }

    fn unpack(packed: u64) -> Self {
        Words { accessed: packed as u16, written: (packed >> 16) as u16 }
    }
}

/// What [`LastAccess`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last {
    /// Its place in the order of creation, plus 1; 0: nobody.
    thread: u32,
    /// The index of its node, plus 1; 0: unpinned.
    node: u16,
    sharing: Sharing,
    now: Words,
    before: Words,
}

impl Last {
    /// After one more access.
    fn then(self, thread: u32, node: u16, words: Words) -> Self {
        if self.thread != thread {
            let sharing = if self.thread == 0 { Sharing::First } else { words.after(self.now) };
            return Last { thread, node, sharing, now: words, before: self.now };
        }
        let now = self.now.with(words);
        let sharing = if self.sharing == Sharing::First { Sharing::First } else { now.after(self.before) };
        Last { sharing, now, ..self }
    }

    fn pack(self) -> [u64; 2] {
        let sharing = self.sharing as u64;
        let who = u64::from(self.thread) | u64::from(self.node) << THREAD_BITS | sharing << (THREAD_BITS + NODE_BITS);
        [who, self.now.pack() | self.before.pack() << 32]
    }

    fn unpack([who, words]: [u64; 2]) -> Self {
        let sharing = match who >> (THREAD_BITS + NODE_BITS) {
            0 => Sharing::First,
            1 => Sharing::Reads,
            2 => Sharing::False,
            _ => Sharing::True,
        };
        let node = (who >> THREAD_BITS) as u16;
        Last { thread: who as u32, node, sharing, now: Words::unpack(words), before: Words::unpack(words >> 32) }
    }
}

/// A page is counted under another number from now on: its lines were accessed last by those who have done so.
pub fn renumbered(memory: &ProcessMemory, old: PageId, new: PageId) {
    for line in 0..LINES_OF_PAGE {
        let (Some(from), Some(to)) = (memory.last_access(old, line), memory.last_access(new, line)) else { return };
        if from.who.load(Relaxed) == 0 {
            continue;
        }
        to.words.store(from.words.load(Relaxed), Relaxed);
        to.who.store(from.who.load(Relaxed), Relaxed);
    }
}

/// Replaces `old`, if that is what stands there. All processors have the instruction that can run translated code.
fn exchange(record: &LastAccess, old: [u64; 2], new: [u64; 2]) -> bool {
    let done: u8;
    // SAFETY: writes 16 bytes of atomics, aligned to 16, that live as long as the borrow. rbx, which the compiler keeps
    // for itself, is put back.
    unsafe {
        core::arch::asm!(
            "xchg {low}, rbx",
            "lock cmpxchg16b [rdi]",
            "sete r8b",
            "mov rbx, {low}",
            low = inout(reg) new[0] => _,
            in("rcx") new[1],
            inout("rax") old[0] => _,
            inout("rdx") old[1] => _,
            in("rdi") record,
            out("r8b") done,
            options(nostack),
        );
    }
    done != 0
}

/// Counts accesses to one line of a page, which a thread has counted for `entry`.
pub fn count(runtime: &Runtime, thread: &Thread, run: &Run, entry: PageEntry) {
    let memory = runtime.process();
    let page = PageId::of(entry);
    let line = run.address / LINE_BYTES % LINES_OF_PAGE;
    let Some(record) = memory.last_access(page, line) else {
        too_many(runtime);
        return;
    };
    let number = u64::from(page.0) * LINES_OF_PAGE + line;
    let at = thread.context.0 + runtime.layout.lines() + number * size_of::<LineCounts>() as u64;
    // SAFETY: the thread's own table, mapped as long as its context, which has so many for each page that has a record;
    // made of atomics.
    let counts = unsafe { &*(at as *const LineCounts) };
    if run.kind != Kind::Write {
        add(&counts.reads, run.count);
    }
    if run.kind != Kind::Read {
        add(&counts.writes, run.count);
    }
    // What is taken back has accessed nothing; that it has been somebody's turn stays.
    if run.is_taken_back() {
        return;
    }
    let words = Words::of(run);
    let known = counts.words.load(Relaxed);
    if known | words.pack() != known {
        counts.words.store(known | words.pack(), Relaxed);
    }
    let index = runtime.session.entry(thread.extent).index.load(Relaxed);
    let node = u16::try_from(thread.node + 1).unwrap_or(0);
    loop {
        let stands = [record.who.load(Relaxed), record.words.load(Relaxed)];
        let was = Last::unpack(stands);
        let is = was.then(index + 1, node, words);
        if is == was || exchange(record, stands, is.pack()) {
            turned(runtime, thread, counts, was, is);
            return;
        }
    }
}

/// Counts what a turn that begins or goes on is.
fn turned(runtime: &Runtime, thread: &Thread, counts: &LineCounts, was: Last, is: Last) {
    let counter = |sharing| match sharing {
        Sharing::First | Sharing::Reads => None,
        Sharing::False => Some(&counts.false_sharing),
        Sharing::True => Some(&counts.true_sharing),
    };
    if was.thread == is.thread {
        if was.sharing != is.sharing {
            counter(was.sharing).into_iter().for_each(|counter| add(counter, 1u64.wrapping_neg()));
            counter(is.sharing).into_iter().for_each(|counter| add(counter, 1));
        }
        return;
    }
    if was.thread == 0 {
        return;
    }
    add(&counts.transitions, 1);
    if was.node != 0 && is.node != 0 && was.node != is.node {
        add(&counts.node_transitions, 1);
    }
    counter(is.sharing).into_iter().for_each(|counter| add(counter, 1));
    let other = u64::from(was.thread - 1).min(u64::from(exact::MOST_EXTENTS) - 1);
    let at = thread.context.0 + runtime.layout.communication() + other * 8;
    // SAFETY: as above: one for each thread that there can be.
    add(unsafe { &*(at as *const AtomicU64) }, 1);
}

/// Only the thread itself writes its counters.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

#[cold]
fn too_many(runtime: &Runtime) {
    let header = runtime.process().header();
    if header.lines_left_out.swap(1, Relaxed) == 0 {
        let text = b"a process has touched 32 GiB, page by page: cache lines of pages that it touched after that are not counted";
        runtime.process().log(log::NOTE, &[], text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_translator::SiteId;

    fn words(kind: Kind, address: u64, size: u32, count: u64) -> Words {
        Words::of(&Run { site: SiteId(0), kind, address, size, count, done: false })
    }

    #[test]
    fn words_are_those_that_an_access_covers() {
        assert_eq!(words(Kind::Read, 0x1000, 4, 1), Words { accessed: 1, written: 0 });
        assert_eq!(words(Kind::Write, 0x1003, 2, 1), Words { accessed: 3, written: 3 });
        assert_eq!(words(Kind::Read, 0x1000, 64, 1).accessed, 0xffff);
        assert_eq!(words(Kind::Read, 0x1000, 1, 64).accessed, 0xffff);
        assert_eq!(words(Kind::ReadWrite, 0x103c, 8, 1), Words { accessed: 0x8000, written: 0x8000 });
        assert_eq!(words(Kind::Write, 0x1020, 0, 1).accessed, 0xff00);
    }

    #[test]
    fn turns_are_compared_with_the_one_before() {
        let nobody = Last::unpack([0; 2]);
        let (one, two) = (|kind, address| words(kind, address, 4, 1), 2);
        let first = nobody.then(1, 1, one(Kind::Write, 0));
        assert_eq!((first.thread, first.sharing), (1, Sharing::First));
        assert_eq!(first.then(two, 0, one(Kind::Read, 0)).sharing, Sharing::True);
        let apart = first.then(two, 0, one(Kind::Write, 12));
        assert_eq!(apart.sharing, Sharing::False);
        // It reads what the first had written after all.
        assert_eq!(apart.then(two, 0, one(Kind::Read, 0)).sharing, Sharing::True);
        // Back again: the first one's own word, which the second has not touched.
        assert_eq!(apart.then(1, 1, one(Kind::Read, 0)).sharing, Sharing::False);
        let readers = nobody.then(1, 1, one(Kind::Read, 0)).then(two, 0, one(Kind::Read, 0));
        assert_eq!(readers.sharing, Sharing::Reads);
        assert_eq!(readers.then(two, 0, one(Kind::Write, 0)).sharing, Sharing::True);
        assert_eq!(readers.then(two, 0, one(Kind::Write, 32)).sharing, Sharing::False);
    }

    #[test]
    fn packing_loses_nothing() {
        for sharing in [Sharing::First, Sharing::Reads, Sharing::False, Sharing::True] {
            let (now, before) = (Words { accessed: 0x8421, written: 0x8001 }, Words { accessed: u16::MAX, written: 7 });
            let last = Last { thread: exact::MOST_EXTENTS, node: 1024, sharing, now, before };
            assert_eq!(Last::unpack(last.pack()), last);
        }
        assert_eq!(Last::unpack([0; 2]).sharing, Sharing::First);
    }

    #[test]
    fn records_change_at_once() {
        let record = LastAccess { who: AtomicU64::new(1), words: AtomicU64::new(2) };
        assert!(!exchange(&record, [1, 3], [7, 7]) && !exchange(&record, [0, 2], [7, 7]));
        assert!(exchange(&record, [1, 2], [7, 8]));
        assert_eq!((record.who.load(Relaxed), record.words.load(Relaxed)), (7, 8));
    }
}
