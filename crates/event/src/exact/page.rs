//! Incarnations of pages, and the accesses to them.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Most page numbers of a process.
pub const MOST_PAGES: u32 = 1 << 27;
/// Numbers from here on are of regions: what pages of 2 MiB are counted under that share their counters. The collector
/// gives them. Numbers below are of pages, and enough for 496 GiB that are there at a time, at 4 KiB.
pub const FIRST_REGION: u32 = MOST_PAGES - (1 << 22);

/// An incarnation of a page.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PageRecord {
    /// Page number: address / [`crate::page::PAGE`].
    pub page: AtomicU64,
    /// Time of the first touch.
    pub begin_ns: AtomicU64,
    /// When it was unmapped; 0 before, and for ever if it went on under another number before ([`touch::MIGRATED`],
    /// [`touch::NEXT_GENERATION`]).
    pub end_ns: AtomicU64,
    /// The site of the first touch; of [`touch::CALL`]: which call it was.
    pub site: AtomicU32,
    /// The extent of the thread that touched it first.
    pub thread: AtomicU32,
    /// One of [`touch`]; written last.
    pub how: AtomicU32,
    /// The class in which it is counted now; [`super::ProcessHeader::classes`] says what that means.
    pub class: AtomicU32,
    /// The class that the page had when it was placed; [`super::PENDING_HOME`] until somebody has asked the kernel.
    pub first_class: AtomicU32,
    /// One of [`fault`], and what stands beside it.
    pub fault: AtomicU32,
    /// Of a page that continues another one, that one's number: of [`touch::MOVED`], [`touch::MIGRATED`],
    /// [`touch::NEXT_GENERATION`], [`touch::HUGE`], [`touch::INHERITED`]. Of [`touch::FIRST`]: accesses of so many
    /// sites that follow `site` were counted for [`super::PENDING_HOME`] with its own. When the collector has read
    /// that: the region whose counters the page is to share ([`PageRecord::assign`]).
    pub origin: AtomicU32,
    /// The agent's: what is still to be found out, whether it begins a generation with its next access, whether it has
    /// gone on under another number, and which class another process has moved the page to; 0: `class` is final for
    /// now.
    pub open: AtomicU32,
    /// The agent's: accesses since then. Of a page that is open to nothing: the collector's, which wants so many
    /// accesses logged ([`super::log::ACCESS`]); [`HOLD`]: not yet.
    pub waited: AtomicU32,
    /// Where the call stack of the first touch stands in the log: offset / 8 + 1; 0: none.
    pub stack: AtomicU32,
}

const _: () = assert!(size_of::<PageRecord>() == 64 && MOST_PAGES <= PageRecord::ASSIGNED);

impl PageRecord {
    const STATE: u32 = 0x3fff;
    /// The page is counted under another number, whose record is complete.
    const GONE_ON: u32 = 0x4000;
    /// The page has been another object's since it was last accessed.
    const NEXT_GENERATION: u32 = 0x8000;
    const MOVED_SHIFT: u32 = 16;
    const MOVED: u32 = 0xffff << Self::MOVED_SHIFT;
    /// In [`PageRecord::origin`]: the number of a region, for the rest.
    const ASSIGNED: u32 = 1 << 30;
    /// And the page is counted there by now.
    const JOINED: u32 = 1 << 31;

    /// Has it share the counters of a region. For the collector, which has read all of the record.
    pub fn assign(&self, region: u32) {
        self.origin.store(region | Self::ASSIGNED, Release);
    }

    /// The region whose counters it is to share, and does not yet.
    pub fn assigned(&self) -> Option<u32> {
        let region = self.origin.load(Acquire);
        (region & (Self::ASSIGNED | Self::JOINED) == Self::ASSIGNED).then_some(region & !Self::ASSIGNED)
    }

    /// It shares the counters of a region from now on, unless the collector wants something else by now. Whether it
    /// does.
    pub fn join(&self, region: u32) -> bool {
        let assigned = region | Self::ASSIGNED;
        self.origin.compare_exchange(assigned, assigned | Self::JOINED, AcqRel, Relaxed).is_ok()
    }

    /// The region whose counters it shares.
    pub fn joined(&self) -> Option<u32> {
        let region = self.origin.load(Acquire);
        (region & Self::JOINED != 0).then_some(region & !(Self::ASSIGNED | Self::JOINED))
    }

