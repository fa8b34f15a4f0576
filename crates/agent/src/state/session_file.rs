//! The session file as the agent sees it: a few mappings, and the right to extents.

use super::page_id::PageId;
use crate::state::thread_context::{LINE_MASKS, LOOKUP, LOOKUP_BYTES, RETURNS, RETURNS_BYTES};
use crate::sys::{self, Errno, PAGE, raw};
use core::ffi::CStr;
use core::mem::size_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU64};
use numalens_event::exact::{
    self, COMMON_ENTRIES, CodeDirectory, Commons, DirectoryEntry, Extent, LastAccess, LogHeader, PageRecord, Placement,
    ProcessHeader, SegmentRecord, SessionHeader, SiteRecord, end, kind,
};
use numalens_translator::line_masks;

/// The file.
#[derive(Clone, Copy)]
pub struct Session {
    /// Its descriptor, which the program must neither see closed nor replaced.
    pub descriptor: i32,
    header: u64,
    directory: u64,
    common: u64,
    /// Persisted code; 0: it cannot be mapped.
    code: u64,
}

impl Session {
    /// Maps the header and the directory.
    ///
    /// # Errors
    /// The kernel's; `Errno(0)` when it is not a session file of this version.
    pub fn open(descriptor: i32) -> Result<Self, Errno> {
        let header = sys::map_shared(exact::IMAGE_OFFSET, descriptor, 0)?;
        let bytes = u64::from(exact::MOST_EXTENTS) * size_of::<DirectoryEntry>() as u64;
        let directory = sys::map_shared(bytes, descriptor, exact::DIRECTORY_OFFSET)?;
        let mut session = Session { descriptor, header, directory, common: 0, code: 0 };
        let found = (session.header().magic.load(Acquire), session.header().version.load(Relaxed));
        if found != (exact::MAGIC, exact::VERSION) {
            return Err(Errno(0));
        }
        sys::use_clock(session.header());
        session.common = session.map_common()?;
        // Without it, all is translated.
        session.code = sys::map_shared_readable(exact::CODE_BYTES, descriptor, exact::CODE_OFFSET).unwrap_or(0);
        Ok(session)
    }

    fn map_common(&self) -> Result<u64, Errno> {
        let bytes = exact::COMMON_BYTES;
        let path = self.header().common.each_ref().map(|byte| byte.load(Relaxed));
        let path = CStr::from_bytes_until_nul(&path).ok().filter(|path| !path.is_empty());
        if let Some(file) = path.and_then(|path| sys::open(path, raw::O_RDWR | raw::O_NOFOLLOW)) {
            let whole = sys::length(file).is_some_and(|length| length >= bytes);
            let mapped = if whole { sys::map_shared(bytes, file, 0).ok() } else { None };
            sys::close(file);
            if let Some(mapped) = mapped {
                return Ok(mapped);
            }
        }
        // None is named, or this program may not see it.
        sys::map_shared(bytes, self.descriptor, exact::COMMON_OFFSET)
    }

