//! What the kernel says of pages, without touching them.

use super::huge_pages::addresses;
use super::table::CHUNK;
use crate::call;
use crate::state::runtime::runtime;
use crate::sys::{self, PAGE_BITS, raw};
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Whether a page is there, and if so the index of its node; `Some(None)`: on a node that the machine in force does not
/// have. The shared zero page is none. Where the kernel does not answer (a container may forbid the question), no home
/// is known.
pub fn presence(page: u64) -> Option<Option<u16>> {
    let mut status = -1i32;
    if query(&[page << PAGE_BITS], core::slice::from_mut(&mut status)) {
        node(status)
    } else {
        is_there(page).then_some(None)
    }
}

/// [`presence`] of many pages.
pub fn presences(pages: &[u64]) -> Vec<Option<Option<u16>>> {
    const AT_ONCE: usize = 1024;
    let mut homes = Vec::with_capacity(pages.len());
    for some in pages.chunks(AT_ONCE) {
        let addresses: Vec<u64> = some.iter().map(|&page| page << PAGE_BITS).collect();
        let mut status = vec![-1i32; addresses.len()];
        if query(&addresses, &mut status) {
            homes.extend(status.into_iter().map(node));
        } else {
            homes.extend(some.iter().map(|&page| is_there(page).then_some(None)));
        }
    }
    homes
}

fn query(addresses: &[u64], status: &mut [i32]) -> bool {
    // SAFETY: as many words for the answers as there are addresses; without target nodes nothing is moved.
    unsafe { call!(__NR_move_pages, 0, addresses.len(), addresses.as_ptr(), 0, status.as_mut_ptr(), 0) }.is_ok()
}

fn node(status: i32) -> Option<Option<u16>> {
    let node = u32::try_from(status).ok()?;
    let nodes = &runtime().session.placement().kernel_nodes;
    Some(nodes.iter().position(|known| known.load(Relaxed) == node + 1).and_then(|index| u16::try_from(index).ok()))
}

/// Whether a page of a shared mapping is there, in this process or in another one, or in the file's memory.
pub fn is_cached(page: u64) -> bool {
    let mut cached = 0u8;
    // SAFETY: a byte for the answer about one page.
    unsafe { call!(__NR_mincore, page << PAGE_BITS, sys::PAGE, &raw mut cached) }.is_ok() && cached & 1 != 0
}

fn open_page_map() -> Option<u64> {
    let path = c"/proc/self/pagemap".as_ptr();
    // SAFETY: a NUL-terminated path.
    unsafe { call!(__NR_openat, raw::AT_FDCWD, path, raw::O_RDONLY | raw::O_CLOEXEC, 0) }.ok()
}

/// Whether the page that is there belongs to a file (or is shared), and is no private copy.
pub fn is_files(page: u64) -> bool {
    const FILE_OR_SHARED: u64 = 1 << 61;
    page_word(page).is_none_or(|word| word & FILE_OR_SHARED != 0)
}

/// Which pages are mapped once only, by the page tables of this process or of another one. They are read in pieces, so
/// it is for pages in order.
pub struct Exclusive {
    map: Option<i32>,
    first: u64,
    words: Vec<u64>,
}

impl Exclusive {
    const AT_ONCE: u64 = 512;

    /// For the process of a thread.
    pub fn of(tid: u32) -> Self {
        let mut path = sys::Line::new();
        let written = write!(path, "/proc/{tid}/pagemap\0");
        let path = CStr::from_bytes_until_nul(path.text()).ok().filter(|_| written.is_ok());
        let map = path.and_then(|path| sys::open(path, raw::O_RDONLY));
        Exclusive { map, first: 0, words: Vec::new() }
    }

    /// Whether a page that is there is; where the kernel does not say, it is.
    pub fn has(&mut self, page: u64) -> bool {
        const MAPPED_ONCE: u64 = 1 << 56;
        if page.wrapping_sub(self.first) >= self.words.len() as u64 {
            self.first = page - page % Self::AT_ONCE;
            self.words.clear();
            self.words.resize(Self::AT_ONCE as usize, MAPPED_ONCE);
            if let Some(map) = self.map {
                let (to, bytes) = (self.words.as_mut_ptr(), Self::AT_ONCE * 8);
                // SAFETY: so many words of our own; a descriptor of our own.
                let _ = unsafe { call!(__NR_pread64, map, to, bytes, self.first * 8) };
            }
        }
        self.words[(page - self.first) as usize] & MAPPED_ONCE != 0
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(map) = self.map {
            sys::close(map);
        }
    }
}

/// Whether there is a page (or the zero page), by the page tables.
fn is_there(page: u64) -> bool {
    page_word(page).is_some_and(|word| word & THERE != 0)
}