    /// What is still to be found out.
    pub fn state(&self) -> u32 {
        self.open.load(Relaxed) & Self::STATE
    }

    /// Sets that, whatever another process says meanwhile.
    pub fn set_state(&self, state: u32) {
        let with = |open: u32| Some(open & !Self::STATE | state & Self::STATE);
        let _ = self.open.fetch_update(Relaxed, Relaxed, with);
    }

    /// Whether the page has become another object's: its next access is counted under another number.
    pub fn begins_generation(&self) -> bool {
        self.open.load(Relaxed) & Self::NEXT_GENERATION != 0
    }

    /// It has.
    pub fn begin_generation(&self) {
        self.open.fetch_or(Self::NEXT_GENERATION, Relaxed);
    }

    /// Continues another one of the same page, of which is still to be found out what is of that.
    pub fn continue_from(&self, before: &PageRecord) {
        self.open.store(before.open.load(Relaxed) & (Self::STATE | Self::NEXT_GENERATION), Relaxed);
    }

    /// Another process moves the page: it is to be counted in this class. `false`: it has gone on under another number,
    /// which is to be moved.
    pub fn move_to(&self, class: u32) -> bool {
        let with = |open: u32| (open & Self::GONE_ON == 0).then_some(open & !Self::MOVED | class << Self::MOVED_SHIFT);
        self.open.fetch_update(AcqRel, Acquire, with).is_ok()
    }

    /// The class that another process has moved it to, of which its own has not taken notice.
    pub fn moved_to(&self) -> Option<u32> {
        let class = self.open.load(Acquire) >> Self::MOVED_SHIFT;
        (class != 0).then_some(class)
    }

    /// Whether the page is counted under another number by now.
    pub fn has_gone_on(&self) -> bool {
        self.open.load(Acquire) & Self::GONE_ON != 0
    }

    /// The page is in this class now, and notice is taken of who moved it there; of a move elsewhere, made meanwhile,
    /// it is not.
    pub fn notice(&self, class: u32) {
        let with = |open: u32| (open >> Self::MOVED_SHIFT == class).then_some(open & !Self::MOVED);
        let _ = self.open.fetch_update(AcqRel, Acquire, with);
    }

    /// The page is counted in this class under another number from now on, whose record is complete. What others moved
    /// it to meanwhile is said there.
    pub fn go_on(&self, next: &PageRecord, class: u32) {
        let before = self.open.fetch_update(AcqRel, Acquire, |open| Some(open & !Self::MOVED | Self::GONE_ON));
        let moved = before.unwrap_or_else(|open| open) >> Self::MOVED_SHIFT;
        if moved != 0 && moved != class && next.moved_to().is_none() {
            next.move_to(moved);
        }
    }
}

/// In [`PageRecord::waited`]: accesses are to be logged, but threads that stay on the page must be made to look again
/// first.
pub const HOLD: u32 = 1 << 31;

/// How a page came into being.
pub mod touch {
    /// Not filled yet.
    pub const NONE: u32 = 0;
    /// By the access recorded.
    pub const FIRST: u32 = 1;
    /// It was there already: the kernel, or a time before the recording.
    pub const UNSEEN: u32 = 2;
    /// It was moved here by `mremap`: toucher and home are those of before.
    pub const MOVED: u32 = 3;
    /// A read of untouched memory: the shared zero page, nothing was placed.
    pub const ZERO: u32 = 4;
    /// Part of the huge page that another access placed.
    pub const HUGE: u32 = 5;
    /// The parent's, shared since the fork. No page of its own until it is written.
    pub const INHERITED: u32 = 6;
    /// The same page on another node: what is counted from now on is counted there. The record of before has no end.
    pub const MIGRATED: u32 = 7;
    /// The same page, of which a block that has it as a whole has begun or ended since it was last accessed
    /// ([`super::log::NEXT_GENERATION`]): what is counted from now on is another one's. The record of before has no
    /// end.
    pub const NEXT_GENERATION: u32 = 8;
    /// By the kernel, in a system call of the thread: `site` is one of [`super::by`], the instruction is that of
    /// `stack`. Everything else as of [`FIRST`].
    pub const CALL: u32 = 9;
    /// No page: a region. `page` is the first one of its 2 MiB, `class` that of all pages in it.
    pub const REGION: u32 = 10;
}

