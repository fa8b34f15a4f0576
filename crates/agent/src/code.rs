//! Code: reading the program's, and writing down what its translation consists of.

use crate::arenas::Arenas;
use crate::interposer;
use crate::maps::{Backing, Mapping, Maps};
use crate::operand::Operand;
use crate::session_file::ProcessMemory;
use crate::smc::ProtectedPages;
use crate::sys::{self, PAGE};
use crate::thread_context::Layout;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use hashbrown::HashSet;
use numalens_event::exact::{self, log, segment};
use numalens_isa::Kind;
use numalens_translator::{Changes, Env, FetchCounter, Group, Room, Segment, Site, SiteId};
use rustc_hash::FxBuildHasher;

/// Places for pages of code that are known: a system call for each fragment is saved.
const CODE_PAGES: usize = 256;
/// Stands in such a place for no page.
const NO_PAGE: u64 = 1;

/// What the translator asks about, and what it fills.
pub struct TranslationEnv {
    /// The program's mappings.
    pub maps: Maps,
    /// Where sites are registered.
    pub process: ProcessMemory,
    /// How many sites there can be.
    pub layout: Layout,
    /// Addresses of the program at which its allocator is looked at.
    pub watched: HashSet<u64, FxBuildHasher>,
    /// The end of the heap that brk makes; 0 before it was asked for.
    pub heap_end: u64,
    /// New mappings are to be locked in memory.
    pub lock_new: bool,
    /// Where the kernel's code is that programs call.
    vdso: u64,
    /// On a virtual machine: its function that tells a thread its CPU, which is not translated.
    pub getcpu: Option<u64>,
    /// Where translations lie.
    pub arenas: Arenas,
    /// Pages of code that the program could write to.
    pub protected: ProtectedPages,
    /// The operands of all sites: a fault needs them.
    sites: Vec<Operand>,
    /// How many segments there are, and execution counters.
    segments: u32,
    executions: u32,
    /// Pages of code that was translated lately: somebody is about to fetch from them.
    fetched: Vec<u64>,
    /// The collector knows that there is no room for more.
    logged_full: bool,
    /// Pages that were found to be code since mappings last changed, each at a place that follows from its number.
    code_pages: [u64; CODE_PAGES],
}

impl TranslationEnv {
    /// An environment without code; `vdso`: where the kernel's own is; `most_code`: bytes of translations that are
    /// kept.
    pub fn new(maps: Maps, vdso: u64, process: ProcessMemory, layout: Layout, most_code: u64) -> Self {
        TranslationEnv {
            maps,
            process,
            layout,
            watched: HashSet::default(),
            heap_end: 0,
            lock_new: false,
            vdso,
            getcpu: None,
            arenas: Arenas::new(most_code),
            protected: ProtectedPages::default(),
            sites: Vec::new(),
            segments: 0,
            executions: 0,
            fetched: Vec::new(),
            logged_full: false,
            code_pages: [NO_PAGE; CODE_PAGES],
        }
    }

    /// How many sites there are.
    pub fn sites(&self) -> u32 {
        self.sites.len() as u32
    }

    /// How many segments there are.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// The pages of the code that was translated since the last call.
    pub fn take_fetched(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.fetched)
    }

    /// What is known of a site.
    pub fn site(&self, site: u32) -> Option<Operand> {
        self.sites.get(site as usize).copied()
    }

    /// Mappings have changed: nothing that was found out about pages holds any more.
    pub fn forget_pages(&mut self) {
        self.code_pages = [NO_PAGE; CODE_PAGES];
    }

    /// Whether a page can be executed and read.
    fn is_code(&mut self, page: u64) -> bool {
        let place = (page / PAGE) as usize % CODE_PAGES;
        if self.code_pages[place] == page {
            return true;
        }
        let executable = self.maps.find(page).is_some_and(|mapping| mapping.executable());
        let is_code = executable && sys::is_readable(page);
        if is_code {
            self.code_pages[place] = page;
        }
        is_code
    }
}