/// Whether there is any page in the 2 MiB around one; where the kernel does not say, there is.
pub fn any_of_chunk(page: u64) -> bool {
    let mut any = false;
    let Some(scan) = Scan::open() else { return true };
    scan.each(addresses(page / CHUNK), |_, _| any = true);
    any
}

/// Whether a page that is there is part of a huge one.
pub fn is_huge(page: u64) -> bool {
    let mut is_huge = false;
    if let Some(scan) = Scan::open() {
        let all = addresses(page / CHUNK);
        // Older kernels are asked about all of it.
        let range = if scan.in_runs { page << PAGE_BITS..(page + 1) << PAGE_BITS } else { all };
        scan.each(range, |_, huge| is_huge |= huge);
    }
    is_huge
}

/// What the kernel's table of pages says of one.
fn page_word(page: u64) -> Option<u64> {
    let map = open_page_map()?;
    let mut word = 0u64;
    // SAFETY: a word for the answer; a descriptor of our own.
    unsafe {
        let _ = call!(__NR_pread64, map, &raw mut word, 8, page * 8);
        let _ = call!(__NR_close, map);
    }
    Some(word)
}

/// The page tables of this process. Linux 6.7 describes them in runs; older kernels with a word for each page.
pub struct Scan {
    descriptor: u64,
    in_runs: bool,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// In a word of the table: present.
const THERE: u64 = 1 << 63;
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

/// Older kernels are asked about mappings up to this size: 8 bytes a page are read, whether there is anything or not.
const LARGEST_IN_WORDS: u64 = 16 << 30;

impl Scan {
    /// Opens them; none where there is no /proc.
    pub fn open() -> Option<Self> {
        let mut scan = Scan { descriptor: open_page_map()?, in_runs: true };
        let mut regions = [Region { start: 0, end: 0, categories: 0 }];
        scan.in_runs = scan.some(0..sys::PAGE, &mut regions).is_some();
        Some(scan)
    }

    /// Calls `found` for the pages of a range that are there, with whether they are parts of huge ones. Older kernels
    /// do not say so, nor do they tell the zero page: 2 MiB of which no page is missing are taken for a huge one.
    pub fn each(&self, range: Range<u64>, mut found: impl FnMut(u64, bool)) {
        if !self.in_runs {
            return self.each_in_words(range, found);
        }
        let mut regions = [Region { start: 0, end: 0, categories: 0 }; 64];
        let mut from = range.start;
        while from < range.end {
            let Some((count, walked)) = self.some(from..range.end, &mut regions) else { return };
            for region in &regions[..count] {
                if region.categories & ZERO == 0 {
                    let pages = region.start >> PAGE_BITS..region.end >> PAGE_BITS;
                    pages.for_each(|page| found(page, region.categories & HUGE != 0));
                }
            }
            if walked <= from {
                return;
            }
            from = walked;
        }
    }

    fn each_in_words(&self, range: Range<u64>, mut found: impl FnMut(u64, bool)) {
        if range.end - range.start > LARGEST_IN_WORDS {
            return;
        }
        let pages = range.start >> PAGE_BITS..range.end >> PAGE_BITS;
        let mut words = vec![0u64; CHUNK as usize];
        for chunk in (pages.start / CHUNK * CHUNK..pages.end).step_by(CHUNK as usize) {
            words.fill(0);
            // SAFETY: a buffer of our own, of the size given.
            let read = unsafe { call!(__NR_pread64, self.descriptor, words.as_mut_ptr(), CHUNK * 8, chunk * 8) };
            if read.is_err() {
                return;
            }
            let is_there = |word: &u64| word & THERE != 0;
            let whole = words.iter().all(is_there);
            let there = (chunk..).zip(&words).filter(|(page, word)| pages.contains(page) && is_there(word));
            there.for_each(|(page, _)| found(page, whole));
        }
    }

    /// The first runs of a range; how many, and where the walk ended.
    fn some(&self, range: Range<u64>, regions: &mut [Region]) -> Option<(usize, u64)> {
        let wanted = PRESENT | ZERO | HUGE;
        let mut arguments = [
            12 * 8,
            0,
            range.start,
            range.end,
            0,
            regions.as_mut_ptr() as u64,
            regions.len() as u64,
            0,
            0,
            PRESENT,
            0,
            wanted,
        ];
        // SAFETY: the kernel's structure of twelve words, with as many regions to fill as it says.
        let found = unsafe { call!(__NR_ioctl, self.descriptor, PAGEMAP_SCAN, arguments.as_mut_ptr()) };
        found.ok().map(|count| (count as usize, arguments[4]))
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: a descriptor of our own.
        let _ = unsafe { call!(__NR_close, self.descriptor) };
    }
}