    /// The header.
    pub fn header(&self) -> &'static SessionHeader {
        // SAFETY: mapped for ever, made of atomics.
        unsafe { &*(self.header as *const SessionHeader) }
    }

    /// The persisted code.
    pub fn code_directory(&self) -> Option<&'static CodeDirectory> {
        // SAFETY: mapped for ever, made of atomics.
        (self.code != 0).then(|| unsafe { &*(self.code as *const CodeDirectory) })
    }

    /// Where pages and threads go.
    pub fn placement(&self) -> &'static Placement {
        // SAFETY: as above.
        unsafe { &*((self.header + exact::PLACEMENT_OFFSET) as *const Placement) }
    }

    /// Writes words to the file, from a page's start on. By way of a mapping: a limit of file sizes that the program
    /// has is one of `pwrite`.
    pub fn write(&self, offset: u64, words: &[u64]) {
        let bytes = (size_of_val(words) as u64).next_multiple_of(sys::PAGE);
        if let Ok(at) = sys::map_shared(bytes, self.descriptor, offset) {
            // SAFETY: mapped just now, for as many words at least.
            unsafe { core::ptr::copy_nonoverlapping(words.as_ptr(), at as *mut u64, words.len()) };
            sys::unmap(at, bytes);
        }
    }

    /// Pages that processes have in common: see [`crate::pages`].
    pub fn common(&self) -> &'static [AtomicU64] {
        // SAFETY: mapped for ever, made of atomics.
        unsafe { core::slice::from_raw_parts(self.common as *const AtomicU64, COMMON_ENTRIES) }
    }

    /// What processes say of such memory.
    pub fn commons(&self) -> &'static Commons {
        // SAFETY: as above; it stands behind those.
        unsafe { &*((self.common + exact::COMMONS_AT) as *const Commons) }
    }

    /// The entry of an extent in the directory.
    pub fn entry(&self, extent: Extent) -> &'static DirectoryEntry {
        debug_assert!(extent.0 < exact::MOST_EXTENTS);
        // SAFETY: as above; extents are given below the maximum only.
        unsafe { &*((self.directory as *const DirectoryEntry).add(extent.0 as usize)) }
    }

    /// A new extent for a process or thread `id` that begins now.
    pub fn new_extent(&self, what: u32, parent: Extent, id: u32, index: u32) -> Option<Extent> {
        self.give(what, parent, id, index, -1)
    }

    /// A new extent for the counters that the thread `id`, which runs and has this index, has on a node.
    pub fn new_seat(&self, process: Extent, id: u32, index: u32, node: i32) -> Option<Extent> {
        self.give(kind::SEAT, process, id, index, node)
    }

    fn give(&self, what: u32, parent: Extent, id: u32, index: u32, node: i32) -> Option<Extent> {
        let extent = Extent(self.header().extents.fetch_add(1, AcqRel));
        if extent.0 >= exact::MOST_EXTENTS {
            return None;
        }
        let entry = self.entry(extent);
        entry.parent.store(parent.0, Relaxed);
        entry.id.store(id, Relaxed);
        entry.index.store(index, Relaxed);
        entry.node.store(node, Relaxed);
        entry.start_ns.store(sys::now_ns(), Relaxed);
        entry.kind.store(what, Release);
        Some(extent)
    }

    /// A new extent for a thread of `process` that runs beside others. Its id is set when it runs.
    pub fn new_thread(&self, process: Extent) -> Option<Extent> {
        let of = self.entry(process);
        let number = of.created.fetch_add(1, Relaxed) + 1;
        self.thread_extent(process, self.next_index(), of.slot.load(Relaxed).saturating_add(number))
    }

    /// The same for a child that borrows the memory of `process` until it executes a program.
    pub fn new_borrower(&self, process: Extent) -> Option<Extent> {
        let index = self.next_index();
        let extent = self.thread_extent(process, index, 0)?;
        self.entry(extent).slot.store(self.slots().claim(extent, index), Relaxed);
        Some(extent)
    }

    /// The same for the first thread of a program: after an exec it is the thread `caller` that called it, of this
    /// process or of one that lent this one its memory.
    pub fn first_thread(&self, process: Extent, caller: Extent) -> Option<Extent> {
        let (index, slot) = match caller.0 {
            ..exact::MOST_EXTENTS => (self.entry(caller).index.load(Relaxed), self.slot_after_exec(process, caller)),
            _ => {
                let index = self.next_index();
                (index, self.slots().claim(process, index))
            }
        };
        self.entry(process).slot.store(slot, Relaxed);
        self.thread_extent(process, index, slot)
    }

    /// That of the process that has become another program, or of the borrower that has.
    fn slot_after_exec(&self, process: Extent, caller: Extent) -> u32 {
        let parent = Extent(self.entry(caller).parent.load(Relaxed));
        let is_borrower = self.entry(parent).end.load(Acquire) != end::EXEC;
        let owner = if is_borrower { caller } else { parent };
        let slot = self.entry(owner).slot.load(Relaxed);
        self.slots().hand_on(slot, owner, process);
        slot
    }

    fn next_index(&self) -> u32 {
        self.header().threads.fetch_add(1, AcqRel)
    }

    fn slots(&self) -> &'static exact::Slots {
        &self.placement().slots
    }

    fn thread_extent(&self, process: Extent, index: u32, slot: u32) -> Option<Extent> {
        let extent = self.new_extent(kind::THREAD, process, 0, index)?;
        self.entry(extent).slot.store(slot, Relaxed);
        Some(extent)
    }

    /// A thread, known by its first extent, has ended, or does not come to life.
    pub fn thread_ended(&self, extent: Extent) {
        self.give_back_slot(extent);
        self.entry(extent).end_ns.store(sys::now_ns(), Release);
    }

    /// A process, or who borrows one's memory, ends.
    pub fn give_back_slot(&self, owner: Extent) {
        self.slots().free(self.entry(owner).slot.load(Relaxed), owner);
    }

    /// Notes what the calling thread, whose extent this is, is called by now.
    pub fn take_name(&self, extent: Extent) {
        sys::thread_name(&self.entry(extent).name);
    }

    /// The first extent of the thread `tid` that runs; the latest that has the id. One that is on its way to
    /// its next one, in an exec, still has the one
    /// before; for that of a process that was forked just now, this waits.
    pub fn thread_of(&self, tid: u32) -> Option<Extent> {
        /// A child that does not get to run, as it is stopped, is not waited for any longer.
        const PATIENCE_NS: u64 = 1_000_000_000;
        let mut since = None;
        loop {
            let given = self.header().extents.load(Acquire).min(exact::MOST_EXTENTS);
            let entries = (0..given).rev().map(|number| (Extent(number), self.entry(Extent(number))));
            let mut its = entries.filter(|(_, entry)| entry.id.load(Acquire) == tid);
            let (extent, entry) = its.find(|(_, entry)| {
                let is_new = || entry.index.load(Relaxed) == 0 && entry.end_ns.load(Acquire) == 0;
                match entry.kind.load(Acquire) {
                    kind::THREAD => true,
                    kind::PROCESS => is_new(),
                    _ => false,
                }
            })?;
            if entry.kind.load(Acquire) == kind::THREAD {
                let goes_on = || entry.end.load(Relaxed) == end::EXEC;
                return Some(extent).filter(|_| entry.end_ns.load(Acquire) == 0 || goes_on());
            }
            let now = sys::now_ns();
            if now.saturating_sub(*since.get_or_insert(now)) > PATIENCE_NS || !sys::is_alive(tid, tid as i32) {
                return None;
            }
            sys::nap();
        }
    }
}

