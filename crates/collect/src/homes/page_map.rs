//! Which pages of a process are there, as runs of equal pages.
//!
//! Linux 6.7 answers with an ioctl on /proc/PID/pagemap (PAGEMAP_SCAN) that returns runs and skips holes: measured as
//! fast as reading pagemap's eight bytes a page on memory that is all there, 40 times faster on memory of which 1 page
//! in 16,384 is, and it tells huge and zero pages. Older kernels give the eight bytes, whose flags anybody who may
//! trace the process can read; whether a page is huge comes from its frame there (/proc/kpageflags, for root only) or
//! from smaps.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use numalens_profile::ids::{PAGE_SHIFT, Page};

/// Consecutive pages in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first page.
    pub start: Page,
    /// How many pages of 4 KiB.
    pub count: u64,
    /// In memory and in the page table.
    pub present: bool,
    /// Of a file, or shared anonymous memory.
    pub file_or_shared: bool,
    /// Swapped out (or on its way between nodes).
    pub swapped: bool,
    /// Mapped as a huge page.
    pub huge: bool,
    /// The shared zero page. Only a kernel with PAGEMAP_SCAN tells; see [`page_map`].
    pub zero: bool,
}

/// The pages of process `pid` in `start..end` (addresses, widened to whole pages) that are present or swapped, as runs
/// by address; pages that are neither are left out.
///
/// Before Linux 6.7 `zero` is always false ([`super::query_homes`] then tells zero pages apart), and for other users
/// than root `huge` is set for aligned, wholly present 2 MiB pieces of a mapping exactly when smaps says that all of
/// these are huge.
///
/// # Errors
/// NotFound, ESRCH: the process is gone. PermissionDenied: it may not be traced by this user.
pub fn page_map(pid: i32, start: u64, end: u64) -> io::Result<Vec<PageRun>> {
    let file = File::open(format!("/proc/{pid}/pagemap"))?;
    let (start, end) = (start & !PAGE_MASK, end.saturating_add(PAGE_MASK) & !PAGE_MASK);
    match scan(&file, start, end) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
            by_flags(pid, start, end, File::open(PAGE_FRAMES).ok().as_ref())
        }
        result => result,
    }
}

/// What the kernel knows of every frame of memory; for root only.
pub(super) const PAGE_FRAMES: &str = "/proc/kpageflags";

/// The way of kernels before 6.7. `frames`: [`PAGE_FRAMES`], where it may be read.
pub(super) fn by_flags(pid: i32, start: u64, end: u64, frames: Option<&File>) -> io::Result<Vec<PageRun>> {
    let file = File::open(format!("/proc/{pid}/pagemap"))?;
    let runs = read_flags(&file, start, end)?;
    split_huge(pid, &file, frames, &runs)
}

const PAGE_MASK: u64 = (1 << PAGE_SHIFT) - 1;
/// 4 KiB pages in a 2 MiB page.
const PAGES_PER_HUGE: u64 = 512;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;
const IS_HUGE: u64 = 1 << 6;

fn scan(file: &File, start: u64, end: u64) -> io::Result<Vec<PageRun>> {
    let mut regions = vec![Region::default(); 1024];
    let mut runs: Vec<PageRun> = Vec::new();
    let mut from = start;
    while from < end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start: from,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: IS_FILE | IS_PRESENT | IS_SWAPPED | IS_ZERO | IS_HUGE,
            ..ScanArguments::default()
        };
        // SAFETY: the argument is the structure this ioctl expects, its `vec` points at `vec_len` writable regions, and
        // both outlive the call.
        let found = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
        let Ok(found) = usize::try_from(found) else {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        };
        for region in regions.iter().take(found) {
            let has = |category| region.categories & category != 0;
            push(
                &mut runs,
                PageRun {
                    start: Page::of(region.start),
                    count: region.end.saturating_sub(region.start) >> PAGE_SHIFT,
                    present: has(IS_PRESENT),
                    file_or_shared: has(IS_FILE),
                    swapped: has(IS_SWAPPED),
                    huge: has(IS_HUGE),
                    zero: has(IS_ZERO),
                },
            );
        }
        // Where the output was full, `walk_end` lags behind what was returned (seen on Linux 6.18, in steps of the 512
        // regions that the kernel gathers at a time): whichever is farther.
        let returned = regions[..found.min(regions.len())].last().map_or(from, |last| last.end);
        let next = arguments.walk_end.max(returned);
        if next <= from {
            break;
        }
        from = next;
    }
    Ok(runs)
}