/// Which system call has placed a page.
pub mod by {
    /// `read`.
    pub const READ: u32 = 1;
    /// `pread64`.
    pub const PREAD: u32 = 2;
    /// `readv`.
    pub const READV: u32 = 3;
    /// `preadv`, `preadv2`.
    pub const PREADV: u32 = 4;
    /// `recvfrom`, `recvmsg`, `recvmmsg`.
    pub const RECEIVE: u32 = 5;
    /// `mmap`, or another call that makes memory, with MAP_POPULATE or of locked memory.
    pub const MAP: u32 = 6;
    /// `madvise` with MADV_POPULATE_READ or MADV_POPULATE_WRITE.
    pub const ADVICE: u32 = 7;
    /// `mlock`, `mlock2`, `mlockall`.
    pub const LOCK: u32 = 8;
    /// `getrandom`.
    pub const RANDOM: u32 = 9;
    /// `getdents`, `getdents64`.
    pub const DIRECTORY: u32 = 10;
    /// `process_vm_readv`.
    pub const PROCESS_READ: u32 = 11;
    /// `process_vm_writev`.
    pub const PROCESS_WRITE: u32 = 12;
}

/// What kind of access placed a page.
pub mod fault {
    /// None was seen.
    pub const NONE: u32 = 0;
    /// A write to fresh anonymous memory.
    pub const ANONYMOUS: u32 = 1;
    /// A write to a page that was shared until then.
    pub const COPY_ON_WRITE: u32 = 2;
    /// A page of a file or of shared memory.
    pub const FILE: u32 = 3;
    /// The bits of these.
    pub const KIND: u32 = 0xff;
    /// Set besides one of these: it may have placed a whole huge page.
    pub const MAY_BE_HUGE: u32 = 1 << 8;
    /// Set besides [`FILE`], and where no access was seen: another process has placed it, or this one by another
    /// mapping; now it is only mapped.
    pub const ANOTHERS: u32 = 1 << 9;
    /// Set besides [`MAY_BE_HUGE`], when pages are looked for that are about to go: it has.
    pub const IS_HUGE: u32 = 1 << 10;
    /// Above this bit stands where in the page the access began, in bytes.
    pub const OFFSET_SHIFT: u32 = 16;
}

/// Accesses of one thread to one page.
#[repr(C)]
#[derive(Debug)]
pub struct PageCounts {
    /// Reads.
    pub reads: AtomicU64,
    /// Writes.
    pub writes: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_known_until_its_page_has_gone_on() {
        let (before, after) = (PageRecord::default(), PageRecord::default());
        assert!(before.move_to(3));
        assert_eq!((before.moved_to(), before.has_gone_on()), (Some(3), false));
        before.go_on(&after, 3);
        assert_eq!((before.moved_to(), before.has_gone_on(), after.moved_to()), (None, true, None));
        assert!(!before.move_to(4), "nobody looks there any more");
    }

    #[test]
    fn a_move_that_comes_meanwhile_is_not_lost() {
        let (before, after) = (PageRecord::default(), PageRecord::default());
        before.move_to(3);
        before.move_to(4);
        before.go_on(&after, 3);
        assert_eq!(after.moved_to(), Some(4));
        after.notice(3);
        assert_eq!(after.moved_to(), Some(4));
        after.notice(4);
        assert_eq!(after.moved_to(), None);
    }

    #[test]
    fn a_page_joins_the_region_that_is_wanted() {
        let page = PageRecord::default();
        assert_eq!((page.assigned(), page.joined()), (None, None));
        page.assign(FIRST_REGION);
        assert_eq!((page.assigned(), page.joined()), (Some(FIRST_REGION), None));
        assert!(!page.join(FIRST_REGION + 1) && page.join(FIRST_REGION));
        assert_eq!((page.assigned(), page.joined()), (None, Some(FIRST_REGION)));
    }

    #[test]
    fn states_and_moves_are_apart() {
        let page = PageRecord::default();
        page.set_state(5);
        page.begin_generation();
        page.move_to(7);
        assert_eq!((page.state(), page.begins_generation(), page.moved_to()), (5, true, Some(7)));
        page.set_state(2);
        assert_eq!((page.state(), page.begins_generation(), page.moved_to()), (2, true, Some(7)));
    }
}