/// The extent of a process, mapped.
#[derive(Clone, Copy)]
pub struct ProcessMemory {
    /// Which one.
    pub extent: Extent,
    header: u64,
    log: u64,
    sites: u64,
    segments: u64,
    pages: u64,
    /// 0: cache lines are not counted.
    lines: u64,
}

/// The pieces of a process's extent: offset and length. The last one where cache lines are counted.
const PIECES: [(u64, u64); 6] = [
    (0, exact::process::LOG),
    (exact::process::LOG, exact::process::LOG_BYTES),
    (exact::process::SITES, exact::MOST_SITES as u64 * size_of::<SiteRecord>() as u64),
    (exact::process::SEGMENTS, exact::MOST_SEGMENTS as u64 * size_of::<SegmentRecord>() as u64),
    (exact::process::PAGES, exact::MOST_PAGES as u64 * size_of::<PageRecord>() as u64),
    (exact::process::LINES, exact::process::LINES_BYTES),
];

impl ProcessMemory {
    /// Maps the extent of a process whose program begins, with its rank.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(session: &Session, extent: Extent, rank: Option<u32>) -> Result<Self, Errno> {
        let mut at = [0; PIECES.len()];
        let wanted = PIECES.len() - usize::from(session.header().lines.load(Relaxed) == 0);
        for (at, (offset, bytes)) in at.iter_mut().zip(PIECES).take(wanted) {
            *at = sys::map_shared(bytes, session.descriptor, extent.offset() + offset)?;
        }
        let [header, log, sites, segments, pages, lines] = at;
        let memory = ProcessMemory { extent, header, log, sites, segments, pages, lines };
        memory.header().rank.store(rank.map_or(0, |rank| rank.saturating_add(1)), Relaxed);
        // 0 is no page. The collector waits for it.
        memory.header().pages.begin(session.header(), 1);
        Ok(memory)
    }

    /// Takes over the limit of address space of the program before, whose extent is `parent`; of the command's start,
    /// if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn inherit_limit(&self, session: &Session, parent: Extent) -> Result<(), Errno> {
        let given = |from: &[AtomicU64; 2]| from.each_ref().map(|word| word.load(Relaxed));
        let limit = if parent == Extent::NONE || parent.0 >= exact::MOST_EXTENTS {
            given(&session.header().address_space)
        } else {
            let bytes = size_of::<ProcessHeader>().next_multiple_of(sys::PAGE as usize) as u64;
            let at = sys::map_shared(bytes, session.descriptor, parent.offset())?;
            // SAFETY: mapped just now, made of atomics, given back below.
            let limit = given(unsafe { &(*(at as *const ProcessHeader)).address_space });
            sys::unmap(at, bytes);
            limit
        };
        self.header().address_space.iter().zip(limit).for_each(|(to, word)| to.store(word, Relaxed));
        Ok(())
    }

    /// Lets the same addresses stand for another extent: in the child of a fork, which has so many sites and segments
    /// from its parent. (The parent's header may count more by now: it runs.)
    ///
    /// # Errors
    /// The kernel's.
    pub fn become_another(
        &mut self,
        session: &Session,
        extent: Extent,
        sites: u32,
        segments: u32,
    ) -> Result<(), Errno> {
        // Numbers that are given again are among those below.
        let pages = self.header().pages.in_use();
        let regions = self.header().regions.load(Relaxed);
        let classes = self.header().classes.each_ref().map(|class| class.load(Relaxed));
        let limit = self.header().address_space.each_ref().map(|word| word.load(Relaxed));
        let shadow = self.header().shadow.load(Relaxed);
        let at = [self.header, self.log, self.sites, self.segments, self.pages, self.lines];
        for (at, (offset, bytes)) in at.into_iter().zip(PIECES).filter(|(at, _)| *at != 0) {
            // SAFETY: replaces mappings of our own, of the same length.
            unsafe { sys::map_shared_over(at, bytes, session.descriptor, extent.offset() + offset) }?;
        }
        self.extent = extent;
        let header = self.header();
        header.shadow.store(shadow, Relaxed);
        header.inherited.sites.store(sites, Relaxed);
        header.inherited.segments.store(segments, Relaxed);
        header.segments.store(segments, Relaxed);
        header.inherited.pages.store(pages, Relaxed);
        header.inherited.regions.store(regions, Relaxed);
        header.regions.store(regions, Relaxed);
        header.sites.store(sites, Relaxed);
        header.address_space.iter().zip(limit).for_each(|(to, word)| to.store(word, Relaxed));
        header.classes.iter().zip(classes).for_each(|(to, class)| to.store(class, Relaxed));
        // Last: the collector waits for it.
        header.pages.begin(session.header(), pages);
        Ok(())
    }

    /// The header.
    pub fn header(&self) -> &'static ProcessHeader {
        // SAFETY: mapped for ever, made of atomics.
        unsafe { &*(self.header as *const ProcessHeader) }
    }

    /// The record of a site.
    pub fn site(&self, site: u32) -> &'static SiteRecord {
        debug_assert!(site < exact::MOST_SITES);
        // SAFETY: as above.
        unsafe { &*((self.sites as *const SiteRecord).add(site as usize)) }
    }

    /// The record of a segment.
    pub fn segment(&self, number: u32) -> &'static SegmentRecord {
        debug_assert!(number < exact::MOST_SEGMENTS);
        // SAFETY: as above.
        unsafe { &*((self.segments as *const SegmentRecord).add(number as usize)) }
    }

    /// The record of a page.
    pub fn page(&self, number: PageId) -> &'static PageRecord {
        debug_assert!(number.0 < exact::MOST_PAGES);
        // SAFETY: as above.
        unsafe { &*((self.pages as *const PageRecord).add(number.0 as usize)) }
    }

    /// Who accessed a line last, of the 64 of a page; none where that is not kept.
    pub fn last_access(&self, page: PageId, line: u64) -> Option<&'static LastAccess> {
        let is_kept = self.lines != 0 && page.0 < exact::MOST_LINE_PAGES && line < exact::LINES_OF_PAGE;
        let number = u64::from(page.0) * exact::LINES_OF_PAGE + line;
        // SAFETY: as above; there are so many for each of that many pages.
        is_kept.then(|| unsafe { &*((self.lines as *const LastAccess).add(number as usize)) })
    }

    /// Where the turns of lines are; 0: cache lines are not counted.
    pub fn turns(&self) -> u64 {
        self.lines
    }

    /// Says something to the collector: words, then text. Returns where in the log; when that is full, nothing is said.
    pub fn log(&self, what: u32, words: &[u64], text: &[u8]) -> Option<u64> {
        let bytes = (size_of::<LogHeader>() + words.len() * 8 + text.len()).next_multiple_of(8) as u64;
        let at = self.header().log_bytes.fetch_add(bytes, AcqRel);
        if at + bytes > exact::process::LOG_BYTES {
            return None;
        }
        // SAFETY: `bytes` from `at` on are ours alone, within the mapping and aligned to 8.
        unsafe {
            let header = &*((self.log + at) as *const LogHeader);
            header.bytes.store(bytes as u32, Relaxed);
            header.time_ns.store(sys::now_ns(), Relaxed);
            let payload = self.log + at + size_of::<LogHeader>() as u64;
            for (number, &word) in words.iter().enumerate() {
                (*(payload as *const AtomicU64).add(number)).store(word, Relaxed);
            }
            let text_at = payload + words.len() as u64 * 8;
            for (number, &byte) in text.iter().enumerate() {
                (*(text_at as *const AtomicU8).add(number)).store(byte, Relaxed);
            }
            header.kind.store(what, Release);
        }
        Some(at)
    }

    /// Bytes of the log that are taken.
    pub fn logged(&self) -> u64 {
        self.header().log_bytes.load(Relaxed)
    }

    /// The number of the next site, as records of the memory map tell it.
    pub fn next_site(&self) -> u64 {
        self.header().sites.load(Acquire).into()
    }
}

