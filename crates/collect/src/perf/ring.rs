//! One perf ring buffer: the memory that the kernel and the collector share.
//!
//! The kernel writes at `data_head` and never overtakes `data_tail`, which is ours; both grow for ever and are
//! taken modulo the size. A record that wraps around the end is put together in a scratch buffer.

use numalens_event::page::PAGE;
use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapped ring of one event, freed when dropped.
pub struct Ring {
    base: NonNull<u8>,
    page: usize,
    size: usize,
    scratch: Vec<u8>,
}

// SAFETY: the mapping is owned by this value alone; nothing in it depends on the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `event` with `pages` (a power of two) of data.
    pub fn map(event: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        let page = page_size();
        let size = pages * page;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; no existing memory is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size + page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Ring { base, page, size, scratch: Vec::new() })
    }

    fn header(&self) -> *mut perf_event_mmap_page {
        self.base.as_ptr().cast()
    }

    /// Gives every complete record, header included, to `sink`, and hands the space back to the kernel.
    pub fn drain(&mut self, mut sink: impl FnMut(&[u8])) {
        let header = self.header();
        // SAFETY: the first page of the mapping is a perf_event_mmap_page that lives as long as `self`;
        // both words are naturally aligned and shared with the kernel, which accesses them atomically.
        let (head_word, tail_word) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*header).data_head), AtomicU64::from_ptr(&raw mut (*header).data_tail))
        };
        let head = head_word.load(Ordering::Acquire);
        let mut tail = tail_word.load(Ordering::Relaxed);
        // The kernel is trusted, but a bound costs nothing: never read more than the ring holds.
        if head.wrapping_sub(tail) > self.size as u64 {
            tail = head;
        }
        while head.wrapping_sub(tail) >= 8 {
            let start = tail as usize & (self.size - 1);
            // Records are 8-byte aligned, so a header never wraps; its size is the third 16-bit word pair.
            let length = usize::from(u16::from_le_bytes([self.byte(start + 6), self.byte(start + 7)]));
            if length < 8 || length as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            if start + length <= self.size {
                // SAFETY: the range lies in the data area; the kernel does not write between tail and head.
                let record = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page + start), length) };
                sink(record);
            } else {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                scratch.extend((start..start + length).map(|at| self.byte(at & (self.size - 1))));
                sink(&scratch);
                self.scratch = scratch;
            }
            tail += length as u64;
        }
        tail_word.store(tail, Ordering::Release);
    }

    fn byte(&self, at: usize) -> u8 {
        debug_assert!(at < self.size);
        // SAFETY: `at` is below the size of the data area, which follows the header page.
        unsafe { self.base.as_ptr().add(self.page + at).read() }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.size + self.page
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size + self.page) };
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(PAGE as usize)
}