/// The eight bytes a page of older kernels (Documentation/admin-guide/mm/pagemap.rst).
fn read_flags(file: &File, start: u64, end: u64) -> io::Result<Vec<PageRun>> {
    let mut runs = Vec::new();
    let mut buffer = vec![0u8; 8 << 13];
    let mut page = start >> PAGE_SHIFT;
    let last = end >> PAGE_SHIFT;
    while page < last {
        let wanted = buffer.len().min(usize::try_from((last - page).saturating_mul(8)).unwrap_or(usize::MAX));
        let read = file.read_at(&mut buffer[..wanted], page * 8)?;
        if read < 8 {
            break;
        }
        for entry in buffer[..read].chunks_exact(8) {
            let entry = entry.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
            let (present, swapped) = (entry >> 63 & 1 == 1, entry >> 62 & 1 == 1);
            if present || swapped {
                let file_or_shared = entry >> 61 & 1 == 1;
                let run =
                    PageRun { start: Page(page), count: 1, present, file_or_shared, swapped, huge: false, zero: false };
                push(&mut runs, run);
            }
            page += 1;
        }
    }
    Ok(runs)
}

/// Splits what is huge out of `runs`.
fn split_huge(pid: i32, file: &File, frames: Option<&File>, runs: &[PageRun]) -> io::Result<Vec<PageRun>> {
    let mut mappings: Option<Vec<(u64, u64)>> = None;
    let mut split = Vec::with_capacity(runs.len());
    for run in runs {
        let (first, last) = aligned_pieces(run).filter(|_| run.present).unwrap_or((run.start.0, run.start.0));
        let mut part = |from: u64, to: u64, huge: bool| {
            if from < to {
                push(&mut split, PageRun { start: Page(from), count: to - from, huge, ..*run });
            }
        };
        part(run.start.0, first, false);
        for piece in (first..last).step_by(PAGES_PER_HUGE as usize) {
            let huge = match frames.and_then(|frames| is_huge_frame(file, frames, piece)) {
                Some(huge) => huge,
                None => {
                    if mappings.is_none() {
                        mappings = Some(huge_mappings(pid, file)?);
                    }
                    mappings.iter().flatten().any(|&(start, end)| piece >= start && piece + PAGES_PER_HUGE <= end)
                }
            };
            part(piece, piece + PAGES_PER_HUGE, huge);
        }
        part(last, run.start.0 + run.count, false);
    }
    Ok(split)
}

/// Whether the 2 MiB from `page` on lie in one huge frame; `None` where frames are kept from us.
fn is_huge_frame(file: &File, frames: &File, page: u64) -> Option<bool> {
    const FRAME: u64 = (1 << 55) - 1;
    const HUGETLB: u64 = 1 << 17;
    const TRANSPARENT: u64 = 1 << 22;
    let first = read_word(file, page)? & FRAME;
    let last = read_word(file, page + PAGES_PER_HUGE - 1)? & FRAME;
    if first == 0 {
        return None;
    }
    let whole = first.is_multiple_of(PAGES_PER_HUGE) && last == first + PAGES_PER_HUGE - 1;
    Some(whole && read_word(frames, first)? & (HUGETLB | TRANSPARENT) != 0)
}

/// Word number `index` of a file of 64-bit words.
fn read_word(file: &File, index: u64) -> Option<u64> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, index * 8).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// First and one-past-last page of the whole 2 MiB pieces in a run.
fn aligned_pieces(run: &PageRun) -> Option<(u64, u64)> {
    let first = run.start.0.next_multiple_of(PAGES_PER_HUGE);
    let last = (run.start.0 + run.count) / PAGES_PER_HUGE * PAGES_PER_HUGE;
    (first < last).then_some((first, last))
}

/// Mappings all of whose aligned, wholly present 2 MiB pieces are huge pages: first page, one past the last.
fn huge_mappings(pid: i32, file: &File) -> io::Result<Vec<(u64, u64)>> {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let mut all_huge = Vec::new();
    for (start, end, kib) in with_huge_pages(&smaps) {
        let runs = read_flags(file, start << PAGE_SHIFT, end << PAGE_SHIFT)?;
        let pieces = runs.iter().filter(|run| run.present).filter_map(aligned_pieces);
        if pieces.map(|(first, last)| last - first).sum::<u64>() * 4 == kib {
            all_huge.push((start, end));
        }
    }
    Ok(all_huge)
}

/// Mappings with huge pages: first page, one past the last, KiB in huge pages.
fn with_huge_pages(smaps: &str) -> Vec<(u64, u64, u64)> {
    const HUGE_FIELDS: [&str; 5] =
        ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"];
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if HUGE_FIELDS.contains(&first) {
            let kib = words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
            if let Some(last) = found.last_mut() {
                last.2 += kib;
            }
        } else if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            found.push((start >> PAGE_SHIFT, end >> PAGE_SHIFT, 0));
        }
    }
    found.retain(|mapping| mapping.2 > 0);
    found
}

/// Appends a run, joined with the last one when it continues it.
fn push(runs: &mut Vec<PageRun>, run: PageRun) {
    if let Some(last) = runs.last_mut()
        && last.start.0 + last.count == run.start.0
        && (PageRun { start: last.start, count: last.count, ..run }) == *last
    {
        last.count += run.count;
        return;
    }
    runs.push(run);
}