/// Where stands in the session file what thread contexts begin with: tables in which each entry is one of `misses` (of
/// lookups, of returns), and zeros. All programs share it, as long as their agents lie at the same address.
///
/// # Errors
/// The kernel's.
pub fn table_pattern(session: &Session, process: Extent, misses: [u64; 2]) -> Result<u64, Errno> {
    const BEING_WRITTEN: u64 = 1;
    let [miss, _] = misses;
    let shared = &session.header().pattern;
    if shared.load(Acquire) == miss {
        return Ok(exact::PATTERN_OFFSET);
    }
    let first = shared.compare_exchange(0, BEING_WRITTEN, AcqRel, Acquire).is_ok();
    let offset = if first { exact::PATTERN_OFFSET } else { process.offset() + exact::process::LOOKUP };
    for ((place, bytes), miss) in [(LOOKUP, LOOKUP_BYTES), (RETURNS, RETURNS_BYTES)].into_iter().zip(misses) {
        let at = sys::map_shared(bytes, session.descriptor, offset + place)?;
        sys::populate(at, bytes);
        // SAFETY: a mapping of our own, filled and given back.
        unsafe { core::slice::from_raw_parts_mut(at as *mut u64, (bytes / 8) as usize) }.fill(miss);
        sys::unmap(at, bytes);
    }
    if session.header().lines.load(Relaxed) != 0 {
        let at = sys::map_shared(PAGE, session.descriptor, offset + LINE_MASKS)?;
        for (number, mask) in line_masks().enumerate() {
            // SAFETY: a mapping of our own, given back below; there are as many as fit into a page.
            unsafe { (at as *mut u32).add(number).write(mask) };
        }
        sys::unmap(at, PAGE);
    }
    if first {
        shared.store(miss, Release);
    }
    Ok(offset)
}