impl Env for TranslationEnv {
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        let before = self.getcpu.and_then(|at| at.checked_sub(address)).unwrap_or(u64::MAX);
        let length = into.len().min(usize::try_from(before).unwrap_or(usize::MAX));
        let into = &mut into[..length];
        while done < into.len() {
            let at = address + done as u64;
            let page = at & !(PAGE - 1);
            if !self.is_code(page) {
                break;
            }
            let bytes = ((page + PAGE - at) as usize).min(into.len() - done);
            // SAFETY: the page was found readable, and has not been unmapped since. A program that unmaps code while
            // another thread is about to execute it would crash without us too.
            unsafe { core::ptr::copy_nonoverlapping(at as *const u8, into[done..].as_mut_ptr(), bytes) };
            done += bytes;
        }
        done
    }

    fn changes(&mut self, start: u64, end: u64) -> Changes {
        let of = |mapping: &Mapping| {
            let part = start.max(mapping.start)..end.min(mapping.end);
            match mapping.backing {
                _ if mapping.may_change() && !self.protected.hold(part) => Changes::Silently,
                // What is not a file's was made by the program, which may make it anew with the help of system calls.
                Backing::Anonymous if mapping.start != self.vdso => Changes::Notified,
                _ => Changes::Never,
            }
        };
        self.maps.overlapping(start..end).iter().map(of).max().unwrap_or(Changes::Never)
    }

    fn looked_at(&mut self, start: u64, end: u64) {
        self.protected.looked_at(start..end);
    }

    fn write_protect(&mut self, start: u64, end: u64) -> bool {
        self.protected.close(&self.maps, start..end)
    }

    fn is_counted(&mut self, ip: u64) -> bool {
        // More than any fragment has.
        const MARGIN: usize = 4096;
        let used = self.sites.len().max(self.executions as usize);
        let full = used + MARGIN > self.layout.sites as usize;
        if full && !self.logged_full {
            self.logged_full = true;
            let text = b"a process has executed more code than there is room for sites: what it executed first after that is not counted";
            self.process.log(log::NOTE, &[], text);
        }
        !full && !interposer::contains(ip)
    }

    fn is_watched(&mut self, ip: u64) -> bool {
        !self.watched.is_empty() && self.watched.contains(&ip)
    }

    fn new_site(&mut self, site: &Site) -> SiteId {
        let number = self.sites.len() as u32;
        if number >= self.layout.sites {
            // The translator refuses what does not fit; its tables are laid out for this many.
            return SiteId(number);
        }
        let record = self.process.site(number);
        record.address.store(site.ip, Relaxed);
        let kind = match site.kind {
            Kind::Read => exact::site::READ,
            Kind::Write => exact::site::WRITE,
            Kind::ReadWrite => exact::site::READ | exact::site::WRITE,
        };
        record.flags.store(kind | if site.stack { exact::site::STACK } else { 0 }, Relaxed);
        record.log.store(self.process.header().log_bytes.load(Relaxed) as u32, Relaxed);
        self.sites.push(Operand::new(site));
        SiteId(number)
    }

    fn new_group(&mut self, group: &Group) -> SiteId {
        let first = group.first;
        let row = if group.members == 1 { first } else { SiteId(self.sites.len() as u32) };
        if row.0 >= self.layout.sites {
            return row;
        }
        let record = self.process.site(row.0);
        if let Some(last_page) = group.last_page {
            self.executions = self.executions.max(last_page.executions + 1);
            record.executions.store(last_page.executions, Relaxed);
            record.last_page.store(last_page.id.0 + 1, Relaxed);
        }
        if row != first {
            record.address.store(u64::from(first.0), Relaxed);
            record.members.store(group.members, Relaxed);
            let like = self.sites[first.0 as usize];
            self.sites.push(like);
        }
        row
    }

    fn new_segment(&mut self, segment: &Segment) {
        let (kind, counter) = match segment.counter {
            FetchCounter::Executions(number) => (segment::EXECUTIONS, number),
            FetchCounter::Site(site) => (segment::SITE, site.0),
            FetchCounter::Correction(number) => (segment::CORRECTION, number),
        };
        if kind != segment::SITE {
            self.executions = self.executions.max(counter + 1);
        }
        // There is one for each counter, and a second where it goes on in the next page.
        if self.segments >= exact::MOST_SEGMENTS {
            return;
        }
        let record = self.process.segment(self.segments);
        record.address.store(segment.ip, Relaxed);
        record.instructions.store(segment.instructions | kind << segment::KIND_SHIFT, Relaxed);
        record.counter.store(counter, Relaxed);
        self.segments += 1;
        self.process.header().segments.store(self.segments, Release);
        let page = segment.ip & !(PAGE - 1);
        if self.fetched.last() != Some(&page) {
            self.fetched.push(page);
        }
    }

    fn room(&mut self, ip: u64) -> Option<Room> {
        self.arenas.room(ip)
    }

    fn place(&mut self, room: &Room, hot: &[u8], cold: &[u8]) {
        for (to, bytes) in [(room.hot, hot), (room.cold, cold)] {
            // SAFETY: free space of an arena of ours: nobody executes it.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        }
        self.arenas.fill(room, hot.len() as u64, cold.len() as u64);
        // Sites are published when they are complete, and before they are counted.
        self.process.header().sites.store(self.sites.len() as u32, Release);
    }

    fn died(&mut self, hot: u64, bytes: u32) {
        self.arenas.died(hot, u64::from(bytes));
    }

    fn patch(&mut self, address: u64, displacement: i32) {
        // Others write code only with the lock that the caller has, so what is around the displacement stays as it is.
        let shift = 8 * (address & 7);
        // SAFETY: code in an arena of ours, aligned here.
        let word = unsafe { AtomicU64::from_ptr((address & !7) as *mut u64) };
        let around = word.load(Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(around | u64::from(displacement as u32) << shift, Release);
    }
}
